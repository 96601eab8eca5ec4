"""Many environments of one family stepped together on ``mujoco.batch.Batch``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coda_nodes.policy.kinematics import Kinematics
from coda_nodes.simulator.fill import assign, entity_arrays, start_position
from coda_nodes.simulator.physics import SET_POINTS, Physics
from coda_nodes.simulator.protocol import GoalEvaluator, StepResult
from coda_nodes.simulator.reading import SceneReader
from coda_nodes.simulator.scene import SceneModel, build_scene
from coda_nodes.world.action import ACTION_SIZE, CHUNK_STEPS
from coda_nodes.world.errors import SimulationError
from coda_nodes.world.predicates import CompiledGoals
from coda_nodes.world.robots import robot as robot_description
from coda_nodes.world.spec import EnvironmentSpec
from coda_nodes.world.state import SceneState

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Ids = NDArray[np.int_]

@dataclass
class _Running:
    """What belongs to the environments loaded at the moment."""

    specs: list[EnvironmentSpec]
    reader: SceneReader
    goals: GoalEvaluator
    memory: NDArray[np.int32]
    success: Mask


class BatchSimulator:
    """Up to ``capacity`` environments of one family, each in its own simulation.

    A row's course does not depend on the other rows, on ``threads`` or on what ran before the reset.
    """

    def __init__(
        self,
        family: str,
        capacity: int,
        robot: str = "panda",
        threads: int = 1,
        goals: Callable[[Sequence[EnvironmentSpec]], GoalEvaluator] = CompiledGoals,
    ) -> None:
        self.scene: SceneModel = build_scene(family, robot_description(robot))
        self.kinematics = Kinematics(self.scene.robot)
        self.capacity = capacity
        self.control_steps = 0
        """Control steps executed since construction, over all environments."""
        self._goals = goals
        self._physics = Physics(self.scene, capacity, threads)
        self._parts = 0
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
        return tuple(self._physics.reasons[: len(self._now.specs)])

    def reset(self, specs: Sequence[EnvironmentSpec]) -> SceneState:
        """Load ``specs`` (1 to capacity of them) in place of what ran before; return the first states.

        Raises:
            SimulationError: too many, another family or robot, too many entities of a kind, a start outside
            limits.
        """
        if not 1 <= len(specs) <= self.capacity:
            raise SimulationError(f"{len(specs)} environments given to a simulator of 1 to {self.capacity}")
        slots = [assign(self.scene, spec) for spec in specs]
        starts = [self.scene.model.qpos0.copy() for _ in specs]
        for spec, chosen, qpos in zip(specs, slots, starts, strict=True):
            start_position(self.scene, spec, chosen, qpos)
        self._physics.load(specs, slots, np.array(starts))
        self._parts = 0
        goals = self._goals(specs)
        reader = SceneReader(self.scene, self._physics.batch, specs, slots, entity_arrays(specs))
        success = np.zeros(len(specs), dtype=bool)
        self._running = _Running(list(specs), reader, goals, goals.initial_memory(), success)
        return self.state()

    def state(self) -> SceneState:
        """Truth of every loaded environment now."""
        return self._now.reader.read()

    def step_chunk(self, chunks: Array, execute: int | NDArray[np.int_] = CHUNK_STEPS) -> StepResult:
        """Execute the first ``execute`` (a number, or one per environment, 0 to 8) actions of ``chunks`` (n,
        8, 7).

        Environments that have succeeded or diverged stand still; one that succeeds inside the chunk stops
        there.

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
            active = np.flatnonzero((count > k) & ~now.success & ~self._invalid())
            if not len(active):
                break
            self._physics.control_step(active, targets[:, k], grips[:, k])
            active = active[~self._physics.invalid(active)]
            executed[active] += 1
            truths.append(self._judge(active))
        self.control_steps += int(executed.sum())
        predicates = (
            np.stack(truths, axis=1)
            if truths
            else np.zeros((len(now.specs), 0, now.memory.shape[1] - 2), bool)
        )
        return StepResult(now.success.copy(), predicates, executed, self._invalid(), self.reasons)

    def follow(self, targets: Array, openings: Array) -> None:
        """Move set points to joint targets (n, J) [rad] and gripper openings (n,) within ``PART_PERIOD``, as
        an arm does that follows a trajectory; every control period the goals are judged. Success stops
        nothing here."""
        active = np.flatnonzero(~self._invalid())
        self._physics.follow(active, targets, self.scene.robot.gripper_command(openings))
        self._parts += 1
        if self._parts % SET_POINTS == 0:
            self._judge(active[~self._physics.invalid(active)])
            self.control_steps += len(active)

    @property
    def set_points(self) -> Array:
        """Joint positions [rad] the arms are told to be at. Shape (n, J)."""
        return self._physics.set_points[: len(self._now.specs)].copy()

    def snapshot(self, ids: Sequence[int] | None = None) -> Array:
        """Physics state, set points and memory of the goal of environments ``ids`` (all by default). Shape
        (n, S)."""
        rows = self._ids(ids)
        return np.concatenate([self._physics.store(rows), self._now.memory[rows]], axis=1)

    def snapshot_width(self, row: int) -> int:
        """Columns of a snapshot row that concern environment ``row`` itself, without padding for longer
        goals."""
        unused = max(len(names) for names in self.predicate_names) - len(self.predicate_names[row])
        return self._physics.width + self._now.memory.shape[1] - unused

    def restore(self, snapshot: Array, ids: Sequence[int] | None = None) -> None:
        """Put environments back to rows of ``snapshot`` taken of the same specifications; what was found
        invalid since is forgotten.

        Columns at the end that belong to goals with more atoms (another batch pads to its longest goal) are
        cut or filled up. Raises SimulationError when the rows hold no state of this family.
        """
        now, rows, width = self._now, self._ids(ids), self._physics.width
        if snapshot.ndim != 2 or len(snapshot) != len(rows) or snapshot.shape[1] < width:
            raise SimulationError(
                f"snapshot of shape {snapshot.shape}, expected ({len(rows)}, at least {width})"
            )
        self._physics.restore(rows, snapshot[:, :width])
        memory = snapshot[:, width : width + now.memory.shape[1]].astype(np.int32)
        now.memory[rows] = 0
        now.memory[rows, : memory.shape[1]] = memory
        now.success[rows] = now.goals.succeeded(now.memory)[rows]

    @property
    def _now(self) -> _Running:
        if self._running is None:
            raise SimulationError("no environment is loaded; call reset first")
        return self._running

    def _invalid(self) -> Mask:
        return self._physics.invalid(self._ids(None))

    def _ids(self, ids: Sequence[int] | None) -> Ids:
        return np.arange(len(self._now.specs)) if ids is None else np.asarray(ids, dtype=int)

    def _check(self, chunks: Array, execute: int | NDArray[np.int_]) -> NDArray[np.int_]:
        n = len(self._now.specs)
        if np.shape(chunks) != (n, CHUNK_STEPS, ACTION_SIZE):
            raise SimulationError(
                f"chunks of shape {np.shape(chunks)}, expected ({n}, {CHUNK_STEPS}, {ACTION_SIZE})"
            )
        if not np.isfinite(chunks).all():
            row = int(np.argwhere(~np.isfinite(chunks))[0, 0])
            raise SimulationError(f"the chunk of environment {row} holds a number that is not finite")
        count = np.broadcast_to(np.asarray(execute, dtype=int), (n,))
        if count.min() < 0 or count.max() > CHUNK_STEPS:
            raise SimulationError(f"execute = {execute}, expected 0 to {CHUNK_STEPS}")
        return count

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
