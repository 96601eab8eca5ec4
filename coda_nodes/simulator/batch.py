"""Many environments of one family stepped together on ``mujoco.batch.Batch``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import mujoco
import numpy as np
from mujoco.batch import Batch, SimulationError as PhysicsError
from numpy.typing import NDArray

from coda_nodes.policy.kinematics import Kinematics
from coda_nodes.simulator.fill import MODEL_FIELDS, assign, entity_arrays, fill, start_position
from coda_nodes.simulator.protocol import GoalEvaluator, StepResult
from coda_nodes.simulator.reading import SceneReader
from coda_nodes.simulator.scene import SUBSTEPS, SceneModel, build_scene
from coda_nodes.world.action import ACTION_SIZE, CHUNK_STEPS, CONTROL_PERIOD
from coda_nodes.world.errors import SimulationError
from coda_nodes.world.predicates import CompiledGoals
from coda_nodes.world.robots import robot as robot_description
from coda_nodes.world.spec import EnvironmentSpec
from coda_nodes.world.state import SceneState

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Ids = NDArray[np.int_]

STATE_FIELDS = ("time", "qpos", "qvel", "ctrl", "qacc_warmstart")
"""Physics state of one simulation, in the order of a snapshot row; set points and the goal's memory follow."""
SET_POINTS = 3
"""Set points within a control step: joint targets move linearly, as a trajectory controller moves them, instead of
jumping at 20 Hz."""
PART_PERIOD = CONTROL_PERIOD / SET_POINTS
"""Time of one part [s]."""
MOST_SPEED = 100.0
"""Any speed beyond this [m/s, rad/s] is a diverged simulation, not a motion."""
NO_SENSORS = int(mujoco.mjtDisableBit.mjDSBL_SENSOR)
"""Contacts are counted in the last physics step of a control step only: nobody reads them in between."""


@dataclass
class _Running:
    """What belongs to the environments loaded at the moment."""

    specs: list[EnvironmentSpec]
    reader: SceneReader
    goals: GoalEvaluator
    memory: NDArray[np.int32]
    success: Mask
    reasons: list[str] = field(default_factory=list)

    @property
    def invalid(self) -> Mask:
        return np.array([bool(reason) for reason in self.reasons], dtype=bool)


class BatchSimulator:
    """Up to ``capacity`` environments of one family, each in its own simulation.

    A row's course does not depend on the other rows, on ``threads`` or on what ran before the reset.
    """

    def __init__(
        self, family: str, capacity: int, robot: str = "panda", threads: int = 1,
        goals: Callable[[Sequence[EnvironmentSpec]], GoalEvaluator] = CompiledGoals,
    ) -> None:
        self.scene: SceneModel = build_scene(family, robot_description(robot))
        self.kinematics = Kinematics(self.scene.robot)
        self.capacity = capacity
        self.control_steps = 0
        """Control steps executed since construction, over all environments."""
        self._goals = goals
        self._batch = Batch(self.scene.model, nsim=capacity, nthread=threads, persistent=True)
        self._fields = {name: self._batch.expand(name) for name in MODEL_FIELDS}
        self._plain = {name: values[0].copy() for name, values in self._fields.items()}
        self._flags = self._batch.expand("opt.disableflags")
        self._state = {name: self._batch.bind(name) for name in STATE_FIELDS}
        self._parts = 0
        self._set_points = np.zeros((capacity, self.scene.robot.joints))
        self._running: _Running | None = None

    @property
    def specs(self) -> tuple[EnvironmentSpec, ...]:
        """Specifications loaded, one per environment."""
        return tuple(self._now.specs)

    @property
    def predicate_names(self) -> tuple[tuple[str, ...], ...]:
        """Columns of the predicates of each environment."""
        return self._now.goals.atom_names

    @property
    def success(self) -> Mask:
        """Environments whose goal has held for its time since the reset. Shape (n,)."""
        return self._now.success.copy()

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why an environment is invalid, empty where it is valid."""
        return tuple(self._now.reasons)

    def reset(self, specs: Sequence[EnvironmentSpec]) -> SceneState:
        """Load ``specs`` (1 to capacity of them) in place of what ran before; return the first states.

        Raises:
            SimulationError: too many, another family or robot, too many entities of a kind, a start outside limits.
        """
        if not 1 <= len(specs) <= self.capacity:
            raise SimulationError(f"{len(specs)} environments given to a simulator of 1 to {self.capacity}")
        slots = [assign(self.scene, spec) for spec in specs]
        starts = [self.scene.model.qpos0.copy() for _ in specs]
        for spec, chosen, qpos in zip(specs, slots, starts, strict=True):
            start_position(self.scene, spec, chosen, qpos)
        self._load(specs, slots, np.array(starts))
        self._parts = 0
        goals = self._goals(specs)
        reader = SceneReader(self.scene, self._batch, specs, slots, entity_arrays(specs))
        self._running = _Running(list(specs), reader, goals, goals.initial_memory(), np.zeros(len(specs), bool), [""] * len(specs))
        return self.state()

    def state(self) -> SceneState:
        """Truth of every loaded environment now."""
        return self._now.reader.read()

    def step_chunk(self, chunks: Array, execute: int | NDArray[np.int_] = CHUNK_STEPS) -> StepResult:
        """Execute the first ``execute`` (a number, or one per environment, 0 to 8) actions of ``chunks`` (n, 8, 7).

        Environments that have succeeded or diverged stand still; one that succeeds inside the chunk stops there.

        Raises:
            SimulationError: another shape, or a number that is not finite.
        """
        count = self._check(chunks, execute)
        targets, openings = self.kinematics.chunk_to_joints(self._now.reader.arm_positions(), chunks)
        return self._run(targets, openings, count)

    def _run(self, targets: Array, openings: Array, count: NDArray[np.int_]) -> StepResult:
        now = self._now
        grips = self.scene.robot.gripper_command(openings)
        executed, truths = np.zeros(len(now.specs), dtype=int), []
        for k in range(int(count.max(initial=0))):
            active = np.flatnonzero((count > k) & ~now.success & ~now.invalid)
            if not len(active):
                break
            self._control_step(active, targets[:, k], grips[:, k])
            active = active[~now.invalid[active]]
            executed[active] += 1
            truths.append(self._judge(active))
        self.control_steps += int(executed.sum())
        predicates = np.stack(truths, axis=1) if truths else np.zeros((len(now.specs), 0, now.memory.shape[1] - 2), bool)
        return StepResult(now.success.copy(), predicates, executed, now.invalid, tuple(now.reasons))

    def follow(self, targets: Array, openings: Array) -> None:
        """Move set points to joint targets (n, J) [rad] and gripper openings (n,) within ``PART_PERIOD``, as an arm
        does that follows a trajectory; every control period the goals are judged. Success stops nothing here."""
        now = self._now
        active = np.flatnonzero(~now.invalid)
        begin = self._set_points[active]
        grips = self.scene.robot.gripper_command(openings)
        self._move(active, begin, targets[active] - begin, grips[active], look=True)
        self._set_points[active] = targets[active]
        self._find_diverged(active)
        self._parts += 1
        if self._parts % SET_POINTS == 0:
            self._judge(active[~now.invalid[active]])
            self.control_steps += len(active)

    @property
    def set_points(self) -> Array:
        """Joint positions [rad] the arms are told to be at. Shape (n, J)."""
        return self._set_points[: len(self._now.specs)].copy()

    def snapshot(self, ids: Sequence[int] | None = None) -> Array:
        """Physics state, set points and memory of the goal of environments ``ids`` (all by default). Shape (n, S)."""
        rows = self._ids(ids)
        parts = [self._state[name][rows].reshape(len(rows), -1) for name in STATE_FIELDS]
        return np.concatenate([*parts, self._set_points[rows], self._now.memory[rows]], axis=1)

    def snapshot_width(self, row: int) -> int:
        """Columns of a snapshot row that concern environment ``row`` itself, without padding for longer goals."""
        physics = sum(int(np.prod(self._state[name].shape[1:])) for name in STATE_FIELDS)
        extra = self._now.memory.shape[1] - max(len(names) for names in self.predicate_names)
        return physics + self._set_points.shape[1] + extra + len(self.predicate_names[row])

    def restore(self, snapshot: Array, ids: Sequence[int] | None = None) -> None:
        """Put environments back to rows of ``snapshot`` taken of the same specifications; what was found invalid
        since is forgotten.

        Columns at the end that belong to goals with more atoms (another batch pads to its longest goal) are cut or
        filled up. Raises SimulationError when the rows hold no state of this family.
        """
        now, rows = self._now, self._ids(ids)
        sizes = [int(np.prod(self._state[name].shape[1:])) for name in STATE_FIELDS] + [self._set_points.shape[1]]
        if snapshot.ndim != 2 or len(snapshot) != len(rows) or snapshot.shape[1] < sum(sizes):
            raise SimulationError(f"snapshot of shape {snapshot.shape}, expected ({len(rows)}, at least {sum(sizes)})")
        *physics, set_points, memory = np.split(snapshot, np.cumsum(sizes), axis=1)
        self._batch.reset(rows, stage=mujoco.mjtStage.mjSTAGE_NONE)
        for name, values in zip(STATE_FIELDS, physics, strict=True):
            self._state[name][rows] = values.reshape(self._state[name][rows].shape)
        width = min(memory.shape[1], now.memory.shape[1])
        now.memory[rows], self._set_points[rows] = 0, set_points
        now.memory[rows, :width] = memory[:, :width].astype(np.int32)
        self._flags[rows] &= ~NO_SENSORS
        self._batch.forward(rows)
        now.success[rows] = now.goals.succeeded(now.memory)[rows]
        for row in rows:
            now.reasons[row] = ""

    @property
    def _now(self) -> _Running:
        if self._running is None:
            raise SimulationError("no environment is loaded; call reset first")
        return self._running

    def _ids(self, ids: Sequence[int] | None) -> Ids:
        return np.arange(len(self._now.specs)) if ids is None else np.asarray(ids, dtype=int)

    def _load(self, specs: Sequence[EnvironmentSpec], slots: list[list[int]], qpos: Array) -> None:
        ids = np.arange(len(specs))
        for name, values in self._fields.items():
            values[ids] = self._plain[name]
        for i, (spec, chosen) in enumerate(zip(specs, slots, strict=True)):
            fill(self.scene, {name: values[i] for name, values in self._fields.items()}, spec, chosen)
        self._flags[ids] &= ~NO_SENSORS
        self._batch.set_const(ids)
        self._batch.reset(ids, stage=mujoco.mjtStage.mjSTAGE_NONE)
        self._state["qpos"][ids] = qpos
        self._set_points[ids] = qpos[:, self.scene.arm_qpos]
        self._state["ctrl"][np.ix_(ids, self.scene.arm_ctrl)] = self._set_points[ids]
        self._state["ctrl"][ids, self.scene.gripper_ctrl] = qpos[:, self.scene.finger_qpos[0]]
        self._batch.forward(ids)

    def _check(self, chunks: Array, execute: int | NDArray[np.int_]) -> NDArray[np.int_]:
        n = len(self._now.specs)
        if np.shape(chunks) != (n, CHUNK_STEPS, ACTION_SIZE):
            raise SimulationError(f"chunks of shape {np.shape(chunks)}, expected ({n}, {CHUNK_STEPS}, {ACTION_SIZE})")
        if not np.isfinite(chunks).all():
            row = int(np.argwhere(~np.isfinite(chunks))[0, 0])
            raise SimulationError(f"the chunk of environment {row} holds a number that is not finite")
        count = np.broadcast_to(np.asarray(execute, dtype=int), (n,))
        if count.min() < 0 or count.max() > CHUNK_STEPS:
            raise SimulationError(f"execute = {execute}, expected 0 to {CHUNK_STEPS}")
        return count

    def _control_step(self, active: Ids, targets: Array, grips: Array) -> None:
        """Move to the joint targets (n, J) over one control period."""
        begin = self._set_points[active]
        way = (targets[active] - begin) / SET_POINTS
        for k in range(SET_POINTS):
            self._move(active, begin + k * way, way, grips[active], look=k == SET_POINTS - 1)
        self._set_points[active] = targets[active]
        self._find_diverged(active)

    def _move(self, active: Ids, begin: Array, way: Array, grips: Array, look: bool) -> None:
        """Move set points along ``way`` for one part of a control period, their velocity fed forward so that the arm
        does not trail behind by its damping; with ``look`` poses and contacts are current afterwards."""
        ctrl, steps = self._state["ctrl"], SUBSTEPS // SET_POINTS
        ctrl[active[:, None], self.scene.arm_ctrl] = begin + way / 2 + self.scene.velocity_gain * way / PART_PERIOD
        ctrl[active, self.scene.gripper_ctrl] = grips
        self._flags[active] |= NO_SENSORS
        if not look:
            self._step(active, steps)
            return
        self._step(active, steps - 1)
        self._flags[active] &= ~NO_SENSORS
        self._step(active, 1, mujoco.mjtStage.mjSTAGE_VEL)

    def _step(self, ids: Ids, steps: int, stage: mujoco.mjtStage = mujoco.mjtStage.mjSTAGE_NONE) -> None:
        ids = ids[~self._now.invalid[ids]]
        if not len(ids):
            return
        try:
            self._batch.step(ids, nstep=steps, stage=stage)
        except PhysicsError as error:
            for row in error.ids:
                self._now.reasons[int(row)] = f"physics error: {self._batch.error(int(row))}"

    def _find_diverged(self, active: Ids) -> None:
        speed = np.abs(self._state["qvel"][active]).max(axis=1)
        finite = np.isfinite(self._state["qpos"][active]).all(axis=1) & np.isfinite(speed)
        for row in active[~finite]:
            self._now.reasons[row] = self._now.reasons[row] or "state is not finite"
        for row in active[finite & (speed > MOST_SPEED)]:
            self._now.reasons[row] = self._now.reasons[row] or f"speed beyond {MOST_SPEED:g} m/s or rad/s"
        broken = active[self._now.invalid[active]]
        if len(broken):
            # numbers that can be read without harm; they mean nothing any more
            self._batch.reset(broken)

    def _judge(self, active: Ids) -> Mask:
        """Advance the goals of the active environments by one control step; return all truths (n, P)."""
        now = self._now
        truth = now.goals.evaluate(now.reader.read())
        now.memory[active] = now.goals.advance(now.memory, truth)[active]
        now.success[active] |= now.goals.succeeded(now.memory)[active]
        idle = np.ones(len(truth), dtype=bool)
        idle[active] = False
        truth[idle] = False
        return truth
