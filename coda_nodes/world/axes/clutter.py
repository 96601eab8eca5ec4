"""Parameters of clutter: how many other things there are, and how near they stand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations

from coda_nodes.world.axes.base import Access, Value, number, register, task_things, whole_scene, without
from coda_nodes.world.axes.things import WORDS, is_peg, move
from coda_nodes.world.errors import SpecError
from coda_nodes.world.spec import EnvironmentSpec, ObjectSpec
from coda_nodes.world.splits import load_splits

SPREAD_ROUNDS = 200
"""Rounds of pushing pairs apart before a gap is called impossible."""
ALL_KEPT = ("pick_place", "stack")
"""Families in which the gap is kept around everything; in others only around distractors."""
SLACK = 1e-9
"""[m]"""


def _count(things: Callable[[EnvironmentSpec], Sequence[str]], offset: int = 0) -> Access:
    """How many of some things there are; fewer are reached by removing the last ones that the task does not
    name."""

    def get(spec: EnvironmentSpec, _: str) -> float:
        return float(len(things(spec)) - offset)

    def put(spec: EnvironmentSpec, _: str, value: Value) -> EnvironmentSpec:
        names = things(spec)
        surplus = len(names) - offset - number(value, "count")
        spare = [name for name in names if name not in task_things(spec)]
        if surplus < 0 or surplus != int(surplus):
            there = f"the scene holds {len(names)} of {', '.join(names)}"
            raise SpecError(f"{there}; things can only be taken away, not {value!r}")
        if surplus > len(spare):
            raise SpecError(
                f"{int(surplus)} of {', '.join(names)} are to go, the task does not name {len(spare)} of them"
            )
        return without(spec, spare[len(spare) - int(surplus) :])

    return Access(whole_scene, get, put)


def distractors(spec: EnvironmentSpec) -> tuple[str, ...]:
    """Movable things, pegs apart, that the task is not about."""
    return tuple(e.name for e in spec.objects if e.role == "distractor" and not is_peg(e.name))


def spare_pegs(spec: EnvironmentSpec) -> tuple[str, ...]:
    """Pegs not asked for."""
    return tuple(e.name for e in spec.objects if e.role == "distractor" and is_peg(e.name))


def outline_radius(entity: ObjectSpec) -> float:
    """Radius of the circle that keeps others away when a scene is laid out [m]."""
    x, y, _ = entity.half_extents
    if entity.shape == "bin":
        yaw = entity.pose.yaw
        return 1.1 * x * (abs(math.cos(yaw)) + abs(math.sin(yaw)))
    if entity.shape == "slot":
        return 1.3 * x
    if is_peg(entity.name):
        return 1.4 * x
    return math.hypot(x, y) if entity.shape == "box" else x


def clearance(first: ObjectSpec, second: ObjectSpec) -> float:
    """Gap between the outlines of two things on the table [m], negative where they overlap."""
    apart = math.dist(first.pose.position[:2], second.pose.position[:2])
    return apart - outline_radius(first) - outline_radius(second)


def least_gap(spec: EnvironmentSpec) -> float | None:
    """Smallest gap between two things of which one can be moved [m]; None where there are no two."""
    return min((clearance(*pair) for pair in _pairs(spec)), default=None)


def _set_gap(spec: EnvironmentSpec, _: str, value: Value) -> EnvironmentSpec:
    """Push what stands nearer apart, distractors first; where all stand farther, bring the nearest two
    together."""
    wanted, now = number(value, "gap"), least_gap(spec)
    if now is None:
        raise SpecError("gap: the scene holds no two things")
    if wanted < now:
        return _pushed(spec, *min(_pairs(spec), key=lambda pair: clearance(*pair)), wanted)
    for _round in range(SPREAD_ROUNDS):
        close = [pair for pair in _pairs(spec) if clearance(*pair) < wanted - SLACK]
        if not close:
            return spec
        spec = _pushed(spec, *min(close, key=lambda pair: clearance(*pair)), wanted)
    raise SpecError(f"gap {wanted} m: no room for it among {len(spec.objects)} things")


def _pairs(spec: EnvironmentSpec) -> list[tuple[ObjectSpec, ObjectSpec]]:
    """Pairs that a gap is kept between; the one to be moved is last: a distractor rather than a thing of the
    task, never a receptacle."""
    rank = {"receptacle": 0, "object": 1, "distractor": 2}
    things = sorted((e for e in spec.objects if e.role in rank), key=lambda e: rank[e.role])
    kept = ("object", "distractor") if spec.family in ALL_KEPT else ("distractor",)
    return [(first, second) for first, second in combinations(things, 2) if second.role in kept]


def _pushed(spec: EnvironmentSpec, fixed: ObjectSpec, free: ObjectSpec, gap: float) -> EnvironmentSpec:
    """``free`` moved along the line between the two until their outlines are ``gap`` [m] apart."""
    (ax, ay), (bx, by) = fixed.pose.position[:2], free.pose.position[:2]
    apart = math.hypot(bx - ax, by - ay)
    scale = (outline_radius(fixed) + outline_radius(free) + gap) / max(apart, 1e-6)
    return move(spec, free.name, x=ax + (bx - ax) * scale, y=ay + (by - ay) * scale)


def _outside(spec: EnvironmentSpec, name: str) -> tuple[float, float]:
    """How far a thing stands outside the train region of objects along x and y [m], signed."""
    train = load_splits().ranges(spec.family, "train")
    regions = (train.allowed("position", "object_x"), train.allowed("position", "object_y"))
    excess = [
        value - min(max(value, r.low), r.high)
        for value, r in zip(spec.entity(name).pose.position, regions, strict=False)
    ]
    return excess[0], excess[1]


def _spread(spec: EnvironmentSpec, _: str) -> float | None:
    """Farthest that a distractor stands outside the region of objects [m]."""
    return max((max(map(abs, _outside(spec, name))) for name in distractors(spec)), default=None)


def _set_spread(spec: EnvironmentSpec, _: str, value: Value) -> EnvironmentSpec:
    """Bring distractors in that stand farther outside; where all stand nearer, move the farthest one out."""
    wanted, now = number(value, "spread"), _spread(spec, _)
    if now is None or wanted < 0:
        raise SpecError(f"spread {value!r}: expected at least 0 and a distractor in the scene")
    excess = {name: _outside(spec, name) for name in distractors(spec)}
    if wanted > now:
        name = max(excess, key=lambda key: max(map(abs, excess[key])))
        x, y, _z = spec.entity(name).pose.position
        return move(spec, name, y=y - excess[name][1] + math.copysign(wanted + _inside_by(spec, y), y))
    for name, (dx, dy) in excess.items():
        x, y, _z = spec.entity(name).pose.position
        cut = [math.copysign(max(abs(part) - wanted, 0.0), part) for part in (dx, dy)]
        spec = move(spec, name, x=x - cut[0], y=y - cut[1])
    return spec


def _inside_by(spec: EnvironmentSpec, y: float) -> float:
    """Distance from ``y`` to the side of the region of objects it is nearer to, 0 outside [m]."""
    region = load_splits().ranges(spec.family, "train").allowed("position", "object_y")
    return max(region.high - y if y >= 0 else y - region.low, 0.0)


for _family in ALL_KEPT:
    register("clutter", "spread", Access(whole_scene, _spread, _set_spread), _family)
register("clutter", "distractors", _count(distractors))
register("clutter", "count", _count(distractors))
register("clutter", "other_pegs", _count(spare_pegs))
register("clutter", "receptacles", _count(WORDS["receptacle"]))
register("clutter", "gap", Access(whole_scene, lambda spec, _: least_gap(spec), _set_gap))
