"""Lookahead: a policy that may try several chunks from the same physics state and keeps the one that leads furthest.

At every boundary the state of each episode is restored in ``branches`` copies; each executes another chunk, the potential
of the task (``docs/potentials.md``) says how far it came, and half a chunk of the best is committed. No expert is asked.
What the branches cost is counted in control steps like everything else (``Episode.branch_steps``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from coda_nodes.policy.protocol import ChunkPolicy
from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.simulator.guidance import ascend
from coda_nodes.simulator.recording import Tape
from coda_nodes.world.action import CHUNK_STEPS
from coda_nodes.world.config import check_settings, setting
from coda_nodes.world.episode import Episode
from coda_nodes.world.errors import SimulationError
from coda_nodes.world.potentials import CompiledPotential, TaskPotential, potential_of
from coda_nodes.world.spec import EnvironmentSpec
from coda_nodes.world.state import SceneState

Array = NDArray[np.float64]
Ids = NDArray[np.int_]
SUCCEEDED, DROPPED, DIVERGED = 2.0, -1.0, -2.0
"""Scores of a branch that reaches the goal, of one not followed to the end, and of one whose physics diverged; potentials
lie in [0, 1]."""
TURN_PER_METRE = 4.0
"""Rotation noise [rad] per displacement noise [m]."""
GUIDED = 2
"""Chunks that follow the slope of the potential."""
RAMP = (np.arange(1, CHUNK_STEPS + 1) / CHUNK_STEPS)[:, None]
"""Share of a chunk's displacement after each action. Shape (8, 1)."""


@dataclass(frozen=True)
class LookaheadConfig:
    """How branches differ, and how many actions are committed."""

    branches: int = setting(8, "chunks tried from each state, the policy's own included", low=2, high=64)
    perturbed: int = setting(2, "of them, chunks of the policy for a perturbed observation", low=0, high=62)
    guided: bool = setting(True, "whether two more follow the slope of the potential, where it has one")
    reach: float = setting(0.12, "longest way of a guided chunk", "m", 0.01, 0.5)
    input_noise: float = setting(0.01, "standard deviation of the perturbed positions", "m", 0.0, 0.2)
    smallest: float = setting(0.003, "smallest displacement noise at the end of a chunk", "m", 1e-4, 0.2)
    largest: float = setting(0.05, "largest displacement noise at the end of a chunk", "m", 1e-4, 0.5)
    memory: float = setting(0.5, "correlation of noise with the offset that was committed before", low=0.0, high=0.99)
    depth: int = setting(2, "chunks after which a branch is judged; those after the first are the policy's own", low=1, high=10)
    followed: int = setting(4, "branches that are followed beyond their first chunk, best potential first", low=1, high=64)
    commit: int = setting(4, "actions executed of the chosen chunk", low=1, high=CHUNK_STEPS)
    margin: float = setting(0.01, "how much better than the policy's own chunk another must be", low=0.0, high=1.0)

    @staticmethod
    def of(branches: int) -> LookaheadConfig:
        """As many kinds of chunks as ``branches`` leave room for."""
        return LookaheadConfig(branches=branches, perturbed=min(2, branches - 2), guided=branches >= 2 + 2 + GUIDED)

    @property
    def steps_paid(self) -> int:
        """Control steps paid for each one executed, at most."""
        return 1 + -(-CHUNK_STEPS * self.depth * self.branches // self.commit)

    def __post_init__(self) -> None:
        check_settings(self)
        others = self.perturbed + GUIDED * self.guided
        if others > self.branches - 2:
            raise SimulationError(
                f"{others} perturbed or guided of {self.branches} branches: one is the policy's own, one flips the gripper"
            )


class Proposals:
    """Chunks to try, one random stream per episode, so that an episode does not depend on those beside it."""

    def __init__(self, config: LookaheadConfig, policy: ChunkPolicy, seeds: Sequence[int]) -> None:
        self._config, self._policy = config, policy
        self._streams = [np.random.default_rng([seed, 2]) for seed in seeds]
        self._kept = np.zeros((len(seeds), 6))

    def draw(self, state: SceneState, rows: Ids, way: Array) -> Array:
        """Chunks of the episodes ``rows``. Shape (len(rows), B, 8, 7).

        Branch 0 is the policy's own, then come those for perturbed observations, those that go ``way`` (n, 3) [m] with
        the gripper as it is and as the policy wants it (in episodes that have a way), the own one with displacements
        added, and last the own one with the gripper's command turned round.
        """
        config, seen = self._config, state.observation().select(rows)
        own = self._policy.act(seen)
        tried = np.repeat(own[:, None], config.branches, axis=1)
        for branch in range(1, 1 + config.perturbed):
            offsets = np.stack([self._streams[i].normal(size=seen.entity_position_base.shape[1:]) for i in rows])
            moved = replace(seen, entity_position_base=seen.entity_position_base + config.input_noise * offsets)
            tried[:, branch] = self._policy.act(moved)
        for k, row in enumerate(rows):
            free = 1 + config.perturbed
            if config.guided and np.linalg.norm(way[row]) >= config.smallest:
                tried[k, free : free + GUIDED, :, :3] = RAMP * way[row]
                tried[k, free, :, 6] = np.round(state.gripper_opening[row])
                free += GUIDED
            for branch in range(free, config.branches - 1):
                tried[k, branch, :, :6] += RAMP * self._displacement(row)
        tried[:, -1, :, 6] = 1.0 - np.round(own[..., 6].mean(axis=1, keepdims=True))
        return tried

    def keep(self, row: int, chosen: Array, own: Array) -> None:
        """Remember by how much the committed chunk (8, 7) differs from the policy's own."""
        self._kept[row] = (chosen - own)[-1, :6]

    def _displacement(self, row: int) -> Array:
        """Offset at the end of a chunk, of a size drawn evenly on a logarithmic scale. Shape (6,)."""
        config, stream = self._config, self._streams[row]
        size = np.exp(stream.uniform(np.log(config.smallest), np.log(config.largest)))
        fresh = stream.normal(size=6) * size * np.array([1.0, 1.0, 1.0, *[TURN_PER_METRE] * 3])
        return config.memory * self._kept[row] + np.sqrt(1 - config.memory**2) * fresh


class Lookahead:
    """Searches with one policy; keeps a simulator for the episodes and one for their branches."""

    def __init__(
        self, simulator: BatchSimulator, branches: BatchSimulator, policy: ChunkPolicy, name: str,
        tasks: Sequence[TaskPotential] = (), config: LookaheadConfig = LookaheadConfig(),
    ) -> None:
        self._simulator, self._branches, self._policy = simulator, branches, policy
        self._name, self._tasks, self._config = name, tuple(tasks), config

    def run(
        self, specs: Sequence[EnvironmentSpec], seeds: Sequence[int], starts: Sequence[Array | None], variants: Sequence[str]
    ) -> list[Episode]:
        """Run one episode per specification, as many at a time as the simulators hold.

        Args:
            specs: of one family.
            seeds: one per episode; decide what is tried.
            starts: physics states to start from in place of the reset, or None.
            variants: ``Episode.variant`` of each.

        Raises:
            SimulationError: the simulators refuse a specification, or cannot hold the branches of one episode.
            SpecError: a goal has no potential.
        """
        at_once = min(self._simulator.capacity, self._branches.capacity // self._config.branches)
        if not at_once:
            raise SimulationError(f"{self._branches.capacity} simulations cannot hold {self._config.branches} branches")
        episodes: list[Episode] = []
        for first in range(0, len(specs), at_once):
            part = slice(first, first + at_once)
            episodes += self._run(specs[part], seeds[part], starts[part], variants[part])
        return episodes

    def _run(
        self, specs: Sequence[EnvironmentSpec], seeds: Sequence[int], starts: Sequence[Array | None], variants: Sequence[str]
    ) -> list[Episode]:
        simulator, count = self._simulator, len(specs)
        simulator.reset(specs)
        for row, start in enumerate(starts):
            if start is not None:
                simulator.restore(np.asarray(start)[None], [row])
        self._policy.reset(count)
        search = _Search(self._branches, specs, self._tasks, self._policy, self._config)
        potential = CompiledPotential(specs, [potential_of(spec, self._tasks) for spec in specs])
        proposals = Proposals(self._config, self._policy, seeds)
        horizon, taken = np.array([spec.horizon for spec in specs]), np.zeros(count, dtype=int)
        tape, over = Tape(simulator), simulator.success
        while not over.all():
            rows = np.flatnonzero(~over)
            way = ascend(potential, tape.state, self._config.reach) if self._config.guided else np.zeros((count, 3))
            chunks = self._choose(search, proposals, tape.state, rows, way)
            result = simulator.step_chunk(chunks, np.where(over, 0, np.minimum(self._config.commit, horizon - taken)))
            taken += result.executed
            tape.add(chunks, ~over, result)
            over = result.success | result.invalid | (taken >= horizon)
        episodes = tape.episodes(list(seeds), self._name, list(variants))
        return [replace(e, branch_steps=int(spent)) for e, spent in zip(episodes, search.spent, strict=True)]

    def _choose(self, search: _Search, proposals: Proposals, state: SceneState, rows: Ids, way: Array) -> Array:
        tried = proposals.draw(state, rows, way)
        scores = search.score(self._simulator.snapshot(rows), tried, rows)
        scores[:, 0] += self._config.margin
        best = scores.argmax(axis=1)
        chunks = np.zeros((state.n, *tried.shape[2:]))
        for k, row in enumerate(rows):
            chunks[row] = tried[k, best[k]]
            proposals.keep(int(row), tried[k, best[k]], tried[k, 0])
        return chunks


class _Search:
    """Every specification loaded once per branch."""

    def __init__(
        self, simulator: BatchSimulator, specs: Sequence[EnvironmentSpec], tasks: Sequence[TaskPotential],
        policy: ChunkPolicy, config: LookaheadConfig,
    ) -> None:
        copies = [spec for spec in specs for _ in range(config.branches)]
        self._simulator, self._policy = simulator, policy
        self._branches, self._depth, self._followed = config.branches, config.depth, config.followed
        simulator.reset(copies)
        self._potential = CompiledPotential(copies, [potential_of(spec, tasks) for spec in copies])
        self.spent = np.zeros(len(specs), dtype=int)
        """Control steps of all branches of each episode so far."""

    def score(self, states: Array, tried: Array, rows: Ids) -> Array:
        """Run the chunks (m, B, 8, 7) of the episodes ``rows`` (m,) from their physics states; shape (m, B)."""
        branches = self._branches
        ids = (rows[:, None] * branches + np.arange(branches)).ravel()
        self._simulator.restore(np.repeat(states, branches, axis=0), ids)
        over = self._step(tried.reshape(-1, *tried.shape[2:]), ids)
        value = self._value()[ids].reshape(-1, branches)
        if self._depth == 1:
            return value
        rank = np.argsort(np.argsort(-value, axis=1, kind="stable"), axis=1)
        followed = ids[(rank < self._followed).ravel()]
        for _ in range(1, self._depth):
            left = followed[~over[followed]]
            if not len(left):
                break
            over = self._step(self._policy.act(self._simulator.state().observation().select(left)), left)
        return np.where(rank < self._followed, self._value()[ids].reshape(-1, branches), DROPPED)

    def _value(self) -> Array:
        """What every simulation is worth as it stands now."""
        value = np.where(self._simulator.success, SUCCEEDED, self._potential(self._simulator.state()))
        return np.where([bool(reason) for reason in self._simulator.reasons], DIVERGED, value)

    def _step(self, chunks: Array, ids: Ids) -> NDArray[np.bool_]:
        """Execute chunks (m, 8, 7) in simulations ``ids`` (m,) only; say which of all are over."""
        total = len(self.spent) * self._branches
        given, count = np.zeros((total, *chunks.shape[1:])), np.zeros(total, dtype=int)
        given[ids], count[ids] = chunks, CHUNK_STEPS
        result = self._simulator.step_chunk(given, count)
        np.add.at(self.spent, np.arange(total) // self._branches, result.executed)
        return result.success | result.invalid
