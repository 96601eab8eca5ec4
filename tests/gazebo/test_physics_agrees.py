"""Exported worlds in drake, an independent reader of SDF, against MuJoCo: inertias, limits, poses, things at rest."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from coda_nodes.simulator.gazebo.worlds import export_world
from coda_nodes.simulator.scene import KNOB_MASS, TRAY_MASS
from coda_nodes.simulator.single import SingleSimulator
from coda_nodes.world.robots import PANDA
from coda_nodes.world.spec import FAMILIES, EnvironmentSpec, FixtureSpec

pytest.importorskip("pydrake", reason="drake is not installed: pip install drake (wheels for Linux, Python 3.10 to 3.13)")

from drake_world import DrakeWorld

EXACT = 1e-6
"""Relative and absolute tolerance of what is only written and read again."""
AT_REST, TURNED = 5e-4, 5e-3
"""How far things at rest may lie apart [m], [rad]: each engine lets them sink in a little."""


def arm_at(spec: EnvironmentSpec) -> tuple[mujoco.MjModel, mujoco.MjData]:
    """The arm's own MJCF at the start of a scene."""
    model = mujoco.MjModel.from_xml_path(str(PANDA.model_path))
    data = mujoco.MjData(model)
    start = spec.robot_start
    data.qpos[:] = [*start.joint_positions, *[float(PANDA.gripper_command(np.array(start.gripper_opening)))] * 2]
    mujoco.mj_kinematics(model, data)
    return model, data


@pytest.mark.parametrize("family", FAMILIES)
def test_the_arm_has_the_same_bodies(scenes, family: str) -> None:
    for spec in scenes[family]:
        world, (model, data) = DrakeWorld(export_world(spec)), arm_at(spec)
        plant, context = world.plant
        instance = plant.GetModelInstanceByName("panda::panda")
        heavy = [body for body in range(1, model.nbody) if model.body_mass[body] > 0]
        assert len(plant.GetBodyIndices(instance)) == len(heavy)
        for number in heavy:
            body = plant.GetBodyByName(model.body(number).name, instance)
            inertia = body.CalcSpatialInertiaInBodyFrame(context)
            assert inertia.get_mass() == pytest.approx(model.body_mass[number], rel=EXACT)
            assert np.allclose(inertia.get_com(), model.body_ipos[number], atol=EXACT)
            moments = inertia.Shift(inertia.get_com()).CalcRotationalInertia().CalcPrincipalMomentsOfInertia()
            assert np.allclose(sorted(moments), sorted(model.body_inertia[number]), atol=EXACT)
            pose = plant.EvalBodyPoseInWorld(context, body)
            assert np.allclose(pose.translation(), data.xpos[number], atol=EXACT)
            assert np.allclose(pose.rotation().matrix(), data.xmat[number].reshape(3, 3), atol=EXACT)
        for number in range(model.njnt):
            joint, start = plant.GetJointByName(model.joint(number).name, instance), data.qpos[number]
            assert joint.position_lower_limits()[0] + start == pytest.approx(model.jnt_range[number, 0], abs=EXACT)
            assert joint.position_upper_limits()[0] + start == pytest.approx(model.jnt_range[number, 1], abs=EXACT)
            assert joint.default_damping() == pytest.approx(model.dof_damping[number], rel=EXACT)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_stands_on_the_table_is_the_same_and_stays(scenes, family: str) -> None:
    for spec in scenes[family]:
        world, simulator = DrakeWorld(export_world(spec)), SingleSimulator()
        simulator.reset(spec)
        still = np.zeros((8, 7))
        still[:, 6] = spec.robot_start.gripper_opening
        simulator.step_chunk(still)
        world.advance(400)
        state, (plant, context) = simulator.state, world.plant
        for k, entity in enumerate(spec.entities):
            name = entity.name.replace(" ", "_")
            if isinstance(entity, FixtureSpec):
                moving = plant.GetBodyByName("moving", plant.GetModelInstanceByName(f"{name}::{name}"))
                mass = TRAY_MASS if entity.kind == "drawer" else KNOB_MASS
                assert moving.get_mass(context) == pytest.approx(mass, rel=EXACT)
                ((value, _),) = world.joints(name).values()
                assert value + entity.joint_value == pytest.approx(state.entity_joint_value[0, k], abs=AT_REST)
                continue
            if entity.role in ("object", "distractor"):
                body = plant.GetBodyByName("body", plant.GetModelInstanceByName(f"{name}::{name}"))
                assert body.get_mass(context) == pytest.approx(entity.mass, rel=EXACT)
            pose, seen = world.pose(name), state.entity_quaternion_xyzw[0, k]
            assert np.abs(pose.translation() - state.entity_position_base[0, k]).max() < AT_REST, entity.name
            agreement = abs(pose.rotation().ToQuaternion().wxyz() @ np.roll(seen, 1))
            assert 2 * np.arccos(min(agreement, 1.0)) < TURNED, entity.name
        assert max(abs(value) for value, _ in world.joints("panda").values()) < AT_REST
