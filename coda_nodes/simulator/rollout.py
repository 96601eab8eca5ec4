"""Whole episodes: an actor and a batch simulator in lockstep, recorded at every chunk boundary."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from coda_nodes.simulator.actors import RolloutActor
from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.simulator.recording import Tape
from coda_nodes.world.action import CHUNK_STEPS
from coda_nodes.world.episode import Episode
from coda_nodes.world.errors import SimulationError
from coda_nodes.world.spec import EnvironmentSpec

Array = NDArray[np.float64]
Ids = NDArray[np.int_]

TURN_PER_METRE = 4.0
"""Rotation noise [rad] per displacement noise [m]."""
MEMORY = 0.5
"""Correlation of the noise of a chunk with that of the chunk before."""


class ChunkNoise:
    """Disturbs executed chunks as a person nudging the arm would: an offset that grows over the chunk to a
    standard deviation of ``size`` [m] and persists in part (after Laskey et al. 2017, DART). One stream per
    episode."""

    def __init__(self, size: float, seeds: Sequence[int]) -> None:
        self._size = size
        self._streams = [np.random.default_rng([seed, 1]) for seed in seeds]
        self._offset = np.zeros((len(seeds), 6))

    def __call__(self, chunks: Array, active: Ids) -> Array:
        """Disturbed copy of chunks (n, 8, 7); the gripper is left alone."""
        scale = self._size * np.array([1.0, 1.0, 1.0, TURN_PER_METRE, TURN_PER_METRE, TURN_PER_METRE])
        for i in active:
            fresh = self._streams[i].normal(size=6) * scale
            self._offset[i] = MEMORY * self._offset[i] + np.sqrt(1 - MEMORY**2) * fresh
        noisy = chunks.copy()
        noisy[..., :6] += self._offset[:, None] * (np.arange(1, CHUNK_STEPS + 1) / CHUNK_STEPS)[:, None]
        return noisy


def rollout(
    simulator: BatchSimulator,
    specs: Sequence[EnvironmentSpec],
    seeds: Sequence[int],
    actor: RolloutActor,
    execute: int = CHUNK_STEPS,
    noise: float | None = None,
    record_physics: bool = False,
    start_states: Sequence[Array | None] | None = None,
    variants: Sequence[str] | None = None,
) -> list[Episode]:
    """Run one episode per specification, as many at a time as the simulator holds.

    Args:
        seeds: one per episode; decide the noise.
        execute: actions executed of each chunk before the actor is asked again, 1 to 8.
        noise: standard deviation of the displacement added to executed chunks [m]; the clean chunks are
        recorded. record_physics: keep the full physics state at each chunk boundary.
        start_states: physics states to start from instead of the reset, one row per episode or None.
        variants: ``Episode.variant``; by default what ``execute`` and ``noise`` make of it.

    Raises:
        SimulationError: lists of different lengths, ``execute`` out of range, a specification the simulator
        refuses.
    """
    starts = list(start_states) if start_states is not None else [None] * len(specs)
    names = list(variants) if variants is not None else [variant(execute, noise)] * len(specs)
    if not len(specs) == len(seeds) == len(starts) == len(names):
        raise SimulationError(
            f"{len(specs)} specifications, {len(seeds)} seeds, {len(starts)} starts, {len(names)} variants"
        )
    if not 1 <= execute <= CHUNK_STEPS:
        raise SimulationError(f"execute = {execute}, expected 1 to {CHUNK_STEPS}")
    episodes: list[Episode] = []
    for first in range(0, len(specs), simulator.capacity):
        part = slice(first, first + simulator.capacity)
        tape = _run(simulator, specs[part], seeds[part], actor, execute, noise, record_physics, starts[part])
        episodes += tape.episodes(seeds[part], actor.name, names[part])
    return episodes


def variant(execute: int = CHUNK_STEPS, noise: float | None = None, start: str = "") -> str:
    """How an episode is run where not in the plain way; part of its identity."""
    parts = [
        f"execute={execute}" if execute != CHUNK_STEPS else "",
        f"noise={noise:g}" if noise else "",
        f"start={start}" if start else "",
    ]
    return " ".join(filter(None, parts))


def _run(
    simulator: BatchSimulator,
    specs: Sequence[EnvironmentSpec],
    seeds: Sequence[int],
    actor: RolloutActor,
    execute: int,
    noise: float | None,
    record_physics: bool,
    starts: Sequence[Array | None],
) -> Tape:
    simulator.reset(specs)
    for row, start in enumerate(starts):
        if start is not None:
            simulator.restore(np.asarray(start)[None], [row])
    actor.begin(specs)
    disturb = ChunkNoise(noise, seeds) if noise else None
    horizon, taken = np.array([spec.horizon for spec in specs]), np.zeros(len(specs), dtype=int)
    over, tape = simulator.success, Tape(simulator, record_physics)
    while not over.all():
        active = np.flatnonzero(~over)
        chunks = actor.act(tape.state, active)
        sent = np.zeros_like(chunks)
        sent[active] = (chunks if disturb is None else disturb(chunks, active))[active]
        result = simulator.step_chunk(sent, np.where(over, 0, np.minimum(execute, horizon - taken)))
        taken += result.executed
        tape.add(chunks, ~over, result)
        over = result.success | result.invalid | (taken >= horizon)
    return tape
