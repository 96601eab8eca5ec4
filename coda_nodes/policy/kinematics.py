"""Forward and inverse kinematics of a serial arm, batched in numpy; the same code in every path that moves an arm.

Rows do not influence one another: the result for a scene does not depend on what else is in the batch. Method: damped
least squares with a null-space pull towards a rest posture (Nakamura and Hanafusa 1986; Buss 2004).
"""

from __future__ import annotations

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
        4, "Newton steps for a chunk; fixed, so that time and result are the same every call", low=1, high=100)
    far_iterations: int = setting(30, "Newton steps of solve, whose target may be far away", low=1, high=1000)
    damping: float = setting(1e-5, "added to the diagonal of J J^T", low=1e-9, high=1.0)
    step: float = setting(0.35, "largest joint change in one iteration", "rad", low=0.01, high=3.0)
    limit_margin: float = setting(0.01, "distance kept from the joint limits", "rad", low=0.0, high=0.3)
    rest_rate: float = setting(0.2, "speed of the pull towards home in the null space", "rad/s", low=0.0, high=2.0)

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
        position, rotation, _, _ = self._forward(np.asarray(q, dtype=float))
        return position, Rotation.from_matrix(rotation).as_quat()

    def solve(self, q0: Array, position: Array, quaternion_xyzw: Array) -> Array:
        """Joint positions near ``q0`` whose tool pose is nearest the target. Shapes (n, J), (n, 3), (n, 4) -> (n, J).

        A target out of reach gives the nearest pose found within the joint limits; check with ``forward``.
        """
        rotation = Rotation.from_quat(quaternion_xyzw).as_matrix()
        start = np.asarray(q0, dtype=float)
        return self._solve(start, np.asarray(position, dtype=float), rotation, start, self.config.far_iterations)

    def chunk_to_joints(self, q0: Array, chunk: Array) -> tuple[Array, Array]:
        """Joint targets (n, 8, J) and gripper openings (n, 8) of action chunks (n, 8, 7) begun at ``q0`` (n, J).

        Each target is within joint limits and reachable from the one before at the joint velocity limits.
        """
        q0 = np.asarray(q0, dtype=float)
        n, joints = q0.shape
        position, rotation, _, _ = self._forward(q0)
        goal = position[:, None] + chunk[..., :3]
        turn = Rotation.from_rotvec(chunk[..., 3:6].reshape(-1, 3)).as_matrix().reshape(n, CHUNK_STEPS, 3, 3)
        goal_rotation = turn @ rotation[:, None]
        start = np.repeat(q0[:, None], CHUNK_STEPS, axis=1)
        reach = self.config.rest_rate * CONTROL_PERIOD * np.arange(1, CHUNK_STEPS + 1)[None, :, None]
        rest = start + np.clip(self._home - start, -reach, reach)
        flat = self._solve(
            start.reshape(-1, joints), goal.reshape(-1, 3), goal_rotation.reshape(-1, 3, 3), rest.reshape(-1, joints),
            self.config.iterations,
        )
        return self._limit_velocity(q0, flat.reshape(n, CHUNK_STEPS, joints)), np.clip(chunk[..., 6], 0.0, 1.0)

    def _limit_velocity(self, q0: Array, targets: Array) -> Array:
        most = np.array(self.robot.velocity) * CONTROL_PERIOD
        limited, previous = np.empty_like(targets), q0
        for k in range(targets.shape[1]):
            previous = previous + np.clip(targets[:, k] - previous, -most, most)
            limited[:, k] = previous
        return limited

    def _solve(self, q: Array, position: Array, rotation: Array, rest: Array, iterations: int) -> Array:
        limit = self.config.step
        for _ in range(iterations):
            now, now_rotation, anchors, axes = self._forward(q)
            error = np.concatenate([position - now, _rotation_error(now_rotation, rotation)], axis=1)
            jacobian = np.concatenate([np.cross(axes, now[:, None] - anchors), axes], axis=2)
            pull = rest - q
            error -= np.einsum("nji,nj->ni", jacobian, pull)
            gram = np.einsum("nji,njk->ikn", jacobian, jacobian)
            gram[range(6), range(6)] += self.config.damping
            change = np.einsum("nji,in->nj", jacobian, _solve_positive(gram, error.T)) + pull
            q = np.clip(q + np.clip(change, -limit, limit), self._low, self._high)
        return q

    def _forward(self, q: Array) -> tuple[Array, Array, Array, Array]:
        """Tool position (n, 3) and rotation (n, 3, 3); joint anchors and axes (n, J, 3)."""
        n, joints = q.shape
        cosine, sine = np.cos(q), np.sin(q)
        position, rotation = np.zeros((n, 3)), np.broadcast_to(np.eye(3), (n, 3, 3))
        anchors, axes = np.empty((n, joints, 3)), np.empty((n, joints, 3))
        for j in range(joints):
            position = position + rotation @ self._offsets[j]
            fixed = rotation @ self._turns[j]
            c, s = cosine[:, j, None], sine[:, j, None]
            rotation = np.empty((n, 3, 3))
            rotation[:, :, 0] = c * fixed[:, :, 0] + s * fixed[:, :, 1]
            rotation[:, :, 1] = c * fixed[:, :, 1] - s * fixed[:, :, 0]
            rotation[:, :, 2] = fixed[:, :, 2]
            anchors[:, j], axes[:, j] = position, fixed[:, :, 2]
        return position + rotation @ self._tool_offset, rotation @ self._tool_turn, anchors, axes


def _rotation_error(now: Array, goal: Array) -> Array:
    """Rotation vector [rad], base axes, that turns ``now`` into ``goal`` (less than half a turn). (n, 3, 3) -> (n, 3)."""
    turn = goal @ now.transpose(0, 2, 1)
    axis = np.stack([turn[:, 2, 1] - turn[:, 1, 2], turn[:, 0, 2] - turn[:, 2, 0], turn[:, 1, 0] - turn[:, 0, 1]], 1) / 2
    sine = np.sqrt((axis * axis).sum(1))
    angle = np.arctan2(sine, (turn[:, 0, 0] + turn[:, 1, 1] + turn[:, 2, 2] - 1) / 2)
    return axis * (angle / np.maximum(sine, 1e-12))[:, None]


def _solve_positive(a: Array, b: Array) -> Array:
    """Solve ``a x = b`` for n symmetric positive definite systems by Cholesky. Shapes (m, m, n), (m, n) -> (m, n).

    Loops over the small size and vectorises over the systems: several times faster than ``np.linalg.solve`` on a stack.
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
    """Fixed transforms before each joint (J, 3), (J, 3, 3) and from the last joint to the tool, read once from the MJCF.

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
    return np.array(offsets), np.array(turns), tool, turn


def _compose(position: Array, rotation: Array, offset: Array, quaternion_wxyz: Array) -> tuple[Array, Array]:
    turn = Rotation.from_quat(np.roll(quaternion_wxyz, -1)).as_matrix()
    return position + rotation @ offset, rotation @ turn
