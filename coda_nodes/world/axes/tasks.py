"""Parameters of instruction and composition: what goes where, in which words, in how many steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from coda_nodes.world.axes.base import (
    Access,
    Value,
    changed,
    map_goal,
    movables,
    number,
    register,
    rename,
    task_things,
    whole_scene,
    without,
)
from coda_nodes.world.axes.things import WORDS
from coda_nodes.world.axes.words import phrasing_of, rephrase
from coda_nodes.world.errors import SpecError, unknown
from coda_nodes.world.families import pick_place, stack
from coda_nodes.world.families.base import RECEPTACLES, pairing
from coda_nodes.world.spec import AllOf, Atom, EnvironmentSpec, Goal, atoms


def _with_goals(spec: EnvironmentSpec, goals: Sequence[Atom], horizon: int) -> EnvironmentSpec:
    """The first steps of a task only; what no remaining step names and can be moved is taken away."""
    before = task_things(spec)
    goal: Goal = (
        goals[0]
        if len(goals) == 1
        else AllOf(all_of=tuple(goals), ordered=getattr(spec.goal, "ordered", False))
    )
    shorter = spec.revise(goal=goal, horizon=horizon)
    dropped = [name for name in before if name not in task_things(shorter) and name in movables(spec)]
    return without(shorter, dropped)


def _steps(
    per_step: int, fixed: int, counted: Callable[[EnvironmentSpec], int], kept: Callable[[Atom], bool]
) -> Access:
    """Number of steps of a task; fewer are reached by dropping the last ones."""

    def put(spec: EnvironmentSpec, _: str, value: Value) -> EnvironmentSpec:
        goals, drop = list(atoms(spec.goal)), counted(spec) - number(value, "steps")
        if drop != int(drop) or drop < 0 or counted(spec) - drop < 1 or drop >= len(goals):
            raise SpecError(
                f"{len(goals)} steps are asked for; steps can only be dropped, not made {value!r}"
            )
        if drop and not all(kept(goal) for goal in goals[len(goals) - int(drop) :]):
            raise SpecError(f"the last of {len(goals)} steps cannot be dropped")
        goals = goals[: len(goals) - int(drop)]
        return _with_goals(spec, goals, fixed + per_step * len(goals))

    return Access(whole_scene, lambda spec, _: float(counted(spec)), put)


def _levels(spec: EnvironmentSpec) -> int:
    """Objects of a tower."""
    return 1 + sum(atom.predicate == "stacked_on" for atom in atoms(spec.goal))


def _base(spec: EnvironmentSpec, _: str) -> str:
    return "plate" if any(atom.predicate == "on" for atom in atoms(spec.goal)) else "table"


def _set_base(spec: EnvironmentSpec, name: str, value: Value) -> EnvironmentSpec:
    if value == _base(spec, name):
        return spec
    if value != "table":
        raise SpecError(f"base {value!r}: a tower can only be put on the table, no plate is added")
    goals = [atom for atom in atoms(spec.goal) if atom.predicate != "on"]
    lower = _with_goals(spec, goals, stack.STEPS_FIXED + stack.STEPS_PER_LEVEL * len(goals))
    return without(lower, [plate for plate in WORDS["plate"](lower) if plate not in task_things(lower)])


def _paired(spec: EnvironmentSpec) -> tuple[str, ...]:
    """Things whose destination a pairing concerns."""
    return tuple(atom.args[0] for atom in atoms(spec.goal) if _pairs_up(spec, atom))


def _pairs_up(spec: EnvironmentSpec, atom: Atom) -> bool:
    return len(atom.args) == 2 and not (spec.family == "stack" and atom.predicate == "on")


def _step_of(spec: EnvironmentSpec, name: str) -> Atom:
    for atom in atoms(spec.goal):
        if atom.args[0] == name and _pairs_up(spec, atom):
            return atom
    raise SpecError(unknown("thing with a destination", name, _paired(spec)))


def _pairing(spec: EnvironmentSpec, name: str) -> float | None:
    try:
        return float(pairing(*_step_of(spec, name).args))
    except ValueError:  # a colour or receptacle outside the numbered ones
        return None


def retarget(spec: EnvironmentSpec, name: str, subject: str, target: str) -> EnvironmentSpec:
    """In the step about ``name``, ask for ``subject`` to go to ``target`` instead; roles follow.

    Raises:
        SpecError: a thing asked for twice, or one that is not there.
    """
    old = _step_of(spec, name)
    predicate = (
        "stacked_on"
        if spec.family == "stack"
        else pick_place.PREDICATE.get(target.split()[-1], old.predicate)
    )
    new = old.model_copy(update={"predicate": predicate, "args": (subject, target)})
    goals = [new if atom == old else atom for atom in atoms(spec.goal)]
    if len({goal.args[0] for goal in goals}) < len(goals) or subject == target:
        raise SpecError(f"{subject!r} to {target!r}: asked for already")
    phrasing = phrasing_of(spec)
    result = spec.revise(goal=map_goal(spec.goal, lambda atom: new if atom == old else atom))
    asked = task_things(result)
    roles = {True: "object", False: "distractor"}
    objects = [
        e.model_copy(update={"role": roles[e.name in asked]}) if e.name in movables(spec) else e
        for e in spec.objects
    ]
    result = result.revise(objects=tuple(objects))
    return result if phrasing is None else rephrase(result, phrasing)


def _set_pairing(spec: EnvironmentSpec, name: str, value: Value) -> EnvironmentSpec:
    """Ask for a pair of the wanted class: the same thing to another place first, then another thing."""
    wanted, old = number(value, "pairing"), _step_of(spec, name)
    if len(list(atoms(spec.goal))) > 1 and spec.family == "stack":
        raise SpecError("pairing: a tower of several steps keeps its order")
    others = [a.args[0] for a in atoms(spec.goal) if a != old]
    targets = movables(spec) if spec.family == "stack" else WORDS["receptacle"](spec)
    pairs = [(s, t) for s, t in product(movables(spec), targets) if s != t and s not in others]
    pairs.sort(key=lambda pair: (pair != old.args, pair[0] != name, pair[1] != old.args[1]))
    for subject, target in pairs:
        if _numbered(subject, target) == wanted:
            return retarget(spec, name, subject, target)
    raise SpecError(f"pairing {value!r}: no two things of the scene make one")


def _numbered(subject: str, target: str) -> float | None:
    try:
        return float(pairing(subject, target))
    except ValueError:
        return None


def _set_receptacle(spec: EnvironmentSpec, name: str, value: Value) -> EnvironmentSpec:
    """Another receptacle of the same kind in its place."""
    new = str(value)
    if new not in RECEPTACLES:
        raise SpecError(unknown("receptacle", new, RECEPTACLES))
    if new.split()[-1] != name.split()[-1]:
        raise SpecError(f"{name!r} cannot become {new!r}: expected another {name.split()[-1]}")
    return rename(changed(spec, name, color=new.split()[0]), name, new)


for _family in ("pick_place", "stack"):
    register(
        "instruction",
        "phrasing",
        Access(whole_scene, lambda spec, _: phrasing_of(spec), lambda spec, _, v: rephrase(spec, v)),
        _family,
    )
    register("instruction", "pairing", Access(_paired, _pairing, _set_pairing), _family)
for _name in ("receptacle", "plate"):
    register("objects", _name, Access(WORDS[_name], lambda spec, name: name, _set_receptacle))
register(
    "composition",
    "steps",
    _steps(
        pick_place.STEPS_PER_PART,
        pick_place.STEPS_FIXED,
        lambda spec: len(list(atoms(spec.goal))),
        lambda goal: True,
    ),
    "pick_place",
)
register(
    "composition",
    "height",
    _steps(stack.STEPS_PER_LEVEL, stack.STEPS_FIXED, _levels, lambda goal: goal.predicate == "stacked_on"),
    "stack",
)
register("composition", "base", Access(whole_scene, _base, _set_base), "stack")
