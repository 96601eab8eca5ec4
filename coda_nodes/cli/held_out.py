"""The final evaluation: held_out is opened once, after the last round, on frozen checkpoints, in a process of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coda_nodes.cli.measuring import count, roll_out
from coda_nodes.conductor.ports import EpisodesRequest
from coda_nodes.conductor.run import read_config
from coda_nodes.conductor.scenes import keep, recall, solvable_scenes
from coda_nodes.report.html import read_summary
from coda_nodes.world.artifacts import ArtifactRoot, write_atomic
from coda_nodes.world.episode import EpisodeSummary
from coda_nodes.world.errors import ArtifactError
from coda_nodes.world.records import Count, FamilySummary, Summary
from coda_nodes.world.spec import EnvironmentSpec
from coda_nodes.world.splits import open_held_out
from coda_nodes.world.statistics import paired_bootstrap

HALVES = ("near", "far")
OPENINGS = "held_out_openings.jsonl"
SEED = 20_000
"""Seed of the scenes: the same for every run, so that runs can be compared scene by scene."""


def evaluate_run(folder: Path, workers: int) -> Summary:
    """Measure the first and the last checkpoint of a finished run on held_out; complete its ``summary.json``.

    Raises:
        ArtifactError: the run has not ended.
    """
    root = ArtifactRoot(folder)
    summary = read_summary(root)
    if summary is None:
        raise ArtifactError(f"{folder} holds no summary.json: only a finished run is evaluated on held_out")
    config = read_config(root.path / "config.json")
    open_held_out(root.path / OPENINGS, f"final evaluation of {folder.name}")
    own = ArtifactRoot(root.path / "held_out")
    specs = _scenes(own, config.families, "held_out", config.held_out_environments, workers)
    ended = {when: _measure(root, own, specs, summary.checkpoints[when], workers, when) for when in ("before", "after")}
    completed = _complete(summary, specs, ended)
    write_atomic(root.path / "held_out.json", json.dumps(_raw(specs, ended), indent=1).encode())
    write_atomic(root.path / "summary.json", completed.model_dump_json(indent=1).encode())
    return completed


def evaluate_dev(folder: Path, count: int, workers: int) -> None:
    """Measure the first and the last checkpoint of a finished run in ``count`` dev scenes per family; write ``dev.json``.

    Raises:
        ArtifactError: the run has not ended.
    """
    root = ArtifactRoot(folder)
    summary = read_summary(root)
    if summary is None:
        raise ArtifactError(f"{folder} holds no summary.json: only a finished run is evaluated")
    own = ArtifactRoot(root.path / "dev")
    specs = _scenes(own, read_config(root.path / "config.json").families, "dev", count, workers)
    ended = {when: _measure(root, own, specs, summary.checkpoints[when], workers, when) for when in ("before", "after")}
    write_atomic(root.path / "dev.json", json.dumps(_raw(specs, ended), indent=1).encode())


def _scenes(own: ArtifactRoot, families: Sequence[str], split: str, count: int, workers: int) -> list[EnvironmentSpec]:
    """Scenes that the expert solves; kept, so that a second evaluation does not pay for the choice again."""
    index = own.path / "scenes.json"
    if index.exists():
        return recall(own, json.loads(index.read_text())["specs"])

    def expert(request: EpisodesRequest) -> list[EpisodeSummary]:
        return roll_out(request.specs, "expert", own, workers, request.seed, f"choosing {split} scenes")

    halves = HALVES if split == "held_out" else (None,)
    specs = [spec for half in halves for spec in solvable_scenes(families, split, count, SEED, expert, half)]
    write_atomic(index, json.dumps({"specs": keep(own, specs)}).encode())
    return specs


def _measure(
    root: ArtifactRoot, own: ArtifactRoot, specs: Sequence[EnvironmentSpec], checkpoint: str, workers: int, when: str
) -> list[EpisodeSummary]:
    link = own.checkpoint(checkpoint)
    if not link.exists():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(os.path.relpath(root.checkpoint(checkpoint), link.parent))  # relative: a run may be moved
    return roll_out(specs, checkpoint, own, workers, SEED, f"{own.path.name}, {when} co-evolution")


def _half(spec: EnvironmentSpec) -> str:
    """``near`` or ``far`` of held_out; the split's name for others."""
    return spec.provenance.split.rsplit("_", 1)[-1]


def _complete(summary: Summary, specs: Sequence[EnvironmentSpec], ended: Mapping[str, list[EpisodeSummary]]) -> Summary:
    """Add held-out counts per family and half, and the interval of the pooled difference."""
    families = {
        name: FamilySummary(
            dev_before=row.dev_before, dev_after=row.dev_after,
            held_out_before=_of(specs, ended["before"], name), held_out_after=_of(specs, ended["after"], name),
        )
        for name, row in summary.families.items()
    }
    halves = {
        when: {half: count([end for spec, end in zip(specs, ended[when], strict=True) if _half(spec) == half]) for half in HALVES}
        for when in ended
    }
    return summary.model_copy(update={
        "families": families, "held_out_halves": halves, "held_out_difference": _difference(ended),
    })


def _of(specs: Sequence[EnvironmentSpec], ended: Sequence[EpisodeSummary], family: str) -> Count:
    return count([end for spec, end in zip(specs, ended, strict=True) if spec.family == family])


def _difference(ended: Mapping[str, list[EpisodeSummary]]) -> tuple[float, float, float] | None:
    """Pooled success after minus before over scenes valid in both: mean and 95 % interval (paired bootstrap)."""
    pairs = [
        (float(after.outcome == "success"), float(before.outcome == "success"))
        for before, after in zip(ended["before"], ended["after"], strict=True)
        if "invalid" not in (before.outcome, after.outcome)
    ]
    if not pairs:
        return None
    after, before = np.array(pairs).T
    estimate = paired_bootstrap(after, before, np.random.default_rng(0))
    return estimate.mean, estimate.low, estimate.high


def _raw(specs: Sequence[EnvironmentSpec], ended: Mapping[str, list[EpisodeSummary]]) -> list[dict[str, Any]]:
    """One row per scene: what it is and how both checkpoints did."""
    rows = zip(specs, ended["before"], ended["after"], strict=True)
    return [
        {"environment": spec.content_hash, "family": spec.family, "half": _half(spec), "axes": spec.provenance.axes,
         "task": spec.provenance.task, "before": before.outcome, "after": after.outcome}
        for spec, before, after in rows
    ]
