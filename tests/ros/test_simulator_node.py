"""The simulator node: lockstep equals the in-process path, real time speaks trajectories."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import numpy as np
import pytest
from coda_interfaces.action import RunEpisodes
from coda_interfaces.msg import EpisodeEvent, ObjectStateArray
from coda_interfaces.srv import ResetEnvironment, StepChunk
from rclpy.node import Node
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CameraInfo, Image, JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from coda_nodes.ros import converters, names, qos
from coda_nodes.ros.arm_messages import joint_positions_from_message, trajectory_to_message
from coda_nodes.ros.clients import ActionCaller, ServiceCaller
from coda_nodes.ros.images import image_from_message
from coda_nodes.ros.node_main import Spinner
from coda_nodes.ros.quantities import pose_from_message, time_from_message
from coda_nodes.simulator.gl import find_backend
from coda_nodes.simulator.interactive import InteractiveSession
from coda_nodes.simulator.render import Renderer
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.episode import Episode, EpisodeSummary
from coda_nodes.world.errors import NodeError, NotAvailableError
from coda_nodes.world.experts import ExpertActor
from coda_nodes.world.robots import PANDA
from coda_nodes.world.spec import specs_hash, write_specs
from coda_nodes.world.splits import sample_split

SIMULATOR = "coda_nodes.simulator.node"
OBSERVED = ("joint_positions", "gripper_opening", "tool_position_base", "tool_quaternion_xyzw")
OF_ENTITIES = ("entity_position_base", "entity_quaternion_xyzw", "entity_half_extents", "entity_joint_value")


def scene(family: str = "pick_place", seed: int = 0):
    return sample_split(family, "train", np.random.default_rng(seed))


class Client:
    """Calls the simulator and keeps what it publishes."""

    def __init__(self, node: Node) -> None:
        self.reset_service = ServiceCaller(node, ResetEnvironment, names.RESET_ENVIRONMENT)
        self.step_service = ServiceCaller(node, StepChunk, names.STEP_CHUNK)
        self.joints: list[JointState] = []
        self.objects: list[ObjectStateArray] = []
        self.events: list[EpisodeEvent] = []
        self.clock: list[float] = []
        self.instruction: list[str] = []
        qos.subscription(node, JointState, names.JOINT_STATES, self.joints.append, qos.STREAM_ASKED)
        qos.subscription(node, ObjectStateArray, names.OBJECTS, self.objects.append, qos.STREAM_ASKED)
        qos.subscription(node, EpisodeEvent, names.EPISODE_EVENT, self.events.append, qos.EVENTS)
        tick = lambda message: self.clock.append(time_from_message(message.clock))  # noqa: E731
        qos.subscription(node, Clock, names.CLOCK, tick, qos.STREAM_ASKED)
        tell = lambda message: self.instruction.append(message.data)  # noqa: E731
        qos.subscription(node, String, names.INSTRUCTION, tell, qos.LATCHED)

    def reset(self, spec, record: bool = False):
        request = ResetEnvironment.Request(environment_json=spec.to_json(), seed=3, record=record)
        self.reset_service.wait(40)
        return self.reset_service.call(request, timeout=30)

    def step(self, chunk: np.ndarray, execute: int = 0):
        request = StepChunk.Request(chunk=converters.chunk_to_message(chunk, 0.0), execute=execute)
        return self.step_service.call(request, timeout=30)


@pytest.fixture
def node(ros: None):
    made = Node("simulator_client")
    with Spinner(made):
        yield made
    made.destroy_node()


def assert_same(message, state) -> None:
    """The observation sent equals the state in this process, bit by bit."""
    seen = converters.observation_from_message(message, PANDA.joint_names)
    count = len(state.entity_names[0])
    for name in OBSERVED:
        assert np.array_equal(getattr(seen, name), getattr(state, name)), name
    for name in OF_ENTITIES:
        assert np.array_equal(getattr(seen, name)[:, :count], getattr(state, name)[:, :count]), name
    assert np.array_equal(seen.present, state.present)
    assert seen.entity_names == state.entity_names
    assert seen.instructions == state.instructions


def test_lockstep_equals_the_in_process_path(start_node, node, tmp_path: Path, until) -> None:
    start_node(SIMULATOR, artifact_root=tmp_path / "run")
    client, session, spec = Client(node), InteractiveSession(), scene()
    state = session.reset(spec, 3)
    first = client.reset(spec, record=True)
    assert first.environment_hash == spec.content_hash
    assert_same(first.observation, state)
    expert, chunks = ExpertActor([spec]), 0
    while session.running:
        chunk = expert.act(session.state())[0]
        here, there = session.step_chunk(chunk), client.step(chunk)
        chunks += 1
        assert (there.success, there.truncated, there.invalid) == (here.success, here.truncated, here.invalid)
        assert (there.steps, tuple(there.predicates_true)) == (here.steps, here.predicates_true)
        assert_same(there.observation, here.state)
    assert session.last is not None and session.last.success
    assert there.terminated
    until(lambda: len(client.events) == 2, "start and end of the episode")
    assert [event.kind for event in client.events] == [EpisodeEvent.RESET, EpisodeEvent.SUCCESS]
    episode = Episode.load(ArtifactRoot(tmp_path / "run").episode(client.events[1].episode_hash))
    assert (episode.success, episode.steps, len(episode.chunks)) == (True, session.steps, chunks)
    with pytest.raises(NodeError, match="the episode has ended; reset an environment first"):
        client.step(chunk)
    until(lambda: client.joints and client.objects and client.instruction, "topics")
    assert client.instruction[0] == spec.instruction
    assert client.joints[-1].name == [*PANDA.joint_names, *PANDA.finger_joints]
    assert [item.name for item in client.objects[-1].objects] == list(spec.entity_names)
    until(lambda: client.clock[-1] >= session.steps * 0.05, "the clock of the last step")
    assert min(client.clock) > 0
    assert client.clock == sorted(client.clock)


def test_wrong_requests_are_refused_and_change_nothing(start_node, node, tmp_path: Path) -> None:
    start_node(SIMULATOR, artifact_root=tmp_path / "run")
    client, spec = Client(node), scene()
    first = client.reset(spec).observation
    with pytest.raises(NodeError, match="family"):
        request = ResetEnvironment.Request(environment_json=spec.to_json().replace("pick_place", "juggle"))
        client.reset_service.call(request, timeout=10)
    with pytest.raises(NodeError, match="finite"):
        client.step(np.full((8, 7), np.nan))
    with pytest.raises(NodeError, match="execute = 9"):
        client.step(np.zeros((8, 7)), execute=9)
    still = client.step(np.zeros((8, 7)), execute=1).observation
    assert still.step == 1
    (before, _), (after, _) = (pose_from_message(o.tool_pose_base, "tool") for o in (first, still))
    assert np.abs(after - before).max() < 1e-3


def test_real_time_follows_trajectories(start_node, node, tmp_path: Path, until) -> None:
    start_node(SIMULATOR, artifact_root=tmp_path / "run", mode="real_time")
    client = Client(node)
    client.reset(scene())
    with pytest.raises(NodeError, match="real time: send trajectories"):
        client.step(np.zeros((8, 7)))
    arm = qos.publisher(node, JointTrajectory, names.ARM_TRAJECTORY, qos.COMMAND)
    gripper = qos.publisher(node, JointTrajectory, names.GRIPPER_TRAJECTORY, qos.COMMAND)
    until(
        lambda: arm.get_subscription_count() and gripper.get_subscription_count() and client.joints,
        "a simulator",
    )
    begin = joint_positions_from_message(client.joints[-1], PANDA.joint_names)
    goal = begin.copy()
    goal[0] += 0.15
    arm.publish(trajectory_to_message(PANDA.joint_names[::-1], goal[None, ::-1], np.array([0.4])))
    gripper.publish(trajectory_to_message(PANDA.finger_joints[:1], np.array([[0.01]]), np.array([0.4])))

    def arrived() -> bool:
        now = joint_positions_from_message(client.joints[-1], PANDA.joint_names)
        fingers = joint_positions_from_message(client.joints[-1], PANDA.finger_joints)
        return bool(np.abs(now - goal).max() < 5e-3 and np.abs(fingers - 0.01).max() < 2e-3)

    until(arrived, f"joint1 at {goal[0]:.3f} and fingers at 0.01")
    assert client.clock == []


def test_camera_images_at_chunk_boundaries(start_node, node, tmp_path: Path, until) -> None:
    try:
        find_backend()
    except NotAvailableError as error:
        pytest.skip(f"no OpenGL here: {error}")
    start_node(SIMULATOR, artifact_root=tmp_path / "run", image_width=96, image_height=64)
    client, spec = Client(node), scene()
    client.reset(spec)
    pictures: list[Image] = []
    infos: list[CameraInfo] = []
    camera = spec.cameras[0].name
    topic = qos.subscription(node, Image, names.camera_image(camera), pictures.append, qos.IMAGE)
    qos.subscription(node, CameraInfo, names.camera_info(camera), infos.append, qos.IMAGE)
    until(lambda: node.count_publishers(topic.topic_name) == 1, "the camera")
    for _ in range(10):
        client.step(np.zeros((8, 7)))
        if pictures and infos:
            break
    until(lambda: pictures and infos, "a picture and its calibration")
    picture = image_from_message(pictures[0])
    with contextlib.closing(Renderer(96, 64)) as renderer:
        expected = renderer.render(spec)
    assert (picture.shape, infos[0].width, infos[0].height) == ((64, 96, 3), 96, 64)
    assert np.abs(picture.astype(int) - expected).mean() < 8  # the arm has moved a little, the scene has not
    assert np.abs(picture[::-1].astype(int) - expected).mean() > 16


def test_run_episodes_reports_and_resumes(start_node, node, tmp_path: Path) -> None:
    root = ArtifactRoot(tmp_path / "run")
    start_node(SIMULATOR, artifact_root=root.path, workers=1)
    specs = [scene("pick_place", seed) for seed in range(3)]
    key = specs_hash(specs)
    write_specs(root.environments(key), specs)
    caller = ActionCaller(node, RunEpisodes, names.RUN_EPISODES)
    goal = RunEpisodes.Goal(
        environments_hash=key, checkpoint_hash="expert", seed=5, episodes_per_environment=1
    )
    seen: list[tuple[int, int]] = []
    result = caller.run(goal, 60, lambda feedback: seen.append((feedback.done, feedback.total)), discovery=40)
    assert result.successes + result.failures + result.invalid == 3
    lines = (root.path / "episodes" / f"{result.episodes_hash}.jsonl").read_text().splitlines()
    ended = [EpisodeSummary(**json.loads(line)) for line in lines]
    assert [summary.environment_hash for summary in ended] == [spec.content_hash for spec in specs]
    assert sum(summary.steps for summary in ended) == result.control_steps
    assert seen[0] == (0, 3) and seen[-1] == (3, 3)
    stamps = [root.episode(summary.hash).stat().st_mtime_ns for summary in ended]
    again = caller.run(goal, 60)
    assert again.episodes_hash == result.episodes_hash
    assert [root.episode(summary.hash).stat().st_mtime_ns for summary in ended] == stamps
    goal.environments_hash = "missing"
    with pytest.raises(NodeError, match="cannot read environments"):
        caller.run(goal, 60)
