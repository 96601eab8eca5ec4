"""One environment in a running Gazebo, behind the ``Simulator`` protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from coda_nodes.policy.kinematics import Kinematics
from coda_nodes.simulator.gazebo import trajectory
from coda_nodes.simulator.gazebo.mirror import Mirror
from coda_nodes.simulator.gazebo.scene import model_name
from coda_nodes.simulator.gazebo.wire import GazeboWorld
from coda_nodes.simulator.gazebo.worlds import GRAVITY, WorldConfig, scene_documents
from coda_nodes.simulator.physics import MOST_SPEED
from coda_nodes.simulator.protocol import StepResult
from coda_nodes.world.action import ACTION_SIZE, CHUNK_STEPS
from coda_nodes.world.errors import NotAvailableError, SimulationError
from coda_nodes.world.predicates import CompiledGoals
from coda_nodes.world.robots import RobotDescription, robot
from coda_nodes.world.spec import EnvironmentSpec
from coda_nodes.world.state import ObservationBatch, SceneState

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass
class _Episode:
    """What belongs to the environment loaded now."""

    spec: EnvironmentSpec
    mirror: Mirror
    kinematics: Kinematics
    goals: CompiledGoals
    memory: NDArray[np.int32]
    state: SceneState
    begun: float
    """Simulated time of the reset [s]."""
    set_points: Array
    """Joint positions [rad] the arm is told to be at."""
    finger: float
    """What the fingers are told to be at, in the unit of the gripper."""
    success: bool = False
    reason: str = ""


@dataclass
class GazeboSimulator:
    """Re-creates or poses models at a reset, sends a trajectory per chunk, and steps control step by control step."""

    world: GazeboWorld
    config: WorldConfig = field(default_factory=WorldConfig)
    control_steps: int = 0
    """Control steps executed since construction."""
    _documents: dict[str, str] = field(default_factory=dict)
    _mirrors: dict[tuple[str, str], Mirror] = field(default_factory=dict)
    _episode: _Episode | None = None

    def reset(self, spec: EnvironmentSpec) -> SceneState:
        """Build the scene. Raises SimulationError and keeps the old one when refused; NodeError when Gazebo fails."""
        if abs(spec.physics.gravity - GRAVITY) > 1e-6:
            raise SimulationError(f"gravity {spec.physics.gravity:g} m/s^2: in a running Gazebo it is {GRAVITY:g}")
        arm = robot(spec.robot)
        key = (spec.family, spec.robot)
        mirror = self._mirrors.get(key) or Mirror(spec.family, arm)
        mirror.load(spec)
        goals = CompiledGoals([spec])
        self._mirrors[key], self._episode = mirror, None
        self._populate(spec, mirror.movable)
        start = np.array(spec.robot_start.joint_positions)
        finger = float(arm.gripper_command(np.array(spec.robot_start.gripper_opening)))
        state, begun = self._look(mirror, self.world.time), self.world.time
        self._episode = _Episode(
            spec, mirror, Kinematics(arm), goals, goals.initial_memory(), state, begun, start, finger
        )
        return state

    def step_chunk(self, chunk: Array, execute: int = CHUNK_STEPS) -> StepResult:
        """Execute the first ``execute`` actions of a chunk (8, 7), fewer when the goal is reached before.

        Raises:
            SimulationError: no environment, another shape, numbers that are not finite, ``execute`` out of range.
            NodeError: Gazebo did not do what it was asked.
        """
        now, chunk = self._now, np.asarray(chunk, dtype=float)
        if chunk.shape != (CHUNK_STEPS, ACTION_SIZE) or not np.isfinite(chunk).all():
            raise SimulationError(f"chunk of shape {chunk.shape}: expected finite ({CHUNK_STEPS}, {ACTION_SIZE})")
        if not 0 <= execute <= CHUNK_STEPS:
            raise SimulationError(f"execute = {execute}, expected 0 to {CHUNK_STEPS}")
        truths = []
        if execute and not now.success and not now.reason:
            targets, fingers = self._send(now, chunk, execute)
            for k in range(execute):
                self.world.step(self.config.steps_per_control)
                now.set_points, now.finger = targets[k], fingers[k]
                now.state = self._look(now.mirror, now.begun)
                now.reason = _diverged(now.state)
                if now.reason:
                    break
                truths.append(self._judge(now))
                if now.success:
                    break
        self.control_steps += len(truths)
        atoms = len(now.goals.atom_names[0])
        predicates = np.stack(truths, axis=1) if truths else np.zeros((1, 0, atoms), dtype=bool)
        return StepResult(self.success, predicates, np.array([len(truths)]), np.array([bool(now.reason)]), self.reasons)

    @property
    def state(self) -> SceneState:
        """Truth at the last control step (n = 1)."""
        return self._now.state

    @property
    def observation(self) -> ObservationBatch:
        """What can be seen now (n = 1)."""
        return self.state.observation()

    @property
    def robot(self) -> RobotDescription:
        """The arm of this environment."""
        return self._now.mirror.scene.robot

    @property
    def specs(self) -> tuple[EnvironmentSpec, ...]:
        """The specification loaded."""
        return (self._now.spec,)

    @property
    def predicate_names(self) -> tuple[tuple[str, ...], ...]:
        """Columns of the predicates."""
        return self._now.goals.atom_names

    @property
    def success(self) -> Mask:
        """Whether the goal has held for its time. Shape (1,)."""
        return np.array([self._now.success])

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the environment is invalid, empty where it is valid."""
        return (self._now.reason,)

    def snapshot(self) -> Array:
        """The state as MuJoCo would hold it: ``BatchSimulator.restore`` goes on from it there. Shape (1, S)."""
        return np.concatenate([self._now.mirror.snapshot(self._now.set_points), self._now.memory], axis=1)

    def snapshot_width(self, row: int) -> int:
        """Columns of a snapshot."""
        return self._now.mirror.width + self._now.memory.shape[1]

    @property
    def _now(self) -> _Episode:
        if self._episode is None:
            raise SimulationError("no environment is loaded; call reset first")
        return self._episode

    def _populate(self, spec: EnvironmentSpec, movable: Sequence[str]) -> None:
        """Make the world hold this scene: what is the same is posed again or left alone, the rest is re-created.

        Posing alone is not enough for what has joints: Gazebo poses models, not joints.
        """
        wanted, poses = scene_documents(spec, self.config), {model_name(e.name): e.pose for e in spec.entities}
        for name in [name for name in self._documents if self._documents[name] != wanted.get(name)]:
            self._remove(name)
        for name, document in wanted.items():
            if name in self._documents and name in movable:
                self.world.place(name, poses[name].position, poses[name].quaternion_xyzw)
            elif name not in self._documents or "<joint " in document:
                self._remove(name)
                self.world.spawn(name, document)
                self._documents[name] = document

    def _remove(self, name: str) -> None:
        self._documents.pop(name, None)
        self.world.delete(name)

    def _look(self, mirror: Mirror, begun: float) -> SceneState:
        return mirror.read(self.world.joints(), self.world.poses(mirror.movable), self.world.time - begun)

    def _send(self, now: _Episode, chunk: Array, execute: int) -> tuple[Array, Array]:
        """Send the trajectory of the first actions; return arm targets and finger targets at the end of each."""
        arm = self.robot
        targets, openings = now.kinematics.chunk_to_joints(now.state.joint_positions, chunk[None])
        targets = targets[0, :execute]
        positions, velocities = trajectory.arm_points(now.set_points, targets)
        fingers = trajectory.finger_points(now.finger, arm.gripper_command(openings[0, :execute]))
        columns = np.repeat(fingers[:, None], len(arm.finger_joints), axis=1)
        start = arm.gripper_command(np.array(now.spec.robot_start.gripper_opening))
        positions = np.concatenate([positions - np.array(now.spec.robot_start.joint_positions), columns - start], axis=1)
        velocities = np.concatenate([velocities, np.zeros_like(columns)], axis=1)
        self.world.follow((*arm.joint_names, *arm.finger_joints), trajectory.times(execute), positions, velocities)
        return targets, fingers[trajectory.POINTS - 1 :: trajectory.POINTS]

    def _judge(self, now: _Episode) -> Mask:
        truth = now.goals.evaluate(now.state)
        now.memory = now.goals.advance(now.memory, truth)
        now.success = bool(now.goals.succeeded(now.memory)[0])
        return truth

    def command(self, positions: Array, times: Sequence[float]) -> None:
        """Raises NotAvailableError: in real time an arm in Gazebo is driven through ros2_control."""
        raise NotAvailableError("simulator gazebo runs in lockstep only; for real time use gz_ros2_control")

    def command_gripper(self, openings: Sequence[float], times: Sequence[float]) -> None:
        """Raises NotAvailableError, see ``command``."""
        self.command(np.zeros(0), times)

    def advance(self, now: float) -> int:
        """Raises NotAvailableError, see ``command``."""
        self.command(np.zeros(0), ())
        return 0


def _diverged(state: SceneState) -> str:
    speed = np.abs(state.entity_linear_velocity[0]).max(initial=0.0)
    if not np.isfinite(state.entity_position_base).all() or not np.isfinite(state.joint_positions).all():
        return "state is not finite"
    return f"speed beyond {MOST_SPEED:g} m/s" if speed > MOST_SPEED else ""
