"""Success of the scripted experts per family, split and axis, written with every range to ``docs/splits.md``.

    python benchmarks/expert_success.py --scenes 50

Each cell draws its own scenes (no filter for solvability) and runs one episode on each. Opens held_out, which
is logged.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.world.action import CHUNK_STEPS
from coda_nodes.world.errors import ValidityError
from coda_nodes.world.experts import ExpertActor
from coda_nodes.world.families import FAMILIES
from coda_nodes.world.ranges import AXES
from coda_nodes.world.spec import EnvironmentSpec
from coda_nodes.world.splits import describe, open_held_out, sample_split
from coda_nodes.world.statistics import wilson

log = logging.getLogger("expert_success")
ROOT = Path(__file__).resolve().parent.parent
WHOLE = (("train", None), ("probe", None), ("dev", None), ("held_out", "near"), ("held_out", "far"))
"""Splits measured with several axes moved at once."""
SINGLE = (("probe", None), ("held_out", "near"), ("held_out", "far"))
"""Splits measured with one axis moved at a time."""
DRAWS = 3
"""Draws per scene wanted, at most."""
INTRODUCTION = """# Splits

Every sampled parameter belongs to one axis and is stated for every split in `coda_nodes/world/splits.yaml`.
A scene of a split takes a few axes from that split's column and the rest from train. `near` and `far` are
the two halves of `held_out`: near asks for unseen combinations of values within the bounds of `probe` (in
words of its own), far leaves train and probe on at least one axis.

`python benchmarks/expert_success.py --scenes {scenes}` measures again and writes this page.

# Success of the experts

Successes and valid episodes of {scenes} scenes a cell, as drawn (before any filter for solvability), with the
95 % Wilson interval.
"""


@dataclass(frozen=True)
class Cell:
    """One group of scenes."""

    family: str
    split: str
    half: str | None
    axis: str | None


Counts = dict[Cell, tuple[int, int]]
"""Successes and valid episodes."""


def draw(cell: Cell, count: int) -> list[EnvironmentSpec]:
    """Scenes of a cell, the same for the same cell and count; fewer where most draws leave no room."""
    rng = np.random.default_rng(zlib.crc32(repr(cell).encode()))
    specs: list[EnvironmentSpec] = []
    for _ in range(DRAWS * count):
        if len(specs) == count:
            break
        with contextlib.suppress(ValidityError):
            specs.append(sample_split(cell.family, cell.split, rng, axis=cell.axis, half=cell.half))
    return specs


def successes(simulator: BatchSimulator, specs: Sequence[EnvironmentSpec]) -> tuple[int, int]:
    """Episodes in which the expert reaches the goal within the time limit, and valid episodes."""
    simulator.reset(specs)
    actor = ExpertActor(specs)
    left = np.array([spec.horizon for spec in specs])
    while True:
        result = simulator.step_chunk(actor.act(simulator.state()), np.clip(left, 0, CHUNK_STEPS))
        left = left - result.executed
        if not ((left > 0) & ~result.success & ~result.invalid).any():
            return int(result.success.sum()), int((~result.invalid).sum())


def measure(cells: Sequence[Cell], scenes: int) -> Counts:
    """Successes and valid episodes of every cell."""
    counts: Counts = {}
    for family in dict.fromkeys(cell.family for cell in cells):
        simulator = BatchSimulator(family, scenes)
        for cell in (cell for cell in cells if cell.family == family):
            specs = draw(cell, scenes)
            counts[cell] = successes(simulator, specs) if specs else (0, 0)
            log.info("%s: %d of %d", cell, *counts[cell])
    return counts


def table(counts: Counts, columns: Sequence[tuple[str, str | None]], axes: Sequence[str | None]) -> str:
    """Markdown: one row per family (and axis), one column per split."""
    head = ["family", "axes moved", *(half or split for split, half in columns)]
    rows = [head, ["---"] * len(head)]
    for family in FAMILIES:
        for axis in axes:
            cells = [Cell(family, split, half, axis) for split, half in columns]
            rows.append([family, axis or "as drawn", *(_text(counts[cell]) for cell in cells)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _text(count: tuple[int, int]) -> str:
    if not count[1]:
        return "no room"
    interval = wilson(*count)
    return f"{count[0]} / {count[1]} ({100 * interval.low:.0f} to {100 * interval.high:.0f} %)"


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenes", type=int, default=50, help="scenes per cell")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "splits.md", help="page to write")
    parser.add_argument(
        "--log", type=Path, default=ROOT / "out" / "held_out_openings.jsonl", help="log of openings"
    )
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    open_held_out(args.log, "success of the experts per cell")
    whole = [Cell(family, split, half, None) for family in FAMILIES for split, half in WHOLE]
    single = [
        Cell(family, split, half, axis) for family in FAMILIES for axis in AXES for split, half in SINGLE
    ]
    counts = measure(whole + single, args.scenes)
    parts = [INTRODUCTION.format(scenes=args.scenes), table(counts, WHOLE, [None]), ""]
    parts += [table(counts, SINGLE, AXES), "", "# Ranges", "", describe()]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
