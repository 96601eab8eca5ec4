"""``coda benchmark``: figures of this machine, written as results that ``coda results check`` accepts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from coda_nodes.cli.options import parse
from coda_nodes.cli.provenance import provenance
from coda_nodes.cli.results import check
from coda_nodes.world.artifacts import write_atomic
from coda_nodes.world.errors import ConfigError, NotAvailableError, unknown

KINDS = ("throughput", "coevolution", "libero-pro")


@dataclass(frozen=True)
class Options:
    """Measure the speed of simulation, inference, wire and rollouts on this machine."""

    checkpoint: Path | None = None
    """Checkpoint that is timed; without one, an untrained network, whose arm hardly moves: its rollouts are cheaper."""
    out: Path = Path("benchmarks/results/throughput.json")
    """Result file."""
    environments: int = 32
    """Environments of a batch."""
    episodes: int = 200
    """Episodes of the rollout measurement, over the four families."""
    workers: int = 2
    """Worker processes of the rollout measurement."""
    repeats: int = 3
    """Times each ratio is measured; the median counts."""
    seed: int = 0
    """Seed of scenes."""


def run(words: Sequence[str]) -> int:
    """Run the verb."""
    kind = words[0] if words else ""
    if kind in ("-h", "--help"):
        for name in KINDS[:2]:
            Console().print(f"coda benchmark {name} [options]   (coda benchmark {name} --help lists them)", markup=False)
        return 0
    if kind == "libero-pro":
        raise NotAvailableError(f"coda benchmark {kind} is not part of this version; there are: {', '.join(KINDS[:2])}")
    if kind == "coevolution":
        from coda_nodes.cli import coevolution

        return coevolution.run(words[1:])
    if kind not in KINDS:
        raise ConfigError(unknown("benchmark", kind, KINDS))
    options = parse(Options, words[1:], "benchmark throughput", __doc__ or "")
    from coda_nodes.cli import throughput

    console = Console()
    checkpoint = f" --checkpoint RUN/checkpoints/{options.checkpoint.resolve().name}" if options.checkpoint else ""
    about = provenance(f"coda benchmark throughput{checkpoint} --seed {options.seed}", [options.seed])
    figures = throughput.measure_all(options, lambda text: console.print(text, style="dim", highlight=False))
    write_atomic(options.out, json.dumps({**about, **figures}, indent=1, sort_keys=True).encode())
    check(options.out)
    _show(figures, console)
    console.print(f"wrote {options.out}", highlight=False)
    return 0


def _show(figures: dict[str, object], console: Console) -> None:
    table = Table(title="Throughput")
    table.add_column("figure")
    table.add_column("value", justify="right")
    for name, value in figures.items():
        shown = {key: round(number, 3) for key, number in value.items()} if isinstance(value, dict) else value
        table.add_row(name, f"{shown:.3f}" if isinstance(shown, float) else str(shown))
    console.print(table)
