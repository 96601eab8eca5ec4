"""``coda critic data``: make labelled failures and successes; the same command continues where it was cut short."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from coda_nodes.cli.options import parse, with_help
from coda_nodes.conductor.critic_data import DataConfig, Workshop, jobs
from coda_nodes.world.config import from_mapping
from coda_nodes.world.errors import ConfigError

Settings = with_help(DataConfig)


@dataclass(frozen=True)
class Options:
    """Make data for the vision-language critic."""

    settings: Annotated[Any, tyro.conf.arg(constructor=Settings)] = field(default_factory=Settings)
    out: Path = Path("runs/critic-data")
    """Folder of the shards; those that are there are not made again."""
    share: str = "1/1"
    """Which part of the shards this process makes, as 1/2 and 2/2 for two processes in one folder."""


def run(words: Sequence[str]) -> int:
    """Run the action."""
    options = parse(Options, words, "critic data", __doc__ or "")
    config = from_mapping(DataConfig, asdict(options.settings))
    mine = _mine(options.share, jobs(config))
    workshop, console = Workshop(config), Console()
    for done, job in enumerate(mine, start=1):
        made = workshop.make(job, options.out)
        console.print(f"{done} of {len(mine)}: {job.path(options.out).name}{'' if made else ' was there'}", highlight=False)
    return 0


def _mine(share: str, all_jobs: list) -> list:
    """Every k-th shard. Raises ConfigError for a share that is none."""
    part, _, whole = share.partition("/")
    if not (part.isdecimal() and whole.isdecimal() and 1 <= int(part) <= int(whole)):
        raise ConfigError(f"--share {share}: expected PART/WHOLE as 1/2")
    return all_jobs[int(part) - 1 :: int(whole)]
