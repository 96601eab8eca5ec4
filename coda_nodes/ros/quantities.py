"""Headers, times, vectors and rotations.

The only place where numbers of messages are checked.
"""

from __future__ import annotations

import array
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point, Pose, Quaternion, Vector3
from numpy.typing import ArrayLike, NDArray
from std_msgs.msg import Header

from coda_nodes.ros.names import BASE_FRAME
from coda_nodes.world.errors import MessageError

Array = NDArray[np.float64]
_NORM_TOLERANCE = 1e-3


def time_to_message(seconds: float) -> Time:
    """Time [s] since the epoch (or since the start of simulated time), rounded to the nanosecond."""
    nanoseconds = round(seconds * 1e9)
    return Time(sec=nanoseconds // 1_000_000_000, nanosec=nanoseconds % 1_000_000_000)


def time_from_message(stamp: Any) -> float:
    """Seconds of a Time or Duration."""
    return float(stamp.sec + stamp.nanosec * 1e-9)


def header(seconds: float, frame: str = BASE_FRAME) -> Header:
    """Header with a stamp [s] and the name of the frame."""
    return Header(stamp=time_to_message(seconds), frame_id=frame)


def doubles(values: ArrayLike) -> array.array[float]:
    """Buffer of doubles for a ``float64[]`` field; lists and numpy arrays are slow there."""
    return array.array("d", np.ascontiguousarray(values, dtype=np.float64).tobytes())


def finite(values: Sequence[float] | Array, what: str) -> Array:
    """Return the values as an array. Raises MessageError that names the first one that is NaN or infinite."""
    numbers = np.array(values, dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if len(wrong):
        raise MessageError(f"{what}[{wrong[0]}] = {numbers.ravel()[wrong[0]]}: expected a finite number")
    return numbers


def number(value: float, what: str) -> float:
    """Return ``value``. Raises MessageError when it is NaN or infinite."""
    if not math.isfinite(value):
        raise MessageError(f"{what} = {value}: expected a finite number")
    return float(value)


def unit_quaternion_xyzw(values: Sequence[float] | Array, what: str) -> Array:
    """Check a quaternion xyzw and bring it to norm 1; one that is unit to rounding is returned bit by bit.

    Raises:
        MessageError: NaN, or a norm that differs from 1 by more than 0.001 (the zero quaternion, for
            instance).
    """
    quaternion = finite(values, what)
    norm = float(np.linalg.norm(quaternion))
    if abs(norm - 1.0) > _NORM_TOLERANCE:
        raise MessageError(f"{what} has norm {norm:.4f}: expected a unit quaternion xyzw")
    return quaternion if abs(norm - 1.0) < 1e-12 else quaternion / norm


def pose_to_message(position: Array, quaternion_xyzw: Array) -> Pose:
    """Pose from position [m] (3,) and quaternion xyzw (4,)."""
    x, y, z = (float(v) for v in position)
    qx, qy, qz, qw = (float(v) for v in quaternion_xyzw)
    return Pose(position=Point(x=x, y=y, z=z), orientation=Quaternion(x=qx, y=qy, z=qz, w=qw))


def pose_from_message(pose: Pose, what: str) -> tuple[Array, Array]:
    """Position [m] (3,) and unit quaternion xyzw (4,).

    Raises MessageError for NaN and for non-unit rotations.
    """
    p, q = pose.position, pose.orientation
    position = finite((p.x, p.y, p.z), f"{what}.position")
    return position, unit_quaternion_xyzw((q.x, q.y, q.z, q.w), f"{what}.orientation")


def vector_to_message(values: Array) -> Vector3:
    """Vector3 from an array of shape (3,)."""
    x, y, z = (float(v) for v in values)
    return Vector3(x=x, y=y, z=z)


def vector_from_message(vector: Vector3, what: str) -> Array:
    """Array of shape (3,). Raises MessageError for NaN."""
    return finite((vector.x, vector.y, vector.z), what)
