"""Regime ``expert``: from where the policy failed, a capped number of states in which the expert takes over.

The expert shows what to do in states the policy reaches (Ross 2011, DAgger), so starts are taken from failing
episodes: spread over the time in which the task could still be solved, denser where progress stalled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from coda_nodes.world.config import check_settings, setting
from coda_nodes.world.episode import Episode
from coda_nodes.world.errors import BudgetError
from coda_nodes.world.spec import FixtureSpec, atoms

FALLEN = -0.02
"""An entity below this height has left the table [m]."""
OUT_OF_REACH = 0.80
"""Horizontal distance from the base axis beyond which nothing is picked up again [m]."""


@dataclass(frozen=True)
class CorrectionConfig:
    """Where starts are taken."""

    per_episode: int = setting(2, "starts from one failing episode", low=1, high=50)
    near_stall: float = setting(
        0.6, "share of starts drawn near the chunk where progress stalled", low=0.0, high=1.0
    )
    spread: float = setting(
        1.5, "standard deviation of those around the stall", unit="chunks", low=0.1, high=50.0
    )

    def __post_init__(self) -> None:
        check_settings(self)


class CorrectionStart(NamedTuple):
    """The expert takes over at chunk boundary ``chunk`` of a recorded episode."""

    episode: str
    """Hash of the episode."""
    chunk: int


def choose_starts(
    episodes: Sequence[Episode],
    count: int,
    rng: np.random.Generator,
    config: CorrectionConfig = CorrectionConfig(),
) -> list[CorrectionStart]:
    """Choose at most ``count`` different starts among the failing episodes, in turns: each gives its first
    before any gives its second.

    Successful and invalid episodes and those without physics states are passed over.

    Raises:
        BudgetError: ``count`` is negative.
    """
    if count < 0:
        raise BudgetError(f"{count} environments left for corrections, expected 0 or more")
    usable = [
        e for e in episodes if e.outcome == "failure" and e.physics_states is not None and len(e.chunks)
    ]
    order = [usable[i] for i in rng.permutation(len(usable))]
    queues = [[CorrectionStart(e.content_hash, chunk) for chunk in _chunks(e, config, rng)] for e in order]
    turns = [queue[turn] for turn in range(config.per_episode) for queue in queues if turn < len(queue)]
    return turns[:count]


def _chunks(episode: Episode, config: CorrectionConfig, rng: np.random.Generator) -> list[int]:
    """Different chunk boundaries of one episode, drawn by weight, none after the failure became
    irreversible."""
    last = solvable_until(episode)
    boundaries = np.arange(last + 1)
    near = np.exp(-0.5 * ((boundaries - min(stalled_at(episode), last)) / config.spread) ** 2)
    weights = config.near_stall * near / near.sum() + (1 - config.near_stall) / len(boundaries)
    count = min(config.per_episode, len(boundaries))
    if np.count_nonzero(weights) < count:
        weights = weights + 1e-12
    return [int(c) for c in rng.choice(boundaries, size=count, replace=False, p=weights / weights.sum())]


def stalled_at(episode: Episode) -> int:
    """Chunk boundary at which a predicate last became true for the first time: from there on nothing new
    happened."""
    first = [int(column.argmax()) for column in episode.predicates.T if column.any()]
    if not first:
        return 0
    ends = np.cumsum(episode.executed)
    return int(min(np.searchsorted(ends, max(first) + 1), len(episode.chunks) - 1))


def solvable_until(episode: Episode) -> int:
    """Last chunk boundary at which everything the goal is about is still on the table and within reach."""
    names = {arg for atom in atoms(episode.spec.goal) for arg in atom.args}
    entities = episode.spec.entities
    slots = [i for i, e in enumerate(entities) if e.name in names and not isinstance(e, FixtureSpec)]
    position = episode.states.entity_position_base[: len(episode.chunks), slots]
    lost = (position[..., 2] < FALLEN) | (np.linalg.norm(position[..., :2], axis=-1) > OUT_OF_REACH)
    when = np.flatnonzero(lost.any(axis=1))
    return max(int(when[0]) - 1, 0) if len(when) else len(episode.chunks) - 1
