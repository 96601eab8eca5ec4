"""Features: geometry against scipy, symmetries, padding, sentence rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from coda_nodes.policy.features import (
    ENTITY_SIZE,
    FeatureEncoder,
    entity_features,
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
    features = FeatureEncoder(encoder).encode(observation, slots=9)
    assert features.entity.shape == (5, 9, ENTITY_SIZE) and features.robot.shape == (5, robot_size(7))
    assert not features.present[:, 6:].any() and not features.entity[:, 6:].any()
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
