"""Features: geometry against scipy, symmetries, padding, sentence rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from coda_nodes.policy.features import (
    ENTITY_SIZE,
    PARTNER_SIZE,
    FeatureEncoder,
    entity_features,
    partner_features,
    robot_features,
    robot_size,
    rotation_matrix,
    wrap,
)
from coda_nodes.world.errors import CheckpointError


@pytest.fixture()
def observation(point_world):
    rng = np.random.default_rng(1)
    return point_world.PointWorld([point_world.sample_spec(rng) for _ in range(5)], rng).state().observation()


def test_rotation_matrix_is_scipys():
    quaternions = Rotation.random(50, random_state=0).as_quat()
    assert np.allclose(rotation_matrix(quaternions), Rotation.from_quat(quaternions).as_matrix())
    assert np.array_equal(rotation_matrix(np.zeros(4)), np.eye(3))


def test_sizes_and_finite(observation, encoder):
    features = FeatureEncoder(encoder).encode(observation)
    assert features.entity.shape == (5, 6, ENTITY_SIZE) and features.robot.shape == (5, robot_size(7))
    assert not features.present[:, 4:].any() and not features.entity[:, 4:].any()
    assert all(np.isfinite(a).all() for a in (features.entity, features.robot, features.table))


def test_moving_everything_in_the_plane_changes_no_entity_feature(observation):
    shift = np.array([0.13, -0.21, 0.0])
    moved = replace(
        observation,
        tool_position_base=observation.tool_position_base + shift,
        entity_position_base=observation.entity_position_base + shift,
    )
    assert np.allclose(entity_features(moved), entity_features(observation), atol=1e-6)
    assert not np.allclose(robot_features(moved), robot_features(observation), atol=1e-3)


def test_tool_behind_an_entity_seen_from_its_partner(observation):
    """Geometry by hand: the tool stands 5 cm behind entity 0 and 2 cm left of the line to entity 1."""
    position = observation.entity_position_base.copy()
    position[:, 0], position[:, 1] = (0.5, 0.0, 0.02), (0.5, 0.3, 0.02)
    tool = np.tile([0.48, -0.05, 0.1], (observation.n, 1))
    scene = replace(observation, entity_position_base=position, tool_position_base=tool)
    partners = np.full((observation.n, 6, 2), -1)
    partners[:, 0, 0] = 1
    numbers = partner_features(scene, partners)[0]
    assert np.allclose(numbers[0, :5], [1, 0, 1, -0.05, 0.02], atol=1e-6)
    assert not numbers[1:].any() and not numbers[0, PARTNER_SIZE:].any()


def test_quarter_turn_of_a_square_keeps_its_symmetric_yaw():
    angles = np.linspace(-3, 3, 41)
    for turns in (1, 2, 3):
        difference = wrap(angles + turns * np.pi / 2, np.pi / 2) - wrap(angles, np.pi / 2)
        assert np.allclose((difference + 0.1) % (np.pi / 2), 0.1)
    assert (np.abs(wrap(angles, np.pi)) <= np.pi / 2 + 1e-9).all()


def test_sentences_are_shared_and_compacted(observation, encoder):
    features = FeatureEncoder(encoder)
    everything = features.encode(observation)
    one = everything.select(np.array([2])).compact()
    assert len(one.table) < len(everything.table)
    assert np.array_equal(one.table[one.name[0, 0]], encoder.encode([observation.entity_names[2][0]])[0])
    assert np.array_equal(one.table[one.task], everything.table[everything.task[[2]]])


@pytest.mark.parametrize("name", ["tool_position_base", "entity_position_base", "joint_positions"])
def test_nan_is_named(observation, encoder, name):
    broken = getattr(observation, name).copy()
    broken.flat[0] = np.nan
    with pytest.raises(CheckpointError, match=name):
        FeatureEncoder(encoder).encode(replace(observation, **{name: broken}))
