"""Reads scene states out of the arrays a batch keeps current."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mujoco.batch import Batch
from numpy.typing import NDArray

from coda_nodes.simulator.scene import SceneModel
from coda_nodes.world.geometry import quaternion_multiply, rotation_matrices
from coda_nodes.world.spec import EnvironmentSpec
from coda_nodes.world.state import ENTITY_SLOTS, SceneState

Array = NDArray[np.float64]
Ints = NDArray[np.int_]

XYZW = [1, 2, 3, 0]
"""MuJoCo's wxyz read as xyzw; the one place on the way out."""
CLOSED = 0.03
"""Gripper opening below which nothing can be between the pads: closed fingers that push do not grasp."""


class SceneReader:
    """Index arrays of the loaded specifications, made once per reset; ``read`` is then a few gathers.

    Indices are flat, over (simulation, element) of an array a batch keeps current.
    """

    def __init__(
        self,
        scene: SceneModel,
        batch: Batch,
        specs: Sequence[EnvironmentSpec],
        slots: Sequence[Sequence[int]],
        arrays: tuple[Array, Array, NDArray[np.bool_]],
    ) -> None:
        self._scene, self._n = scene, len(specs)
        self._half, self._ranges, self._present = arrays
        self._names = tuple(spec.entity_names for spec in specs)
        self._instructions = tuple(spec.instruction for spec in specs)
        self._arrays = {
            name: batch.bind(name)
            for name in ("time", "qpos", "qvel", "site_xpos", "xpos", "xquat", "geom_xpos", "sensordata")
        }
        site = scene.model.site(scene.robot.tool_site)
        self._tool_body, self._tool_turn = int(site.bodyid[0]), np.roll(site.quat, -1)
        chosen = np.zeros((len(specs), ENTITY_SLOTS), dtype=int)
        for i, row in enumerate(slots):
            chosen[i, : len(row)] = row
        self._index_poses(scene, chosen)
        self._index_sensors(scene, chosen)
        self._sensed = np.zeros((len(specs), scene.model.nsensordata + 1), dtype=bool)

    def _index_poses(self, scene: SceneModel, chosen: Ints) -> None:
        model, slots = scene.model, scene.slots
        pick = lambda values: np.array(values)[chosen]  # noqa: E731
        flat = lambda element, size: np.arange(self._n)[:, None] * size + element  # noqa: E731
        grip = pick([slot.grip_geom for slot in slots])
        self._body = flat(pick([max(slot.moving_body, slot.body) for slot in slots]), model.nbody)
        self._gripped = (grip >= 0) & self._present
        self._grip = flat(grip, model.ngeom)[self._gripped]
        movable = pick([slot.kind == "movable" for slot in slots]) & self._present
        self._jointed = pick([slot.kind in ("drawer", "knob") for slot in slots]) & self._present
        self._drawer = pick([slot.kind == "drawer" for slot in slots]) & self._present
        self._standing = self._present & ~movable
        self._joint_qpos = flat(pick([slot.qpos for slot in slots]), model.nq)[self._jointed]
        dof = flat(pick([slot.dof for slot in slots]), model.nv)
        self._drawer_dof = dof[self._drawer]
        self._movable = movable
        self._velocity_dofs = dof[movable][:, None] + np.arange(3)

    def _index_sensors(self, scene: SceneModel, chosen: Ints) -> None:
        sensors, size = scene.sensors, scene.model.nsensordata + 1
        absent, first = ~self._present, np.arange(self._n)[:, None] * size
        tables = []
        for table in (sensors.left, sensors.right, sensors.robot, sensors.table):
            addresses = table[chosen]
            addresses[absent] = sensors.none
            tables.append(first + addresses)
        self._left, self._right, self._robot, self._table = tables
        pair = sensors.pair[chosen[:, :, None], chosen[:, None, :]]
        pair[absent[:, :, None] | absent[:, None, :]] = sensors.none
        self._pair = first[:, None] + pair

    def arm_positions(self) -> Array:
        """Arm joint positions [rad]. Shape (n, J)."""
        return self._arrays["qpos"][: self._n, self._scene.arm_qpos]

    def read(self) -> SceneState:
        """The state of every scene now."""
        n, a = self._n, self._arrays
        np.greater(a["sensordata"][:n], 0, out=self._sensed[:, :-1])
        sensed = self._sensed.ravel()
        fingers = a["qpos"][:n, self._scene.finger_qpos]
        opening = self._scene.robot.gripper_opening(fingers.sum(axis=1) / fingers.shape[1])
        grasped = sensed[self._left] & sensed[self._right] & (opening > CLOSED)[:, None]
        position, quaternion = self._poses(n)
        value = np.zeros(self._present.shape)
        value[self._jointed] = a["qpos"].ravel()[self._joint_qpos]
        return SceneState(
            joint_positions=self.arm_positions(),
            gripper_opening=opening,
            tool_position_base=a["site_xpos"][:n, self._scene.tool_site].copy(),
            tool_quaternion_xyzw=self._tool_quaternion(n),
            entity_position_base=position,
            entity_quaternion_xyzw=quaternion,
            entity_half_extents=self._half,
            entity_joint_value=value,
            entity_joint_range=self._ranges,
            present=self._present,
            entity_names=self._names,
            instructions=self._instructions,
            entity_linear_velocity=self._velocity(quaternion),
            grasped=grasped,
            touched=sensed[self._robot],
            contact=sensed[self._pair],
            on_table=sensed[self._table] | self._standing,
            time=a["time"][:n].reshape(n).copy(),
        )

    def _tool_quaternion(self, n: int) -> Array:
        """Shape (n, 4); of q and -q the one whose larger of x and w is positive, so that a tool pointing down
        keeps its sign."""
        quaternion = quaternion_multiply(self._arrays["xquat"][:n, self._tool_body][:, XYZW], self._tool_turn)
        lead = np.where(
            np.abs(quaternion[:, 0]) > np.abs(quaternion[:, 3]), quaternion[:, 0], quaternion[:, 3]
        )
        return quaternion * np.where(lead < 0, -1.0, 1.0)[:, None]

    def _poses(self, n: int) -> tuple[Array, Array]:
        a = self._arrays
        position = a["xpos"].reshape(-1, 3).take(self._body, axis=0)
        position[self._gripped] = a["geom_xpos"].reshape(-1, 3).take(self._grip, axis=0)
        quaternion = a["xquat"].reshape(-1, 4).take(self._body, axis=0)[..., XYZW]
        absent = ~self._present
        position[absent], quaternion[absent] = 0.0, (0.0, 0.0, 0.0, 1.0)
        return position, quaternion

    def _velocity(self, quaternion: Array) -> Array:
        velocity, rates = np.zeros((*self._present.shape, 3)), self._arrays["qvel"].ravel()
        velocity[self._movable] = rates[self._velocity_dofs]
        if len(self._drawer_dof):
            opening_axis = -rotation_matrices(quaternion[self._drawer])[..., 0]
            velocity[self._drawer] = opening_axis * rates[self._drawer_dof][:, None]
        return velocity
