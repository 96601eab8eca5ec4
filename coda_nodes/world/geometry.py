"""Dimensions of composite shapes and rotation arithmetic that simulators, predicates and experts share.

A receptacle's ``half_extents`` are its outer ones; what is inside follows from the constants here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

BIN_WALL = 0.006
"""Thickness of the four walls of a bin [m]."""
BIN_FLOOR = 0.006
"""Thickness of the floor of a bin [m]."""


def rotation_matrices(quaternion_xyzw: Array) -> Array:
    """Rotation matrices of unit quaternions xyzw. Shape (..., 4) to (..., 3, 3)."""
    x, y, z, w = np.moveaxis(quaternion_xyzw, -1, 0)
    x2, y2, z2 = 2 * x, 2 * y, 2 * z
    xx, yy, zz, xy, xz, yz = x * x2, y * y2, z * z2, x * y2, x * z2, y * z2
    wx, wy, wz = w * x2, w * y2, w * z2
    flat = np.stack(
        [1 - yy - zz, xy - wz, xz + wy, xy + wz, 1 - xx - zz, yz - wx, xz - wy, yz + wx, 1 - xx - yy], -1
    )
    return flat.reshape(*flat.shape[:-1], 3, 3)


def world_extents(rotation: Array, half_extents: Array, cylinder: NDArray[np.bool_]) -> Array:
    """Half extents [m] along the outer frame's axes of turned boxes
    and (where ``cylinder``) turned cylinders.

    ``rotation`` (..., 3, 3), ``half_extents`` (..., 3), ``cylinder`` (...); returns (..., 3). A cylinder of
    radius r,
    half height h and axis a spans r sqrt(1 - a_i^2) + h |a_i| along axis i.
    """
    boxes = np.einsum("...ij,...j->...i", np.abs(rotation), half_extents)
    axis = np.abs(rotation[..., 2])
    round_part = half_extents[..., :1] * np.sqrt(np.maximum(1.0 - axis * axis, 0.0))
    return np.where(cylinder[..., None], round_part + half_extents[..., 2:] * axis, boxes)


def yaw_of(quaternion_xyzw: Array) -> Array:
    """Heading of the x axis in the horizontal plane [rad]. Shape (..., 4) to (...)."""
    x, y, z, w = np.moveaxis(quaternion_xyzw, -1, 0)
    return np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))


def wrap(angle: Array, period: float = 2 * np.pi) -> Array:
    """Nearest equivalent of ``angle`` [rad] to zero under ``period``."""
    return angle - period * np.round(angle / period)


def quaternion_multiply(first: Array, second: Array) -> Array:
    """Hamilton product of quaternions xyzw. Shapes (..., 4)."""
    ax, ay, az, aw = np.moveaxis(first, -1, 0)
    bx, by, bz, bw = np.moveaxis(second, -1, 0)
    return np.stack(
        [
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
            aw * bw - ax * bx - ay * by - az * bz,
        ],
        -1,
    )


def rotation_vector(quaternion_xyzw: Array) -> Array:
    """Rotation vector [rad] (shortest way) of unit quaternions xyzw. Shape (..., 4) to (..., 3)."""
    quaternion = np.where(quaternion_xyzw[..., 3:] < 0, -quaternion_xyzw, quaternion_xyzw)
    sine = np.linalg.norm(quaternion[..., :3], axis=-1, keepdims=True)
    angle = 2 * np.arctan2(sine, quaternion[..., 3:])
    return quaternion[..., :3] * np.where(sine > 1e-9, angle / np.maximum(sine, 1e-9), 2.0)


def tool_down(yaw: Array) -> Array:
    """Orientation xyzw of a tool that points straight down (z of the tool along -z), turned by ``yaw``
    [rad] about the
    vertical; at yaw 0 the x axis of the tool is the x axis of the base and the fingers close along y.

    Shape (...) to (..., 4).
    """
    zero = np.zeros_like(yaw)
    return np.stack([np.cos(yaw / 2), np.sin(yaw / 2), zero, zero], -1)
