"""Runs a stored list of environments in the pool and stores the list of what came of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from coda_nodes.simulator.bags import write_failure_bags
from coda_nodes.simulator.workers import Progress, RolloutPool
from coda_nodes.world.action import CHUNK_STEPS
from coda_nodes.world.artifacts import ArtifactRoot, content_hash, write_atomic
from coda_nodes.world.episode import EpisodeSummary
from coda_nodes.world.errors import ArtifactError, SimulationError
from coda_nodes.world.spec import read_specs


@dataclass(frozen=True)
class BatchRequest:
    """Which episodes to run; lists are named by their hash below the artifact root."""

    environments: str
    actor: str
    """Checkpoint hash, ``expert``, ``hold``, or ``lookahead:`` and the hash of a plan."""
    seed: int
    episodes_per_environment: int = 1
    execute: int = CHUNK_STEPS
    noise: float = 0.0
    """[m]"""
    starts: str = ""
    """Empty, or a list with one start per environment."""
    record_physics: bool = False
    bags: int = 0
    """Failures written as bags, at most."""


def starts_path(root: ArtifactRoot, key: str) -> Path:
    """File of a list of starting states, one JSON object ``{"episode": hash, "chunk": index}`` a line."""
    return root.path / "starts" / f"{key}.jsonl"


def summaries_path(root: ArtifactRoot, key: str) -> Path:
    """File of a list of episode summaries, one JSON object a line."""
    return root.path / "episodes" / f"{key}.jsonl"


def run_batch(
    request: BatchRequest, root: ArtifactRoot, pool: RolloutPool, on_progress: Progress | None = None
) -> tuple[str, list[EpisodeSummary]]:
    """Run the episodes, one repeat of the list after the other; return the hash of the stored summaries.

    Raises:
        SpecError, ArtifactError: a list is missing or damaged.
        SimulationError: another number of starts than environments, or what a worker reported.
    """
    if request.episodes_per_environment < 1:
        raise SimulationError(
            f"{request.episodes_per_environment} episodes per environment: expected 1 or more"
        )
    specs = read_specs(root.environments(request.environments))
    starts = _read_starts(starts_path(root, request.starts)) if request.starts else [None] * len(specs)
    if len(starts) != len(specs):
        raise SimulationError(f"{len(starts)} starts for {len(specs)} environments: expected one each")
    ended = pool.run(
        specs * request.episodes_per_environment,
        actor=request.actor,
        seed=request.seed,
        execute=request.execute or CHUNK_STEPS,
        noise=request.noise or None,
        record_physics=request.record_physics,
        on_progress=on_progress,
        starts=starts * request.episodes_per_environment,
    )
    write_failure_bags(root, ended, request.bags)
    return write_summaries(root, ended), ended


def write_summaries(root: ArtifactRoot, ended: Sequence[EpisodeSummary]) -> str:
    """Store a list of summaries; return the hash that names it."""
    data = "".join(json.dumps(asdict(summary), sort_keys=True) + "\n" for summary in ended).encode()
    key = content_hash(data)
    write_atomic(summaries_path(root, key), data)
    return key


def _read_starts(path: Path) -> list[tuple[str, int] | None]:
    try:
        items = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return [None if item is None else (str(item["episode"]), int(item["chunk"])) for item in items]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtifactError(f"cannot read starts from {path}: {error}") from error
