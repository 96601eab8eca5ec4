"""Family ``push_insert``: push an object along the table to the marked goal; put a peg into the hole of a slot block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coda_nodes.world.families.base import (
    Footprint,
    Item,
    Layout,
    Stage,
    draw_camera,
    draw_items,
    draw_light,
    draw_physics,
    draw_position,
    draw_start,
    movable,
    until_valid,
)
from coda_nodes.world.fixtures import SLOT_WALL
from coda_nodes.world.ranges import AXES, FamilyRanges
from coda_nodes.world.spec import AllOf, Atom, EnvironmentSpec, Goal, ObjectSpec, Pose, Provenance, atoms

GOAL, SLOT = "goal", "slot"
SINGLE = "single"
"""Value of composition.steps that asks for the one task drawn from axis instruction."""
MOST_MOVABLES = 5
PUSH_ROOM = 0.09
"""Room behind a pushed object that stays free for the hand [m]."""
MARKER_HALF_HEIGHT = 0.001
"""[m]"""
HORIZONS = {"push": 240, "insert": 240}
"""Time limit per part [control steps]."""
PREDICATE_PARTS = {"at": "push", "inserted": "insert"}
"""Predicate of a goal -> the part of the task it stands for."""

TEMPLATES: dict[str, tuple[str, ...]] = {
    "push": (
        "push the {object} to the goal", "push the {object} onto the goal", "slide the {object} to the goal",
        "shove the {object} over to the goal", "move the {object} along the table to the goal",
        "the {object} should stand on the goal",
    ),
    "insert": (
        "put the {peg} in the slot", "insert the {peg} into the slot", "place the {peg} in the slot",
        "stick the {peg} into the slot", "fit the {peg} into the hole of the slot", "the {peg} belongs in the slot",
    ),
}
"""Part -> paraphrases, numbered as parameter ``phrase`` of axis instruction."""


def instruction(parts: tuple[str, ...], phrase: int, thing: str, peg: str) -> str:
    """Sentence that asks for ``parts`` in order."""
    return " and then ".join(TEMPLATES[part][phrase].format(object=thing, peg=peg) for part in parts)


def task_parts(goal: Goal) -> tuple[str, ...]:
    """Parts of the task a goal asks for, in order (of any family's goal those known here)."""
    return tuple(PREDICATE_PARTS[atom.predicate] for atom in atoms(goal) if atom.predicate in PREDICATE_PARTS)


def goal_of(parts: tuple[str, ...], thing: str, peg: str) -> Goal:
    """Goal that asks for ``parts`` in order."""
    known = {"push": Atom(predicate="at", args=(thing, GOAL)), "insert": Atom(predicate="inserted", args=(peg, SLOT))}
    wanted = tuple(known[part] for part in parts)
    return wanted[0] if len(wanted) == 1 else AllOf(all_of=wanted, ordered=True)


@dataclass(frozen=True)
class PushInsert:
    """Sampling, roles and stages of the family."""

    name: str = "push_insert"
    axes: tuple[str, ...] = AXES

    def sample(self, ranges: FamilyRanges, rng: np.random.Generator) -> EnvironmentSpec:
        """Draw a scene. Raises ValidityError when the ranges leave no room for it."""
        return until_valid(lambda: _sample(ranges, rng))

    def roles(self, spec: EnvironmentSpec) -> dict[str, str]:
        """``object`` and ``marker`` of a push, ``peg`` and ``slot`` of an insertion."""
        roles: dict[str, str] = {}
        for atom in atoms(spec.goal):
            part = PREDICATE_PARTS.get(atom.predicate)
            if part == "push":
                roles.update(object=atom.args[0], marker=atom.args[1])
            elif part == "insert":
                roles.update(peg=atom.args[0], slot=atom.args[1])
        return roles

    def stages(self, spec: EnvironmentSpec) -> tuple[Stage, ...]:
        """Stages in order, for each part of the task."""
        known = [atom for atom in atoms(spec.goal) if atom.predicate in PREDICATE_PARTS]
        return tuple(stage for number, atom in enumerate(known) for stage in _stages(atom, number))


def _stages(atom: Atom, number: int) -> tuple[Stage, ...]:
    if PREDICATE_PARTS[atom.predicate] == "push":
        return (Stage("approach", Atom(predicate="behind", args=atom.args), number), Stage("push", atom, number))
    peg = atom.args[:1]
    return (
        Stage("approach", Atom(predicate="near", args=peg), number),
        Stage("grasp", Atom(predicate="grasped", args=peg), number),
        Stage("lift", Atom(predicate="lifted", args=peg), number),
        Stage("align", Atom(predicate="over_hole", args=atom.args), number),
        Stage("insert", atom, number),
    )


def _sample(ranges: FamilyRanges, rng: np.random.Generator) -> EnvironmentSpec:
    steps = ranges.draw("composition", "steps", rng)
    task = ranges.draw("instruction", "task", rng)
    parts = tuple((task if steps == SINGLE else steps).split("+"))
    other_pegs = int(ranges.draw("clutter", "other_pegs", rng))
    count = min(int(ranges.draw("clutter", "count", rng)), MOST_MOVABLES - 2 - other_pegs)
    items = draw_items(ranges, 1 + count, rng)
    layout = Layout(rng)
    marker, thing = _push_pair(ranges, rng, layout, items[0])
    slot, pegs = _insert_set(ranges, rng, layout, 1 + other_pegs)
    rest = [_item(ranges, rng, layout, item) for item in items[1:]]
    phrase = int(ranges.draw("instruction", "phrase", rng))
    return EnvironmentSpec(
        family="push_insert", instruction=instruction(parts, phrase, thing.name, pegs[0].name),
        objects=(thing, *pegs, *rest, marker, slot), goal=goal_of(parts, thing.name, pegs[0].name),
        physics=draw_physics(ranges, rng), cameras=(draw_camera(ranges, rng),), light=draw_light(ranges, rng),
        robot_start=draw_start(ranges, rng), horizon=sum(HORIZONS[part] for part in parts),
        seed=int(rng.integers(2**31)), provenance=Provenance(task="+".join(parts)),
    )


def _item(ranges: FamilyRanges, rng: np.random.Generator, layout: Layout, item: Item) -> ObjectSpec:
    gap = ranges.draw("clutter", "gap", rng)
    x, y = layout.place(lambda: draw_position(ranges, rng, "other"), item.radius, gap)
    return movable(item, "distractor", x, y, ranges, rng)


def _push_pair(
    ranges: FamilyRanges, rng: np.random.Generator, layout: Layout, item: Item
) -> tuple[ObjectSpec, ObjectSpec]:
    """Marker and object to push, whose lane (behind the object to the marker) stays free."""
    radius = ranges.draw("objects", "goal_radius", rng)
    x, y = layout.place(lambda: draw_position(ranges, rng, "goal"), radius, 0.0)
    marker = ObjectSpec(
        name=GOAL, shape="marker", role="marker", half_extents=(radius, radius, MARKER_HALF_HEIGHT),
        color=ranges.draw("appearance", "goal_color", rng), pose=Pose.planar(x, y, MARKER_HALF_HEIGHT),
    )
    start = layout.place(lambda: draw_position(ranges, rng), item.radius, 0.02)
    way = np.array(start) - (x, y)
    length = float(np.linalg.norm(way))
    for along in np.arange(0.0, length + item.radius + PUSH_ROOM, 0.05):
        layout.placed.append(Footprint(*(np.array([x, y]) + way * along / length).tolist(), item.radius + 0.015))
    return marker, movable(item, "object", *start, ranges, rng)


def _insert_set(
    ranges: FamilyRanges, rng: np.random.Generator, layout: Layout, count: int
) -> tuple[ObjectSpec, list[ObjectSpec]]:
    """Slot block, and ``count`` pegs of which the first is the one asked for; all fit the hole."""
    width = ranges.draw("objects", "peg_half_width", rng)
    height = ranges.draw("objects", "peg_half_height", rng)
    shape = ranges.draw("objects", "peg_shape", rng)
    hole = width + ranges.draw("objects", "clearance", rng)
    half = (hole + SLOT_WALL, hole + SLOT_WALL, ranges.draw("objects", "slot_half_height", rng))
    x, y = layout.place(lambda: draw_position(ranges, rng, "slot"), 1.3 * half[0], 0.01)
    slot = ObjectSpec(
        name=SLOT, shape="slot", role="receptacle", half_extents=half, color=ranges.draw("appearance", "slot_color", rng),
        pose=Pose.planar(x, y, half[2], ranges.draw("position", "slot_yaw", rng)),
    )
    colors = ranges.allowed("objects", "color").values
    pegs = []
    for number, i in enumerate(rng.permutation(len(colors))[:count]):
        gap = max(0.03, ranges.draw("clutter", "gap", rng))
        x, y = layout.place(lambda: draw_position(ranges, rng, "peg"), 1.4 * width, gap)
        pegs.append(ObjectSpec(
            name=f"{colors[i]} peg", shape=shape, role="object" if number == 0 else "distractor",
            half_extents=(width, width, height), color=colors[i], mass=ranges.draw("dynamics", "mass", rng),
            friction=ranges.draw("dynamics", "friction", rng),
            pose=Pose.planar(x, y, height, ranges.draw("position", "peg_yaw", rng)),
        ))
    return slot, pegs


DEFINITION = PushInsert()
