"""Training samples: what was seen at chunk boundaries and the chunk that was right there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from coda_nodes.world.action import ACTION_SIZE, CHUNK_STEPS
from coda_nodes.world.episode import Episode
from coda_nodes.world.errors import ConfigError
from coda_nodes.world.robots import robot
from coda_nodes.world.spec import FAMILIES
from coda_nodes.world.state import ObservationBatch, concatenate

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Samples:
    """N pairs of observation and labelled chunk, with the weight of each in the loss."""

    observation: ObservationBatch
    chunks: Floats
    """Whole labels, also where fewer steps were executed. Shape (N, 8, 7)."""
    weights: Floats
    """Positive. Shape (N,)."""
    family: NDArray[np.int64]
    """Index into ``spec.FAMILIES``. Shape (N,)."""
    robot: str

    def __post_init__(self) -> None:
        n = self.observation.n
        if self.chunks.shape != (n, CHUNK_STEPS, ACTION_SIZE):
            raise ConfigError(
                f"chunks have shape {self.chunks.shape}, expected ({n}, {CHUNK_STEPS}, {ACTION_SIZE})"
            )
        if not np.isfinite(self.chunks).all():
            raise ConfigError("chunks hold values that are not finite")
        if not (np.isfinite(self.weights).all() and (self.weights > 0).all()):
            raise ConfigError("weights of samples must be positive numbers")

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.chunks)

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Joints of the arm, in the order of the observation."""
        return robot(self.robot).joint_names

    @staticmethod
    def from_episodes(
        episodes: Sequence[Episode],
        weights: Sequence[float] | None = None,
        family_weights: Mapping[str, float] | None = None,
    ) -> Samples:
        """Take every chunk boundary of ``episodes``; invalid ones are left out.

        Without ``family_weights`` each sample counts as its episode's weight (default 1). With them, the
        weights of the samples of a family add up in proportion to the number given, whatever the lengths of
        its episodes.

        Raises:
            ConfigError: no sample left, a weight is not positive, or episodes are of different arms.
        """
        each = np.ones(len(episodes)) if weights is None else np.asarray(weights, dtype=float)
        if len(each) != len(episodes):
            raise ConfigError(f"{len(each)} weights for {len(episodes)} episodes")
        pairs = zip(episodes, each, strict=True)
        used = [(e, weight) for e, weight in pairs if e.outcome != "invalid" and len(e.chunks)]
        robots = sorted({episode.spec.robot for episode, _ in used})
        if len(robots) != 1:
            raise ConfigError(
                f"expected episodes of one arm with at least one chunk, got {len(used)} "
                f"of arms: {', '.join(robots) or '(none)'}"
            )
        slots = max(episode.states.present.shape[1] for episode, _ in used)
        count = [len(episode.chunks) for episode, _ in used]
        samples = Samples(
            observation=concatenate([_boundaries(episode, slots) for episode, _ in used]),
            chunks=np.concatenate([episode.chunks for episode, _ in used]).astype(np.float64),
            weights=np.repeat([weight for _, weight in used], count),
            family=np.repeat([FAMILIES.index(episode.spec.family) for episode, _ in used], count).astype(
                np.int64
            ),
            robot=robots[0],
        )
        return samples if family_weights is None else samples.balanced(family_weights)

    def balanced(self, family_weights: Mapping[str, float]) -> Samples:
        """Rescale weights so that families count as given (mean weight 1). Raises ConfigError for an unknown
        family or one that has samples and no weight."""
        weights = self.weights.copy()
        total = sum(family_weights.get(FAMILIES[f], 0.0) for f in np.unique(self.family))
        for f in np.unique(self.family):
            share = family_weights.get(FAMILIES[f], 0.0)
            if share <= 0:
                raise ConfigError(
                    f"family {FAMILIES[f]} has samples and no positive weight: {dict(family_weights)}"
                )
            mine = self.family == f
            weights[mine] *= share / total * self.n / weights[mine].sum()
        return replace(self, weights=weights)

    @staticmethod
    def join(parts: Sequence[Samples]) -> Samples:
        """Join sets of samples. Raises ConfigError when they are of different arms or there are none."""
        if len({part.robot for part in parts}) != 1:
            raise ConfigError(
                f"cannot join samples of arms: {', '.join(sorted({p.robot for p in parts})) or '(none)'}"
            )
        slots = max(part.observation.present.shape[1] for part in parts)
        return Samples(
            observation=concatenate([pad_slots(part.observation, slots) for part in parts]),
            chunks=np.concatenate([part.chunks for part in parts]),
            weights=np.concatenate([part.weights for part in parts]),
            family=np.concatenate([part.family for part in parts]),
            robot=parts[0].robot,
        )


def _boundaries(episode: Episode, slots: int) -> ObservationBatch:
    """Observations at which the chunks of an episode were chosen: all states but the last."""
    states = episode.states.select(np.arange(len(episode.chunks)))
    return pad_slots(states.observation(), slots)


def pad_slots(observation: ObservationBatch, slots: int) -> ObservationBatch:
    """The same scenes with ``slots`` entity slots, the new ones empty."""
    extra = slots - observation.present.shape[1]
    if extra <= 0:
        return observation
    changes = {}
    for f in fields(ObservationBatch):
        value = getattr(observation, f.name)
        if (f.name.startswith("entity_") and isinstance(value, np.ndarray)) or f.name == "present":
            changes[f.name] = np.pad(value, [(0, 0), (0, extra), *[(0, 0)] * (value.ndim - 2)])
    return replace(observation, **changes)
