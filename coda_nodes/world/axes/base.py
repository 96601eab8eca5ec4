"""How one parameter of the splits is read from a specification and written into it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Union

from coda_nodes.world.diagnosis import SCENE
from coda_nodes.world.errors import SpecError, unknown
from coda_nodes.world.spec import (
    AllOf,
    AnyOf,
    Atom,
    EnvironmentSpec,
    FixtureSpec,
    Goal,
    Not,
    ObjectSpec,
    atoms,
)

Value = Union[float, str, tuple[float, ...]]  # noqa: UP007 (evaluated at run time)
Get = Callable[[EnvironmentSpec, str], Union[Value, None]]  # noqa: UP007
Set = Callable[[EnvironmentSpec, str, Value], EnvironmentSpec]

ANY = "*"
"""Stands for every family in the registry."""


@dataclass(frozen=True)
class Access:
    """One parameter: the things that have it (or the scene), how it is read (None: it does not apply) and
    written."""

    things: Callable[[EnvironmentSpec], Sequence[str]]
    get: Get
    set: Set


REGISTRY: dict[tuple[str, str, str], Access] = {}
"""(family or ANY, axis, parameter) -> access."""


def whole_scene(_: EnvironmentSpec) -> Sequence[str]:
    """The scene itself."""
    return (SCENE,)


def register(axis: str, parameter: str, access: Access, family: str = ANY) -> None:
    """Add a parameter; one of a family goes before one of all families."""
    REGISTRY[family, axis, parameter] = access


def find_access(family: str, axis: str, parameter: str) -> Access:
    """Access to a parameter. Raises SpecError that lists those of the axis."""
    for owner in (family, ANY):
        if (owner, axis, parameter) in REGISTRY:
            return REGISTRY[owner, axis, parameter]
    known = sorted({name for owner, other, name in REGISTRY if other == axis and owner in (family, ANY)})
    raise SpecError(unknown(f"parameter of {family}.{axis}", parameter, known))


def number(value: Value, what: str) -> float:
    """``value`` as a number. Raises SpecError when it is none."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    raise SpecError(f"{what} {value!r}: expected a number")


def movables(spec: EnvironmentSpec) -> tuple[str, ...]:
    """Objects that move freely."""
    return tuple(item.name for item in spec.objects if item.role in ("object", "distractor"))


def task_things(spec: EnvironmentSpec) -> tuple[str, ...]:
    """Entities that the goal names, in its order."""
    return tuple(dict.fromkeys(arg for atom in atoms(spec.goal) for arg in atom.args))


def item(spec: EnvironmentSpec, name: str) -> ObjectSpec:
    """The object called ``name``. Raises SpecError when it is a fixture or does not exist."""
    entity = spec.entity(name)
    if not isinstance(entity, ObjectSpec):
        raise SpecError(f"{name!r} is a {entity.kind}, expected an object")
    return entity


def fixture(spec: EnvironmentSpec, name: str) -> FixtureSpec:
    """The fixture called ``name``. Raises SpecError when it is an object or does not exist."""
    entity = spec.entity(name)
    if not isinstance(entity, FixtureSpec):
        raise SpecError(f"{name!r} is an object, expected a fixture")
    return entity


def changed(spec: EnvironmentSpec, name: str, **changes: object) -> EnvironmentSpec:
    """A copy in which the entity ``name`` has other attributes."""
    return spec.replace_entity(spec.entity(name).model_copy(update=changes))


def map_goal(goal: Goal, change: Callable[[Atom], Atom]) -> Goal:
    """The same tree with every atom changed."""
    if isinstance(goal, Atom):
        return change(goal)
    if isinstance(goal, Not):
        return Not(negate=map_goal(goal.negate, change))
    if isinstance(goal, AnyOf):
        return AnyOf(any_of=tuple(map_goal(part, change) for part in goal.any_of))
    return AllOf(all_of=tuple(map_goal(part, change) for part in goal.all_of), ordered=goal.ordered)


def rename(spec: EnvironmentSpec, old: str, new: str) -> EnvironmentSpec:
    """Give an entity another name, in the goal and in the instruction too.

    Raises:
        SpecError: the new name is taken.
    """
    if new == old:
        return spec
    if new in spec.entity_names:
        raise SpecError(f"{old!r} cannot become {new!r}: the scene has one already")
    swap = lambda group: tuple(e.model_copy(update={"name": new}) if e.name == old else e for e in group)  # noqa: E731
    goal = map_goal(
        spec.goal,
        lambda atom: atom.model_copy(update={"args": tuple(new if a == old else a for a in atom.args)}),
    )
    instruction = re.sub(rf"\b{re.escape(old)}\b", new, spec.instruction)
    return spec.revise(
        objects=swap(spec.objects), fixtures=swap(spec.fixtures), goal=goal, instruction=instruction
    )


def without(spec: EnvironmentSpec, names: Sequence[str]) -> EnvironmentSpec:
    """A copy without some objects. Raises SpecError when the goal names one of them."""
    for name in names:
        if name in task_things(spec):
            raise SpecError(f"{name!r} cannot be removed: the task names it")
    return spec.revise(objects=tuple(entity for entity in spec.objects if entity.name not in names))
