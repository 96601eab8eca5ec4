"""Forward and inverse kinematics of a serial arm, batched in numpy; the same code in every path that moves an
arm.

Rows do not influence one another: the result for a scene does not depend on what else is in the batch.
Method: damped least squares with a null-space pull towards a rest posture (Nakamura and Hanafusa 1986; Buss
2004; Sugihara 2011).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from coda_nodes.world.action import CHUNK_STEPS, CONTROL_PERIOD
from coda_nodes.world.config import check_settings, setting
from coda_nodes.world.robots import RobotDescription

Array = NDArray[np.float64]


@dataclass(frozen=True)
class KinematicsConfig:
    """Settings of the inverse kinematics."""

    iterations: int = setting(
        4, "Newton steps for a chunk; fixed, so that time and result are the same every call", low=1, high=100
    )
    far_iterations: int = setting(30, "Newton steps of solve, whose target may be far away", low=1, high=1000)
    damping: float = setting(1e-5, "added to the diagonal of J J^T", low=1e-9, high=1.0)
    error_damping: float = setting(
        0.02,
        "damping added per squared pose error: calm where a target is out of reach (Sugihara 2011)",
        low=0.0,
        high=10.0,
    )
    step: float = setting(0.35, "largest joint change in one iteration", "rad", low=0.01, high=3.0)
    limit_margin: float = setting(0.01, "distance kept from the joint limits", "rad", low=0.0, high=0.3)
    rest_rate: float = setting(
        0.2, "speed of the pull towards home in the null space", "rad/s", low=0.0, high=2.0
    )

    def __post_init__(self) -> None:
        check_settings(self)


class Kinematics:
    """Kinematics of one arm's tool frame. Joint arrays are (n, J) [rad], positions [m] in the base frame."""

    def __init__(self, robot: RobotDescription, config: KinematicsConfig | None = None) -> None:
        self.robot = robot
        self.config = config or KinematicsConfig()
        self._offsets, self._turns, self._tool_offset, self._tool_turn = _chain(robot)
        margin = self.config.limit_margin
        self._low, self._high = np.array(robot.lower) + margin, np.array(robot.upper) - margin
        self._home = np.array(robot.home)

    def forward(self, q: Array) -> tuple[Array, Array]:
        """Tool pose at joint positions (n, J): position (n, 3), quaternion xyzw (n, 4)."""
        position, rotation = self._pose(np.asarray(q, dtype=float))
        return position, Rotation.from_matrix(rotation).as_quat()

    def solve(self, q0: Array, position: Array, quaternion_xyzw: Array) -> Array:
        """Joint positions near ``q0`` whose tool pose is nearest the target. Shapes (n, J), (n, 3), (n, 4) ->
        (n, J).

        A target out of reach gives the nearest pose found within the joint limits; check with ``forward``.
        """
        rotation = Rotation.from_quat(quaternion_xyzw).as_matrix()
        start = np.asarray(q0, dtype=float)
        return self._solve(
            start, np.asarray(position, dtype=float), rotation, start, self.config.far_iterations
        )

    def chunk_to_joints(self, q0: Array, chunk: Array) -> tuple[Array, Array]:
        """Joint targets (n, 8, J) and gripper openings (n, 8) of action chunks (n, 8, 7) begun at ``q0`` (n,
        J).

        Each target is within joint limits and reachable from the one before at the joint velocity limits.
        """
        q0 = np.asarray(q0, dtype=float)
        n, joints = q0.shape
        position, rotation = self._pose(q0)
        goal = position[:, None] + chunk[..., :3]
        turn = Rotation.from_rotvec(chunk[..., 3:6].reshape(-1, 3)).as_matrix().reshape(n, CHUNK_STEPS, 3, 3)
        goal_rotation = turn @ rotation[:, None]
        start = np.repeat(q0[:, None], CHUNK_STEPS, axis=1)
        reach = self.config.rest_rate * CONTROL_PERIOD * np.arange(1, CHUNK_STEPS + 1)[None, :, None]
        rest = start + np.clip(self._home - start, -reach, reach)
        flat = self._solve(
            start.reshape(-1, joints),
            goal.reshape(-1, 3),
            goal_rotation.reshape(-1, 3, 3),
            rest.reshape(-1, joints),
            self.config.iterations,
        )
        return self._limit_velocity(q0, flat.reshape(n, CHUNK_STEPS, joints)), np.clip(
            chunk[..., 6], 0.0, 1.0
        )

    def _limit_velocity(self, q0: Array, targets: Array) -> Array:
        most = np.array(self.robot.velocity) * CONTROL_PERIOD
        limited, previous = np.empty_like(targets), q0
        for k in range(targets.shape[1]):
            previous = previous + np.clip(targets[:, k] - previous, -most, most)
            limited[:, k] = previous
        return limited

    def _solve(self, q: Array, position: Array, rotation: Array, rest: Array, iterations: int) -> Array:
        limit, q, rest = self.config.step, q.T, rest.T
        low, high = self._low[:, None], self._high[:, None]
        position, rotation = position.T, rotation.transpose(1, 2, 0)
        for _ in range(iterations):
            now, turn, anchors, axes = self._forward(q)
            error = np.concatenate([position - now, _rotation_error(turn, rotation)])
            jacobian = np.concatenate([_cross(axes, now - anchors), axes], axis=1)
            squared, pull = (error * error).sum(axis=0), rest - q
            error -= (jacobian * pull[:, None]).sum(axis=0)
            gram = np.einsum("jan,jbn->abn", jacobian, jacobian)
            gram[range(6), range(6)] += self.config.damping + self.config.error_damping * squared
            change = (jacobian * _solve_positive(gram, error)).sum(axis=1) + pull
            scale = np.minimum(1.0, limit / np.maximum(np.abs(change).max(axis=0), 1e-12))
            q = np.clip(q + change * scale, low, high)
        return q.T

    def _pose(self, q: Array) -> tuple[Array, Array]:
        """Tool position (n, 3) and rotation (n, 3, 3) at joint positions (n, J)."""
        position, rotation, _, _ = self._forward(q.T)
        return np.ascontiguousarray(position.T), np.ascontiguousarray(rotation.transpose(2, 0, 1))

    def _forward(self, q: Array) -> tuple[Array, Array, Array, Array]:
        """Tool position (3, n) and rotation (3, 3, n), joint anchors and axes (J, 3, n), at joint positions
        (J, n).

        Rows last: every operation runs over all rows at once, and no row's rounding depends on another's.
        """
        joints, n = q.shape
        cosine, sine = np.cos(q), np.sin(q)
        position, columns = np.zeros((3, n)), list(np.repeat(np.eye(3)[:, :, None], n, axis=2))
        anchors, axes = np.empty((joints, 3, n)), np.empty((joints, 3, n))
        for j in range(joints):
            position = position + _combine(columns, self._offsets[j])
            x, y, z = (_combine(columns, self._turns[j][:, k]) for k in range(3))
            columns = [cosine[j] * x + sine[j] * y, cosine[j] * y - sine[j] * x, z]
            anchors[j], axes[j] = position, z
        position = position + _combine(columns, self._tool_offset)
        rotation = np.stack([_combine(columns, self._tool_turn[:, k]) for k in range(3)], axis=1)
        return position, rotation, anchors, axes


def _combine(columns: Sequence[Array], weights: Array) -> Array:
    """Weighted sum of arrays; terms of weight 0, of which joint frames at right angles have many, cost
    nothing."""
    total = None
    for column, weight in zip(columns, weights, strict=True):
        if weight:
            term = column * weight
            total = term if total is None else total + term
    return np.zeros_like(columns[0]) if total is None else total


def _cross(a: Array, b: Array) -> Array:
    """Cross product along the second axis. Shapes (J, 3, n)."""
    return np.stack(
        [
            a[:, 1] * b[:, 2] - a[:, 2] * b[:, 1],
            a[:, 2] * b[:, 0] - a[:, 0] * b[:, 2],
            a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0],
        ],
        axis=1,
    )


def _rotation_error(now: Array, goal: Array) -> Array:
    """Rotation vector [rad], base axes, that turns ``now`` into ``goal`` (less than half a turn). (3, 3, n)
    -> (3, n).

    Of R = goal now^T, twice the axis times the sine is the sum over columns of now x goal, and trace R the
    sum of their scalar products.
    """
    axis = sum(_cross(now[None, :, k], goal[None, :, k])[0] for k in range(3)) / 2
    sine = np.sqrt((axis * axis).sum(axis=0))
    angle = np.arctan2(sine, ((now * goal).sum(axis=(0, 1)) - 1) / 2)
    return axis * (angle / np.maximum(sine, 1e-12))


def _solve_positive(a: Array, b: Array) -> Array:
    """Solve ``a x = b`` for n symmetric positive definite systems by Cholesky. Shapes (m, m, n), (m, n) ->
    (m, n).

    Loops over the small size and vectorises over the systems: several times faster than ``np.linalg.solve``
    on a stack.
    """
    m = len(b)
    factor, y, x = np.zeros_like(a), np.empty_like(b), np.empty_like(b)
    for j in range(m):
        column = a[j:, j] - (factor[j:, :j] * factor[j, :j]).sum(axis=1)
        factor[j:, j] = column / np.sqrt(column[0])
        y[j] = (b[j] - (factor[j, :j] * y[:j]).sum(axis=0)) / factor[j, j]
    for j in reversed(range(m)):
        x[j] = (y[j] - (factor[j + 1 :, j] * x[j + 1 :]).sum(axis=0)) / factor[j, j]
    return x


def _chain(robot: RobotDescription) -> tuple[Array, Array, Array, Array]:
    """Fixed transforms before each joint (J, 3), (J, 3, 3) and from the last joint to the tool, read once
    from the MJCF.

    Each joint frame is turned so that its axis is z.
    """
    model = mujoco.MjModel.from_xml_path(str(robot.model_path))
    site = model.site(robot.tool_site)
    bodies = [int(site.bodyid[0])]
    while model.body_parentid[bodies[0]]:
        bodies.insert(0, int(model.body_parentid[bodies[0]]))
    position, rotation = np.zeros(3), np.eye(3)
    offsets, turns = [], []
    for body in bodies:
        position, rotation = _compose(position, rotation, model.body_pos[body], model.body_quat[body])
        if model.body_jntnum[body]:
            joint = int(model.body_jntadr[body])
            align, _ = Rotation.align_vectors([model.jnt_axis[joint]], [[0.0, 0.0, 1.0]])
            offsets.append(position + rotation @ model.jnt_pos[joint])
            turns.append(rotation @ align.as_matrix())
            position, rotation = -align.inv().apply(model.jnt_pos[joint]), align.inv().as_matrix()
    tool, turn = _compose(position, rotation, site.pos, site.quat)
    # right angles come out of quaternions with errors of 1e-16, where exact zeros save work
    return tuple(
        np.where(np.abs(part) < 1e-12, 0.0, part) for part in map(np.array, (offsets, turns, tool, turn))
    )  # type: ignore[return-value]


def _compose(position: Array, rotation: Array, offset: Array, quaternion_wxyz: Array) -> tuple[Array, Array]:
    turn = Rotation.from_quat(np.roll(quaternion_wxyz, -1)).as_matrix()
    return position + rotation @ offset, rotation @ turn
