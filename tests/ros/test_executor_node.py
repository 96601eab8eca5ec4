"""The executor drives the simulator in lockstep and in real time, and holds whatever happens."""

from __future__ import annotations

import signal

import numpy as np
import pytest
from coda_interfaces.action import ExecuteTask
from lifecycle_msgs.srv import ChangeState
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool
from trajectory_msgs.msg import JointTrajectory

from coda_nodes.policy.runner import PolicyRunner
from coda_nodes.ros import names, qos
from coda_nodes.ros.arm_messages import joint_positions_from_message, trajectory_from_message
from coda_nodes.ros.clients import ActionCaller, ServiceCaller
from coda_nodes.ros.node_main import Spinner
from coda_nodes.simulator.interactive import InteractiveSession
from coda_nodes.world.robots import PANDA

SIMULATOR, EXECUTOR = "coda_nodes.simulator.node", "coda_nodes.executor.node"


class Watch:
    """Client of both nodes that keeps what is commanded and measured."""

    def __init__(self, node: Node, reset) -> None:
        self.node, self._reset = node, reset
        self.caller = ActionCaller(node, ExecuteTask, names.EXECUTE_TASK)
        self.commands: list[JointTrajectory] = []
        self.joints: list[JointState] = []
        self.phases: list[str] = []
        qos.subscription(node, JointTrajectory, names.ARM_TRAJECTORY, self.commands.append, qos.COMMAND)
        qos.subscription(node, JointState, names.JOINT_STATES, self.joints.append, qos.STREAM_ASKED)

    def reset(self, spec) -> None:
        self._reset(spec)

    def run(self, **goal):
        ask = ExecuteTask.Goal(**goal)
        return self.caller.run(ask, 60, lambda feedback: self.phases.append(feedback.phase), discovery=40)

    def holds(self) -> bool:
        """Whether the last command is a single point near where the arm is."""
        return bool(self.commands) and len(self.commands[-1].points) == 1

    def measured(self) -> np.ndarray:
        return joint_positions_from_message(self.joints[-1], PANDA.joint_names)


@pytest.fixture
def watch(ros: None, reset_environment):
    node = Node("executor_client")
    with Spinner(node):
        yield Watch(node, reset_environment(node))
    node.destroy_node()


@pytest.fixture
def reset_environment():
    """Reset the simulator's environment by its service."""
    from coda_interfaces.srv import ResetEnvironment

    def bind(node: Node):
        service = ServiceCaller(node, ResetEnvironment, names.RESET_ENVIRONMENT)

        def reset(spec) -> None:
            service.call(ResetEnvironment.Request(environment_json=spec.to_json()), 30, discovery=40)

        return reset

    return bind


@pytest.fixture
def spec():
    from coda_nodes.world.splits import sample_split

    scene = sample_split("pick_place", "train", np.random.default_rng(5))
    return scene.revise(horizon=2000)  # in real time the clock runs while processes start


def test_lockstep_equals_the_in_process_path(start_node, watch: Watch, trained, spec, until) -> None:
    root, checkpoint = trained
    start_node(SIMULATOR, artifact_root=root.path)
    executor = start_node(
        EXECUTOR, artifact_root=root.path, checkpoint=checkpoint, mode="lockstep", stale_after=5.0
    )
    watch.reset(spec)
    result = watch.run(time_limit=1.2)
    assert (result.success, result.message, result.steps) == (False, "time is over", 24)
    session, policy = InteractiveSession(), PolicyRunner.load(root.checkpoint(checkpoint))
    session.reset(spec)
    while session.steps < 24:
        session.step_chunk(policy.act(session.state().observation())[0])
    until(
        lambda: np.abs(watch.measured() - session.state().joint_positions[0]).max() < 1e-6, "the same joints"
    )
    assert set(watch.phases) >= {"waiting", "executing"}
    assert watch.commands == []
    stop = qos.publisher(watch.node, Bool, names.EMERGENCY_STOP, qos.EVENTS)
    until(stop.get_subscription_count, "the executor")
    stop.publish(Bool(data=True))
    until(lambda: "emergency stop" in executor.text(), "the emergency stop")
    assert watch.run(time_limit=1.0).message == "no task is taken: emergency stop"
    assert transition(watch.node, "deactivate") and transition(watch.node, "cleanup")
    assert watch.run(time_limit=1.0).message.startswith("no task is taken")
    assert transition(watch.node, "configure") and transition(watch.node, "activate")
    assert watch.run(time_limit=0.4).message == "time is over"


def transition(node: Node, label: str) -> bool:
    """Ask the executor for a transition of its life cycle."""
    request = ChangeState.Request()
    request.transition.label = label
    return bool(ServiceCaller(node, ChangeState, "/coda/executor/change_state").call(request, 20).success)


def test_real_time_drives_and_every_way_out_is_a_hold(start_node, watch: Watch, trained, spec, until) -> None:
    root, checkpoint = trained
    simulator = start_node(SIMULATOR, artifact_root=root.path, mode="real_time")
    executor = start_node(EXECUTOR, artifact_root=root.path, checkpoint=checkpoint, stale_after=2.0)
    watch.reset(spec)
    until(lambda: watch.joints, "joint states")
    begin = watch.measured()
    dry = watch.run(time_limit=0.5, dry_run=True)
    assert (dry.message, dry.steps) == ("time is over", 0)
    assert watch.commands == []
    assert np.abs(watch.measured() - begin).max() < 1e-2

    result = watch.run(time_limit=1.5)
    assert result.message == "time is over", executor.text()
    assert result.steps > 8
    assert np.abs(watch.measured() - begin).max() > 1e-2
    until(watch.holds, "the hold at the end of the task")
    for command in watch.commands:
        times, positions = trajectory_from_message(command, PANDA.joint_names)
        assert (command.header.stamp.sec, command.header.stamp.nanosec) == (0, 0)
        assert times[0] > 0
        assert (positions <= PANDA.upper).all() and (positions >= PANDA.lower).all()

    def when_executing(act):
        return lambda feedback: act() if feedback.phase == "executing" else None

    goal = ExecuteTask.Goal(time_limit=60.0)
    watch.commands.clear()
    try:
        silence = when_executing(lambda: simulator.process.send_signal(signal.SIGSTOP))
        result = watch.caller.run(goal, 90, silence)
    finally:
        simulator.process.send_signal(signal.SIGCONT)
    assert "/joint_states is silent" in result.message
    until(watch.holds, "the hold of an arm that is silent")

    watch.commands.clear()
    result = watch.caller.run(goal, 90, when_executing(executor.process.terminate))
    assert result.message == "cancelled"
    until(watch.holds, "the hold at the end of the process")
    assert executor.process.wait(20) == 0


def test_clock_that_stands_at_zero(start_node, watch: Watch, trained, until) -> None:
    root, checkpoint = trained
    executor = start_node(EXECUTOR, artifact_root=root.path, checkpoint=checkpoint, use_sim_time=True)
    watch.caller.wait(60)
    until(lambda: "nobody publishes /clock" in executor.text(), "the complaint", timeout=7.0)
    result = watch.run(time_limit=1.0)
    assert "the clock stands at 0" in result.message
    assert watch.commands == []


def test_wrong_checkpoint_stops_the_executor_with_one_line(start_node, trained) -> None:
    root, _ = trained
    executor = start_node(EXECUTOR, artifact_root=root.path, checkpoint="0123")
    assert executor.process.wait(60) == 2
    assert executor.text().splitlines()[-1].startswith("error: ")
