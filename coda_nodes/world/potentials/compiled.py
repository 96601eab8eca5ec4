"""Potentials of many scenes, compiled once and evaluated together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coda_nodes.world.errors import SpecError
from coda_nodes.world.potentials.library import MEASURES, Measure, MeasureContext
from coda_nodes.world.potentials.spec import PotentialSpec, PotentialStage
from coda_nodes.world.potentials.tasks import potential_of
from coda_nodes.world.predicates.base import NEARLY_ONE, AtomContext, SceneGeometry, lookup
from coda_nodes.world.predicates.compiled import ROUND_SHAPES, CompiledAtoms, CompiledGoals
from coda_nodes.world.spec import Atom, EnvironmentSpec
from coda_nodes.world.state import SceneState

Array = NDArray[np.float64]
CLOSE_SHARE = 0.4
"""Share of a stage that is earned within ``close`` of its end, evenly; the rest evenly over ``scale``."""


@dataclass(frozen=True)
class _Group:
    """Stages of one measure whose goals have one predicate."""

    measure: Measure
    predicate: str
    rows: NDArray[np.int_]
    """Scene, part, stage. Shape (m, 3)."""
    slots: NDArray[np.int_]
    goal_slots: NDArray[np.int_]
    parameters: dict[str, Array]
    goal_parameters: dict[str, Array]

    def missing(self, geometry: SceneGeometry, cylinder: NDArray[np.bool_]) -> Array:
        scene = self.rows[:, 0]
        own, goal = (
            AtomContext(geometry, scene, slots, values, cylinder[scene[:, None], slots])
            for slots, values in ((self.slots, self.parameters), (self.goal_slots, self.goal_parameters))
        )
        return self.measure.missing(MeasureContext(own, goal, lookup(self.predicate)))


class CompiledPotential:
    """``Phi`` of the scenes ``specs``, in the order of a state's rows; ``potentials``: None for a scene's default.

    Raises:
        SpecError: a potential names what its scene does not hold, or the goal has no potential.
    """

    def __init__(self, specs: Sequence[EnvironmentSpec], potentials: Sequence[PotentialSpec | None] | None = None) -> None:
        given = list(potentials) if potentials is not None else [None] * len(specs)
        if len(given) != len(specs):
            raise SpecError(f"{len(given)} potentials for {len(specs)} scenes: expected one each")
        self.specs = tuple(specs)
        self.potentials = tuple(p or _default(spec) for p, spec in zip(given, specs, strict=True))
        self._goals = CompiledGoals(specs)
        self._parts = CompiledAtoms(specs, [[part.goal for part in p.parts] for p in self.potentials])
        shape = (len(specs), self._parts.width, max((len(q.stages) for p in self.potentials for q in p.parts), default=1))
        self._weight, self._scale, self._close = np.zeros(shape), np.ones(shape), np.ones(shape)
        self._gated = np.ones(shape, dtype=bool)
        self._counts = np.array([len(p.parts) for p in self.potentials], dtype=int)
        self._groups = self._compile()

    def __call__(self, state: SceneState) -> Array:
        """Potential in [0, 1], 1 exactly where the goal holds. Shape (n,)."""
        return self.evaluate(state)[0]

    def value(self, state: SceneState, terminal: NDArray[np.bool_]) -> Array:
        """The potential as chunk values need it: 0 at true ends. Shape (n,)."""
        return np.where(terminal, 0.0, self(state))

    def evaluate(self, state: SceneState) -> tuple[Array, NDArray[np.int_]]:
        """Potential, and the number of the stage under way, counted over all parts from 0; the number of
        stages where the goal holds. Shapes (n,), (n,)."""
        if state.n != len(self.specs):
            raise SpecError(f"state of {state.n} scenes, potential of {len(self.specs)}")
        missing = self._missing(state)
        done = 1.0 - np.clip(missing / self._scale, 0.0, 1.0)
        gate = 1.0 - np.clip(missing / self._close, 0.0, 1.0)
        completion = (1.0 - CLOSE_SHARE) * done + CLOSE_SHARE * gate
        open_until = np.cumprod(np.concatenate([np.ones_like(gate[..., :1]), gate[..., :-1]], axis=-1), axis=-1)
        open_until = np.where(self._gated, open_until, 1.0)
        part = np.minimum((self._weight * completion * open_until).sum(-1), NEARLY_ONE)
        fulfilled = self._parts.evaluate(state) | (np.arange(self._parts.width) >= self._counts[:, None])
        rows, now = np.arange(state.n), np.argmin(fulfilled, axis=1)
        complete = fulfilled.sum(1) - (self._parts.width - self._counts)
        value = np.minimum((complete + np.where(fulfilled.all(1), 0.0, part[rows, now])) / self._counts, NEARLY_ONE)
        held = self._goals.satisfied(self._goals.evaluate(state))
        return np.where(held, 1.0, value), np.where(held, self._stage_count(), self._stage(missing[rows, now], now))

    def _stage(self, missing: Array, now: NDArray[np.int_]) -> NDArray[np.int_]:
        lengths = (self._weight > 0).sum(-1)
        before = np.array([lengths[i, :part].sum() for i, part in enumerate(now)], dtype=int)
        last = lengths[np.arange(len(now)), now] - 1
        return before + np.where((missing > 0).any(-1), np.minimum((missing > 0).argmax(-1), last), last)

    def _stage_count(self) -> NDArray[np.int_]:
        return (self._weight > 0).sum((-1, -2))

    def _missing(self, state: SceneState) -> Array:
        cylinder = np.zeros(state.present.shape, dtype=bool)
        for i, spec in enumerate(self.specs):
            cylinder[i, : len(spec.entities)] = [getattr(e, "shape", "") in ROUND_SHAPES for e in spec.entities]
        geometry, result = SceneGeometry(state, cylinder), np.zeros(self._weight.shape)
        for group in self._groups:
            result[tuple(group.rows.T)] = group.missing(geometry, cylinder)
        return result

    def _compile(self) -> list[_Group]:
        groups: dict[tuple[str, str], list[tuple[tuple[int, int, int], PotentialStage, Atom]]] = defaultdict(list)
        for i, potential in enumerate(self.potentials):
            for k, part in enumerate(potential.parts):
                total = sum(stage.weight for stage in part.stages)
                for j, stage in enumerate(part.stages):
                    self._weight[i, k, j], self._scale[i, k, j] = stage.weight / total, stage.scale
                    self._close[i, k, j], self._gated[i, k, j] = stage.close, stage.gated
                    groups[stage.measure, part.goal.predicate].append(((i, k, j), stage, part.goal))
        return [self._group(MEASURES[name], predicate, rows) for (name, predicate), rows in groups.items()]

    def _group(self, measure: Measure, predicate: str, rows: list[tuple[tuple[int, int, int], PotentialStage, Atom]]) -> _Group:
        def slots(index: int) -> NDArray[np.int_]:
            return np.array([
                [_slot(self.specs[place[0]], arg) for arg in (stage, goal)[index].args] for place, stage, goal in rows
            ])

        def values(defaults: dict[str, float], given: list[dict[str, float]]) -> dict[str, Array]:
            return {key: np.array([g.get(key, default) for g in given], dtype=float) for key, default in defaults.items()}

        return _Group(
            measure, predicate, np.array([place for place, _, _ in rows]), slots(0), slots(1),
            values(measure.parameters, [stage.parameters for _, stage, _ in rows]),
            values(lookup(predicate).parameters, [goal.parameters for _, _, goal in rows]),
        )


def _slot(spec: EnvironmentSpec, name: str) -> int:
    spec.entity(name)
    return spec.entity_names.index(name)


def _default(spec: EnvironmentSpec) -> PotentialSpec:
    potential = potential_of(spec)
    if potential is None:
        raise SpecError(f"goal {spec.goal!r} has no potential: nothing is to become true")
    return potential
