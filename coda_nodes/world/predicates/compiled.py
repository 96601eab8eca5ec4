"""Atoms and goal trees of many scenes, compiled once into index arrays and evaluated together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from coda_nodes.world.errors import SpecError, unknown
from coda_nodes.world.families import family
from coda_nodes.world.predicates.base import AtomContext, Predicate, SceneGeometry, lookup
from coda_nodes.world.spec import AllOf, Atom, EnvironmentSpec, Goal, Not, atoms
from coda_nodes.world.state import SceneState

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

HOLD_STEPS = 5
"""Control steps in a row over which a goal must hold to count as success."""
ROUND_SHAPES = ("cylinder", "plate")


def atom_text(atom: Atom) -> str:
    """``inside(red cube, blue bin)``, parameters that differ from the defaults after a semicolon."""
    values = ", ".join(f"{key}={value:g}" for key, value in sorted(atom.parameters.items()))
    return f"{atom.predicate}({', '.join(atom.args)}{'; ' + values if values else ''})"


@dataclass(frozen=True)
class _Group:
    """All atoms of one predicate."""

    predicate: Predicate
    scene: NDArray[np.int_]
    column: NDArray[np.int_]
    slots: NDArray[np.int_]
    parameters: dict[str, Array]
    cylinder: Mask

    def context(self, geometry: SceneGeometry) -> AtomContext:
        return AtomContext(geometry, self.scene, self.slots, self.parameters, self.cylinder)


class CompiledAtoms:
    """Any atoms over any scenes: ``atoms[i]`` concern ``specs[i]``; results are padded to the longest list.

    Raises:
        SpecError: unknown predicate, entity or parameter, or the wrong number of arguments.
    """

    def __init__(self, specs: Sequence[EnvironmentSpec], atom_lists: Sequence[Sequence[Atom]]) -> None:
        self.specs = tuple(specs)
        self.atoms = tuple(tuple(row) for row in atom_lists)
        self.atom_names = tuple(tuple(atom_text(atom) for atom in row) for row in self.atoms)
        self.width = max((len(row) for row in self.atoms), default=0)
        self._groups = self._compile()
        self._round: dict[int, Mask] = {}

    def evaluate(self, state: SceneState) -> Mask:
        """Truth of every atom; False where padded. ``state`` holds the scenes in the order given. Shape (n,
        P)."""
        geometry = SceneGeometry(state, self._cylinder(state))
        result = np.zeros((len(self.specs), self.width), dtype=bool)
        for group in self._groups:
            result[group.scene, group.column] = group.predicate.truth(group.context(geometry))
        return result

    def progress(self, state: SceneState) -> Array:
        """Progress of every atom in [0, 1], 1 exactly where true; 0 where padded. Shape (n, P)."""
        geometry = SceneGeometry(state, self._cylinder(state))
        result = np.zeros((len(self.specs), self.width))
        for group in self._groups:
            result[group.scene, group.column] = group.predicate.progress(group.context(geometry))
        return result

    def _cylinder(self, state: SceneState) -> Mask:
        slots = state.present.shape[1]
        if slots not in self._round:
            mask = np.zeros((len(self.specs), slots), dtype=bool)
            for i, spec in enumerate(self.specs):
                for k, entity in enumerate(spec.entities):
                    mask[i, k] = getattr(entity, "shape", "") in ROUND_SHAPES
            self._round[slots] = mask
        return self._round[slots]

    def _compile(self) -> list[_Group]:
        rows: dict[str, list[tuple[int, int, Atom]]] = defaultdict(list)
        for i, row in enumerate(self.atoms):
            for column, atom in enumerate(row):
                _check(atom, self.specs[i])
                rows[atom.predicate].append((i, column, atom))
        return [self._group(lookup(name), entries) for name, entries in rows.items()]

    def _group(self, predicate: Predicate, entries: list[tuple[int, int, Atom]]) -> _Group:
        scene = np.array([i for i, _, _ in entries])
        slots = np.array(
            [[self.specs[i].entity_names.index(arg) for arg in atom.args] for i, _, atom in entries]
        )
        parameters = {
            key: np.array([atom.parameters.get(key, default) for _, _, atom in entries], dtype=float)
            for key, default in predicate.parameters.items()
        }
        shapes = [
            [getattr(self.specs[i].entity(arg), "shape", "") for arg in atom.args] for i, _, atom in entries
        ]
        column = np.array([column for _, column, _ in entries])
        return _Group(
            predicate,
            scene,
            column,
            slots.reshape(len(entries), -1),
            parameters,
            np.isin(shapes, ROUND_SHAPES),
        )


def _check(atom: Atom, spec: EnvironmentSpec) -> None:
    predicate = lookup(atom.predicate)
    if len(atom.args) != predicate.arity:
        raise SpecError(
            f"{atom_text(atom)}: {atom.predicate} takes {predicate.arity} arguments, got {len(atom.args)}"
        )
    for key in atom.parameters:
        if key not in predicate.parameters:
            raise SpecError(f"{atom_text(atom)}: {unknown('parameter', key, predicate.parameters)}")
    for arg in atom.args:
        spec.entity(arg)


class CompiledGoals(CompiledAtoms):
    """Goals and stages of many scenes. Columns: the atoms of the goal, then those of
    the stages not among them."""

    hold_steps = HOLD_STEPS

    def __init__(self, specs: Sequence[EnvironmentSpec]) -> None:
        rows = []
        for spec in specs:
            stage_atoms = [stage.atom for stage in family(spec.family).stages(spec)]
            rows.append(list(dict.fromkeys(map(_key, [*atoms(spec.goal), *stage_atoms]))))
        super().__init__(specs, [[_atom(key) for key in row] for row in rows])
        clauses = [_clauses(spec.goal, self.atoms[i]) for i, spec in enumerate(specs)]
        count = max((len(row) for row in clauses), default=1)
        self._wanted = np.zeros((len(specs), count, self.width), dtype=bool)
        self._unwanted = np.zeros_like(self._wanted)
        for i, row in enumerate(clauses):
            for c in range(count):
                wanted, unwanted = row[min(c, len(row) - 1)]
                self._wanted[i, c, list(wanted)] = True
                self._unwanted[i, c, list(unwanted)] = True
        self._before = _order_matrix(specs, self.atoms, self.width)

    def satisfied(self, truth: Mask) -> Mask:
        """Whether each goal tree holds now, order aside. ``truth`` (n, P) or (n, steps, P); Shape (n,) or
        (n, steps)."""
        if truth.ndim == 3:
            return np.stack([self.satisfied(truth[:, k]) for k in range(truth.shape[1])], axis=1)
        now = truth[:, None, :]
        return ((now | ~self._wanted) & ~(now & self._unwanted)).all(-1).any(-1)

    def initial_memory(self) -> NDArray[np.int32]:
        """Memory before the first step: steps held, order broken, then whether each atom has ever been true.

        Shape (n, 2 + P). Plain integers, so that it can be stored and restored beside the physics.
        """
        return np.zeros((len(self.specs), 2 + self.width), dtype=np.int32)

    def advance(self, memory: NDArray[np.int32], truth: Mask) -> NDArray[np.int32]:
        """Memory after one more control step with ``truth`` (n, P). An ordered conjunction is broken for
        good by an
        atom that becomes true before one that must come earlier has ever been."""
        result = memory.copy()
        seen = memory[:, 2:].astype(bool)
        early = truth & ~seen & (self._before & ~(seen | truth)[:, None, :]).any(-1)
        result[:, 1] |= early.any(-1)
        result[:, 2:] |= truth
        result[:, 0] = np.where(self.satisfied(truth), memory[:, 0] + 1, 0)
        return result

    def succeeded(self, memory: NDArray[np.int32]) -> Mask:
        """Whether the goal has held for ``hold_steps`` and in order. Shape (n,)."""
        return (memory[:, 0] >= self.hold_steps) & (memory[:, 1] == 0)


def _key(atom: Atom) -> tuple:
    return atom.predicate, atom.args, tuple(sorted(atom.parameters.items()))


def _atom(key: tuple) -> Atom:
    return Atom(predicate=key[0], args=key[1], parameters=dict(key[2]))


def _clauses(goal: Goal, row: Sequence[Atom]) -> list[tuple[frozenset[int], frozenset[int]]]:
    """Disjunctive normal form: (columns that must be true, columns that must be false) per clause."""
    if isinstance(goal, Atom):
        return [(frozenset([_column(goal, row)]), frozenset())]
    if isinstance(goal, Not):
        literals = [
            [
                *((frozenset(), frozenset([c])) for c in wanted),
                *((frozenset([c]), frozenset()) for c in unwanted),
            ]
            for wanted, unwanted in _clauses(goal.negate, row)
        ]
        return _conjunction(literals)
    if isinstance(goal, AllOf):
        return _conjunction([_clauses(part, row) for part in goal.all_of])
    return [clause for part in goal.any_of for clause in _clauses(part, row)]


def _conjunction(parts: list[list[tuple[frozenset, frozenset]]]) -> list[tuple[frozenset, frozenset]]:
    return [
        (
            frozenset().union(*(wanted for wanted, _ in choice)),
            frozenset().union(*(unwanted for _, unwanted in choice)),
        )
        for choice in product(*parts)
    ]


def _column(atom: Atom, row: Sequence[Atom]) -> int:
    return [_key(other) for other in row].index(_key(atom))


def _order_matrix(specs: Sequence[EnvironmentSpec], rows: Sequence[Sequence[Atom]], width: int) -> Mask:
    """``[i, a, b]``: in scene i, atom b must have been true before atom a. Shape (n, P, P)."""
    before = np.zeros((len(specs), width, width), dtype=bool)
    for i, spec in enumerate(specs):
        for earlier, later in _ordered_pairs(spec.goal):
            before[i, _column(later, rows[i]), _column(earlier, rows[i])] = True
    return before


def _ordered_pairs(goal: Goal) -> list[tuple[Atom, Atom]]:
    if not isinstance(goal, AllOf):
        return []
    pairs = [pair for part in goal.all_of for pair in _ordered_pairs(part)]
    if goal.ordered:
        for first, second in pairwise(goal.all_of):
            pairs += list(product(atoms(first), atoms(second)))
    return pairs
