"""Replay of chunk transitions, labelled with one potential per task.

A transition leads from one state of a table to another. Several may leave the same state: branches of a restored
simulator, which show what different chunks are worth in one and the same state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from coda_nodes.learner.returns import chunk_targets
from coda_nodes.world.action import ACTION_SIZE, CHUNK_STEPS
from coda_nodes.world.episode import Episode
from coda_nodes.world.errors import ConfigError, SpecError
from coda_nodes.world.potentials import CompiledPotential, PotentialSpec, TaskPotential, potential_of
from coda_nodes.world.spec import EnvironmentSpec
from coda_nodes.world.state import SceneState, concatenate

Array = NDArray[np.float64]
Count = NDArray[np.int_]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Transitions:
    """M executed chunks between the states of a table, which may hold more states than these use."""

    before: Count
    """Row of the state in which the chunk was chosen; branches share it. Shape (M,)."""
    after: Count
    """Row of the state after its last executed step. Shape (M,)."""
    chunks: Array
    """As executed (noise included), not as the policy meant them. Shape (M, 8, 7)."""
    executed: Count
    """Actions executed, 1 to 8. Shape (M,)."""
    terminal: Mask
    """The goal held for its time: a true end. A time limit is none. Shape (M,)."""

    def __post_init__(self) -> None:
        m = len(self.before)
        if self.chunks.shape != (m, CHUNK_STEPS, ACTION_SIZE):
            raise ConfigError(f"chunks have shape {self.chunks.shape}, expected ({m}, {CHUNK_STEPS}, {ACTION_SIZE})")
        for name in ("after", "executed", "terminal"):
            if len(getattr(self, name)) != m:
                raise ConfigError(f"{len(getattr(self, name))} values of {name!r} for {m} transitions")
        if m and not 1 <= self.executed.min() <= self.executed.max() <= CHUNK_STEPS:
            span = f"{self.executed.min()} to {self.executed.max()}"
            raise ConfigError(f"executed steps of {span}: expected 1 to {CHUNK_STEPS}")
        if not np.isfinite(self.chunks).all():
            raise ConfigError("chunks of transitions hold values that are not finite")

    @property
    def n(self) -> int:
        """Number of transitions."""
        return len(self.before)

    @property
    def rewards(self) -> Array:
        """1 in the step in which the goal has held for its time, else 0. Shape (M, 8)."""
        last = np.arange(CHUNK_STEPS) == self.executed[:, None] - 1
        return (last & self.terminal[:, None]).astype(float)

    def select(self, ids: Count | Mask | slice) -> Transitions:
        """Some of the transitions, of the same table."""
        return Transitions(**{f.name: getattr(self, f.name)[ids] for f in fields(self)})

    def moved(self, rows: int) -> Transitions:
        """The same transitions of a table that has ``rows`` other states in front."""
        return replace(self, before=self.before + rows, after=self.after + rows)

    @staticmethod
    def join(parts: Sequence[Transitions]) -> Transitions:
        """All transitions of parts that share one table."""
        return Transitions(**{f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Transitions)})


@dataclass(frozen=True)
class ChunkReplay:
    """Transitions between scenes, every state labelled with the potential that its task has now.

    There is one label per state and one set of task potentials for all of it, so that two potentials cannot be mixed:
    ``relabelled`` labels everything anew, ``join`` labels what it joins alike.
    """

    states: SceneState
    """The table."""
    specs: tuple[EnvironmentSpec, ...]
    """Scene of each state."""
    transitions: Transitions
    tasks: tuple[TaskPotential, ...]
    """What the labels are made of where a kind of goal differs from its default."""
    phi: Array
    """Potential of each state, not yet 0 at true ends (``targets`` sees to that); 0 where a goal has none."""

    @staticmethod
    def of(
        states: SceneState, specs: Sequence[EnvironmentSpec], transitions: Transitions, tasks: Sequence[TaskPotential] = ()
    ) -> ChunkReplay:
        """Label a table of states with the potentials of ``tasks`` (default stages for other kinds of goals).

        Raises:
            ConfigError: other numbers of specifications than states, transitions of states that are not there, or two
                potentials for one kind of goal.
        """
        if len(specs) != states.n:
            raise ConfigError(f"{len(specs)} specifications for {states.n} states: expected one each")
        rows = np.concatenate([transitions.before, transitions.after, [0]])
        if rows.min() < 0 or rows.max() >= max(states.n, 1):
            raise ConfigError(f"transitions of states {rows.min()} to {rows.max()}: the table holds {states.n}")
        kinds = [task.predicate for task in tasks]
        if len(set(kinds)) < len(kinds):
            raise ConfigError(f"task potentials {', '.join(kinds)}: expected one for each kind of goal; merge them")
        return ChunkReplay(states, tuple(specs), transitions, tuple(tasks), label(states, specs, tasks))

    @staticmethod
    def from_episodes(episodes: Sequence[Episode], tasks: Sequence[TaskPotential] = ()) -> ChunkReplay:
        """Every executed chunk of ``episodes``. Left out are invalid ones, and those with noise: they record the chunks that
        were meant, which are not the ones that led to the states after them.

        Raises:
            ConfigError: nothing is left.
        """
        used = [e for e in episodes if gives_values(e)]
        if not used:
            raise ConfigError(f"{len(episodes)} episodes, none valid, executed and free of noise: nothing to learn values from")
        starts = np.cumsum([0, *(episode.states.n for episode in used)])
        return ChunkReplay.of(
            concatenate([episode.states for episode in used]),
            [episode.spec for episode in used for _ in range(episode.states.n)],
            Transitions.join([_walk(episode).moved(int(start)) for episode, start in zip(used, starts, strict=False)]),
            tasks,
        )

    def relabelled(self, tasks: Sequence[TaskPotential]) -> ChunkReplay:
        """The same replay under other task potentials. Raises ConfigError as ``of`` does."""
        return ChunkReplay.of(self.states, self.specs, self.transitions, tasks)

    @staticmethod
    def join(parts: Sequence[ChunkReplay], tasks: Sequence[TaskPotential]) -> ChunkReplay:
        """All transitions of ``parts``, whatever they were labelled with before, labelled with ``tasks``."""
        same = [part if part.tasks == tuple(tasks) else part.relabelled(tasks) for part in parts]
        starts = np.cumsum([0, *(part.states.n for part in same)])
        return ChunkReplay(
            concatenate([part.states for part in same]),
            tuple(spec for part in same for spec in part.specs),
            Transitions.join([part.transitions.moved(int(start)) for part, start in zip(same, starts, strict=False)]),
            tuple(tasks),
            np.concatenate([part.phi for part in same]),
        )

    def targets(self, value: Array, discount: float, ids: Count | Mask | slice = slice(None), shaped: bool = True) -> Array:
        """Targets of the transitions ``ids``.

        Args:
            value: ``V`` of the state after each of them, of the shaped problem where ``shaped``. Shape (m,).
            discount: per control step.
            shaped: whether the potential counts.
        """
        t = self.transitions.select(ids)
        before, after = (self.phi[t.before], self.phi[t.after]) if shaped else (np.zeros(t.n), np.zeros(t.n))
        return chunk_targets(t.rewards, t.executed, t.terminal, before, after, value, discount)


def gives_values(episode: Episode) -> bool:
    """Whether the chunks of an episode are what led from state to state, and there are any."""
    return episode.outcome != "invalid" and "noise=" not in episode.variant and bool((episode.executed > 0).any())


def label(states: SceneState, specs: Sequence[EnvironmentSpec], tasks: Sequence[TaskPotential] = ()) -> Array:
    """Potential of each state, 0 for scenes whose goal has none (negations alone). Shape (n,)."""
    scenes = {id(spec): spec for spec in specs}
    grounded: dict[int, PotentialSpec | None] = {key: potential_of(spec, tasks) for key, spec in scenes.items()}
    chosen = [grounded[id(spec)] for spec in specs]
    able = np.array([i for i, potential in enumerate(chosen) if potential is not None], dtype=int)
    phi = np.zeros(len(specs))
    if len(able):
        phi[able] = CompiledPotential([specs[i] for i in able], [chosen[i] for i in able])(states.select(able))
    if not np.isfinite(phi).all():
        raise SpecError("a potential is not finite: a state of the replay holds values that are not")
    return phi


def _walk(episode: Episode) -> Transitions:
    ids = np.flatnonzero(episode.executed > 0)
    ended = np.zeros(len(ids), dtype=bool)
    ended[-1] = episode.success
    return Transitions(ids, ids + 1, episode.chunks[ids].astype(float), episode.executed[ids].astype(int), ended)
