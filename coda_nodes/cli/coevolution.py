"""``coda benchmark coevolution``: methods at equal budget, cell by cell; the same command continues what was cut short."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from coda_nodes.cli.cell import Cell, run_base, run_cell
from coda_nodes.cli.options import parse, with_help
from coda_nodes.conductor.config import REGIMES, TrainConfig
from coda_nodes.conductor.methods import EXPERT, METHODS, method
from coda_nodes.world.config import from_mapping
from coda_nodes.world.errors import CodaError, ConfigError, unknown

NOT_ASKED = (
    "regime", "seed", "workers", "critic", "robot", "bags_per_round", "budget_environments", "budget_control_steps",
    "dev_environments", "held_out_environments",
)
"""Settings of a run that the benchmark decides."""
BUDGET = {"no_expert": (400, 225_000), "expert": (400, 60_000)}
"""Environments and control steps of each round, per family."""
POLL = 0.2
"""Between two looks at running cells [s]."""


def _settings() -> type[Any]:
    full = with_help(TrainConfig)
    kept = [(f.name, f.type, dataclasses.field(default=f.default)) for f in dataclasses.fields(full) if f.name not in NOT_ASKED]
    return dataclasses.make_dataclass("Settings", kept, frozen=True)


Settings = _settings()
CHANGED = {"lookaheads": 100_000, "lookahead_tries": 3}
"""Settings whose defaults differ here: what is looked ahead in ends with the budget."""


@dataclass(frozen=True)
class Options:
    """Run the cells (regime, method, seed) that have no result yet."""

    settings: Annotated[Any, tyro.conf.arg(constructor=Settings)] = field(default_factory=lambda: Settings(**CHANGED))
    regimes: tuple[str, ...] = ("no_expert",)
    """no_expert, expert."""
    methods: tuple[str, ...] = ()
    """Methods; none: all of the regime."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Seeds."""
    split: str = "dev"
    """What is measured at the end: dev (for choosing settings) or held_out (once, in a process of its own)."""
    scenes: int = 50
    """Scenes measured per family (of held_out: and half)."""
    round_environments: int = 0
    """Environments each round may spend; 0: 400 per family."""
    round_control_steps: int = 0
    """Control steps each round may spend; 0: 225,000 per family (expert: 60,000)."""
    at_once: int = 2
    """Cells at a time, one core each; 1: in this process."""
    work: Path = Path("runs/coevolution")
    """Folder of the runs."""
    out: Path | None = None
    """Folder of raw results; by default benchmarks/results/coevolution, for dev WORK/dev."""
    collect: bool = False
    """Run nothing: figures, tables and plots from the raw results there are."""


def run(words: Sequence[str]) -> int:
    """Run the benchmark, or collect its results."""
    options = parse(Options, words, "benchmark coevolution", __doc__ or "")
    out = options.out or (Path("benchmarks/results/coevolution") if options.split == "held_out" else options.work / "dev")
    console = Console()
    if options.collect:
        from coda_nodes.report.coevolution import write_all

        for path in write_all(out):
            console.print(f"wrote {path}", highlight=False)
        return 0
    waiting = [cell for cell in cells(options, out) if not cell.result.exists()]
    console.print(f"{len(waiting)} cells to run, results in {out}", highlight=False)
    bases = list({cell.base: cell for cell in waiting}.values())
    failed = _work("base", bases, options.at_once, console) or _work("cell", waiting, options.at_once, console)
    return 1 if failed else 0


def cells(options: Options, out: Path) -> list[Cell]:
    """All cells asked for, seed by seed, so that a table of one seed is there early.

    Raises:
        ConfigError: unknown regime, method of a regime, or split.
    """
    if options.split not in ("dev", "held_out"):
        raise ConfigError(unknown("split of the benchmark", options.split, ("dev", "held_out")))
    return [cell for seed in options.seeds for regime in options.regimes for cell in _of(options, out, regime, seed)]


def _of(options: Options, out: Path, regime: str, seed: int) -> Iterator[Cell]:
    if regime not in REGIMES:
        raise ConfigError(unknown("regime", regime, REGIMES))
    settings = from_mapping(TrainConfig, asdict(options.settings))
    environments, steps = (number * len(settings.families) for number in BUDGET[regime])
    environments, steps = options.round_environments or environments, options.round_control_steps or steps
    for name in options.methods or (EXPERT if regime == "expert" else METHODS):
        method(name, regime)
        command = f"coda benchmark coevolution --regimes {regime} --methods {name} --seeds {seed} --split {options.split}"
        yield Cell(
            regime, name, seed, settings, environments, steps, options.split, options.scenes, str(options.work), str(out),
            command + _changes(options),
        )


def _changes(options: Options) -> str:
    """Options that differ from their defaults, as one would type them."""
    usual, words = Options(), []
    pairs = [(f.name, getattr(options, f.name), getattr(usual, f.name)) for f in dataclasses.fields(Options)
             if f.name in ("scenes", "round_environments", "round_control_steps")]
    pairs += [(f.name, getattr(options.settings, f.name), getattr(usual.settings, f.name)) for f in dataclasses.fields(Settings)]
    for name, value, default in pairs:
        if value != default:
            shown = " ".join(map(str, value)) if isinstance(value, (tuple, list)) else value
            words.append(f" --{name.replace('_', '-')} {shown}")
    return "".join(words)


def _work(kind: str, waiting: Sequence[Cell], at_once: int, console: Console) -> int:
    """Do a part of cells, some at a time; return how many failed."""
    if at_once == 1:
        do: Callable[[Cell], None] = run_base if kind == "base" else run_cell
        return sum(_told(cell, kind, do, console) for cell in waiting)
    queue, running, failed = list(waiting), {}, 0
    try:
        while queue or running:
            while queue and len(running) < at_once:
                cell = queue.pop(0)
                running[_start(kind, cell)] = cell, time.monotonic()
            time.sleep(POLL)
            for process in [process for process in running if process.poll() is not None]:
                cell, begun = running.pop(process)
                failed += process.returncode != 0
                _say(cell, kind, "done" if process.returncode == 0 else "failed", begun, console)
    finally:
        for process in running:
            process.kill()
            process.wait()
    return failed


def _start(kind: str, cell: Cell) -> subprocess.Popen[str]:
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))
    process = subprocess.Popen(
        [sys.executable, "-m", "coda_nodes.cli.cell", kind, str(os.getpid())], stdin=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
    )
    assert process.stdin is not None
    process.stdin.write(cell.to_json() + "\n")
    process.stdin.close()
    return process


def _told(cell: Cell, kind: str, do: Callable[[Cell], None], console: Console) -> bool:
    begun = time.monotonic()
    try:
        do(cell)
    except CodaError as error:
        console.print(f"{error}", highlight=False, markup=False)
        _say(cell, kind, "failed", begun, console)
        return True
    _say(cell, kind, "done", begun, console)
    return False


def _say(cell: Cell, kind: str, what: str, begun: float, console: Console) -> None:
    name = f"round 0 of seed {cell.seed}" if kind == "base" else f"{cell.regime} {cell.method} seed {cell.seed}"
    console.print(f"{name}: {what} after {(time.monotonic() - begun) / 60:.1f} min", highlight=False)
