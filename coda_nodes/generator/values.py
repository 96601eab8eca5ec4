"""Values that operators write: drawn inside the probe bounds, and moved part of the way from what a scene
has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coda_nodes.world.axes import set_value
from coda_nodes.world.axes.base import find_access
from coda_nodes.world.errors import SpecError, ValidityError
from coda_nodes.world.programs import within
from coda_nodes.world.ranges import Allowed, FamilyRanges, Range
from coda_nodes.world.spec import EnvironmentSpec


def parameter_of(
    spec: EnvironmentSpec, probe: FamilyRanges, axis: str, names: Sequence[str], thing: str
) -> str:
    """The first of ``names`` that the family states and that ``thing`` has. Raises ValidityError if there is
    none."""
    for name in names:
        if name in probe[axis]:
            try:
                access = find_access(spec.family, axis, name)
            except SpecError:
                continue
            if thing in access.things(spec) and access.get(spec, thing) is not None:
                return name
    raise ValidityError(f"{thing!r} has no {' or '.join(names)} that can be set")


def draw(allowed: Range, span: tuple[float, float], rng: np.random.Generator) -> float:
    """Draw uniformly from ``span``, only where the bounds allow it."""
    return Range(within(allowed, span)).sample(rng)


def nearest(allowed: Range, value: float) -> float:
    """``value``, or the nearest one that the bounds allow."""
    if allowed.contains(value):
        return value
    ends = [end for interval in allowed.intervals for end in interval]
    return min(ends, key=lambda end: abs(end - value))


def move_number(
    spec: EnvironmentSpec,
    key: tuple[str, str, str],
    span: tuple[float, float],
    magnitude: float,
    allowed: Allowed,
    rng: np.random.Generator,
) -> EnvironmentSpec:
    """Move a number ``magnitude`` of the way to one drawn from ``span``; each of several numbers keeps its
    sign.

    Args:
        spec: the scene.
        key: axis, thing, parameter.
        span: where to draw.
        magnitude: 0 to 1.
        allowed: bounds within which the result stays.
        rng: drawn from once per number.

    Raises:
        ValidityError: the parameter is no number within bounds of numbers, or the scene cannot have the
        value.
    """
    axis, thing, name = key
    now = find_access(spec.family, axis, name).get(spec, thing)
    if isinstance(now, str) or now is None or not isinstance(allowed, Range):
        raise ValidityError(f"{name} of {thing!r} is {now!r}, no number that could be moved")
    parts = now if isinstance(now, tuple) else (now,)
    moved = tuple(
        _toward(part, draw(allowed, span, rng), magnitude, allowed, isinstance(now, tuple)) for part in parts
    )
    return write(spec, key, moved if isinstance(now, tuple) else moved[0])


def _toward(now: float, goal: float, magnitude: float, allowed: Range, signed: bool) -> float:
    if not signed:
        return nearest(allowed, now + magnitude * (goal - now))
    size = abs(now) + magnitude * (goal - abs(now))
    return float(np.copysign(nearest(allowed, size), now))


def write(spec: EnvironmentSpec, key: tuple[str, str, str], value: object) -> EnvironmentSpec:
    """Set a value. Raises ValidityError with the reason where this scene cannot have it."""
    try:
        return set_value(spec, *key, value)  # type: ignore[arg-type]
    except SpecError as error:
        raise ValidityError(f"{key[2]} of {key[1]!r} cannot become {value!r}: {error}") from error
