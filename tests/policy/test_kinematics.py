"""Kinematics against MuJoCo's own, and the chunk convention against its definition."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from coda_nodes.policy.kinematics import Kinematics, KinematicsConfig
from coda_nodes.world.action import CONTROL_PERIOD
from coda_nodes.world.errors import ConfigError
from coda_nodes.world.geometry import tool_down
from coda_nodes.world.robots import robot

PANDA = robot("panda")


@pytest.fixture(scope="module")
def kinematics() -> Kinematics:
    return Kinematics(PANDA)


@pytest.fixture(scope="module")
def starts(kinematics: Kinematics) -> np.ndarray:
    """Joint positions of a tool pointing down all over the workspace. Shape (40, 7)."""
    rng = np.random.default_rng(5)
    place = rng.uniform([0.34, -0.3, 0.03], [0.64, 0.3, 0.3], (40, 3))
    return kinematics.solve(np.tile(PANDA.home, (40, 1)), place, tool_down(rng.uniform(-1.4, 1.4, 40)))


def mujoco_pose(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    model = mujoco.MjModel.from_xml_path(str(PANDA.model_path))
    data = mujoco.MjData(model)
    data.qpos[:7] = q
    mujoco.mj_kinematics(model, data)
    return data.site("tool").xpos.copy(), data.site("tool").xmat.reshape(3, 3).copy()


def test_forward_is_mujocos(kinematics: Kinematics) -> None:
    q = np.random.default_rng(0).uniform(PANDA.lower, PANDA.upper, (25, 7))
    positions, quaternions = kinematics.forward(q)
    for i, row in enumerate(q):
        position, rotation = mujoco_pose(row)
        np.testing.assert_allclose(positions[i], position, atol=1e-9)
        np.testing.assert_allclose(Rotation.from_quat(quaternions[i]).as_matrix(), rotation, atol=1e-7)


def test_solve_reaches_the_workspace_from_home(kinematics: Kinematics) -> None:
    rng = np.random.default_rng(1)
    place = rng.uniform([0.32, -0.33, 0.01], [0.66, 0.33, 0.35], (60, 3))
    q = kinematics.solve(np.tile(PANDA.home, (60, 1)), place, tool_down(rng.uniform(-1.5, 1.5, 60)))
    for row, goal in zip(q, place, strict=True):
        assert np.linalg.norm(mujoco_pose(row)[0] - goal) < 1e-4
    assert (q >= PANDA.lower).all() and (q <= PANDA.upper).all()


def test_out_of_reach_stays_finite_and_within_limits(kinematics: Kinematics) -> None:
    q = kinematics.solve(np.array([PANDA.home]), np.array([[3.0, 0.0, 0.2]]), tool_down(np.array([0.0])))
    assert np.isfinite(q).all() and (q >= PANDA.lower).all() and (q <= PANDA.upper).all()
    assert kinematics.forward(q)[0][0, 0] > 0.6


def test_chunk_is_displacement_from_its_start(kinematics: Kinematics, starts: np.ndarray) -> None:
    rng = np.random.default_rng(2)
    chunk = np.zeros((len(starts), 8, 7))
    ramp = (np.arange(1, 9) / 8)[None, :, None]
    chunk[..., :3] = rng.uniform(-0.06, 0.06, (len(starts), 1, 3)) * ramp
    chunk[..., 3:6] = rng.uniform(-1, 1, (len(starts), 1, 3)) * [0.05, 0.05, 0.35] * ramp
    chunk[..., 6] = rng.uniform(-0.5, 1.5, (len(starts), 8))
    targets, openings = kinematics.chunk_to_joints(starts, chunk)
    np.testing.assert_array_equal(openings, np.clip(chunk[..., 6], 0, 1))
    for i in range(0, len(starts), 5):
        position, rotation = mujoco_pose(starts[i])
        for k in (0, 3, 7):
            reached, turned = mujoco_pose(targets[i, k])
            np.testing.assert_allclose(reached, position + chunk[i, k, :3], atol=2e-4)
            wanted = Rotation.from_rotvec(chunk[i, k, 3:6]).as_matrix() @ rotation
            assert np.abs(turned - wanted).max() < 1e-3


def test_targets_keep_velocity_and_position_limits(kinematics: Kinematics, starts: np.ndarray) -> None:
    chunk = np.zeros((len(starts), 8, 7))
    chunk[..., :3] = np.random.default_rng(3).uniform(-0.6, 0.6, (len(starts), 8, 3))
    targets, _ = kinematics.chunk_to_joints(starts, chunk)
    steps = np.diff(np.concatenate([starts[:, None], targets], axis=1), axis=1)
    assert (np.abs(steps) <= np.array(PANDA.velocity) * CONTROL_PERIOD + 1e-12).all()
    assert (targets >= PANDA.lower).all() and (targets <= PANDA.upper).all()


def test_a_row_does_not_depend_on_its_neighbours(kinematics: Kinematics, starts: np.ndarray) -> None:
    chunk = np.random.default_rng(4).normal(0, 0.03, (len(starts), 8, 7))
    together, _ = kinematics.chunk_to_joints(starts, chunk)
    for i in (0, 7, 39):
        alone, _ = kinematics.chunk_to_joints(starts[i : i + 1], chunk[i : i + 1])
        np.testing.assert_array_equal(alone[0], together[i])


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match="iterations = 0"):
        KinematicsConfig(iterations=0)
    with pytest.raises(ConfigError, match="panda"):
        robot("panda9")
