"""The simulator as a node: an interactive environment, in lockstep or real time, and batches of episodes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from coda_interfaces.action import RunEpisodes
from coda_interfaces.msg import EpisodeEvent, ObjectStateArray
from coda_interfaces.srv import ResetEnvironment, StepChunk
from rclpy.clock import Clock, ClockType
from rosgraph_msgs.msg import Clock as ClockMessage
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from coda_nodes.ros import converters, names, qos
from coda_nodes.ros.arm_messages import joint_state_to_message, trajectory_from_message
from coda_nodes.ros.base import CodaNode, Goal, NodeSettings
from coda_nodes.ros.cameras import CameraTopics
from coda_nodes.ros.node_main import run_node
from coda_nodes.ros.quantities import time_from_message, time_to_message
from coda_nodes.simulator.batches import BatchRequest, run_batch
from coda_nodes.simulator.interactive import InteractiveSession, Stepped
from coda_nodes.simulator.workers import RolloutPool
from coda_nodes.world.action import CHUNK_STEPS, CONTROL_PERIOD
from coda_nodes.world.config import setting
from coda_nodes.world.episode import EpisodeSummary
from coda_nodes.world.errors import CodaError, NotAvailableError, SimulationError
from coda_nodes.world.spec import EnvironmentSpec, parse_spec
from coda_nodes.world.state import SceneState

HEARTBEAT = 0.1
"""In lockstep the state is repeated after so long without a step, for those who come late [s]."""


@dataclass(frozen=True)
class SimulatorSettings(NodeSettings):
    """Parameters of the simulator."""

    simulator: str = setting("mujoco", "physics engine", choices=("mujoco", "gazebo"))
    mode: str = setting(
        "lockstep", "who owns time: step_chunk, or the wall clock", choices=("lockstep", "real_time")
    )
    workers: int = setting(2, "worker processes of run_episodes", low=1, high=256)
    image_width: int = setting(160, "width of camera images", "px", low=16, high=4096)
    image_height: int = setting(120, "height of camera images", "px", low=16, high=4096)


class SimulatorNode(CodaNode[SimulatorSettings]):
    """Owns one interactive session, touched by the executor thread only, and the pool of workers."""

    def __init__(self) -> None:
        super().__init__("simulator", SimulatorSettings)
        if self.settings.simulator != "mujoco":
            raise NotAvailableError("simulator gazebo is not built yet; the embedded one is mujoco")
        self._session = InteractiveSession()
        self._base = CONTROL_PERIOD  # simulated time at the reset [s]: never 0, which means "no time yet"
        self._now = CONTROL_PERIOD
        self._published = 0.0
        self._boundary = 0  # chunk periods since the reset, in real time
        self._cameras = CameraTopics(self)
        self._renderer: Any = None  # made when the first image is asked for: it needs OpenGL
        self._labels: tuple[tuple[str, str], ...] = ()
        self._offer()
        self.serve(ResetEnvironment, names.RESET_ENVIRONMENT, self._reset, threaded=False)
        self.serve(StepChunk, names.STEP_CHUNK, self._step_chunk, threaded=False)
        self._pool = RolloutPool(self.settings.workers, self.root)
        self.serve_action(RunEpisodes, names.RUN_EPISODES, self._run_episodes)
        self.create_timer(CONTROL_PERIOD, self._tick, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def _offer(self) -> None:
        self._clock_topic = qos.publisher(self, ClockMessage, names.CLOCK, qos.CLOCK)
        self._joints_topic = qos.publisher(self, JointState, names.JOINT_STATES, qos.STREAM_OFFERED)
        self._objects_topic = qos.publisher(self, ObjectStateArray, names.OBJECTS, qos.STREAM_OFFERED)
        self._instruction_topic = qos.publisher(self, String, names.INSTRUCTION, qos.LATCHED)
        self._event_topic = qos.publisher(self, EpisodeEvent, names.EPISODE_EVENT, qos.EVENTS)
        qos.subscription(self, JointTrajectory, names.ARM_TRAJECTORY, self._on_arm, qos.COMMAND)
        qos.subscription(self, JointTrajectory, names.GRIPPER_TRAJECTORY, self._on_gripper, qos.COMMAND)

    @property
    def _real_time(self) -> bool:
        return self.settings.mode == "real_time"

    def _stamp(self) -> float:
        """Simulated time in lockstep, that of the machine in real time [s]."""
        return self.get_clock().now().nanoseconds * 1e-9 if self._real_time else self._now

    def _reset(self, request: ResetEnvironment.Request, response: ResetEnvironment.Response) -> Any:
        spec = parse_spec(request.environment_json)
        if request.record and self._real_time:
            raise NotAvailableError("episodes are recorded in lockstep only; in real time record a bag")
        ended = self._session.running
        before = self._session.spec
        state = self._session.reset(spec, int(request.seed), request.record)
        if ended and before is not None:
            self._tell(EpisodeEvent.STOPPED, before.content_hash, "another environment was reset")
        self._base = self._now + CONTROL_PERIOD
        self._now = self._base
        self._labels, self._boundary = converters.entity_labels(spec), 0
        self._cameras.offer(spec.cameras)
        self._tell(EpisodeEvent.RESET, spec.content_hash, "")
        self._instruction_topic.publish(String(data=spec.instruction))
        self._later(state)
        response.accepted, response.environment_hash = True, spec.content_hash
        response.observation = self._observation(state)
        return response

    def _step_chunk(self, request: StepChunk.Request, response: StepChunk.Response) -> Any:
        if self._real_time:
            raise SimulationError(
                "the simulator runs in real time: send trajectories, or set mode to lockstep"
            )
        chunk = converters.chunk_from_message(request.chunk)
        done = self._session.step_chunk(chunk, request.execute or CHUNK_STEPS)
        self._advance(done)
        response.accepted = True
        response.observation = self._observation(done.state)
        response.success, response.truncated, response.invalid = done.success, done.truncated, done.invalid
        response.terminated = done.success
        response.predicates_true = list(done.predicates_true)
        response.steps = done.steps
        response.message = done.reason
        return response

    def _advance(self, done: Stepped) -> None:
        """Simulated time goes on; topics follow once the answer is on its way."""
        self._now = self._base + self._session.steps * CONTROL_PERIOD
        self._later(done.state)
        if done.over:
            self._end(done)

    def _end(self, done: Stepped) -> None:
        """Tell how the episode ended, and store it where it was recorded."""
        episode = self._session.episode()
        key = episode.save(self.root) if episode is not None else ""
        self._tell(_kind(done), self._session.spec.content_hash, done.reason, key)  # type: ignore[union-attr]

    def _observation(self, state: SceneState) -> Any:
        return converters.observation_to_message(
            state, self._labels, self._session.robot.joint_names, self._stamp(), self._session.steps
        )

    def _tell(self, kind: int, environment: str, detail: str, episode: str = "") -> None:
        note = converters.EpisodeNote(
            kind, environment, self._stamp(), self._session.steps, episode, detail=detail
        )
        self._event_topic.publish(converters.event_to_message(note))

    def _later(self, state: SceneState) -> None:
        """Publish after the service has answered, while the caller already thinks about its next chunk."""
        spec, stamp = self._session.spec, self._stamp()
        if self.executor is not None and spec is not None:
            self.executor.create_task(lambda: self._publish_chunk(spec, state, stamp))

    def _publish_chunk(self, spec: EnvironmentSpec, state: SceneState, stamp: float) -> None:
        """Everything that is published at a chunk boundary."""
        if spec is self._session.spec:
            self._publish(state, stamp)
            self._cameras.publish(spec.cameras, lambda camera: self._draw(spec, state, camera), stamp)

    def _draw(self, spec: EnvironmentSpec, state: SceneState, camera: str) -> Any:
        if self._renderer is None:
            from coda_nodes.simulator.render import Renderer

            self._renderer = Renderer(self.settings.image_width, self.settings.image_height)
        return self._renderer.render(spec, state, camera)

    def _publish(self, state: SceneState, stamp: float) -> None:
        self._published = time.monotonic()
        if not self._real_time:
            self._clock_topic.publish(ClockMessage(clock=time_to_message(stamp)))
        if self._joints_topic.get_subscription_count():
            self._publish_joints(state, stamp)
        if self._objects_topic.get_subscription_count():
            self._objects_topic.publish(converters.objects_to_message(state, self._labels, stamp))

    def _publish_joints(self, state: SceneState, stamp: float) -> None:
        robot = self._session.robot
        fingers = [float(robot.gripper_command(state.gripper_opening)[0])] * len(robot.finger_joints)
        positions = [*state.joint_positions[0], *fingers]
        joints = (*robot.joint_names, *robot.finger_joints)
        self._joints_topic.publish(joint_state_to_message(joints, positions, stamp))

    def _tick(self) -> None:
        """Real time: one control period. Lockstep: a sign of life."""
        if self._session.spec is None:
            return
        if self._real_time:
            ran = self._session.running
            done = self._session.advance(time.monotonic())
            if self._session.steps // CHUNK_STEPS > self._boundary:
                self._boundary = self._session.steps // CHUNK_STEPS
                self._publish_chunk(self._session.spec, done.state, self._stamp())
            else:
                self._publish(done.state, self._stamp())
            if ran and done.over:
                self._end(done)
        elif time.monotonic() - self._published > HEARTBEAT:
            self._publish(self._session.state(), self._stamp())

    def _on_arm(self, message: JointTrajectory) -> None:
        self._follow(message, lambda robot: robot.joint_names, self._session.command)

    def _on_gripper(self, message: JointTrajectory) -> None:
        def command(positions: Any, times: Any) -> None:
            self._session.command_gripper(self._session.robot.gripper_opening(positions[:, 0]), times)

        self._follow(message, lambda robot: robot.finger_joints[:1], command)

    def _follow(
        self, message: JointTrajectory, joints: Callable[[Any], Any], command: Callable[[Any, Any], None]
    ) -> None:
        """Command the trajectory of the message from now on; say why when it is refused."""
        try:
            if self._session.spec is None or not self._real_time:
                raise SimulationError("a trajectory needs mode real_time and an environment that was reset")
            if time_from_message(message.header.stamp):
                raise SimulationError("a trajectory with a start time is not followed: stamp 0 means now")
            times, positions = trajectory_from_message(message, joints(self._session.robot))
            command(positions, times)
        except CodaError as error:
            self.get_logger().warning(f"trajectory refused: {error}", throttle_duration_sec=1.0)

    def _run_episodes(self, goal: Goal) -> RunEpisodes.Result:
        ask = goal.request
        request = BatchRequest(
            environments=ask.environments_hash,
            actor=ask.checkpoint_hash,
            seed=int(ask.seed),
            episodes_per_environment=ask.episodes_per_environment,
            execute=ask.execute,
            noise=ask.noise,
            starts=ask.starts_hash,
            record_physics=ask.record_states,
            bags=int(ask.max_bags) if ask.record_bags else 0,
        )
        feedback = _Feedback(goal)
        key, ended = run_batch(request, self.root, self._pool, feedback)
        count = lambda outcome: sum(summary.outcome == outcome for summary in ended)  # noqa: E731
        return RunEpisodes.Result(
            accepted=True,
            episodes_hash=key,
            successes=count("success"),
            failures=count("failure"),
            invalid=count("invalid"),
            control_steps=sum(summary.control_steps for summary in ended),
        )

    def close(self) -> bool:
        """End the worker threads, then the worker processes."""
        finished = super().close()
        if finished:
            self._pool.close()
        return finished


def _kind(done: Stepped) -> int:
    """How an episode ended, as a constant of EpisodeEvent."""
    if done.invalid:
        return int(EpisodeEvent.INVALID)
    return int(EpisodeEvent.SUCCESS if done.success else EpisodeEvent.TIMEOUT)


class _Feedback:
    """Counts successes and estimates the time left; ends the batch once its goal is cancelled."""

    def __init__(self, goal: Goal) -> None:
        self._goal, self._begun = goal, time.monotonic()
        self._successes, self._already = 0, -1

    def __call__(self, done: int, total: int, fresh: Sequence[EpisodeSummary]) -> None:
        if self._goal.cancelled:
            raise SimulationError(f"cancelled after {done} of {total} episodes; those are kept")
        if self._already < 0:
            self._already = done
        self._successes += sum(summary.outcome == "success" for summary in fresh)
        ran = done - self._already
        left = (time.monotonic() - self._begun) / ran * (total - done) if ran else -1.0
        self._goal.feedback(done=done, total=total, successes=self._successes, seconds_left=float(left))


def main() -> int:
    """Run the simulator."""
    return run_node(SimulatorNode)


if __name__ == "__main__":
    sys.exit(main())
