"""Putting one more thing into a scene: what it is, and where there is room for it beside another."""

from __future__ import annotations

import math

import numpy as np

from coda_nodes.world.axes import things
from coda_nodes.world.axes.base import movables, task_things, without
from coda_nodes.world.axes.clutter import outline_radius
from coda_nodes.world.errors import ValidityError
from coda_nodes.world.families.base import ATTEMPTS, REACH, SHAPES, Item
from coda_nodes.world.ranges import Choices, FamilyRanges
from coda_nodes.world.spec import EnvironmentSpec, ObjectSpec, Pose

Rng = np.random.Generator
MOST_MOVABLE = {"articulated": 4}
"""Movable things a scene may hold, by family; 5 in the others."""
CLEAR = 0.005
"""Least gap to everything else [m]."""


def some_item(spec: EnvironmentSpec, target: str, probe: FamilyRanges, rng: Rng) -> Item:
    """Any thing within the probe bounds whose name is free. Raises ValidityError when all names are taken."""
    nouns = probe.allowed("objects", "shape").values  # type: ignore[union-attr]
    return _named(spec, nouns, float(probe.draw("objects", "half_width", rng)), probe, rng)


def similar_item(spec: EnvironmentSpec, target: str, probe: FamilyRanges, rng: Rng) -> Item:
    """A thing of the target's shape and size in another colour. Raises ValidityError for a target without a
    noun."""
    noun = target.split()[-1]
    if noun not in SHAPES:
        raise ValidityError(f"{target!r} has no similar thing: its shape is none of {', '.join(SHAPES)}")
    width = spec.entity(target).half_extents[0] / SHAPES[noun][1][0]
    return _named(spec, (noun,), width, probe, rng)


def occluder(spec: EnvironmentSpec, probe: FamilyRanges, rng: Rng) -> Item:
    """The tallest thing within the probe bounds whose name is free."""
    shapes, widths = probe.allowed("objects", "shape"), probe.allowed("objects", "half_width")
    tallest = max(shapes.values, key=lambda noun: SHAPES[noun][1][2])  # type: ignore[union-attr]
    return _named(spec, (tallest,), float(widths.high), probe, rng)  # type: ignore[union-attr]


def _named(
    spec: EnvironmentSpec, nouns: tuple[str, ...], width: float, probe: FamilyRanges, rng: Rng
) -> Item:
    colors = probe.allowed("objects", "color")
    assert isinstance(colors, Choices)
    free = [(c, n) for n in nouns for c in colors.values if f"{c} {n}" not in spec.entity_names]
    if not free:
        raise ValidityError(f"every colour of {' and '.join(nouns)} is in the scene already")
    color, noun = free[int(rng.integers(len(free)))]
    return Item(color, noun, width)


def add_beside(
    spec: EnvironmentSpec,
    target: str,
    item: Item,
    gap: tuple[float, float],
    probe: FamilyRanges,
    rng: Rng,
    bearing: float | None = None,
) -> EnvironmentSpec:
    """Stand ``item`` beside ``target`` at a drawn gap [m] between the outlines, at ``bearing`` [rad] or
    anywhere.

    A scene that is full loses a thing that its task does not name. Raises ValidityError where there is no
    room.
    """
    spec = make_room(spec, target)
    centre, reach = spec.entity(target).pose.position, _radius(spec, target) + item.radius
    for attempt in range(ATTEMPTS):
        angle = (
            rng.uniform(-math.pi, math.pi) if bearing is None else bearing + 0.01 * attempt * (-1) ** attempt
        )
        distance = reach + rng.uniform(*gap)
        x, y = centre[0] + distance * math.cos(angle), centre[1] + distance * math.sin(angle)
        if _free(spec, x, y, item.radius) and _inside(spec, probe, x, y):
            return spec.revise(objects=_inserted(spec, _standing(item, x, y, probe, rng)))
    raise ValidityError(f"no room beside {target!r} for {item.name!r} at {gap[0]:g} to {gap[1]:g} m")


def make_room(spec: EnvironmentSpec, keep: str) -> EnvironmentSpec:
    """Take one thing out of a full scene: the last movable one that is neither asked for nor ``keep``."""
    if len(movables(spec)) < MOST_MOVABLE.get(spec.family, 5):
        return spec
    spare = [name for name in movables(spec) if name not in (*task_things(spec), keep)]
    if not spare:
        raise ValidityError(f"the scene is full: {', '.join(movables(spec))}")
    return without(spec, spare[-1:])


def _radius(spec: EnvironmentSpec, name: str) -> float:
    entity = spec.entity(name)
    return outline_radius(entity) if isinstance(entity, ObjectSpec) else math.hypot(*entity.half_extents[:2])


def _free(spec: EnvironmentSpec, x: float, y: float, radius: float) -> bool:
    if not REACH[0] <= math.hypot(x, y) <= REACH[1]:
        return False
    others = [entity for entity in spec.entities if getattr(entity, "role", "") != "marker"]
    places = [(*entity.pose.position[:2], _radius(spec, entity.name)) for entity in others]
    return all(math.hypot(x - px, y - py) >= radius + size + CLEAR for px, py, size in places)


def _inside(spec: EnvironmentSpec, probe: FamilyRanges, x: float, y: float) -> bool:
    """Whether a movable thing may stand there within the probe bounds (mirrored where the family mirrors
    scenes)."""
    word = "other" if "other_x" in probe["position"] else "object"
    if spec.family == "articulated":
        drawer = things.WORDS["drawer"](spec)
        y *= -math.copysign(1.0, spec.entity(drawer[0]).pose.position[1]) if drawer else 1.0
    return all(
        probe.allowed("position", f"{word}_{part}").contains(value) for part, value in (("x", x), ("y", y))
    )


def _standing(item: Item, x: float, y: float, probe: FamilyRanges, rng: Rng) -> ObjectSpec:
    yaw = probe.draw("position", "object_yaw", rng) if "object_yaw" in probe["position"] else 0.0
    return ObjectSpec(
        name=item.name,
        shape=SHAPES[item.noun][0],
        role="distractor",
        half_extents=item.half_extents,
        color=item.color,
        mass=0.1,
        friction=1.0,
        pose=Pose.planar(x, y, item.half_extents[2], yaw),
    )


def _inserted(spec: EnvironmentSpec, new: ObjectSpec) -> tuple[ObjectSpec, ...]:
    """Objects with the new one after the last movable: receptacles and markers stay behind."""
    index = (
        max(
            (i for i, entity in enumerate(spec.objects) if entity.role in ("object", "distractor")),
            default=-1,
        )
        + 1
    )
    return (*spec.objects[:index], new, *spec.objects[index:])
