"""Rolling checkpoints out on environments from the command line."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from coda_nodes.policy.checkpoint import Checkpoint
from coda_nodes.report.terminal import RunView, percent
from coda_nodes.simulator.workers import RolloutPool
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.episode import EpisodeSummary
from coda_nodes.world.records import Count
from coda_nodes.world.spec import EnvironmentSpec


def stage_checkpoint(folder: Path, root: ArtifactRoot) -> str:
    """Check a checkpoint and copy it under ``root``; return its hash.

    Raises:
        CheckpointError: it is missing, damaged or of other conventions.
    """
    key = Checkpoint.load(folder).content_hash
    target = root.checkpoint(key)
    if not target.exists():
        shutil.copytree(folder, target)
    return key


def roll_out(
    specs: Sequence[EnvironmentSpec], actor: str, root: ArtifactRoot, workers: int, seed: int, title: str
) -> list[EpisodeSummary]:
    """Run one episode per environment in worker processes, with progress on the terminal."""
    begun = time.monotonic()
    with RunView(Console(stderr=True)) as view, RolloutPool(workers, root) as pool:

        def progress(done: int, total: int, fresh: Sequence[EpisodeSummary]) -> None:
            left = (time.monotonic() - begun) * (total - done) / done if done else -1.0
            text = f"{done} of {total} episodes"
            view.show({"event": "phase", "phase": title, "fraction": done / total, "text": text, "seconds_left": left})

        return pool.run(specs, actor, seed, on_progress=progress)


def count(ended: Sequence[EpisodeSummary]) -> Count:
    """Successes of valid episodes."""
    outcomes = [summary.outcome for summary in ended if summary.outcome != "invalid"]
    return Count(successes=outcomes.count("success"), episodes=len(outcomes))


def groups_table(title: str, groups: dict[str, Count], invalid: int) -> Table:
    """One row per group, with its 95 % interval."""
    table = Table(title=title, caption=f"{invalid} invalid episodes, counted neither way" if invalid else None)
    table.add_column("group")
    table.add_column("success", justify="right")
    table.add_column("episodes", justify="right")
    for name, group in groups.items():
        table.add_row(name, percent(group), str(group.episodes))
    return table


def grouped(specs: Sequence[EnvironmentSpec], ended: Sequence[EpisodeSummary]) -> dict[str, Count]:
    """Success in all, per family, and per axis that leaves the train split."""
    pairs = list(zip(specs, ended, strict=True))
    groups = {"all": count(ended)}
    for family in dict.fromkeys(spec.family for spec in specs):
        groups[family] = count([end for spec, end in pairs if spec.family == family])
    for axis in sorted({axis for spec in specs for axis in spec.provenance.axes}):
        groups[f"axis {axis}"] = count([end for spec, end in pairs if axis in spec.provenance.axes])
    return groups
