"""Parameters of tasks made of named parts (drawers, knobs, pushing, inserting): what is asked for, where
joints start."""

from __future__ import annotations

from collections.abc import Sequence

from coda_nodes.world.axes.base import (
    Access,
    Value,
    changed,
    fixture,
    number,
    register,
    whole_scene,
)
from coda_nodes.world.axes.things import WORDS
from coda_nodes.world.axes.words import NUMBERED, SINGLE, phrasing_of, rephrase, subjects
from coda_nodes.world.errors import SpecError, unknown
from coda_nodes.world.spec import EnvironmentSpec


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
    goal, horizon = module.goal_of(parts, *subjects(spec)), sum(module.HORIZONS[part] for part in parts)
    result = _undone(spec.revise(goal=goal, horizon=horizon), parts)
    return rephrase(result, 0.0 if phrase is None else phrase)


NEEDS = {
    "open": ("drawer", 0),
    "close": ("drawer", 1),
    "put_in": ("drawer", 1),
    "turn_on": ("knob", 0),
    "turn_off": ("knob", 1),
}
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
    """Share of its range at which a fixture starts: from the end its task needs, or as such where no task
    concerns it."""

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


for _family in NUMBERED:
    register(
        "instruction",
        "phrase",
        Access(whole_scene, lambda spec, _: phrasing_of(spec), lambda spec, _, v: rephrase(spec, v)),
        _family,
    )
    register("instruction", "task", Access(whole_scene, _task, _set_task), _family)
    register("composition", "steps", Access(whole_scene, _steps_named, _set_steps_named), _family)
for _kind in ("drawer", "knob"):
    register("position", f"{_kind}_start", _start_share(_kind, True), "articulated")
    register("position", f"{_kind}_idle", _start_share(_kind, False), "articulated")
