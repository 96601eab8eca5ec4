"""The Panda against Franka's published figures."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from coda_nodes.simulator.scene import FAMILY_SLOTS, build_scene
from coda_nodes.world.robots import robot

PANDA = robot("panda")
DH = [
    (0, 0.333, 0),
    (0, 0, -np.pi / 2),
    (0, 0.316, np.pi / 2),
    (0.0825, 0, np.pi / 2),
    (-0.0825, 0.384, -np.pi / 2),
    (0, 0, np.pi / 2),
    (0.088, 0, np.pi / 2),
]
"""Franka's modified Denavit-Hartenberg table: a [m], d [m], alpha [rad]."""
FLANGE_TO_TOOL = 0.107 + 0.1034


def published_tool(q: np.ndarray) -> np.ndarray:
    pose = np.eye(4)
    for (a, d, alpha), angle in zip(DH, q, strict=True):
        ca, sa, c, s = np.cos(alpha), np.sin(alpha), np.cos(angle), np.sin(angle)
        pose = pose @ np.array(
            [[c, -s, 0, a], [s * ca, c * ca, -sa, -d * sa], [s * sa, c * sa, ca, d * ca], [0, 0, 0, 1]]
        )
    return (pose @ [0, 0, FLANGE_TO_TOOL, 1])[:3]


def test_kinematics_are_the_published_table() -> None:
    model = mujoco.MjModel.from_xml_path(str(PANDA.model_path))
    data = mujoco.MjData(model)
    for q in np.random.default_rng(0).uniform(PANDA.lower, PANDA.upper, (20, 7)):
        data.qpos[:7] = q
        mujoco.mj_kinematics(model, data)
        np.testing.assert_allclose(data.site("tool").xpos, published_tool(q), atol=1e-6)


def test_limits_and_mass_agree_with_the_description() -> None:
    model = mujoco.MjModel.from_xml_path(str(PANDA.model_path))
    ranges = np.array([model.joint(name).range for name in PANDA.joint_names])
    np.testing.assert_allclose(ranges, np.stack([PANDA.lower, PANDA.upper], axis=1))
    assert model.actuator(PANDA.gripper_actuator).ctrlrange.tolist() == list(PANDA.gripper_range)
    assert 16.0 < model.body_mass.sum() < 19.0  # arm of about 17 kg


@pytest.mark.parametrize("family", FAMILY_SLOTS)
def test_every_moving_body_has_a_possible_inertia(family: str) -> None:
    model = build_scene(family, PANDA).model
    for body in range(1, model.nbody):
        if model.body_dofnum[body]:
            a, b, c = sorted(model.body_inertia[body])
            assert model.body_mass[body] > 0 and a > 0 and a + b >= c * (1 - 1e-9), model.body(body).name


def test_gripper_unit_is_metres_per_finger() -> None:
    assert PANDA.gripper_unit == "metres per finger"
    np.testing.assert_allclose(PANDA.gripper_command(np.array([0.0, 0.5, 1.0, 7.0])), [0.0, 0.02, 0.04, 0.04])
    np.testing.assert_allclose(PANDA.gripper_opening(np.array([0.0, 0.02, 0.04])), [0.0, 0.5, 1.0])
