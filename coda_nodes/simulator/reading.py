"""Reads scene states out of the arrays a batch keeps current."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mujoco.batch import Batch
from numpy.typing import NDArray

from coda_nodes.simulator.scene import ENTITY_SLOTS, SceneModel
from coda_nodes.world.geometry import quaternion_multiply
from coda_nodes.world.spec import EnvironmentSpec
from coda_nodes.world.state import SceneState

Array = NDArray[np.float64]
Ints = NDArray[np.int_]

CLOSED = 0.03
"""Gripper opening below which nothing can be between the pads: closed fingers that push do not grasp."""


class SceneReader:
    """Index arrays of the loaded specifications, made once per reset; ``read`` is then a few gathers."""

    def __init__(
        self, scene: SceneModel, batch: Batch, specs: Sequence[EnvironmentSpec], slots: Sequence[Sequence[int]],
        arrays: tuple[Array, Array, NDArray[np.bool_]],
    ) -> None:
        n = len(specs)
        self._scene, self._rows = scene, np.arange(n)[:, None]
        self._half, self._ranges, self._present = arrays
        self._names = tuple(spec.entity_names for spec in specs)
        self._instructions = tuple(spec.instruction for spec in specs)
        chosen = np.zeros((n, ENTITY_SLOTS), dtype=int)
        for i, row in enumerate(slots):
            chosen[i, : len(row)] = row
        site = scene.model.site(scene.robot.tool_site)
        self._tool_body, self._tool_turn = int(site.bodyid[0]), np.roll(site.quat, -1)
        self._index(scene, chosen)
        self._arrays = {name: batch.bind(name) for name in
                        ("time", "qpos", "qvel", "site_xpos", "xpos", "xquat", "xmat", "geom_xpos", "sensordata")}

    def _index(self, scene: SceneModel, chosen: Ints) -> None:
        slots = scene.slots
        pick = lambda values: np.array(values)[chosen]  # noqa: E731
        self._body = pick([slot.moving_body if slot.moving_body >= 0 else slot.body for slot in slots])
        self._grip = pick([slot.grip_geom for slot in slots])
        self._has_grip = self._grip >= 0
        movable, jointed = [s.kind == "movable" for s in slots], [s.kind in ("drawer", "knob") for s in slots]
        self._movable, self._jointed = pick(movable) & self._present, pick(jointed) & self._present
        self._drawer = pick([s.kind == "drawer" for s in slots]) & self._present
        self._still = self._present & ~self._movable & ~self._jointed
        self._qpos, self._dof = pick([max(s.qpos, 0) for s in slots]), pick([max(s.dof, 0) for s in slots])
        sensors = scene.sensors
        self._left, self._right, self._robot, self._table = (
            table[chosen] for table in (sensors.left, sensors.right, sensors.robot, sensors.table))
        self._pair = sensors.pair[chosen[:, :, None], chosen[:, None, :]]
        both = self._present[:, :, None] & self._present[:, None, :]
        self._pair[~both] = sensors.none

    def arm_positions(self) -> Array:
        """Arm joint positions [rad]. Shape (n, J)."""
        return self._arrays["qpos"][: len(self._rows), self._scene.arm_qpos]

    def read(self) -> SceneState:
        """The state of every scene now."""
        n, a, rows = len(self._rows), self._arrays, self._rows
        sensed = np.concatenate([a["sensordata"][:n], np.zeros((n, 1))], axis=1) > 0
        fingers = a["qpos"][:n][:, self._scene.finger_qpos].mean(axis=1)
        opening = self._scene.robot.gripper_opening(fingers)
        position, quaternion = self._poses(n)
        value = np.where(self._jointed, a["qpos"][rows, self._qpos], 0.0)
        present = self._present
        return SceneState(
            joint_positions=self.arm_positions(), gripper_opening=opening,
            tool_position_base=a["site_xpos"][:n, self._scene.tool_site].copy(),
            tool_quaternion_xyzw=self._tool_quaternion(n),
            entity_position_base=position, entity_quaternion_xyzw=quaternion, entity_half_extents=self._half,
            entity_joint_value=value, entity_joint_range=self._ranges, present=present, entity_names=self._names,
            instructions=self._instructions, entity_linear_velocity=self._velocity(n),
            grasped=sensed[rows, self._left] & sensed[rows, self._right] & present & (opening > CLOSED)[:, None],
            touched=sensed[rows, self._robot] & present, contact=sensed[rows[:, :, None], self._pair],
            on_table=(sensed[rows, self._table] & present) | self._still | self._jointed, time=a["time"][:n].reshape(n).copy(),
        )

    def _tool_quaternion(self, n: int) -> Array:
        """Shape (n, 4); of q and -q the one whose larger of x and w is positive, so that a tool pointing down keeps
        its sign."""
        quaternion = quaternion_multiply(np.roll(self._arrays["xquat"][:n, self._tool_body], -1, axis=-1), self._tool_turn)
        lead = np.where(np.abs(quaternion[:, 0]) > np.abs(quaternion[:, 3]), quaternion[:, 0], quaternion[:, 3])
        return quaternion * np.where(lead < 0, -1.0, 1.0)[:, None]

    def _poses(self, n: int) -> tuple[Array, Array]:
        a, rows, present = self._arrays, self._rows, self._present[..., None]
        grips = a["geom_xpos"][rows, self._grip]
        position = np.where(self._has_grip[..., None], grips, a["xpos"][rows, self._body])
        quaternion = np.roll(a["xquat"][rows, self._body], -1, axis=-1)
        return np.where(present, position, 0.0), np.where(present, quaternion, (0.0, 0.0, 0.0, 1.0))

    def _velocity(self, n: int) -> Array:
        a, rows = self._arrays, self._rows
        free = a["qvel"][rows[:, :, None], self._dof[..., None] + np.arange(3) * self._movable[..., None]]
        rate = a["qvel"][rows, self._dof]
        slide = -a["xmat"][rows, self._body].reshape(n, ENTITY_SLOTS, 3, 3)[..., 0] * rate[..., None]
        return np.where(self._movable[..., None], free, np.where(self._drawer[..., None], slide, 0.0))

