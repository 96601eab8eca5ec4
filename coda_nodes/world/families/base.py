"""What every family offers, and the sampling steps that families share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from coda_nodes.world.colors import COLORS
from coda_nodes.world.errors import ValidityError
from coda_nodes.world.families.layout import ATTEMPTS as ATTEMPTS
from coda_nodes.world.families.layout import REACH as REACH
from coda_nodes.world.families.layout import Footprint as Footprint
from coda_nodes.world.families.layout import Layout as Layout
from coda_nodes.world.families.layout import until_valid as until_valid
from coda_nodes.world.ranges import FamilyRanges
from coda_nodes.world.robots import robot
from coda_nodes.world.spec import (
    Atom,
    CameraSpec,
    EnvironmentSpec,
    LightSpec,
    ObjectSpec,
    PhysicsSpec,
    Pose,
    RobotStart,
)

HOME = np.array(robot("panda").home)
"""Joint positions [rad] from which every start is offset."""
CAMERA_TARGET = (0.45, 0.0, 0.05)
"""Point the front camera looks at [m]."""
SHAPES: dict[str, tuple[str, tuple[float, float, float]]] = {
    "cube": ("box", (1.0, 1.0, 1.0)),
    "block": ("box", (1.0, 1.5, 0.8)),
    "can": ("cylinder", (1.0, 1.0, 1.4)),
    "puck": ("cylinder", (1.05, 1.05, 0.75)),
    "post": ("box", (0.85, 0.85, 1.7)),
}
"""Noun of a movable object -> solid, and half extents relative to its ``half_width``."""
MORE_COLORS = ("yellow", "purple", "orange")
"""Colours of things that no other name is left for."""


@dataclass(frozen=True)
class Stage:
    """One step on the way to the goal: a stage name of ``diagnosis.STAGES`` and the predicate that ends it.

    ``part`` numbers the sub-task it belongs to, from 0.
    """

    name: str
    atom: Atom
    part: int = 0


class FamilyDefinition(Protocol):
    """What a family module defines as ``DEFINITION``."""

    name: str
    axes: tuple[str, ...]

    def sample(self, ranges: FamilyRanges, rng: np.random.Generator) -> EnvironmentSpec:
        """Draw a scene. Raises ValidityError when the ranges leave no room for it."""
        ...

    def roles(self, spec: EnvironmentSpec) -> dict[str, str]:
        """Role -> entity name."""
        ...

    def stages(self, spec: EnvironmentSpec) -> tuple[Stage, ...]:
        """Stages in order."""
        ...


@dataclass(frozen=True)
class Item:
    """A movable object before it has a place."""

    color: str
    noun: str
    half_width: float

    @property
    def name(self) -> str:
        """Noun phrase."""
        return f"{self.color} {self.noun}"

    @property
    def half_extents(self) -> tuple[float, float, float]:
        """[m]."""
        x, y, z = SHAPES[self.noun][1]
        return (self.half_width * x, self.half_width * y, self.half_width * z)

    @property
    def radius(self) -> float:
        """Radius of the outline [m]."""
        x, y, _ = self.half_extents
        return x if SHAPES[self.noun][0] == "cylinder" else math.hypot(x, y)


def draw_items(ranges: FamilyRanges, count: int, rng: np.random.Generator) -> list[Item]:
    """Draw ``count`` movable objects (axis objects: color, shape, half_width) with names all different.

    Colours differ as long as there are enough of them; scenes of more things than the
    ranges have names for take further colours of MORE_COLORS. Raises ValidityError when names run out.
    """
    colors = list(ranges.allowed("objects", "color").values)
    names = len(colors) * len(ranges.allowed("objects", "shape").values)
    colors += [color for color in MORE_COLORS if color not in colors][: max(0, count - names)]
    colors = _cycle(colors, count, rng)
    items: list[Item] = []
    for color in colors:
        for _ in range(ATTEMPTS):
            noun = ranges.draw("objects", "shape", rng)
            if all(item.name != f"{color} {noun}" for item in items):
                items.append(Item(color, noun, ranges.draw("objects", "half_width", rng)))
                break
        else:
            raise ValidityError(f"colours and shapes give fewer than {count} different names")
    return items


def _cycle(values: Sequence[str], count: int, rng: np.random.Generator) -> list[str]:
    order: list[str] = []
    while len(order) < count:
        order += [values[i] for i in rng.permutation(len(values))]
    return order[:count]


def draw_position(
    ranges: FamilyRanges, rng: np.random.Generator, thing: str = "object", axis: str = "position"
) -> tuple[float, float]:
    """Draw (x, y) [m] from ``<thing>_x`` and ``<thing>_y``."""
    return ranges.draw(axis, f"{thing}_x", rng), ranges.draw(axis, f"{thing}_y", rng)


def place_items(
    items: Sequence[Item], asked: Sequence[Item], layout: Layout, gap: float, ranges: FamilyRanges
) -> list[ObjectSpec]:
    """Movable objects at free places: those asked for where axis position says, the others
    there and up to ``spread`` [m] (axis clutter) around it."""
    loose, rng = [], layout.rng
    spread = ranges.draw("clutter", "spread", rng)
    for item in items:
        draw = partial(_spread, ranges, 0.0 if item in asked else spread, rng)
        x, y = layout.place(draw, item.radius, gap)
        loose.append(movable(item, "object" if item in asked else "distractor", x, y, ranges, rng))
    return loose


def _spread(ranges: FamilyRanges, by: float, rng: np.random.Generator) -> tuple[float, float]:
    x, y = draw_position(ranges, rng)
    return x + by * rng.uniform(-1, 1), y + by * rng.uniform(-1, 1)


def movable(
    item: Item, role: str, x: float, y: float, ranges: FamilyRanges, rng: np.random.Generator
) -> ObjectSpec:
    """The object at rest on the table at (x, y) [m], with drawn heading (axis position: object_yaw), mass
    and friction."""
    half = item.half_extents
    return ObjectSpec(
        name=item.name,
        shape=SHAPES[item.noun][0],
        role=role,
        half_extents=half,
        color=item.color,
        mass=ranges.draw("dynamics", "mass", rng),
        friction=ranges.draw("dynamics", "friction", rng),
        pose=Pose.planar(x, y, half[2], ranges.draw("position", "object_yaw", rng)),
    )


def draw_physics(ranges: FamilyRanges, rng: np.random.Generator) -> PhysicsSpec:
    """Axis dynamics: damping_scale."""
    return PhysicsSpec(damping_scale=ranges.draw("dynamics", "damping_scale", rng))


def draw_camera(ranges: FamilyRanges, rng: np.random.Generator) -> CameraSpec:
    """Axis appearance: camera_distance [m], camera_azimuth [rad], camera_elevation
    [rad] about the table's middle."""
    distance, azimuth, elevation = (
        ranges.draw("appearance", f"camera_{name}", rng) for name in ("distance", "azimuth", "elevation")
    )
    x, y, z = CAMERA_TARGET
    flat = distance * math.cos(elevation)
    position = (
        x + flat * math.cos(azimuth),
        y + flat * math.sin(azimuth),
        z + distance * math.sin(elevation),
    )
    return CameraSpec(name="front", position=position, look_at=CAMERA_TARGET)


def draw_light(ranges: FamilyRanges, rng: np.random.Generator) -> LightSpec:
    """Axis appearance: light_azimuth [rad] (direction the light comes from), light_intensity."""
    azimuth = ranges.draw("appearance", "light_azimuth", rng)
    direction = (-0.4 * math.cos(azimuth), -0.4 * math.sin(azimuth), -1.0)
    return LightSpec(direction=direction, intensity=ranges.draw("appearance", "light_intensity", rng))


def draw_start(ranges: FamilyRanges, rng: np.random.Generator) -> RobotStart:
    """Axis start_pose: base_yaw [rad] (first joint), joint_offset [rad] (each other joint, either sign),
    gripper_opening."""
    offset = np.array([ranges.draw("start_pose", "joint_offset", rng) for _ in HOME])
    offset *= rng.choice([-1.0, 1.0], size=len(offset))
    offset[0] = ranges.draw("start_pose", "base_yaw", rng)
    joints = tuple(float(value) for value in HOME + offset)
    return RobotStart(
        joint_positions=joints, gripper_opening=ranges.draw("start_pose", "gripper_opening", rng)
    )


RECEPTACLES = (
    "blue bin",
    "green bin",
    "white plate",
    "red bin",
    "yellow bin",
    "gray plate",
    "orange bin",
    "black plate",
)
"""Receptacles a scene may hold; their order numbers them for pairings."""
BIN_HALF_HEIGHT = 0.03
"""[m]"""
PLATE_HALF_HEIGHT = 0.006
"""[m]"""


def pairing(subject: str, target: str) -> int:
    """Class 0, 1 or 2 of asking for a thing of one colour to go to another thing.

    Splits keep classes apart: what is never asked for in train is made of words that all occur there.
    Receptacles
    count by their place in RECEPTACLES, other things by that of their colour in the palette.
    """
    return (_number(subject) - _number(target)) % 3


def _number(name: str) -> int:
    return RECEPTACLES.index(name) if name in RECEPTACLES else list(COLORS).index(name.split()[0])


def receptacle(
    name: str, layout: Layout, gap: float, ranges: FamilyRanges, rng: np.random.Generator, extra: bool = False
) -> ObjectSpec:
    """A bin or plate at a drawn free place (axis position: receptacle_x, receptacle_y, receptacle_yaw; axis
    objects:
    bin_half_width, plate_radius); an ``extra`` one stands behind (axis clutter: extra_x, extra_y)."""
    shape = name.split()[-1]
    half = ranges.draw("objects", "bin_half_width" if shape == "bin" else "plate_radius", rng)
    height = BIN_HALF_HEIGHT if shape == "bin" else PLATE_HALF_HEIGHT
    yaw = ranges.draw("position", "receptacle_yaw", rng)
    outline = half * (abs(math.cos(yaw)) + abs(math.sin(yaw))) * 1.1 if shape == "bin" else half
    axis, thing = ("clutter", "extra") if extra else ("position", "receptacle")
    x, y = layout.place(lambda: draw_position(ranges, rng, thing, axis), outline, gap)
    return ObjectSpec(
        name=name,
        shape=shape,
        role="receptacle",
        half_extents=(half, half, height),
        color=name.split()[0],
        mass=0.5,
        friction=1.0,
        pose=Pose.planar(x, y, height, yaw),
    )
