"""From a diagnosis to a draft program that recreates its cause."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from coda_nodes.memory.retrieval import Cure
from coda_nodes.memory.seeding import seeded
from coda_nodes.world.axes import things
from coda_nodes.world.diagnosis import SCENE, Cause, Diagnosis
from coda_nodes.world.errors import ProgramError
from coda_nodes.world.families import family
from coda_nodes.world.operators import ROLES, PerturbCamera, words_of
from coda_nodes.world.programs import (
    BaseDistribution,
    GenerationProgram,
    bound,
    check_bounds,
    read_program,
)
from coda_nodes.world.ranges import Choices, FamilyRanges, Range
from coda_nodes.world.spec import EnvironmentSpec
from coda_nodes.world.splits import Splits

NEAR, BEYOND = 0.5, 0.25
"""A span begins this share of the way from the nominal to the observed value, and goes this share beyond
it."""

PRESENCE = {"extra": "receptacles"}
"""First word of a clutter parameter -> the count that brings such a thing into the scene."""

Build = Callable[[Cause, str, FamilyRanges, FamilyRanges], "dict[str, Any] | None"]


def compile_program(
    diagnosis: Diagnosis, spec: EnvironmentSpec | None, splits: Splits, similar: Sequence[Cure] = ()
) -> GenerationProgram | None:
    """Draft program whose scenes have the cause of a diagnosis, within the probe bounds.

    Numbers are drawn from half way between nominal and observed to a quarter beyond; words from those that
    the probe bounds allow and train has not. The base is the train split, asked for the same task. A cured
    program of a similar failure (``similar``, best first) widens what is drawn to the share of the bounds
    that served there.

    Args:
        diagnosis: with a family and a cause.
        spec: the failed scene; without it, roles are taken from the parameter's name.
        splits: ranges.
        similar: cures found in the memory.

    Returns:
        None where the diagnosis has no cause, or one that cannot be recreated within the probe bounds.
    """
    cause, name = diagnosis.cause, diagnosis.family or (spec.family if spec else None)
    if cause is None or name is None or cause.axis not in splits.axes(name):
        return None
    probe, train = splits.ranges(name, "probe"), splits.ranges(name, "train")
    role = role_of(cause, spec)
    base = BaseDistribution(tasks=_tasks(cause, spec, train))
    for build in (_specific, _redraw) if role else (_redraw,):
        operators = build(cause, role, probe, train)
        program = _draft(name, base, operators, diagnosis, probe) if operators else None
        if program is not None:
            return seeded(program, similar, splits)
    return None


def _draft(
    name: str,
    base: BaseDistribution,
    operators: list[dict[str, Any]],
    diagnosis: Diagnosis,
    probe: FamilyRanges,
) -> GenerationProgram | None:
    """The program with these operators; None where the bounds do not allow them."""
    assert diagnosis.cause is not None
    try:
        program = read_program({
            "family": name, "base": base.model_dump(), "operators": operators,
            "diagnosis_id": diagnosis.diagnosis_id,
            "explanation": f"recreates: {diagnosis.cause.sentence}"[:1000],
        })  # fmt: skip
        check_bounds(program, probe)
    except ProgramError:
        return None
    return program


def role_of(cause: Cause, spec: EnvironmentSpec | None) -> str:
    """Role of the thing a cause is about; empty for one that the task of the scene does not give a role.

    A cause of the whole scene stands for the first thing of the task. Without a scene the parameter's name
    decides.
    """
    if spec is None:
        word = cause.parameter.split("_")[0]
        return next(
            (role for role in ROLES if word in (words_of(role) or ()) and role != "distractor"), "object"
        )
    roles = family(spec.family).roles(spec)
    if cause.object == SCENE:
        return next(iter(roles), "object")
    if cause.object in things.WORDS["distractor"](spec):
        return "distractor"
    return next((role for role, thing in roles.items() if thing == cause.object), "")


def _tasks(cause: Cause, spec: EnvironmentSpec | None, train: FamilyRanges) -> tuple[str, ...]:
    """Tasks of train that ask for what the failed scene asked of the thing: matched scenes then ask for the
    same."""
    known = train["instruction"].get("task")
    if (
        spec is None
        or not isinstance(known, Choices)
        or cause.axis == "composition"
        or cause.parameter == "task"
    ):
        return ()
    parts = spec.provenance.task.split("+")
    about = {stage.part for stage in family(spec.family).stages(spec) if cause.object in stage.atom.args}
    asked = [part for number, part in enumerate(parts) if number in about] or parts
    return tuple(dict.fromkeys(part for part in asked if part in known.values))


def _span(observed: float, nominal: float, allowed: Range) -> tuple[float, float]:
    """Numbers around the observed one, cut at the bounds."""
    ends = (nominal + NEAR * (observed - nominal), observed + BEYOND * (observed - nominal))
    low, high = (min(max(end, allowed.low), allowed.high) for end in sorted(ends))
    return low, high


def _new_words(observed: Any, allowed: Choices, known: Any) -> tuple[Any, ...]:
    """Words that the bounds allow and train has not; the observed one first, where they hold it."""
    fresh = [word for word in allowed.values if not known.contains(word)]
    return tuple(dict.fromkeys([word for word in allowed.values if word == observed] + fresh))


def _values(cause: Cause, names: tuple[str, ...], probe: FamilyRanges, train: FamilyRanges) -> Any:
    """Span or words around the observed value. Raises ProgramError where bounds and value are of different
    kinds."""
    allowed, known = bound(probe, cause.axis, names), bound(train, cause.axis, names)
    if isinstance(allowed, Choices):
        return _new_words(cause.observed, allowed, known)
    observed, nominal = (_size(value) for value in (cause.observed, cause.nominal))
    return _span(observed, nominal, allowed)


def _size(value: Any) -> float:
    """A number, or the largest size of several. Raises ProgramError for a word."""
    if isinstance(value, str):
        raise ProgramError(f"cannot recreate {value!r}: expected a number")
    return max(abs(part) for part in value) if isinstance(value, tuple) else float(value)


def _specific(cause: Cause, role: str, probe: FamilyRanges, train: FamilyRanges) -> list[dict[str, Any]]:
    """The operator made for this axis and parameter; empty where there is none."""
    try:
        operator = _BY_AXIS[cause.axis](cause, role, probe, train)
    except ProgramError:
        return []
    return [operator] if operator else []


def _position(cause: Cause, role: str, probe: FamilyRanges, train: FamilyRanges) -> dict[str, Any] | None:
    stem, _, part = cause.parameter.rpartition("_")
    if part == "xy" and isinstance(cause.observed, tuple) and isinstance(cause.nominal, tuple):
        spans = {
            axis: _span(seen, normal, bound(probe, cause.axis, (f"{stem}_{axis}",)))  # type: ignore[arg-type]
            for axis, seen, normal in zip("xy", cause.observed, cause.nominal, strict=True)
        }
    elif part in ("x", "y", "yaw"):
        spans = {part: _values(cause, (cause.parameter,), probe, train)}
    else:
        return None
    return {"kind": "shift_region", "role": role, **spans}


def _objects(cause: Cause, role: str, probe: FamilyRanges, train: FamilyRanges) -> dict[str, Any] | None:
    fields = {
        "color": ("recolor", "colors"),
        "shape": ("reshape", "shapes"),
        "half_width": ("rescale", "half_width"),
    }
    name = "half_width" if cause.parameter == "peg_half_width" else cause.parameter
    if name not in fields:
        return None
    kind, field = fields[name]
    return {"kind": kind, "role": role, field: _values(cause, (cause.parameter,), probe, train)}


def _dynamics(cause: Cause, role: str, probe: FamilyRanges, train: FamilyRanges) -> dict[str, Any] | None:
    name = cause.parameter
    for field in ("damping_scale", "mass", "friction", "damping"):
        if name == field or name.endswith(f"_{field}"):
            return {"kind": "reweigh", "role": role, field: _values(cause, (name,), probe, train)}
    return None


def _instruction(cause: Cause, role: str, probe: FamilyRanges, train: FamilyRanges) -> dict[str, Any] | None:
    if cause.parameter not in ("phrasing", "phrase"):
        return None
    return {"kind": "rephrase", "templates": _values(cause, (cause.parameter,), probe, train)}


def _clutter(cause: Cause, role: str, probe: FamilyRanges, train: FamilyRanges) -> dict[str, Any] | None:
    if cause.parameter != "gap":
        return None
    low, high = _values(cause, ("gap",), probe, train)
    return {
        "kind": "add_distractor",
        "relation": "near",
        "role": role,
        "gap": (max(low, 0.005), max(high, 0.005)),
    }


def _appearance(cause: Cause, role: str, probe: FamilyRanges, train: FamilyRanges) -> dict[str, Any] | None:
    values = _values(cause, (cause.parameter,), probe, train)
    if cause.parameter.endswith("_color"):
        return {"kind": "recolor", "role": role, "colors": values}
    return (
        {"kind": "perturb_camera", cause.parameter: values}
        if cause.parameter in PerturbCamera.fields
        else None
    )


def _start_pose(cause: Cause, role: str, probe: FamilyRanges, train: FamilyRanges) -> dict[str, Any] | None:
    return {"kind": "offset_start", cause.parameter: _values(cause, (cause.parameter,), probe, train)}


def _composition(cause: Cause, role: str, probe: FamilyRanges, train: FamilyRanges) -> dict[str, Any] | None:
    if cause.parameter not in ("steps", "height"):
        return None
    return {"kind": "compose", "steps": _values(cause, (cause.parameter,), probe, train)}


_BY_AXIS: dict[str, Build] = {
    "position": _position, "objects": _objects, "dynamics": _dynamics, "instruction": _instruction,
    "clutter": _clutter, "appearance": _appearance, "start_pose": _start_pose, "composition": _composition,
}  # fmt: skip


def _redraw(cause: Cause, role: str, probe: FamilyRanges, train: FamilyRanges) -> list[dict[str, Any]]:
    """Any parameter that the splits state; of a place both coordinates, of a thing that train has not its
    presence."""
    names = [cause.parameter]
    if cause.parameter.endswith("_xy"):
        names = [cause.parameter[:-2] + axis for axis in "xy"]
    try:
        found = [_redrawn(cause, index, name, probe, train) for index, name in enumerate(names)]
    except ProgramError:
        return []
    count = PRESENCE.get(cause.parameter.split("_")[0]) if cause.axis == "clutter" else None
    if count is not None and count in probe["clutter"]:
        fresh = _new_words(None, probe["clutter"][count], train["clutter"][count])  # type: ignore[arg-type]
        found.append({"kind": "redraw", "of": "clutter", "parameter": count, "values": fresh})
    return found


def _redrawn(cause: Cause, index: int, name: str, probe: FamilyRanges, train: FamilyRanges) -> dict[str, Any]:
    """One parameter around the observed value, or around one of several. Raises ProgramError where that
    cannot be."""
    several = cause.parameter.endswith("_xy") and isinstance(cause.observed, tuple)
    parts = {
        key: getattr(cause, key)[index] if several else getattr(cause, key) for key in ("observed", "nominal")
    }
    values = _values(cause.model_copy(update=parts), (name,), probe, train)
    field = "span" if isinstance(bound(probe, cause.axis, (name,)), Range) else "values"
    return {"kind": "redraw", "of": cause.axis, "parameter": name, field: values}
