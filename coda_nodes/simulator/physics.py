"""The physics of many simulations of one family: loading, moving arms, storing states, finding divergence."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np
from mujoco.batch import Batch
from mujoco.batch import SimulationError as PhysicsError
from numpy.typing import NDArray

from coda_nodes.simulator.fill import MODEL_FIELDS, fill
from coda_nodes.simulator.physics_log import silence
from coda_nodes.simulator.scene import SUBSTEPS, SceneModel
from coda_nodes.world.action import CONTROL_PERIOD
from coda_nodes.world.spec import EnvironmentSpec

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Ids = NDArray[np.int_]

STATE_FIELDS = ("time", "qpos", "qvel", "ctrl", "qacc_warmstart")
"""Physics state of one simulation, in the order of a snapshot row; set points and the goal's memory
follow."""
SET_POINTS = 3
"""Set points within a control step: joint targets move linearly, as a trajectory controller moves them,
instead of jumping at 20 Hz."""
PART_PERIOD = CONTROL_PERIOD / SET_POINTS
"""Time of one part [s]."""
MOST_SPEED = 100.0
"""Any speed beyond this [m/s, rad/s] is a diverged simulation, not a motion."""
NO_SENSORS = int(mujoco.mjtDisableBit.mjDSBL_SENSOR)
"""Contacts are counted in the last physics step of a control step only: nobody reads them in between."""


class Physics:
    """A ``mujoco.batch.Batch`` of a scene model, one simulation per environment."""

    def __init__(self, scene: SceneModel, capacity: int, threads: int) -> None:
        silence()
        self.scene = scene
        self.batch = Batch(scene.model, nsim=capacity, nthread=threads, persistent=True)
        self.set_points = np.zeros((capacity, scene.robot.joints))
        """Joint positions [rad] the arms are told to be at. Shape (capacity, J)."""
        self.reasons = [""] * capacity
        """Why a simulation is invalid, empty where it is valid."""
        self._fields = {name: self.batch.expand(name) for name in MODEL_FIELDS}
        self._plain = {name: values[0].copy() for name, values in self._fields.items()}
        self._flags = self.batch.expand("opt.disableflags")
        self._state = {name: self.batch.bind(name) for name in STATE_FIELDS}
        self._sizes = [int(np.prod(self._state[name].shape[1:])) for name in STATE_FIELDS]

    @property
    def width(self) -> int:
        """Columns of a stored state."""
        return sum(self._sizes) + self.set_points.shape[1]

    def invalid(self, rows: Ids) -> Mask:
        """Which of ``rows`` have diverged."""
        return np.array([bool(self.reasons[row]) for row in rows], dtype=bool)

    def load(self, specs: Sequence[EnvironmentSpec], slots: Sequence[Sequence[int]], qpos: Array) -> None:
        """Fill the first simulations with specifications, starting at positions ``qpos`` (n, nq)."""
        ids = np.arange(len(specs))
        for name, values in self._fields.items():
            values[ids] = self._plain[name]
        for i, (spec, chosen) in enumerate(zip(specs, slots, strict=True)):
            fill(self.scene, {name: values[i] for name, values in self._fields.items()}, spec, chosen)
        self._flags[ids] &= ~NO_SENSORS
        self.batch.set_const(ids)
        self.batch.reset(ids, stage=mujoco.mjtStage.mjSTAGE_NONE)
        self._state["qpos"][ids] = qpos
        self.set_points[ids] = qpos[:, self.scene.arm_qpos]
        self._state["ctrl"][np.ix_(ids, self.scene.arm_ctrl)] = self.set_points[ids]
        self._state["ctrl"][ids, self.scene.gripper_ctrl] = qpos[:, self.scene.finger_qpos[0]]
        self.batch.forward(ids)
        for row in ids:
            self.reasons[row] = ""

    def store(self, rows: Ids) -> Array:
        """State of simulations: ``STATE_FIELDS``, then set points. Shape (n, width)."""
        parts = [self._state[name][rows].reshape(len(rows), -1) for name in STATE_FIELDS]
        return np.concatenate([*parts, self.set_points[rows]], axis=1)

    def restore(self, rows: Ids, stored: Array) -> None:
        """Put simulations back to stored states (n, width); they are valid again."""
        *physics, self.set_points[rows] = np.split(stored, np.cumsum(self._sizes), axis=1)
        self.batch.reset(rows, stage=mujoco.mjtStage.mjSTAGE_NONE)
        for name, values in zip(STATE_FIELDS, physics, strict=True):
            self._state[name][rows] = values.reshape(self._state[name][rows].shape)
        self._flags[rows] &= ~NO_SENSORS
        self.batch.forward(rows)
        for row in rows:
            self.reasons[row] = ""

    def control_step(self, active: Ids, targets: Array, grips: Array) -> None:
        """Move to the joint targets (n, J) over one control period."""
        begin = self.set_points[active]
        way = (targets[active] - begin) / SET_POINTS
        for k in range(SET_POINTS):
            self._move(active, begin + k * way, way, grips[active], look=k == SET_POINTS - 1)
        self.set_points[active] = targets[active]
        self._find_diverged(active)

    def follow(self, active: Ids, targets: Array, grips: Array) -> None:
        """Move to the joint targets (n, J) within ``PART_PERIOD``."""
        begin = self.set_points[active]
        self._move(active, begin, targets[active] - begin, grips[active], look=True)
        self.set_points[active] = targets[active]
        self._find_diverged(active)

    def _move(self, active: Ids, begin: Array, way: Array, grips: Array, look: bool) -> None:
        """Move set points along ``way`` for one part of a control period, their velocity fed forward so that
        the arm does not trail behind by its damping; with ``look`` poses and contacts are current
        afterwards."""
        ctrl, steps = self._state["ctrl"], SUBSTEPS // SET_POINTS
        ctrl[active[:, None], self.scene.arm_ctrl] = (
            begin + way / 2 + self.scene.velocity_gain * way / PART_PERIOD
        )
        ctrl[active, self.scene.gripper_ctrl] = grips
        self._flags[active] |= NO_SENSORS
        if not look:
            self._step(active, steps)
            return
        self._step(active, steps - 1)
        self._flags[active] &= ~NO_SENSORS
        self._step(active, 1, mujoco.mjtStage.mjSTAGE_VEL)

    def _step(self, ids: Ids, steps: int, stage: mujoco.mjtStage = mujoco.mjtStage.mjSTAGE_NONE) -> None:
        ids = ids[~self.invalid(ids)]
        if not len(ids):
            return
        try:
            self.batch.step(ids, nstep=steps, stage=stage)
        except PhysicsError as error:
            for row in error.ids:
                self.reasons[int(row)] = f"physics error: {self.batch.error(int(row))}"

    def _find_diverged(self, active: Ids) -> None:
        speed = np.abs(self._state["qvel"][active]).max(axis=1)
        finite = np.isfinite(self._state["qpos"][active]).all(axis=1) & np.isfinite(speed)
        for row in active[~finite]:
            self.reasons[row] = self.reasons[row] or "state is not finite"
        for row in active[finite & (speed > MOST_SPEED)]:
            self.reasons[row] = self.reasons[row] or f"speed beyond {MOST_SPEED:g} m/s or rad/s"
        broken = active[self.invalid(active)]
        if len(broken):
            # numbers that can be read without harm; they mean nothing any more
            self.batch.reset(broken)
