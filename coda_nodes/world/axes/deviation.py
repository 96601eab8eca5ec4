"""How far a scene lies from train, value by value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from coda_nodes.world.axes.base import Value, find_access
from coda_nodes.world.axes.clutter import clearance
from coda_nodes.world.axes.words import phrasing_of, rephrase
from coda_nodes.world.errors import SpecError
from coda_nodes.world.ranges import Allowed, FamilyRanges, Range
from coda_nodes.world.spec import EnvironmentSpec, ObjectSpec
from coda_nodes.world.splits import Splits, load_splits

Key = tuple[str, str, str]
"""Axis, object (or ``scene``), parameter."""

INWARD = (0.25, 0.5, 0.75, 1.0, 0.0)
"""Where inside train a nominal value is looked for: share of the nearest interval, from its nearer end."""
LOWER_ONLY = ("gap",)
"""Parameters whose range bounds from below: things may stand farther apart than the gap they were laid out
with."""
TOUCH = 0.002
"""Gap below which a moved thing would stand in another [m]."""


@dataclass(frozen=True)
class Deviation:
    """A value outside train: ``size`` is its distance from train in widths of train (1 for another word)."""

    axis: str
    object: str
    parameter: str
    observed: Value
    nominal: Value
    size: float

    @property
    def key(self) -> Key:
        """Axis, object, parameter."""
        return self.axis, self.object, self.parameter


def values(spec: EnvironmentSpec, splits: Splits | None = None) -> dict[Key, Value]:
    """Every parameter of the splits as this scene has it; what does not apply to it is left out.

    Raises:
        SpecError: the splits hold a parameter that no scene is known to show.
    """
    table = (splits or load_splits()).axes(spec.family)
    found: dict[Key, Value] = {}
    for axis, parameters in table.items():
        for name in parameters:
            access = find_access(spec.family, axis, name)
            for thing in access.things(spec):
                value = access.get(spec, thing)
                if value is not None:
                    found[axis, thing, name] = value
    return found


def set_value(spec: EnvironmentSpec, axis: str, object: str, parameter: str, value: Value) -> EnvironmentSpec:
    """A copy in which one value is another; names, goal and instruction follow.

    ``<thing>_xy`` sets both coordinates [m] of a thing together.

    Raises:
        SpecError: no such parameter or thing, or a value that this scene cannot have.
    """
    access = find_access(spec.family, axis, parameter)
    if object not in access.things(spec):
        things = ", ".join(access.things(spec)) or "nothing in the scene"
        raise SpecError(f"{axis}.{parameter} of {object!r}: it concerns {things}")
    if access.get(spec, object) == value:
        return spec
    phrasing = phrasing_of(spec)
    changed = access.set(spec, object, value)
    if phrasing is None or axis == "instruction":
        return changed
    return rephrase(changed, phrasing)


def deviations(spec: EnvironmentSpec, splits: Splits | None = None) -> list[Deviation]:
    """Values outside the train ranges that could be set to one inside, largest first.

    Where both coordinates of a thing lie outside, they are one deviation, ``<thing>_xy``.
    """
    splits = splits or load_splits()
    train = splits.ranges(spec.family, "train")
    outside = {key: value for key, value in values(spec, splits).items() if _excess(train, key, value) > 0}
    found = [_deviation(spec, splits, train, key, value) for key, value in _joined(spec, outside).items()]
    return sorted((item for item in found if item is not None), key=lambda item: (-item.size, item.key))


def _joined(spec: EnvironmentSpec, outside: dict[Key, Value]) -> dict[Key, Value]:
    """x and y of one thing as a single value where both are outside."""
    joined: dict[Key, Value] = {}
    for (axis, thing, name), value in outside.items():
        stem, _, part = name.rpartition("_")
        both = part in ("x", "y") and all((axis, thing, f"{stem}_{p}") in outside for p in "xy")
        if not both:
            joined[axis, thing, name] = value
        elif part == "x":
            joined[axis, thing, f"{stem}_xy"] = (value, outside[axis, thing, f"{stem}_y"])  # type: ignore[assignment]
    return joined


def _allowed(train: FamilyRanges, key: Key) -> list[Allowed]:
    """Train ranges of a parameter, one for each number of its value."""
    axis, _, name = key
    if name.endswith("_xy"):
        return [train.allowed(axis, name[:-1]), train.allowed(axis, name[:-2] + "y")]
    return [train.allowed(axis, name)]


def _excess(train: FamilyRanges, key: Key, value: Value) -> float:
    """Distance of a value from train in widths of train; the largest of several numbers; 0 inside."""
    allowed = _allowed(train, key)
    if not isinstance(value, tuple):
        return _distance(allowed[0], value, key[2])
    if len(allowed) == 1:  # sizes of either sign
        return max(_distance(allowed[0], abs(part), key[2]) for part in value)
    return max(_distance(one, part, key[2]) for one, part in zip(allowed, value, strict=True))


def _distance(allowed: Allowed, value: float | str, name: str) -> float:
    if not isinstance(allowed, Range):
        return 0.0 if allowed.contains(value) else _steps_away(allowed.values, value)
    if allowed.contains(value) or (name in LOWER_ONLY and float(value) > allowed.low):
        return 0.0
    width = sum(high - low for low, high in allowed.intervals)
    return min(max(low - float(value), float(value) - high) for low, high in allowed.intervals) / max(
        width, 1e-9
    )


def _steps_away(choices: Iterable[float | str], value: float | str) -> float:
    """Difference from the nearest choice where they are counts, else 1."""
    numbers = [float(choice) for choice in choices if isinstance(choice, (int, float))]
    return (
        min(abs(float(value) - number) for number in numbers)
        if numbers and not isinstance(value, str)
        else 1.0
    )


def _deviation(
    spec: EnvironmentSpec, splits: Splits, train: FamilyRanges, key: Key, value: Value
) -> Deviation | None:
    nominal = nominal_value(spec, splits, train, key, value)
    return None if nominal is None else Deviation(*key, value, nominal, _excess(train, key, value))


def nominal_value(
    spec: EnvironmentSpec, splits: Splits, train: FamilyRanges, key: Key, value: Value
) -> Value | None:
    """The train value that changes least else in the scene, the nearest of those; None where none can be
    set."""
    before = _side_effects(spec, splits, train)
    best: tuple[float, Value] | None = None
    for candidate in _candidates(train, key, value):
        try:
            after = _side_effects(set_value(spec, *key, candidate), splits, train)
        except SpecError:
            continue
        cost = sum(max(after[name] - before[name], 0.0) for name in after)
        if best is None or cost < best[0] - 1e-9:
            best = cost, candidate
        if cost <= 0:
            break
    return best[1] if best else None


def _side_effects(spec: EnvironmentSpec, splits: Splits, train: FamilyRanges) -> dict[str, float]:
    """What a change should not make worse: values outside train, and things standing in one another."""
    solid = [entity for entity in spec.objects if entity.role != "marker"]
    outside = sum(_excess(train, key, value) > 0 for key, value in values(spec, splits).items())
    return {
        "outside": float(outside),
        "touching": 10.0 * sum(_touch(*pair) for pair in combinations(solid, 2)),
    }


def _touch(first: ObjectSpec, second: ObjectSpec) -> bool:
    return clearance(first, second) < TOUCH


def _candidates(train: FamilyRanges, key: Key, value: Value) -> Iterator[Value]:
    allowed = _allowed(train, key)
    if not isinstance(value, tuple):
        yield from _inside(allowed[0], value)
    elif len(allowed) == 1:
        limits = [_inside(allowed[0], abs(part)) for part in value]
        for options in zip(*limits, strict=True):
            pairs = zip(options, value, strict=True)
            yield tuple(float(np.copysign(size, part)) if abs(part) > size else part for size, part in pairs)
    else:
        columns = [_inside(one, part) for one, part in zip(allowed, value, strict=True)]
        for first in columns[0]:
            for second in columns[1]:
                yield (float(first), float(second))


def _inside(allowed: Allowed, value: float | str) -> list[float | str]:
    """Values of train to try, the nearest and most typical first."""
    if not isinstance(allowed, Range):
        choices = [float(c) if isinstance(c, (int, float)) else str(c) for c in allowed.values]
        return sorted(
            choices,
            key=lambda c: abs(c - value) if isinstance(c, float) and isinstance(value, float) else 0.0,
        )
    near = sorted(allowed.intervals, key=lambda pair: max(pair[0] - float(value), float(value) - pair[1]))
    return [
        a + share * (b - a) for a, b in (_from_near(pair, float(value)) for pair in near) for share in INWARD
    ]


def _from_near(interval: tuple[float, float], value: float) -> tuple[float, float]:
    """The interval's ends, the one nearer to ``value`` first."""
    low, high = interval
    return (low, high) if abs(value - low) <= abs(value - high) else (high, low)
