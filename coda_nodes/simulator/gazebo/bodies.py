"""What an SDF world is made of, as plain data: shapes, links, joints, models. Poses are [m] and quaternions xyzw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from coda_nodes.world.fixtures import Part

Array = NDArray[np.float64]
Vector = tuple[float, ...]
ORIGIN = (0.0, 0.0, 0.0)
UPRIGHT = (0.0, 0.0, 0.0, 1.0)


@dataclass(frozen=True)
class Placed:
    """A pose: position [m] and unit quaternion xyzw."""

    position: Vector = ORIGIN
    quaternion_xyzw: Vector = UPRIGHT


@dataclass(frozen=True)
class Shape:
    """A primitive on a link."""

    name: str
    kind: str
    """``box`` (full edges), ``cylinder``, ``capsule`` (radius, length of the straight part) or ``sphere`` (radius)."""
    size: Vector
    """[m]"""
    rgba: Vector
    friction: float | None
    """Sliding friction; None: drawn only."""
    pose: Placed = Placed()


@dataclass(frozen=True)
class Link:
    """A rigid body. Its pose is that in its model while every joint stands at its start."""

    name: str
    shapes: tuple[Shape, ...]
    pose: Placed = Placed()
    mass: float = 0.0
    """[kg]; 0: not stated, for bodies that cannot move."""
    centre: Vector = ORIGIN
    """Centre of mass in the link's frame [m]."""
    inertia: Array | None = None
    """About the centre of mass, along the link's axes [kg m^2]. Shape (3, 3)."""
    gravity: bool = True


@dataclass(frozen=True)
class Joint:
    """A joint at the origin of its child. SDF counts its value from ``start``, where the links are posed."""

    name: str
    kind: str
    """``revolute``, ``prismatic`` or ``fixed``."""
    parent: str
    child: str
    axis: Vector = (0.0, 0.0, 1.0)
    """In the frame of the child."""
    lower: float = 0.0
    """[rad] or [m], counted as MuJoCo does."""
    upper: float = 0.0
    start: float = 0.0
    damping: float = 0.0
    friction: float = 0.0
    effort: float | None = None
    """Largest force [N] or torque [N m]; None: no limit."""
    velocity: float | None = None


@dataclass(frozen=True)
class Gain:
    """Controller of one joint: force = position (q* - q) + velocity (v* - v)."""

    joint: str
    position: float
    velocity: float
    most: float
    """Largest force of each of the two terms [N] or [N m]."""


@dataclass(frozen=True)
class Model:
    """A named thing in the world."""

    name: str
    links: tuple[Link, ...]
    joints: tuple[Joint, ...] = ()
    pose: Placed = Placed()
    static: bool = False
    gains: tuple[Gain, ...] = ()
    """With gains, the model follows joint trajectories."""
    entity: str = ""
    """Entity of the specification it stands for."""


def shape_of(part: Part, rgba: Vector, friction: float | None) -> Shape:
    """Shape of a part of a fixture or receptacle."""
    a, b, c = part.half_extents
    size = (a, 2 * c) if part.shape == "cylinder" else (2 * a, 2 * b, 2 * c)
    return Shape(part.name, part.shape, size, rgba, friction, Placed(part.centre))


def turned(pose: Placed, offset: Vector) -> Vector:
    """Position of a point given in the frame of ``pose``."""
    return tuple(np.array(pose.position) + Rotation.from_quat(pose.quaternion_xyzw).apply(offset))
