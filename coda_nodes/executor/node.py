"""The executor as a lifecycle node: runs tasks on a simulator in lockstep, or on an arm."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from coda_interfaces.action import ExecuteTask
from coda_interfaces.msg import EpisodeEvent
from coda_interfaces.srv import StepChunk
from numpy.typing import NDArray
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from std_msgs.msg import Bool
from trajectory_msgs.msg import JointTrajectory

from coda_nodes.executor.driving import Arm, Driver, Seen
from coda_nodes.executor.safety import Limits, SafetyConfig
from coda_nodes.policy.kinematics import Kinematics
from coda_nodes.policy.runner import PolicyRunner
from coda_nodes.ros import converters, names, qos
from coda_nodes.ros.arm_messages import trajectory_to_message
from coda_nodes.ros.base import Goal, NodeParts, NodeSettings
from coda_nodes.ros.clients import ServiceCaller
from coda_nodes.ros.listening import CLOCK_STUCK, StateListener, clock_stuck
from coda_nodes.ros.node_main import run_node
from coda_nodes.world.config import setting
from coda_nodes.world.errors import CheckpointError, CodaError, NodeError
from coda_nodes.world.robots import robot

Array = NDArray[np.float64]
CLOCK_PATIENCE = 4.0
"""Time without simulated time after which the executor says so [s]."""
ENDINGS = {EpisodeEvent.SUCCESS: "success", EpisodeEvent.TIMEOUT: "time limit of the scene"}
"""How an episode ended, in words."""
HOLD_TIME = 0.2
"""Time in which the arm comes to rest where it was measured [s]."""
STEP_TIMEOUT = 10.0
"""Time in which the simulator has to execute a chunk [s]."""


@dataclass(frozen=True)
class ExecutorSettings(NodeSettings):
    """Parameters of the executor."""

    checkpoint: str = setting("", "checkpoint to run: a folder, or a hash below artifact_root")
    robot: str = setting("panda", "robot description")
    mode: str = setting(
        "real_time", "lockstep: by step_chunk; real_time: by trajectories", choices=("lockstep", "real_time")
    )
    dry_run: bool = setting(False, "decide and check every command, send none")
    execute: int = setting(8, "actions executed of each chunk", low=1, high=8)
    stale_after: float = setting(0.5, "age of the last joint state at which the arm holds", "s", 0.02, 10.0)
    state_timeout: float = setting(5.0, "time to wait for clock, joint states and objects", "s", 0.1, 60.0)
    autostart: bool = setting(True, "configure and activate at the start")


class ExecutorNode(NodeParts[ExecutorSettings], LifecycleNode):
    """Runs one task at a time; holds the arm on every way out."""

    def __init__(self) -> None:
        LifecycleNode.__init__(self, "executor", namespace="/coda")
        self.begin(ExecutorSettings)
        self._robot = robot(self.settings.robot)
        self._kinematics = Kinematics(self._robot)
        self._listener = StateListener(self, self._robot, self._kinematics.forward)
        self._driver: Driver | None = None
        self._active = self._stopped = False
        self._error: CodaError | None = None
        self._arm: Arm = (
            LockstepArm(self, self._listener)
            if self.settings.mode == "lockstep"
            else TrajectoryArm(self, self._listener)
        )
        qos.subscription(self, Bool, names.EMERGENCY_STOP, self._on_stop, qos.EVENTS)
        self.create_timer(1.0, self._watch_clock, clock=Clock(clock_type=ClockType.STEADY_TIME))
        if self.settings.autostart:
            self.trigger_configure()
            if self._error is not None:
                raise self._error
            self.trigger_activate()
        # offered last: nobody answers goals while the checkpoint is loaded
        self.serve_action(ExecuteTask, names.EXECUTE_TASK, self._execute)
        self._started = time.monotonic()

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load the checkpoint."""
        try:
            policy = PolicyRunner.load(self._checkpoint_folder())
            if policy.robot != self._robot.name:
                raise CheckpointError(f"checkpoint is for {policy.robot}, the arm is {self._robot.name}")
        except CodaError as error:
            self._error = error
            self.get_logger().error(str(error))
            return TransitionCallbackReturn.FAILURE
        limits = Limits(self._robot, self._kinematics, SafetyConfig())
        self._driver, self._stopped = Driver(policy, self._kinematics, limits, self.settings.execute), False
        return TransitionCallbackReturn.SUCCESS

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Accept tasks from now on."""
        self._active = True
        return TransitionCallbackReturn.SUCCESS

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """End the running task; the arm holds."""
        self._active = False
        return TransitionCallbackReturn.SUCCESS

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Forget the checkpoint."""
        self._driver = None
        return TransitionCallbackReturn.SUCCESS

    def _checkpoint_folder(self) -> Path:
        if not self.settings.checkpoint:
            raise CheckpointError(
                "parameter checkpoint is empty: expected a folder, or a hash below artifact_root"
            )
        stored = self.root.checkpoint(self.settings.checkpoint)
        return stored if stored.is_dir() else Path(self.settings.checkpoint).expanduser()

    def _watch_clock(self) -> None:
        if clock_stuck(self) and time.monotonic() - self._started > CLOCK_PATIENCE - 1.0:
            self.get_logger().error(CLOCK_STUCK, throttle_duration_sec=10.0)

    def _on_stop(self, message: Bool) -> None:
        if message.data and not self._stopped:
            self._stopped = True
            self.get_logger().error("emergency stop: the arm holds; configure the node anew to go on")

    def _reason_to_stop(self, goal: Goal) -> str:
        if self._stopped:
            return "emergency stop"
        if not self._active:
            return "the executor was deactivated"
        return "cancelled" if goal.cancelled else ""

    def _execute(self, goal: Goal) -> ExecuteTask.Result:
        if self._driver is None or not self._active or self._stopped:
            raise NodeError(
                f"no task is taken: {'emergency stop' if self._stopped else 'the executor is not active'}"
            )
        ask = goal.request
        if not ask.time_limit > 0:
            raise NodeError(f"time_limit = {ask.time_limit}: expected a positive number of seconds")
        goal.feedback(step=0, phase="waiting")
        self._arm.begin(ask.instruction)  # type: ignore[attr-defined]
        ended = self._driver.run(
            self._arm,
            ask.time_limit,
            ask.dry_run or self.settings.dry_run,
            stop=lambda: self._reason_to_stop(goal),
            on_step=lambda step: goal.feedback(step=step, phase="executing"),
        )
        goal.feedback(
            step=ended.steps, phase="stopped" if ended.message in ("emergency stop",) else "holding"
        )
        return ExecuteTask.Result(success=ended.success, message=ended.message, steps=ended.steps)


class LockstepArm:
    """The simulator in lockstep: one service call executes a chunk and returns what is seen after it."""

    lockstep = True

    def __init__(self, node: ExecutorNode, listener: StateListener) -> None:
        self._node, self._listener = node, listener
        self._service = ServiceCaller(node, StepChunk, names.STEP_CHUNK)
        self._names = robot(node.settings.robot).joint_names
        self._seen: Seen | None = None
        self._instruction, self._steps, self._stamp = "", 0, 0.0

    def begin(self, instruction: str) -> None:
        """A task begins: the first observation is one that was sent after this call."""
        self._instruction, self._steps = instruction, 0
        self._listener.wait_fresh(self._node.settings.state_timeout, instruction)
        observation, at = self._listener.observe(instruction, self._node.settings.stale_after)
        self._seen = Seen(observation, at)

    def observe(self) -> Seen:
        """What the last chunk led to."""
        if self._seen is None:
            raise NodeError("no task was begun")
        return self._seen

    def send(self, chunk: Array, times: Array, targets: Array, openings: Array, first: int) -> None:
        """Let the simulator execute the chunk; it has the same kinematics, so targets need not travel."""
        request = StepChunk.Request(chunk=converters.chunk_to_message(chunk, self._stamp), execute=len(times))
        done = self._service.call(request, STEP_TIMEOUT)
        self._steps += done.steps
        if self._instruction:
            done.observation.instruction = self._instruction
        ended = ENDINGS[EpisodeEvent.SUCCESS] if done.success else ""
        ended = ENDINGS[EpisodeEvent.TIMEOUT] if done.truncated else ended
        ended = f"invalid: {done.message}" if done.invalid else ended
        observation = converters.observation_from_message(done.observation, self._names)
        self._seen = Seen(observation, time.monotonic(), ended, done.success, self._steps)

    def hold(self) -> None:
        """Time stands still, and the arm with it."""


class TrajectoryArm:
    """An arm behind a joint trajectory controller, or the simulator in real time, which speaks the same."""

    lockstep = False

    def __init__(self, node: ExecutorNode, listener: StateListener) -> None:
        self._node, self._listener = node, listener
        self._robot = robot(node.settings.robot)
        self._arm = qos.publisher(node, JointTrajectory, names.ARM_TRAJECTORY, qos.COMMAND)
        self._gripper = qos.publisher(node, JointTrajectory, names.GRIPPER_TRAJECTORY, qos.COMMAND)
        qos.subscription(node, EpisodeEvent, names.EPISODE_EVENT, self._on_event, qos.EVENTS)
        self._instruction, self._ended, self._success = "", "", False

    def begin(self, instruction: str) -> None:
        """A task begins. Raises NodeError when time, joint states or objects are missing."""
        self._instruction, self._ended, self._success = instruction, "", False
        self._listener.wait_fresh(self._node.settings.state_timeout, instruction)

    def observe(self) -> Seen:
        """What the topics say now. Raises NodeError when the arm is silent."""
        observation, at = self._listener.observe(self._instruction, self._node.settings.stale_after)
        return Seen(observation, at, self._ended, self._success)

    def send(self, chunk: Array, times: Array, targets: Array, openings: Array, first: int) -> None:
        """Command the remaining points of the chunk."""
        self._arm.publish(trajectory_to_message(self._robot.joint_names, targets, times))
        grips = self._robot.gripper_command(openings)[:, None]
        self._gripper.publish(trajectory_to_message(self._robot.finger_joints[:1], grips, times))

    def hold(self) -> None:
        """Stay at the measured joint positions; the gripper keeps its last command."""
        try:
            here = self._listener.joints(self._robot.joint_names)
        except CodaError as error:
            self._node.get_logger().error(f"cannot hold, the arm was never seen: {error}")
            return
        here = np.clip(here, self._robot.lower, self._robot.upper)
        self._arm.publish(trajectory_to_message(self._robot.joint_names, here[None], np.array([HOLD_TIME])))

    def _on_event(self, message: EpisodeEvent) -> None:
        note = converters.event_from_message(message)
        if note.kind != EpisodeEvent.RESET:
            self._success = note.kind == EpisodeEvent.SUCCESS
            self._ended = note.detail or ENDINGS.get(note.kind, "the episode ended")


def main() -> int:
    """Run the executor."""
    return run_node(ExecutorNode)


if __name__ == "__main__":
    sys.exit(main())
