"""Joint states and trajectories <-> arrays, always by joint name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from builtin_interfaces.msg import Duration
from numpy.typing import NDArray
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from coda_nodes.ros.quantities import doubles, finite, header, time_from_message
from coda_nodes.world.errors import MessageError, unknown

Array = NDArray[np.float64]


def joint_state_to_message(
    names: Sequence[str], positions: Array, stamp: float, velocities: Array | None = None
) -> JointState:
    """Joint state with stamp [s]; positions (J,) [rad] or [m] in the order of ``names``."""
    message = JointState(header=header(stamp), name=list(names), position=doubles(positions))
    if velocities is not None:
        message.velocity = doubles(velocities)
    return message


def joint_positions_from_message(message: JointState, names: Sequence[str]) -> Array:
    """Positions (J,) in the order of ``names``; joints of the message that are not asked for are left out.

    Raises:
        MessageError: a joint is missing, named twice, has no position or a position that is not finite.
    """
    if len(message.position) != len(message.name):
        raise MessageError(f"joint state: {len(message.name)} names but {len(message.position)} positions")
    if len(set(message.name)) != len(message.name):
        raise MessageError(f"joint state names a joint twice: {', '.join(message.name)}")
    index = {name: i for i, name in enumerate(message.name)}
    for name in names:
        if name not in index:
            raise MessageError(f"joint state: {unknown('joint', name, message.name)}")
    order = [index[name] for name in names]
    return finite(np.array(message.position)[order], "joint state position")


def trajectory_to_message(names: Sequence[str], positions: Array, times: Array) -> JointTrajectory:
    """Trajectory that a controller starts when it arrives (stamp 0).

    ``positions`` (T, J) [rad] or [m] in the order of ``names``, reached ``times`` (T,) [s] after the start.
    Raises MessageError for NaN and for times that are not positive and rising.
    """
    _check_times(times)
    message = JointTrajectory(joint_names=list(names))
    for moment, row in zip(times, finite(positions, "trajectory"), strict=True):
        nanoseconds = round(float(moment) * 1e9)
        reached = Duration(sec=nanoseconds // 1_000_000_000, nanosec=nanoseconds % 1_000_000_000)
        message.points.append(JointTrajectoryPoint(positions=doubles(row), time_from_start=reached))
    return message


def _check_times(times: Array) -> None:
    if not len(times) or not np.isfinite(times).all() or times[0] <= 0 or (np.diff(times) <= 0).any():
        raise MessageError(f"trajectory times {np.asarray(times).tolist()} s: expected positive and rising")


def trajectory_from_message(message: JointTrajectory, names: Sequence[str]) -> tuple[Array, Array]:
    """Times after the start [s] (T,), and positions (T, J) in the order of ``names``.

    Raises:
        MessageError: no point, a joint missing or unknown, a point of another length, NaN, or times that are
            not positive and rising.
    """
    given = list(message.joint_names)
    for name in (*given, *names):
        if name not in names or name not in given:
            raise MessageError(f"trajectory for {', '.join(given)}: {unknown('joint', name, names)}")
    if not message.points:
        raise MessageError("trajectory without points")
    for i, point in enumerate(message.points):
        if len(point.positions) != len(given):
            raise MessageError(
                f"trajectory point {i} has {len(point.positions)} positions for {len(given)} joints"
            )
    times = np.array([time_from_message(point.time_from_start) for point in message.points])
    _check_times(times)
    order = [given.index(name) for name in names]
    return times, finite(np.array([point.positions for point in message.points])[:, order], "trajectory")
