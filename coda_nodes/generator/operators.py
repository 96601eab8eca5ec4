"""What the operators of generation programs do to a sampled scene (those of ``world.operators``, one function
each).

Every function takes a valid scene and returns another, with name, goal and instruction consistent; it raises
ValidityError with the reason where this scene does not offer what the operator needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from coda_nodes.generator.placing import add_beside, occluder, similar_item, some_item
from coda_nodes.generator.starts import start_past
from coda_nodes.generator.values import move_number, parameter_of, write
from coda_nodes.world.axes import things
from coda_nodes.world.axes.base import find_access, map_goal, movables
from coda_nodes.world.errors import ValidityError, unknown
from coda_nodes.world.families import family
from coda_nodes.world.operators import (
    COMPOSITION,
    PHRASING,
    AddDistractor,
    Compose,
    Occlude,
    OffsetStart,
    OperatorData,
    PerturbCamera,
    Recolor,
    Redraw,
    Rephrase,
    Rescale,
    Reshape,
    Retarget,
    Reweigh,
    ShiftRegion,
    StartPastStage,
    SwapRoles,
    named,
)
from coda_nodes.world.programs import bound, within
from coda_nodes.world.ranges import Allowed, Choices, FamilyRanges, Range
from coda_nodes.world.spec import Atom, EnvironmentSpec

Rng = np.random.Generator
SCENE = "scene"


def in_role(spec: EnvironmentSpec, role: str, rng: Rng) -> str:
    """Name of the thing in a role; of several distractors a random one. Raises ValidityError that lists the
    roles."""
    if role == "distractor":
        names = things.WORDS["distractor"](spec) or tuple(
            e.name for e in spec.objects if e.role == "distractor"
        )
        if not names:
            raise ValidityError("the scene has no distractor")
        return names[int(rng.integers(len(names)))]
    roles = family(spec.family).roles(spec)
    if role not in roles:
        raise ValidityError(unknown("role in this task", role, roles))
    return roles[role]


def _numbers(
    spec: EnvironmentSpec, op: Any, probe: FamilyRanges, rng: Rng, thing: str, fields: Sequence[str]
) -> EnvironmentSpec:
    """Move every field of the operator that is set; parameters are named by role, or are of the whole
    scene."""
    for field in fields:
        span = getattr(op, field)
        if span is not None:
            names = named(op.role, field) if hasattr(op, "role") else (field,)
            subject = SCENE if field == "damping_scale" else thing
            name = parameter_of(spec, probe, op.axis, names, subject)
            allowed = probe.allowed(op.axis, name)
            spec = move_number(spec, (op.axis, subject, name), span, op.magnitude, allowed, rng)
    return spec


def shift_region(spec: EnvironmentSpec, op: ShiftRegion, probe: FamilyRanges, rng: Rng) -> EnvironmentSpec:
    return _numbers(spec, op, probe, rng, in_role(spec, op.role, rng), ("x", "y", "yaw"))


def rescale(spec: EnvironmentSpec, op: Rescale, probe: FamilyRanges, rng: Rng) -> EnvironmentSpec:
    return _numbers(spec, op, probe, rng, in_role(spec, op.role, rng), ("half_width",))


def reweigh(spec: EnvironmentSpec, op: Reweigh, probe: FamilyRanges, rng: Rng) -> EnvironmentSpec:
    fields = ("mass", "friction", "damping", "damping_scale")
    own = any(getattr(op, field) is not None for field in fields[:3])
    return _numbers(spec, op, probe, rng, in_role(spec, op.role, rng) if own else SCENE, fields)


def perturb_camera(
    spec: EnvironmentSpec, op: PerturbCamera, probe: FamilyRanges, rng: Rng
) -> EnvironmentSpec:
    return _numbers(spec, op, probe, rng, SCENE, op.fields)


def offset_start(spec: EnvironmentSpec, op: OffsetStart, probe: FamilyRanges, rng: Rng) -> EnvironmentSpec:
    return _numbers(spec, op, probe, rng, SCENE, ("base_yaw", "joint_offset", "gripper_opening"))


def _word(
    spec: EnvironmentSpec,
    probe: FamilyRanges,
    rng: Rng,
    axis: str,
    names: Sequence[str],
    thing: str,
    words: Sequence[Any],
) -> EnvironmentSpec:
    """Set a word drawn from those that this scene does not have there already and can have."""
    name = parameter_of(spec, probe, axis, names, thing)
    now = find_access(spec.family, axis, name).get(spec, thing)
    others = [word for word in words or probe.allowed(axis, name).values if word != now]  # type: ignore[union-attr]
    reason = f"{name} of {thing!r} is {now!r} and nothing else is asked for"
    for index in rng.permutation(len(others)):
        try:
            return write(spec, (axis, thing, name), others[index])
        except ValidityError as error:
            reason = str(error)
    raise ValidityError(reason)


def recolor(spec: EnvironmentSpec, op: Recolor, probe: FamilyRanges, rng: Rng) -> EnvironmentSpec:
    return _word(spec, probe, rng, op.moves, named(op.role, "color"), in_role(spec, op.role, rng), op.colors)


def reshape(spec: EnvironmentSpec, op: Reshape, probe: FamilyRanges, rng: Rng) -> EnvironmentSpec:
    return _word(spec, probe, rng, op.axis, named(op.role, "shape"), in_role(spec, op.role, rng), op.shapes)


def rephrase(spec: EnvironmentSpec, op: Rephrase, probe: FamilyRanges, rng: Rng) -> EnvironmentSpec:
    return _word(spec, probe, rng, op.axis, PHRASING, SCENE, op.templates)


def retarget(spec: EnvironmentSpec, op: Retarget, probe: FamilyRanges, rng: Rng) -> EnvironmentSpec:
    """The thing asked for and another of its kind exchange their parts in goal and instruction; neither
    moves."""
    old = in_role(spec, op.role, rng)
    rivals = [name for name in spec.entity_names if name != old and _alike(spec, old, name)]
    if not rivals:
        raise ValidityError(
            f"nothing else of the kind of {old!r} could be asked for: {', '.join(spec.entity_names)}"
        )
    return exchange(spec, old, rivals[int(rng.integers(len(rivals)))])


def _alike(spec: EnvironmentSpec, old: str, new: str) -> bool:
    """Whether the same could be asked of another thing: movables of one range of shapes, receptacles of one
    shape."""
    free = movables(spec)
    if old in free:
        return new in free and things.is_peg(old) == things.is_peg(new)
    return new not in free and getattr(spec.entity(old), "shape", "") == getattr(
        spec.entity(new), "shape", "-"
    )


def exchange(spec: EnvironmentSpec, first: str, second: str) -> EnvironmentSpec:
    """Two things exchange their parts in goal, instruction and roles."""
    other = {first: second, second: first}
    objects = []
    for entity in spec.objects:
        role = spec.entity(other[entity.name]).role if entity.name in other else entity.role  # type: ignore[union-attr]
        objects.append(entity.model_copy(update={"role": role}))

    def swapped(atom: Atom) -> Atom:
        return atom.model_copy(update={"args": tuple(other.get(arg, arg) for arg in atom.args)})

    away = "something else entirely"
    words = spec.instruction.replace(first, away).replace(second, first).replace(away, second)
    return spec.revise(objects=tuple(objects), goal=map_goal(spec.goal, swapped), instruction=words)


def swap_roles(spec: EnvironmentSpec, op: SwapRoles, probe: FamilyRanges, rng: Rng) -> EnvironmentSpec:
    first, second = in_role(spec, op.first, rng), in_role(spec, op.second, rng)
    if first == second:
        raise ValidityError(f"{op.first} and {op.second} are both {first!r}")
    (ax, ay, _), (bx, by, _) = (spec.entity(name).pose.position for name in (first, second))
    for name, role, x, y in ((first, op.first, bx, by), (second, op.second, ax, ay)):
        spec = things.move(spec, name, x, y)
        _check_place(spec, probe, name, role)
    return spec


def _check_place(spec: EnvironmentSpec, probe: FamilyRanges, name: str, role: str) -> None:
    for part in ("x", "y"):
        try:
            parameter = parameter_of(spec, probe, "position", named(role, part), name)
        except ValidityError:  # the splits state no place for it: it may stand where the other one stood
            return
        value, allowed = (
            find_access(spec.family, "position", parameter).get(spec, name),
            probe.allowed("position", parameter),
        )
        if not allowed.contains(value):
            raise ValidityError(f"{parameter} {value:.3f} of {name!r}: outside the probe bounds {allowed}")


def add_distractor(
    spec: EnvironmentSpec, op: AddDistractor, probe: FamilyRanges, rng: Rng
) -> EnvironmentSpec:
    target = in_role(spec, op.role, rng)
    for _ in range(op.count):
        make = similar_item if op.relation == "similar" else some_item
        spec = add_beside(spec, target, make(spec, target, probe, rng), op.gap, probe, rng)
    return spec


def occlude(spec: EnvironmentSpec, op: Occlude, probe: FamilyRanges, rng: Rng) -> EnvironmentSpec:
    target = in_role(spec, op.role, rng)
    camera = spec.cameras[0].position if spec.cameras else (1.0, 0.0, 0.5)
    x, y, _ = spec.entity(target).pose.position
    bearing = float(np.arctan2(camera[1] - y, camera[0] - x))
    return add_beside(spec, target, occluder(spec, probe, rng), op.gap, probe, rng, bearing)


def start_past_stage(
    spec: EnvironmentSpec, op: StartPastStage, probe: FamilyRanges, rng: Rng
) -> EnvironmentSpec:
    return start_past(spec, op.stage)


Apply = Callable[[EnvironmentSpec, Any, FamilyRanges, Rng], EnvironmentSpec]
NUMERIC: dict[str, Apply] = {
    "shift_region": shift_region,
    "rescale": rescale,
    "reweigh": reweigh,
    "perturb_camera": perturb_camera,
    "offset_start": offset_start,
}
"""Operators whose magnitude is how far each number moves."""
WHOLE: dict[str, Apply] = {
    "swap_roles": swap_roles,
    "add_distractor": add_distractor,
    "recolor": recolor,
    "reshape": reshape,
    "rephrase": rephrase,
    "retarget": retarget,
    "occlude": occlude,
    "start_past_stage": start_past_stage,
}
"""Operators whose magnitude is the share of scenes that they change."""
REDRAWN = ("compose", "redraw")
"""Operators that change what the family's sampler draws from; their magnitude is a share of scenes too."""


def apply(spec: EnvironmentSpec, op: OperatorData, probe: FamilyRanges, rng: Rng) -> EnvironmentSpec:
    """Apply one operator to a scene; at magnitude 0 the scene itself. Raises ValidityError where it does not
    apply."""
    kind = op.kind  # type: ignore[attr-defined]
    if op.magnitude == 0 or kind in REDRAWN:
        return spec
    if kind in NUMERIC:
        return NUMERIC[kind](spec, op, probe, rng)
    return WHOLE[kind](spec, op, probe, rng) if rng.random() < op.magnitude else spec


def redrawn(ranges: FamilyRanges, op: OperatorData, probe: FamilyRanges, rng: Rng) -> FamilyRanges:
    """What the family's sampler draws from, with ``compose`` and ``redraw`` applied to their share of
    scenes."""
    if op.kind not in REDRAWN or not rng.random() < op.magnitude:  # type: ignore[attr-defined]
        return ranges
    if isinstance(op, Compose):
        name = next(name for name in COMPOSITION if name in probe[op.axis])
        inside, known = probe.allowed(op.axis, name), ranges.allowed(op.axis, name)
        values = op.steps or tuple(value for value in inside.values if value not in known.values)  # type: ignore[union-attr]
        return ranges.replaced(op.axis, name, Choices(values or inside.values))  # type: ignore[union-attr]
    assert isinstance(op, Redraw)
    return ranges.replaced(op.of, op.parameter, _narrowed(bound(probe, op.of, (op.parameter,)), op))


def _narrowed(allowed: Allowed, op: Redraw) -> Allowed:
    if isinstance(allowed, Range):
        return Range(within(allowed, op.span or (allowed.low, allowed.high)))
    return Choices(tuple(value for value in allowed.values if value in op.values))
