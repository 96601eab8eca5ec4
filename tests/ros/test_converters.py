"""Messages survive the way there and back bit by bit; wrong ones are refused with the place that is wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from coda_interfaces.msg import EpisodeEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from rclpy.serialization import deserialize_message, serialize_message

from coda_nodes.ros import arm_messages, converters, images, quantities
from coda_nodes.world.errors import MessageError
from coda_nodes.world.spec import FRONT_CAMERA
from coda_nodes.world.state import ENTITY_SLOTS, ObservationBatch

JOINTS = tuple(f"joint{i}" for i in range(1, 8))
finite = st.floats(-1e6, 1e6, allow_nan=False)


def over_the_wire(message):
    """Through the serialization of the middleware."""
    return deserialize_message(serialize_message(message), type(message))


def observation(rng: np.random.Generator, entities: int = 3, slots: int = 5) -> ObservationBatch:
    """Two scenes with random but valid content; the second one is full."""

    def turns(*shape: int) -> np.ndarray:
        q = rng.normal(size=(*shape, 4))
        return q / np.linalg.norm(q, axis=-1, keepdims=True)

    present = np.ones((2, slots), dtype=bool)
    present[0, entities:] = False
    return ObservationBatch(
        joint_positions=rng.normal(size=(2, 7)),
        gripper_opening=rng.uniform(size=2),
        tool_position_base=rng.normal(size=(2, 3)),
        tool_quaternion_xyzw=turns(2),
        entity_position_base=rng.normal(size=(2, slots, 3)),
        entity_quaternion_xyzw=turns(2, slots),
        entity_half_extents=rng.uniform(0.01, 0.1, size=(2, slots, 3)),
        entity_joint_value=rng.uniform(size=(2, slots)),
        entity_joint_range=np.sort(rng.uniform(size=(2, slots, 2))),
        present=present,
        entity_names=(
            tuple(f"thing {i}" for i in range(entities)),
            tuple(f"other {i}" for i in range(slots)),
        ),
        instructions=("put the red cube into the blue bin", "push it"),
    )


TIMES = 0.05 * np.arange(1, 9)
LABELS = (("box", "object"), ("bin", "receptacle"), ("drawer", "fixture"))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_observation_round_trip_is_exact(seed: int) -> None:
    batch = observation(np.random.default_rng(seed))
    message = over_the_wire(converters.observation_to_message(batch, LABELS, JOINTS, 1.25, step=25))
    back = converters.observation_from_message(message, JOINTS)
    for name in ("joint_positions", "gripper_opening", "tool_position_base"):
        assert np.array_equal(getattr(back, name)[0], getattr(batch, name)[0]), name
    for name in ("entity_position_base", "entity_half_extents", "entity_joint_value", "entity_joint_range"):
        assert np.array_equal(getattr(back, name)[0, :3], getattr(batch, name)[0, :3]), name
        assert not getattr(back, name)[0, 3:].any(), name
    assert np.array_equal(back.entity_quaternion_xyzw[0, :3], batch.entity_quaternion_xyzw[0, :3])
    assert np.array_equal(back.tool_quaternion_xyzw[0], batch.tool_quaternion_xyzw[0])
    assert back.entity_names == (batch.entity_names[0],)
    assert back.instructions == (batch.instructions[0],)
    assert back.present[0].tolist() == [True] * 3 + [False] * (ENTITY_SLOTS - 3)


def test_observation_of_a_scene_that_is_not_the_first() -> None:
    batch = observation(np.random.default_rng(1))
    labels = LABELS + (("box", "distractor"),) * 2
    message = converters.observation_to_message(batch, labels, JOINTS, 0.0, step=0, scene=1)
    back = converters.observation_from_message(message, JOINTS)
    assert np.array_equal(back.entity_position_base[0, :5], batch.entity_position_base[1])
    assert back.instructions == ("push it",)
    assert [item.role for item in message.objects.objects][-1] == "distractor"


def test_ros_quaternion_of_a_quarter_turn_about_z() -> None:
    batch = observation(np.random.default_rng(2))
    quarter = np.array([0.0, 0.0, math.sqrt(0.5), math.sqrt(0.5)])
    batch.tool_quaternion_xyzw[0] = quarter
    orientation = converters.observation_to_message(batch, LABELS, JOINTS, 0.0, 0).tool_pose_base.orientation
    assert (orientation.x, orientation.y) == (0.0, 0.0)
    assert orientation.z == orientation.w == pytest.approx(math.sqrt(0.5))


@pytest.mark.parametrize("wrong", [(0, 0, 0, 0), (0, 0, 0, 1.01), (math.nan, 0, 0, 1)])
def test_quaternion_that_is_not_unit_is_refused(wrong: tuple[float, ...]) -> None:
    with pytest.raises(MessageError, match=r"red cube|orientation"):
        quantities.unit_quaternion_xyzw(wrong, "red cube.orientation")


def _wrong_nan_position(message):
    message.objects.objects[1].pose.position.y = math.nan


def _wrong_quaternion(message):
    message.tool_pose_base.orientation.w = 7.0


def _wrong_joint_missing(message):
    message.joint_state.name[2] = "elbow"


def _wrong_object_twice(message):
    message.objects.objects[1].name = message.objects.objects[0].name


def _wrong_opening(message):
    message.gripper_opening = math.inf


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_wrong_nan_position, "thing 1"),
        (_wrong_quaternion, "tool_pose_base"),
        (_wrong_joint_missing, "no joint 'joint3': joint1, joint2, elbow"),
        (_wrong_object_twice, "named twice"),
        (_wrong_opening, "gripper_opening = inf"),
    ],
)
def test_wrong_observation_is_refused_by_name(spoil, words: str) -> None:
    batch = observation(np.random.default_rng(3))
    message = converters.observation_to_message(batch, LABELS, JOINTS, 0.0, 0)
    spoil(message)
    with pytest.raises(MessageError, match=words):
        converters.observation_from_message(message, JOINTS)


@given(chunk=arrays(np.float64, (8, 7), elements=st.floats(0, 1)))
def test_chunk_round_trip(chunk: np.ndarray) -> None:
    message = over_the_wire(converters.chunk_to_message(chunk, 3.5))
    assert np.array_equal(converters.chunk_from_message(message), chunk)
    assert quantities.time_from_message(message.header.stamp) == 3.5


@pytest.mark.parametrize(
    ("chunk", "words"),
    [
        (np.zeros((7, 7)), "expected 8 and 56"),
        (np.full((8, 7), np.nan), r"chunk\[0\] = nan"),
        (np.full((8, 7), 1.5), "gripper opening 1.5"),
    ],
)
def test_wrong_chunk_is_refused(chunk: np.ndarray, words: str) -> None:
    with pytest.raises(MessageError, match=words):
        converters.chunk_from_message(converters.chunk_to_message(chunk, 0.0))


def test_chunk_of_another_period_is_refused() -> None:
    message = converters.chunk_to_message(np.zeros((8, 7)), 0.0)
    message.period = 0.1
    with pytest.raises(MessageError, match=r"0\.1 s: expected 0\.05 s"):
        converters.chunk_from_message(message)


@given(order=st.permutations(range(7)), values=arrays(np.float64, 7, elements=finite))
def test_joint_state_is_read_by_name(order: list[int], values: np.ndarray) -> None:
    message = arm_messages.joint_state_to_message([JOINTS[i] for i in order], values[list(order)], 0.0)
    assert np.array_equal(arm_messages.joint_positions_from_message(message, JOINTS), values)


def test_joint_state_with_gripper_joints_and_one_named_twice() -> None:
    message = arm_messages.joint_state_to_message(["finger", *JOINTS], np.arange(8.0), 0.0)
    assert np.array_equal(arm_messages.joint_positions_from_message(message, JOINTS), np.arange(1.0, 8.0))
    message.name[0] = "joint1"
    with pytest.raises(MessageError, match="twice"):
        arm_messages.joint_positions_from_message(message, JOINTS)


@given(order=st.permutations(range(7)), values=arrays(np.float64, (8, 7), elements=finite))
def test_trajectory_round_trip_by_name(order: list[int], values: np.ndarray) -> None:
    names = [JOINTS[i] for i in order]
    message = over_the_wire(arm_messages.trajectory_to_message(names, values[:, list(order)], TIMES))
    assert (message.header.stamp.sec, message.header.stamp.nanosec) == (0, 0)
    times, positions = arm_messages.trajectory_from_message(message, JOINTS)
    assert np.allclose(times, TIMES, atol=1e-9)
    assert np.array_equal(positions, values)


def test_wrong_trajectories_are_refused() -> None:
    def make(names=JOINTS, times=(0.1, 0.2, 0.3)):
        return arm_messages.trajectory_to_message(names, np.zeros((3, len(names))), np.array(times))

    with pytest.raises(MessageError, match="positive"):
        make(times=(0.0, 0.1, 0.2))
    with pytest.raises(MessageError, match="no joint 'elbow'"):
        arm_messages.trajectory_from_message(make(("elbow", *JOINTS[1:])), JOINTS)
    with pytest.raises(MessageError, match="no joint 'joint7'"):
        arm_messages.trajectory_from_message(make(JOINTS[:6]), JOINTS)
    late = make()
    late.points[2].time_from_start = late.points[1].time_from_start
    with pytest.raises(MessageError, match="rising"):
        arm_messages.trajectory_from_message(late, JOINTS)
    short = make()
    short.points[1].positions = [0.0]
    with pytest.raises(MessageError, match="point 1 has 1 positions for 7 joints"):
        arm_messages.trajectory_from_message(short, JOINTS)


@given(seconds=st.floats(0, 2**31 - 2))
def test_time_round_trip(seconds: float) -> None:
    assert quantities.time_from_message(quantities.time_to_message(seconds)) == pytest.approx(
        seconds, abs=1e-6
    )


def test_event_and_progress_round_trips() -> None:
    note = converters.EpisodeNote(EpisodeEvent.TIMEOUT, "ab12", 4.0, 80, "cd34", "run", "time is over")
    assert converters.event_from_message(over_the_wire(converters.event_to_message(note))) == note
    report = converters.ProgressNote("learner", "imitation", "step 10", 2, 0.5, 12.0, '{"loss": 1}')
    assert (
        converters.progress_from_message(over_the_wire(converters.progress_to_message(report, 1.0))) == report
    )
    with pytest.raises(MessageError, match="kind 9"):
        converters.event_from_message(EpisodeEvent(kind=9))


ASYMMETRIC = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
"""No row, column or channel equals another, so that every flip and swap shows."""


def test_image_round_trip_keeps_orientation_and_channels() -> None:
    message = over_the_wire(images.image_to_message(ASYMMETRIC, 1.0, "front_optical_frame"))
    assert np.array_equal(images.image_from_message(message), ASYMMETRIC)


@pytest.mark.parametrize("encoding", ["bgr8", "bgra8", "rgba8", "mono8"])
def test_images_of_other_encodings_and_with_padded_rows(encoding: str) -> None:
    channels = {"bgr8": [2, 1, 0], "bgra8": [2, 1, 0, 0], "rgba8": [0, 1, 2, 0], "mono8": [1]}[encoding]
    pixels = ASYMMETRIC[..., channels]
    padded = np.concatenate([pixels.reshape(2, -1), np.full((2, 5), 255, np.uint8)], axis=1)
    message = images.image_to_message(ASYMMETRIC, 0.0, "f")
    message.encoding, message.step, message.data = encoding, padded.shape[1], padded.tobytes()
    expected = np.repeat(pixels, 3, axis=2) if encoding == "mono8" else ASYMMETRIC
    assert np.array_equal(images.image_from_message(message), expected)


def test_unknown_encoding_and_short_image_are_refused() -> None:
    message = images.image_to_message(ASYMMETRIC, 0.0, "f")
    message.encoding = "16UC1"
    with pytest.raises(MessageError, match="no image encoding '16UC1': rgb8"):
        images.image_from_message(message)
    message.encoding, message.height = "rgb8", 3
    with pytest.raises(MessageError, match="18 bytes"):
        images.image_from_message(message)


def test_camera_calibration_projects_the_edge_of_the_view_to_the_edge_of_the_image() -> None:
    info = images.camera_info(FRONT_CAMERA, 160, 120, 0.0)
    top = math.tan(math.radians(FRONT_CAMERA.fov_y) / 2)
    row = info.k[4] * -top + info.k[5]
    assert row == pytest.approx(-0.5)
