"""Parameters of instruction and composition: what is asked for, in which words, in how many steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from types import ModuleType

from coda_nodes.world.axes.base import (
    Access,
    Value,
    changed,
    fixture,
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
from coda_nodes.world.errors import ConfigError, SpecError, unknown
from coda_nodes.world.families import articulated, pick_place, push_insert, stack
from coda_nodes.world.families.base import RECEPTACLES, pairing
from coda_nodes.world.instructions import clause, find_phrasing, sentence
from coda_nodes.world.spec import AllOf, Atom, EnvironmentSpec, Goal, atoms

SINGLE = "single"
"""Value of ``steps`` where one task is asked for alone."""
NUMBERED: dict[str, ModuleType] = {"articulated": articulated, "push_insert": push_insert}
"""Families whose templates belong to parts of the task and are numbered."""


def phrasing_of(spec: EnvironmentSpec) -> Value | None:
    """The template behind the instruction: its name or number; None for free words."""
    if spec.family in NUMBERED:
        count = len(next(iter(NUMBERED[spec.family].TEMPLATES.values())))
        numbers = [n for n in range(count) if _worded(spec, float(n)) == spec.instruction]
        return float(numbers[0]) if numbers else None
    return find_phrasing(spec.family, spec.instruction, _names(spec))


def rephrase(spec: EnvironmentSpec, value: Value) -> EnvironmentSpec:
    """The same request by another template. Raises SpecError for a template the family has not."""
    return spec.revise(instruction=_worded(spec, value))


def _names(spec: EnvironmentSpec) -> list[dict[str, str]]:
    return [{"object": atom.args[0], "target": atom.args[-1]} for atom in atoms(spec.goal)]


def _worded(spec: EnvironmentSpec, value: Value) -> str:
    if spec.family not in NUMBERED:
        try:
            return sentence([clause(spec.family, str(value), **names) for names in _names(spec)])
        except ConfigError as error:
            raise SpecError(str(error)) from error
    module = NUMBERED[spec.family]
    parts, index = module.task_parts(spec.goal), int(number(value, "phrase"))
    if not all(0 <= index < len(module.TEMPLATES[part]) for part in parts):
        raise SpecError(f"phrase {value!r}: expected 0 to {len(module.TEMPLATES[parts[0]]) - 1}")
    return str(module.instruction(parts, index, *_subjects(spec)))


def _subjects(spec: EnvironmentSpec) -> tuple[str, ...]:
    """The thing that numbered templates name, and the peg where the family has one."""
    asked = [name for name in (*task_things(spec), *_ordered_objects(spec)) if name in movables(spec)]
    things = [name for name in asked if name in WORDS["object"](spec)]
    if spec.family != "push_insert":
        return tuple(things[:1])
    return (*things[:1], *[name for name in asked if name in WORDS["peg"](spec)][:1])


def _ordered_objects(spec: EnvironmentSpec) -> list[str]:
    """Objects, those with the role ``object`` first."""
    return [entity.name for entity in sorted(spec.objects, key=lambda entity: entity.role != "object")]


def _with_goals(spec: EnvironmentSpec, goals: Sequence[Atom], horizon: int) -> EnvironmentSpec:
    """The first steps of a task only; what no remaining step names and can be moved is taken away."""
    before = task_things(spec)
    goal: Goal = goals[0] if len(goals) == 1 else AllOf(all_of=tuple(goals), ordered=getattr(spec.goal, "ordered", False))
    shorter = spec.revise(goal=goal, horizon=horizon)
    dropped = [name for name in before if name not in task_things(shorter) and name in movables(spec)]
    return without(shorter, dropped)


def _steps(per_step: int, fixed: int, counted: Callable[[EnvironmentSpec], int], kept: Callable[[Atom], bool]) -> Access:
    """Number of steps of a task; fewer are reached by dropping the last ones."""

    def put(spec: EnvironmentSpec, _: str, value: Value) -> EnvironmentSpec:
        goals, drop = list(atoms(spec.goal)), counted(spec) - number(value, "steps")
        if drop != int(drop) or drop < 0 or counted(spec) - drop < 1 or drop >= len(goals):
            raise SpecError(f"{len(goals)} steps are asked for; steps can only be dropped, not made {value!r}")
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
    predicate = "stacked_on" if spec.family == "stack" else pick_place.PREDICATE.get(target.split()[-1], old.predicate)
    new = old.model_copy(update={"predicate": predicate, "args": (subject, target)})
    goals = [new if atom == old else atom for atom in atoms(spec.goal)]
    if len({goal.args[0] for goal in goals}) < len(goals) or subject == target:
        raise SpecError(f"{subject!r} to {target!r}: asked for already")
    phrasing = phrasing_of(spec)
    result = spec.revise(goal=map_goal(spec.goal, lambda atom: new if atom == old else atom))
    asked = task_things(result)
    roles = {True: "object", False: "distractor"}
    objects = [e.model_copy(update={"role": roles[e.name in asked]}) if e.name in movables(spec) else e for e in spec.objects]
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


def _steps_named(spec: EnvironmentSpec, _: str) -> str:
    parts = NUMBERED[spec.family].task_parts(spec.goal)
    return SINGLE if len(parts) == 1 else "+".join(parts)


def _set_steps_named(spec: EnvironmentSpec, _: str, value: Value) -> EnvironmentSpec:
    parts = NUMBERED[spec.family].task_parts(spec.goal)
    return _asking(spec, parts[:1] if value == SINGLE else tuple(str(value).split("+")))


def _task(spec: EnvironmentSpec, _: str) -> str | None:
    parts = NUMBERED[spec.family].task_parts(spec.goal)
    return str(parts[0]) if len(parts) == 1 else None


def _set_task(spec: EnvironmentSpec, _: str, value: Value) -> EnvironmentSpec:
    if _task(spec, _) is None:
        raise SpecError(f"task {value!r}: several steps are asked for; make them single first")
    return _asking(spec, (str(value),))


def _asking(spec: EnvironmentSpec, parts: tuple[str, ...]) -> EnvironmentSpec:
    """Ask for other parts of a numbered family; joints that leave nothing to do start at their other end."""
    module = NUMBERED[spec.family]
    for part in parts:
        if part not in module.TEMPLATES:
            raise SpecError(unknown(f"task of {spec.family}", part, module.TEMPLATES))
    phrase = phrasing_of(spec)
    goal, horizon = module.goal_of(parts, *_subjects(spec)), sum(module.HORIZONS[part] for part in parts)
    result = _undone(spec.revise(goal=goal, horizon=horizon), parts)
    return rephrase(result, 0.0 if phrase is None else phrase)


NEEDS = {"open": ("drawer", 0), "close": ("drawer", 1), "put_in": ("drawer", 1), "turn_on": ("knob", 0), "turn_off": ("knob", 1)}
"""Part -> fixture and the end of its range from which there is something to do."""


def _undone(spec: EnvironmentSpec, parts: Sequence[str]) -> EnvironmentSpec:
    first: dict[str, int] = {}
    for part in parts:
        if part in NEEDS:
            first.setdefault(*NEEDS[part])
    for kind, end in first.items():
        for name in WORDS[kind](spec):
            joint = fixture(spec, name)
            low, high = joint.joint_range
            share = (joint.joint_value - low) / (high - low)
            if abs(share - end) > 0.5:
                spec = changed(spec, name, joint_value=low + (1 - share) * (high - low))
    return spec


def _start_share(kind: str, concerned: bool) -> Access:
    """Share of its range at which a fixture starts: from the end its task needs, or as such where no task concerns it."""

    def end_of(spec: EnvironmentSpec) -> int | None:
        parts = NUMBERED[spec.family].task_parts(spec.goal)
        ends = [NEEDS[part][1] for part in parts if part in NEEDS and NEEDS[part][0] == kind]
        return ends[0] if ends else None

    def get(spec: EnvironmentSpec, name: str) -> float | None:
        end = end_of(spec)
        if (end is not None) != concerned:
            return None
        low, high = fixture(spec, name).joint_range
        share = (fixture(spec, name).joint_value - low) / (high - low)
        return 1 - share if end == 1 else share

    def put(spec: EnvironmentSpec, name: str, value: Value) -> EnvironmentSpec:
        share = number(value, "share of the joint's range")
        low, high = fixture(spec, name).joint_range
        share = 1 - share if end_of(spec) == 1 else share
        return changed(spec, name, joint_value=low + share * (high - low))

    return Access(WORDS[kind], get, put)


for _family in ("pick_place", "stack"):
    register("instruction", "phrasing", Access(whole_scene, lambda spec, _: phrasing_of(spec), lambda spec, _, v: rephrase(spec, v)), _family)
    register("instruction", "pairing", Access(_paired, _pairing, _set_pairing), _family)
for _name in ("receptacle", "plate"):
    register("objects", _name, Access(WORDS[_name], lambda spec, name: name, _set_receptacle))
for _family in NUMBERED:
    register("instruction", "phrase", Access(whole_scene, lambda spec, _: phrasing_of(spec), lambda spec, _, v: rephrase(spec, v)), _family)
    register("instruction", "task", Access(whole_scene, _task, _set_task), _family)
    register("composition", "steps", Access(whole_scene, _steps_named, _set_steps_named), _family)
for _kind in ("drawer", "knob"):
    register("position", f"{_kind}_start", _start_share(_kind, True), "articulated")
    register("position", f"{_kind}_idle", _start_share(_kind, False), "articulated")
register(
    "composition", "steps",
    _steps(pick_place.STEPS_PER_PART, pick_place.STEPS_FIXED, lambda spec: len(list(atoms(spec.goal))), lambda goal: True),
    "pick_place",
)
register("composition", "height", _steps(stack.STEPS_PER_LEVEL, stack.STEPS_FIXED, _levels, lambda goal: goal.predicate == "stacked_on"), "stack")
register("composition", "base", Access(whole_scene, _base, _set_base), "stack")
