"""Entities of a specification as convex solids, and the depth to which two of them overlap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.spatial.transform import Rotation

from coda_nodes.world.fixtures import Part, bin_parts, drawer_parts, grip_offset, knob_parts, slot_parts
from coda_nodes.world.spec import FixtureSpec, ObjectSpec

Array = NDArray[np.float64]

CYLINDER_SIDES = 16
"""A cylinder is taken as the regular prism around it."""


@dataclass(frozen=True)
class Solid:
    """A convex body in the world frame: points x with ``normals @ x <= offsets`` [m]."""

    owner: str
    part: str
    centre: Array
    rotation: Array
    half_extents: Array
    normals: Array
    """Unit vectors. Shape (F, 3)."""
    offsets: Array
    """Shape (F,)."""

    @property
    def radius(self) -> float:
        """Radius of the bounding sphere [m]."""
        return float(np.linalg.norm(self.half_extents))

    @property
    def low(self) -> float:
        """Height of the lowest point [m] (of a cylinder's bounding box)."""
        return float(self.centre[2] - np.abs(self.rotation[2]) @ self.half_extents)

    @property
    def high(self) -> float:
        """Height of the highest point [m] (of a cylinder's bounding box)."""
        return float(self.centre[2] + np.abs(self.rotation[2]) @ self.half_extents)

    def shadows(self, point: Array) -> bool:
        """Whether a vertical line through ``point`` meets the solid."""
        local = self.rotation.T @ (point - self.centre)
        up = self.rotation.T @ np.array([0.0, 0.0, 1.0])
        flat = np.abs(up) < 0.5
        return bool(np.all(np.abs(local[flat]) <= self.half_extents[flat]))


def solids(entity: ObjectSpec | FixtureSpec) -> tuple[Solid, ...]:
    """Convex solids of an entity where its pose and joint value put it; a marker has none."""
    rotation = Rotation.from_quat(entity.pose.quaternion_xyzw).as_matrix()
    origin = np.array(entity.pose.position)
    if isinstance(entity, FixtureSpec):
        return _fixture(entity, origin, rotation)
    if entity.shape == "marker":
        return ()
    if entity.shape == "slot":
        parts: tuple[Part, ...] = slot_parts(entity.half_extents)
    elif entity.shape == "bin":
        parts = bin_parts(entity.half_extents)
    else:
        shape = "box" if entity.shape == "box" else "cylinder"
        parts = (Part("body", (0.0, 0.0, 0.0), entity.half_extents, shape),)
    return tuple(_solid(entity.name, part, origin, rotation) for part in parts)


def _fixture(entity: FixtureSpec, origin: Array, rotation: Array) -> tuple[Solid, ...]:
    if entity.kind == "drawer":
        fixed, moving = drawer_parts(entity.half_extents)
        moved_origin = origin + rotation @ np.array([-entity.joint_value, 0.0, 0.0])
        moved_rotation = rotation
    else:
        fixed, moving = knob_parts(entity.half_extents)
        moved_origin = origin
        moved_rotation = rotation @ Rotation.from_rotvec([0.0, 0.0, entity.joint_value]).as_matrix()
    still = tuple(_solid(entity.name, part, origin, rotation) for part in fixed)
    return still + tuple(_solid(entity.name, part, moved_origin, moved_rotation) for part in moving)


def _solid(owner: str, part: Part, origin: Array, rotation: Array) -> Solid:
    half = np.array(part.half_extents, dtype=float)
    if part.shape == "cylinder":
        local = _cylinder_normals()
        reach = np.where(local[:, 2] == 0.0, half[0], half[2])
    else:
        local = np.concatenate([np.eye(3), -np.eye(3)])
        reach = np.abs(local) @ half
    centre = origin + rotation @ np.array(part.centre)
    normals = local @ rotation.T
    return Solid(owner, part.name, centre, rotation, half, normals, reach + normals @ centre)


def _cylinder_normals() -> Array:
    angles = 2 * np.pi * np.arange(CYLINDER_SIDES) / CYLINDER_SIDES
    sides = np.stack([np.cos(angles), np.sin(angles), np.zeros_like(angles)], axis=1)
    return np.concatenate([sides, [[0.0, 0.0, 1.0], [0.0, 0.0, -1.0]]])


def overlap_depth(a: Solid, b: Solid) -> float:
    """Radius [m] of the largest ball inside both solids (linear program for the centre), 0 when apart."""
    if np.linalg.norm(a.centre - b.centre) >= a.radius + b.radius:
        return 0.0
    normals = np.concatenate([a.normals, b.normals])
    offsets = np.concatenate([a.offsets, b.offsets])
    system = np.concatenate([normals, np.ones((len(normals), 1))], axis=1)
    bounds = [(None, None)] * 3 + [(0.0, None)]
    result = linprog([0.0, 0.0, 0.0, -1.0], A_ub=system, b_ub=offsets, bounds=bounds)
    return float(result.x[3]) if result.status == 0 else 0.0


def entity_position(entity: ObjectSpec | FixtureSpec) -> tuple[Array, Array]:
    """Position [m] and quaternion xyzw that a scene state gives for an entity.

    An object's centre, a drawer's handle centre, a knob's grip centre (turned with the joint).
    """
    turn = Rotation.from_quat(entity.pose.quaternion_xyzw)
    origin = np.array(entity.pose.position)
    if isinstance(entity, ObjectSpec):
        return origin, turn.as_quat()
    if entity.kind == "drawer":
        return drawer_handle(entity), turn.as_quat()
    turned = turn * Rotation.from_rotvec([0.0, 0.0, entity.joint_value])
    return origin + turn.apply(grip_offset(np.array(entity.half_extents))), turned.as_quat()


def drawer_handle(entity: FixtureSpec) -> Array:
    """Handle centre of a drawer at its joint value, world frame [m]."""
    _, moving = drawer_parts(entity.half_extents)
    handle = next(part for part in moving if part.name == "handle")
    offset = np.array(handle.centre) - np.array([entity.joint_value, 0.0, 0.0])
    return np.array(entity.pose.position) + Rotation.from_quat(entity.pose.quaternion_xyzw).apply(offset)
