"""From chunk values to behaviour: imitation weighted by advantage, and the best of several chunks at run time."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coda_nodes.learner.critics import ChunkCritics
from coda_nodes.learner.replay import ChunkReplay
from coda_nodes.learner.samples import Samples
from coda_nodes.policy.protocol import ChunkPolicy
from coda_nodes.world.action import CHUNK_STEPS
from coda_nodes.world.config import check_settings, setting
from coda_nodes.world.spec import FAMILIES
from coda_nodes.world.state import ObservationBatch

Array = NDArray[np.float64]
TURN_PER_METRE = 4.0
"""Rotation noise [rad] per displacement noise [m]."""


@dataclass(frozen=True)
class ExtractionConfig:
    """How advantages become weights of samples."""

    temperature: float = setting(0.5, "advantage that counts e times, in standard deviations of all", low=0.01, high=100.0)
    ceiling: float = setting(20.0, "largest weight before scaling", low=1.0, high=1e6)
    floor: float = setting(1e-3, "smallest weight before scaling", low=1e-9, high=1.0)

    def __post_init__(self) -> None:
        check_settings(self)


def advantage_weights(advantages: Array, config: ExtractionConfig = ExtractionConfig()) -> Array:
    """``exp(A / beta)``, bounded, scaled to a mean of 1 (Peng et al. 2019). ``beta`` is the temperature times the standard
    deviation of ``advantages`` (n,), so that it needs no change as values grow. Shape (n,)."""
    spread = max(float(np.std(advantages)), 1e-9)
    weights = np.exp(np.clip(advantages / (config.temperature * spread), np.log(config.floor), np.log(config.ceiling)))
    return weights / weights.mean()


def weighted_samples(replay: ChunkReplay, critics: ChunkCritics, config: ExtractionConfig = ExtractionConfig()) -> Samples:
    """Every transition as a sample to imitate, weighted by its advantage."""
    t = replay.transitions
    observation = replay.states.observation().select(t.before)
    specs = [replay.specs[row] for row in t.before]
    return Samples(
        observation=observation,
        chunks=critics.read(t.chunks),
        weights=advantage_weights(critics.advantages(observation, t.chunks), config),
        family=np.array([FAMILIES.index(spec.family) for spec in specs], dtype=np.int64),
        robot=specs[0].robot,
    )


@dataclass(frozen=True)
class ProposalConfig:
    """Which chunks are tried beside the policy's own."""

    count: int = setting(16, "chunks proposed in each scene, the policy's own included", low=2, high=65536)
    smallest: float = setting(0.001, "smallest displacement noise at the end of a chunk", "m", 1e-5, 0.5)
    largest: float = setting(0.02, "largest displacement noise at the end of a chunk", "m", 1e-5, 0.5)
    turning: float = setting(TURN_PER_METRE, "rotation noise per displacement noise", "rad/m", 0.0, 100.0)
    flips: float = setting(0.1, "share of the proposals whose gripper command is turned round", low=0.0, high=1.0)

    def __post_init__(self) -> None:
        check_settings(self)


def propose(chunks: Array, streams: list[np.random.Generator], config: ProposalConfig) -> Array:
    """Chunks (n, 8, 7) and ``count - 1`` disturbed copies of each, from one stream per scene. Shape (n, count, 8, 7).

    The disturbance grows evenly over the chunk, to a size drawn evenly on a logarithmic scale.
    """
    tried = np.repeat(chunks[:, None], config.count, axis=1)
    ramp = (np.arange(1, CHUNK_STEPS + 1) / CHUNK_STEPS)[:, None]
    scale = np.array([1.0, 1.0, 1.0, *[config.turning] * 3])
    for i, stream in enumerate(streams):
        size = np.exp(stream.uniform(np.log(config.smallest), np.log(config.largest), (config.count - 1, 1)))
        tried[i, 1:, :, :6] += (size * scale * stream.normal(size=(config.count - 1, 6)))[:, None] * ramp
        turned = 1 + np.flatnonzero(stream.random(config.count - 1) < config.flips)
        tried[i, turned, :, 6] = 1.0 - np.round(chunks[i, :, 6])
    return tried


class BestOfN:
    """A ``ChunkPolicy`` that proposes chunks about those of another and keeps the one that the critics value most.

    Proposals depend on the seed and on what is seen alone, so that a scene gets the same chunk alone and among hundreds.
    """

    def __init__(
        self, policy: ChunkPolicy, critics: ChunkCritics, config: ProposalConfig = ProposalConfig(), seed: int = 0
    ) -> None:
        self._policy, self._critics, self._config, self._seed = policy, critics, config, seed

    def reset(self, n: int) -> None:
        """``n`` scenes start anew."""
        self._policy.reset(n)

    def act(self, observation: ObservationBatch) -> Array:
        """The most valued proposal of each scene; the policy's own of equals. Shape (n, 8, 7)."""
        own = self._policy.act(observation)
        if not observation.n:
            return own
        tried = propose(own, [np.random.default_rng([self._seed, key]) for key in _keys(observation)], self._config)
        rows = np.repeat(np.arange(observation.n), self._config.count)
        values = self._critics.cautious(observation.select(rows), tried.reshape(-1, *tried.shape[2:]))
        best = np.round(values.reshape(observation.n, -1), _DECIMALS).argmax(axis=1)
        return tried[np.arange(observation.n), best]


_DECIMALS = 5
"""To which values are compared: single precision differs below it with the size of a batch."""


def _keys(observation: ObservationBatch) -> list[int]:
    """A number for each scene made of where robot and things are."""
    parts = (observation.joint_positions, observation.tool_position_base, observation.entity_position_base)
    return [zlib.crc32(np.concatenate([part[i].ravel() for part in parts]).tobytes()) for i in range(observation.n)]
