"""Family ``push_insert``: push an object along the table to the marked goal; put a peg into a slot block."""

from __future__ import annotations

from collections.abc import Callable
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
FINGER_ROOM, PALM_ROOM = 0.03, 0.105
"""Half width of the lane in which fingers push, and of what the palm above them sweeps, 20 cm wide [m]."""
LOW = 0.045
"""Things up to this height pass under the palm of a pushing hand [m]."""
MARKER_HALF_HEIGHT = 0.001
"""[m]"""
HORIZONS = {"push": 180, "insert": 200}
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
        "stick the {peg} into the slot", "fit the {peg} into the hole of the slot",
        "the {peg} belongs in the slot",
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
    known = {
        "push": Atom(predicate="at", args=(thing, GOAL)),
        "insert": Atom(predicate="inserted", args=(peg, SLOT)),
    }
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
        behind = Atom(predicate="behind", args=atom.args)
        return (Stage("approach", behind, number), Stage("push", atom, number))
    peg = atom.args[:1]
    return (
        Stage("approach", Atom(predicate="near", args=peg), number),
        Stage("grasp", Atom(predicate="grasped", args=peg), number),
        Stage("lift", Atom(predicate="lifted", args=peg), number),
        Stage("align", Atom(predicate="over_hole", args=atom.args), number),
        Stage("insert", atom, number),
    )


class Table:
    """What has been placed, once with the lane of the push as wide as fingers, once as wide as the palm."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.layouts = {low: Layout(rng) for low in (True, False)}

    def place(
        self, draw: Callable[[], tuple[float, float]], radius: float, gap: float, height: float
    ) -> tuple[float, float]:
        """Room for a thing of ``height`` [m]: a low one may stand where only the palm passes."""
        x, y = self.layouts[height <= LOW].place(draw, radius, gap)
        self.layouts[height > LOW].placed.append(Footprint(x, y, radius))
        return x, y

    def keep_free(self, start: tuple[float, float], end: tuple[float, float], radius: float) -> None:
        """Keep the lane of a push of an object of ``radius`` [m] free."""
        way = np.array(end) - start
        length = max(float(np.linalg.norm(way)), 1e-6)
        for along in np.arange(-radius - PUSH_ROOM, length, 0.04):
            x, y = (start + way * (along / length)).tolist()
            for low, room in ((True, max(radius, FINGER_ROOM)), (False, PALM_ROOM)):
                self.layouts[low].placed.append(Footprint(x, y, room))


def _sample(ranges: FamilyRanges, rng: np.random.Generator) -> EnvironmentSpec:
    steps = ranges.draw("composition", "steps", rng)
    task = ranges.draw("instruction", "task", rng)
    parts = tuple((task if steps == SINGLE else steps).split("+"))
    other_pegs = int(ranges.draw("clutter", "other_pegs", rng))
    count = min(int(ranges.draw("clutter", "count", rng)), MOST_MOVABLES - 2 - other_pegs)
    items = draw_items(ranges, 1 + count, rng)
    table = Table(rng)
    marker, thing = _push_pair(ranges, rng, table, items[0])
    slot, pegs = _insert_set(ranges, rng, table, 1 + other_pegs)
    rest = [_item(ranges, rng, table, item) for item in items[1:]]
    phrase = int(ranges.draw("instruction", "phrase", rng))
    return EnvironmentSpec(
        family="push_insert", instruction=instruction(parts, phrase, thing.name, pegs[0].name),
        objects=(thing, *pegs, *rest, marker, slot), goal=goal_of(parts, thing.name, pegs[0].name),
        physics=draw_physics(ranges, rng), cameras=(draw_camera(ranges, rng),), light=draw_light(ranges, rng),
        robot_start=draw_start(ranges, rng), horizon=sum(HORIZONS[part] for part in parts),
        seed=int(rng.integers(2**31)), provenance=Provenance(task="+".join(parts)),
    )


def _item(ranges: FamilyRanges, rng: np.random.Generator, table: Table, item: Item) -> ObjectSpec:
    gap, height = ranges.draw("clutter", "gap", rng), 2 * item.half_extents[2]
    x, y = table.place(lambda: draw_position(ranges, rng, "other"), item.radius, gap, height)
    return movable(item, "distractor", x, y, ranges, rng)


def _push_pair(
    ranges: FamilyRanges, rng: np.random.Generator, table: Table, item: Item
) -> tuple[ObjectSpec, ObjectSpec]:
    """Marker and object to push, whose lane (from behind the object to the marker) stays free."""
    radius = ranges.draw("objects", "goal_radius", rng)
    x, y = table.place(lambda: draw_position(ranges, rng, "goal"), radius, 0.0, 0.0)
    marker = ObjectSpec(
        name=GOAL, shape="marker", role="marker", half_extents=(radius, radius, MARKER_HALF_HEIGHT),
        color=ranges.draw("appearance", "goal_color", rng), pose=Pose.planar(x, y, MARKER_HALF_HEIGHT),
    )
    start = table.place(lambda: draw_position(ranges, rng), item.radius, 0.02, 2 * item.half_extents[2])
    table.keep_free(start, (x, y), item.radius)
    thing = movable(item, "object", *start, ranges, rng)
    return marker, thing.model_copy(update={"friction": ranges.draw("dynamics", "push_friction", rng)})


def _insert_set(
    ranges: FamilyRanges, rng: np.random.Generator, table: Table, count: int
) -> tuple[ObjectSpec, list[ObjectSpec]]:
    """Slot block, and ``count`` pegs of which the first is the one asked for; all fit the hole."""
    width = ranges.draw("objects", "peg_half_width", rng)
    height = ranges.draw("objects", "peg_half_height", rng)
    depth = width * ranges.draw("objects", "peg_aspect", rng)
    hole = width + ranges.draw("objects", "clearance", rng)
    half = (hole + SLOT_WALL, hole + SLOT_WALL, ranges.draw("objects", "slot_half_height", rng))
    x, y = table.place(lambda: draw_position(ranges, rng, "slot"), 1.3 * half[0], 0.01, 2 * half[2])
    yaw = ranges.draw("position", "slot_yaw", rng)
    slot = ObjectSpec(
        name=SLOT, shape="slot", role="receptacle", half_extents=half,
        color=ranges.draw("appearance", "slot_color", rng), pose=Pose.planar(x, y, half[2], yaw),
    )
    colors = ranges.allowed("objects", "color").values
    pegs = []
    for number, i in enumerate(rng.permutation(len(colors))[:count]):
        gap = max(0.03, ranges.draw("clutter", "gap", rng))
        x, y = table.place(lambda: draw_position(ranges, rng, "peg"), 1.4 * width, gap, 2 * height)
        pegs.append(ObjectSpec(
            name=f"{colors[i]} peg", shape="box", role="object" if number == 0 else "distractor",
            half_extents=(width, depth, height), color=colors[i], mass=ranges.draw("dynamics", "mass", rng),
            friction=ranges.draw("dynamics", "friction", rng),
            pose=Pose.planar(x, y, height, ranges.draw("position", "peg_yaw", rng)),
        ))
    return slot, pegs


DEFINITION = PushInsert()
