"""Chunks as what Gazebo's JointTrajectoryController follows: dense points, each the target until its time."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from coda_nodes.world.action import CONTROL_PERIOD

Array = NDArray[np.float64]
POINT_PERIOD = 0.005
"""Time between points [s]. The controller does not interpolate, it jumps from point to point."""
POINTS = round(CONTROL_PERIOD / POINT_PERIOD)
GRIPPER_LAG = 0.047
"""Time constant with which finger targets approach their command [s]: in MuJoCo damping over stiffness of the
gripper's actuator (70 N s/m, 1500 N/m), which Gazebo's force control cannot have at 1 ms."""


def arm_points(begin: Array, targets: Array) -> tuple[Array, Array]:
    """Positions and velocities (m * POINTS + 1, J) that move linearly from ``begin`` (J,) through ``targets`` (m, J).

    The position of a point is the middle of its stretch; the last point holds the last target.
    """
    starts = np.concatenate([begin[None], targets[:-1]])
    way = (targets - starts)[:, None]
    share = ((np.arange(POINTS) + 0.5) / POINTS)[None, :, None]
    positions = (starts[:, None] + share * way).reshape(-1, len(begin))
    velocities = np.repeat((targets - starts) / CONTROL_PERIOD, POINTS, axis=0)
    return np.concatenate([positions, targets[-1:]]), np.concatenate([velocities, np.zeros((1, len(begin)))])


def finger_points(begin: float, commands: Array) -> Array:
    """Finger targets (m * POINTS + 1,) that approach ``commands`` (m,) with the gripper's lag, from ``begin``."""
    keep, points = math.exp(-POINT_PERIOD / GRIPPER_LAG), []
    value = begin
    for command in np.repeat(commands, POINTS):
        value = float(command + (value - command) * keep)
        points.append(value)
    return np.array([*points, value])


def times(steps: int) -> Array:
    """Ends of the points [s] of ``steps`` control steps. Shape (steps * POINTS + 1,)."""
    return POINT_PERIOD * np.arange(1, steps * POINTS + 2)
