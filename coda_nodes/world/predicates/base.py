"""What a predicate is: terms that each measure how far one of its conditions is from holding.

Truth is that all terms hold; progress is the weighted mean of how near each is, so the two cannot disagree:
progress is 1 exactly where truth is. A term is linear far from its condition and flattens within SOFTNESS
of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from coda_nodes.world.errors import SpecError, unknown
from coda_nodes.world.geometry import rotation_matrices, world_extents
from coda_nodes.world.state import SceneState

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

SOFTNESS = 0.05
"""Share of a term's scale over which progress bends from flat to linear."""


@dataclass(frozen=True)
class Term:
    """One condition: ``residual`` (m,) is what is missing beyond the tolerance (holds where <= 0), in the
    unit of
    ``scale``, the residual at which progress of this term is 0. ``weight`` is relative to the predicate's
    other terms."""

    residual: Array
    scale: float
    weight: float = 1.0

    @staticmethod
    def flag(holds: Mask, weight: float = 0.2) -> Term:
        """A condition that holds or does not."""
        return Term(np.where(holds, 0.0, 1.0), 1.0, weight)

    def progress(self) -> Array:
        """1 where the condition holds, falling to 0 at ``scale``. Shape (m,)."""
        missing = np.clip(self.residual / self.scale, 0.0, 1.0)
        return 1.0 - missing * missing / (missing + SOFTNESS) * (1.0 + SOFTNESS)


NEARLY_ONE = float(np.nextafter(1.0, 0.0))
"""Most that progress can be where truth does not hold."""


class SceneGeometry:
    """Rotations and extents of all entities of a state, computed once per evaluation."""

    def __init__(self, state: SceneState, cylinder: Mask) -> None:
        self.state = state
        self._cylinder = cylinder

    @cached_property
    def rotation(self) -> Array:
        """Shape (n, K, 3, 3)."""
        return rotation_matrices(self.state.entity_quaternion_xyzw)

    @cached_property
    def extents(self) -> Array:
        """Half extents along the world's axes [m]. Shape (n, K, 3)."""
        return world_extents(self.rotation, self.state.entity_half_extents, self._cylinder)


@dataclass(frozen=True)
class AtomContext:
    """``m`` atoms of one predicate: which scene each concerns, which entity slots, which parameters."""

    geometry: SceneGeometry
    scene: NDArray[np.int_]
    """Row of the state. Shape (m,)."""
    slots: NDArray[np.int_]
    """Entity slot of each argument. Shape (m, arity)."""
    parameters: dict[str, Array]
    """Shape (m,) each."""
    cylinder: Mask
    """Whether the argument is round about its z axis. Shape (m, arity)."""

    @property
    def state(self) -> SceneState:
        """The whole state."""
        return self.geometry.state

    def entity(self, array: NDArray, argument: int = 0) -> NDArray:
        """Rows of a per-entity array (n, K, ...) for one argument. Shape (m, ...)."""
        return array[self.scene, self.slots[:, argument]]

    def position(self, argument: int = 0) -> Array:
        """[m]. Shape (m, 3)."""
        return self.entity(self.state.entity_position_base, argument)

    def half_extents(self, argument: int = 0) -> Array:
        """Along the entity's own axes [m]. Shape (m, 3)."""
        return self.entity(self.state.entity_half_extents, argument)

    def rotation(self, argument: int = 0) -> Array:
        """Shape (m, 3, 3)."""
        return self.entity(self.geometry.rotation, argument)

    def extents(self, argument: int = 0) -> Array:
        """Half extents along the world's axes [m]. Shape (m, 3)."""
        return self.entity(self.geometry.extents, argument)

    def tool(self) -> Array:
        """Tool position [m]. Shape (m, 3)."""
        return self.state.tool_position_base[self.scene]

    def touching(self) -> Mask:
        """Whether the first two arguments touch. Shape (m,)."""
        return self.state.contact[self.scene, self.slots[:, 0], self.slots[:, 1]]

    def in_frame(self, point: Array, argument: int) -> Array:
        """World points (m, 3) [m] in the argument's own frame."""
        return np.einsum("mji,mj->mi", self.rotation(argument), point - self.position(argument))

    def extents_in_frame(self, argument: int, frame: int) -> Array:
        """Half extents of one argument along the axes of another [m]. Shape (m, 3)."""
        relative = np.einsum("mji,mjk->mik", self.rotation(frame), self.rotation(argument))
        return world_extents(relative, self.half_extents(argument), self.cylinder[:, argument])


@dataclass(frozen=True)
class Predicate:
    """A named relation with its parameters' defaults; ``terms`` computes all its conditions for a context."""

    name: str
    arity: int
    parameters: dict[str, float]
    terms: Callable[[AtomContext], Sequence[Term]]
    doc: str

    def truth(self, context: AtomContext) -> Mask:
        """Whether every term holds. Shape (m,)."""
        return np.logical_and.reduce([term.residual <= 0 for term in self.terms(context)])

    def progress(self, context: AtomContext) -> Array:
        """Weighted mean of the terms' progress, 1 exactly where true. Shape (m,)."""
        terms = self.terms(context)
        total = sum(term.weight for term in terms)
        mean = sum(term.progress() * (term.weight / total) for term in terms)
        holds = np.logical_and.reduce([term.residual <= 0 for term in terms])
        # the rounded sum of weights may miss 1, or reach it a hair too early
        return np.where(holds, 1.0, np.minimum(mean, NEARLY_ONE))


PREDICATES: dict[str, Predicate] = {}


def predicate(name: str, arity: int, **parameters: float) -> Callable[[Callable], Callable]:
    """Register the decorated function of an AtomContext as the terms of predicate ``name``."""

    def register(terms: Callable[[AtomContext], Sequence[Term]]) -> Callable[[AtomContext], Sequence[Term]]:
        PREDICATES[name] = Predicate(name, arity, parameters, terms, " ".join((terms.__doc__ or "").split()))
        return terms

    return register


def lookup(name: str) -> Predicate:
    """Return a predicate. Raises SpecError that lists those there are."""
    if name not in PREDICATES:
        raise SpecError(unknown("predicate", name, sorted(PREDICATES)))
    return PREDICATES[name]
