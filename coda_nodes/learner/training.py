"""Runs a training program on a data set of recorded episodes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from coda_nodes.learner.imitation import ImitationConfig, OnProgress, TrainingResult, train
from coda_nodes.learner.samples import Samples
from coda_nodes.policy.runner import PolicyRunner
from coda_nodes.world.action import CHUNK_STEPS
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.episode import Episode
from coda_nodes.world.errors import ArtifactError, ConfigError, NotAvailableError
from coda_nodes.world.programs import TrainingProgram


@dataclass(frozen=True)
class Weighted:
    """An episode to learn from, by its hash, and the weight of its samples."""

    episode: str
    weight: float = 1.0


def read_dataset(path: Path) -> list[Weighted]:
    """Read a data set: one JSON object ``{"episode": hash, "weight": number}`` a line.

    Raises:
        ArtifactError: the file is missing or a line is something else (the message gives its number).
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ArtifactError(f"cannot read data set {path}: {error}") from error
    items = []
    for number, line in enumerate(lines, start=1):
        try:
            data = json.loads(line)
            items.append(Weighted(str(data["episode"]), float(data["weight"])))
        except (ValueError, KeyError, TypeError) as error:
            raise ArtifactError(
                f"{path}, line {number}: expected an episode and its weight ({error})"
            ) from error
    return items


def run_program(
    program: TrainingProgram,
    dataset: Sequence[Weighted],
    root: ArtifactRoot,
    parent: str = "",
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> TrainingResult:
    """Train as ``program`` says from the checkpoint ``parent`` (empty: from scratch) and store the result.

    Raises:
        NotAvailableError: the program asks for values of own rollouts, another chunk length or an early stop.
        ConfigError: the data set is empty or does not fit the parent.
        ArtifactError, CheckpointError: an episode or the parent cannot be read.
    """
    _check(program)
    if not dataset:
        raise ConfigError("the data set holds no episode: expected at least one")
    episodes = [Episode.load(root.episode(item.episode)) for item in dataset]
    samples = Samples.from_episodes(episodes, [item.weight for item in dataset])
    config = ImitationConfig(
        steps=program.steps, batch=program.batch_size, learning_rate=program.learning_rate
    )
    runner = PolicyRunner.load(root.checkpoint(parent)) if parent else None
    return train(samples, config, root, runner, seed, on_progress, program.regime.value)


def _check(program: TrainingProgram) -> None:
    if program.potential or "own_rollouts" in program.supervision:
        raise NotAvailableError("the learner imitates; values of own rollouts by a potential are not learned yet")
    if program.chunk_length != CHUNK_STEPS:
        raise NotAvailableError(
            f"chunks of {program.chunk_length} actions: the learner knows {CHUNK_STEPS} only"
        )
    if program.stopping.patience:
        raise NotAvailableError("the learner takes all its steps; stopping early is not built yet")
