"""Family ``articulated``: open or close a drawer, turn a knob on or off, put a thing into the drawer.

Every scene holds both fixtures and something to put away, so that only the instruction says what to do.
"""

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
from coda_nodes.world.fixtures import HANDLE_STANDOFF
from coda_nodes.world.ranges import AXES, FamilyRanges
from coda_nodes.world.spec import (
    AllOf,
    Atom,
    EnvironmentSpec,
    FixtureSpec,
    Goal,
    ObjectSpec,
    Pose,
    Provenance,
    atoms,
)

DRAWER, KNOB = "drawer", "knob"
DRAWER_TRAVEL = (0.0, 0.15)
"""Range of the drawer [m]."""
KNOB_TRAVEL = (0.0, 1.57)
"""Range of the knob [rad]."""
KNOB_HALF_EXTENTS = (0.045, 0.045, 0.035)
"""[m]"""
HAND_ROOM = 0.03
"""Room in front of the open drawer's handle that stays free for the hand [m]."""
SINGLE = "single"
"""Value of composition.steps that asks for the one task drawn from axis instruction."""
HORIZONS = {"open": 120, "close": 120, "turn_on": 140, "turn_off": 140, "put_in": 200}
"""Time limit per part [control steps]."""
PREDICATE_PARTS = {
    "opened": "open", "closed": "close", "turned_on": "turn_on", "turned_off": "turn_off",
    "in_drawer": "put_in",
}
"""Predicate of a goal -> the part of the task it stands for."""

TEMPLATES: dict[str, tuple[str, ...]] = {
    "open": (
        "open the drawer", "pull the drawer open", "pull out the drawer",
        "get the drawer open", "slide the drawer towards you", "the drawer should be open",
    ),
    "close": (
        "close the drawer", "push the drawer shut", "shut the drawer",
        "push the drawer in", "slide the drawer back in", "the drawer should be closed",
    ),
    "turn_on": (
        "turn on the knob", "turn the knob on", "switch the knob on",
        "rotate the knob to on", "set the knob to its on position", "the knob should be on",
    ),
    "turn_off": (
        "turn off the knob", "turn the knob off", "switch the knob off",
        "rotate the knob back to off", "set the knob to its off position", "the knob should be off",
    ),
    "put_in": (
        "put the {object} in the drawer", "place the {object} in the drawer",
        "drop the {object} into the drawer", "store the {object} in the drawer",
        "move the {object} into the drawer", "the {object} belongs in the drawer",
    ),
}
"""Part -> paraphrases, numbered as parameter ``phrase`` of axis instruction."""


def instruction(parts: tuple[str, ...], phrase: int, thing: str) -> str:
    """Sentence that asks for ``parts`` in order, ``thing`` being the object to put away."""
    return " and then ".join(TEMPLATES[part][phrase].format(object=thing) for part in parts)


def task_parts(goal: Goal) -> tuple[str, ...]:
    """Parts of the task a goal asks for, in order (of any family's goal those known here)."""
    return tuple(PREDICATE_PARTS[atom.predicate] for atom in atoms(goal) if atom.predicate in PREDICATE_PARTS)


def _atom(part: str, thing: str) -> Atom:
    predicate = next(name for name, known in PREDICATE_PARTS.items() if known == part)
    args = {"put_in": (thing, DRAWER), "turn_on": (KNOB,), "turn_off": (KNOB,)}.get(part, (DRAWER,))
    return Atom(predicate=predicate, args=args)


def goal_of(parts: tuple[str, ...], thing: str) -> Goal:
    """Goal that asks for ``parts`` in order."""
    wanted = tuple(_atom(part, thing) for part in parts)
    return wanted[0] if len(wanted) == 1 else AllOf(all_of=wanted, ordered=True)


def _share_at_start(
    parts: tuple[str, ...], from_low: str, from_high: tuple[str, ...], offset: float, idle: float
) -> float:
    """Share of a joint's range at the start: the end its first part starts from, else ``idle``."""
    concerned = [part for part in parts if part == from_low or part in from_high]
    if not concerned:
        return idle
    return 1.0 - offset if concerned[0] in from_high else offset


@dataclass(frozen=True)
class Articulated:
    """Sampling, roles and stages of the family."""

    name: str = "articulated"
    axes: tuple[str, ...] = AXES

    def sample(self, ranges: FamilyRanges, rng: np.random.Generator) -> EnvironmentSpec:
        """Draw a scene. Raises ValidityError when the ranges leave no room for it."""
        return until_valid(lambda: _sample(ranges, rng))

    def roles(self, spec: EnvironmentSpec) -> dict[str, str]:
        """``object`` and ``receptacle`` of a put-in part; ``drawer`` and ``knob`` where they are to move."""
        roles: dict[str, str] = {}
        for atom in atoms(spec.goal):
            part = PREDICATE_PARTS.get(atom.predicate)
            if part == "put_in":
                roles.update(object=atom.args[0], receptacle=atom.args[1])
            elif part is not None:
                roles[spec.entity(atom.args[0]).kind] = atom.args[0]
        return roles

    def stages(self, spec: EnvironmentSpec) -> tuple[Stage, ...]:
        """Stages in order, for each part of the task."""
        known = [atom for atom in atoms(spec.goal) if atom.predicate in PREDICATE_PARTS]
        return tuple(stage for number, atom in enumerate(known) for stage in _stages(atom, number))


def _stages(atom: Atom, number: int) -> tuple[Stage, ...]:
    part, first = PREDICATE_PARTS[atom.predicate], atom.args[:1]
    if part == "put_in":
        return (
            Stage("approach", Atom(predicate="near", args=first), number),
            Stage("grasp", Atom(predicate="grasped", args=first), number),
            Stage("lift", Atom(predicate="lifted", args=first), number),
            Stage("transport", Atom(predicate="over_drawer", args=atom.args), number),
            Stage("place", atom, number),
        )
    reach = Stage("approach", Atom(predicate="at_handle", args=first, parameters={"distance": 0.06}), number)
    if part == "close":
        return (reach, Stage("close", atom, number))
    last = Stage("open" if part == "open" else "turn", atom, number)
    return (reach, Stage("grasp", Atom(predicate="grasped", args=first), number), last)


def _sample(ranges: FamilyRanges, rng: np.random.Generator) -> EnvironmentSpec:
    steps = ranges.draw("composition", "steps", rng)
    task = ranges.draw("instruction", "task", rng)
    parts = tuple((task if steps == SINGLE else steps).split("+"))
    side = ranges.draw("position", "drawer_side", rng)
    drawer, knob = _drawer(ranges, rng, parts, side), _knob(ranges, rng, parts, side)
    items = draw_items(ranges, 1 + int(ranges.draw("clutter", "count", rng)), rng)
    objects = _objects(ranges, rng, items, _layout(rng, drawer, knob), side)
    thing = items[0].name
    return EnvironmentSpec(
        family="articulated",
        instruction=instruction(parts, int(ranges.draw("instruction", "phrase", rng)), thing),
        objects=objects, fixtures=(drawer, knob), goal=goal_of(parts, thing),
        physics=draw_physics(ranges, rng), cameras=(draw_camera(ranges, rng),), light=draw_light(ranges, rng),
        robot_start=draw_start(ranges, rng), horizon=sum(HORIZONS[part] for part in parts),
        seed=int(rng.integers(2**31)),
        provenance=Provenance(task="+".join(parts)),
    )


def _sign(side: str) -> float:
    return 1.0 if side == "left" else -1.0


def _drawer(ranges: FamilyRanges, rng: np.random.Generator, parts: tuple[str, ...], side: str) -> FixtureSpec:
    draw = lambda axis, name: ranges.draw(axis, name, rng)  # noqa: E731
    half = tuple(draw("objects", f"drawer_half_{name}") for name in ("depth", "width", "height"))
    offset, idle = draw("position", "drawer_start"), float(draw("position", "drawer_idle"))
    share = _share_at_start(parts, "open", ("close", "put_in"), offset, idle)
    x, y = draw("position", "drawer_x"), _sign(side) * draw("position", "drawer_y")
    yaw = _sign(side) * draw("position", "drawer_yaw")
    return FixtureSpec(
        name=DRAWER, kind="drawer", half_extents=half, color=draw("appearance", "drawer_color"),
        pose=Pose.planar(x, y, half[2], yaw),
        joint_range=DRAWER_TRAVEL, joint_value=share * DRAWER_TRAVEL[1],
        damping=draw("dynamics", "drawer_damping"), frictionloss=draw("dynamics", "drawer_friction"),
    )


def _knob(ranges: FamilyRanges, rng: np.random.Generator, parts: tuple[str, ...], side: str) -> FixtureSpec:
    draw = lambda axis, name: ranges.draw(axis, name, rng)  # noqa: E731
    offset, idle = draw("position", "knob_start"), float(draw("position", "knob_idle"))
    share = _share_at_start(parts, "turn_on", ("turn_off",), offset, idle)
    x, y = draw("position", "knob_x"), -_sign(side) * draw("position", "knob_y")
    return FixtureSpec(
        name=KNOB, kind="knob", half_extents=KNOB_HALF_EXTENTS, color=draw("appearance", "knob_color"),
        pose=Pose.planar(x, y, KNOB_HALF_EXTENTS[2], draw("position", "knob_yaw")),
        joint_range=KNOB_TRAVEL, joint_value=share * KNOB_TRAVEL[1],
        damping=draw("dynamics", "knob_damping"), frictionloss=draw("dynamics", "knob_friction"),
    )


def _layout(rng: np.random.Generator, drawer: FixtureSpec, knob: FixtureSpec) -> Layout:
    """Footprints of the cabinet and of what the drawer and the hand on its handle sweep, and of the knob."""
    layout = Layout(rng)
    hx, hy, _ = drawer.half_extents
    cosine, sine = np.cos(drawer.pose.yaw), np.sin(drawer.pose.yaw)
    front = -hx - HANDLE_STANDOFF - DRAWER_TRAVEL[1] - HAND_ROOM
    radius = hy / np.sqrt(2)
    for along in np.arange(front + hy / 2, hx, hy):
        for across in (-hy / 2, hy / 2):
            x = drawer.pose.position[0] + cosine * along - sine * across
            y = drawer.pose.position[1] + sine * along + cosine * across
            layout.placed.append(Footprint(float(x), float(y), float(radius)))
    layout.place(lambda: knob.pose.position[:2], 0.065, 0.0)
    return layout


def _objects(
    ranges: FamilyRanges, rng: np.random.Generator, items: list[Item], layout: Layout, side: str
) -> tuple[ObjectSpec, ...]:
    """The thing that may be put away first, then the distractors, on the knob's side of the table."""
    objects = []
    for number, item in enumerate(items):
        gap = ranges.draw("clutter", "gap", rng)

        def mirrored(thing: str = "other" if number else "object") -> tuple[float, float]:
            x, y = draw_position(ranges, rng, thing)
            return x, -_sign(side) * y

        x, y = layout.place(mirrored, item.radius, gap)
        objects.append(movable(item, "object" if number == 0 else "distractor", x, y, ranges, rng))
    return tuple(objects)


DEFINITION = Articulated()
