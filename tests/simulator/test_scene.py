"""Specifications become scenes: positions, properties, contacts, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.simulator.fill import inertia
from coda_nodes.simulator.scene import FAMILY_SLOTS
from coda_nodes.world.errors import SimulationError
from coda_nodes.world.solids import entity_position
from coda_nodes.world.spec import ObjectSpec, Pose


@pytest.mark.parametrize("family", FAMILY_SLOTS)
def test_entities_stand_where_the_specification_puts_them(family: str, train_specs) -> None:
    simulator = BatchSimulator(family, 3)
    for seed in (0, 1):  # the second time in the same simulations: nothing of the first may stay
        specs = train_specs(family, 3, seed)
        state = simulator.reset(specs)
        for i, spec in enumerate(specs):
            assert state.present[i].sum() == len(spec.entities)
            for k, entity in enumerate(spec.entities):
                position, quaternion = entity_position(entity)
                np.testing.assert_allclose(state.entity_position_base[i, k], position, atol=1e-6)
                assert abs(abs(state.entity_quaternion_xyzw[i, k] @ quaternion) - 1) < 1e-6


@pytest.mark.parametrize("family", FAMILY_SLOTS)
def test_scenes_of_the_train_split_stand_still(family: str, train_specs) -> None:
    simulator = BatchSimulator(family, 6)
    before = simulator.reset(train_specs(family, 6))
    hold = np.zeros((6, 8, 7))
    hold[..., 6] = before.gripper_opening[:, None]
    for _ in range(4):
        result = simulator.step_chunk(hold)
    after = simulator.state()
    moved = np.linalg.norm(after.entity_position_base - before.entity_position_base, axis=-1)
    assert moved.max() < 2e-3 and not result.invalid.any()
    # gravity is compensated; joints may drift to their rest posture, the tool may not
    assert np.abs(after.tool_position_base - before.tool_position_base).max() < 3e-4
    np.testing.assert_allclose(after.time, 32 / 20)
    assert after.on_table[after.present].all() and not after.touched.any() and not after.grasped.any()


def test_starts_differ_between_specifications(train_specs) -> None:
    state = BatchSimulator("pick_place", 8).reset(train_specs("pick_place", 8))
    places = state.entity_position_base[:, 0, :2]
    apart = np.linalg.norm(places[:, None] - places[None], axis=-1) + np.eye(8)
    assert apart.min() > 1e-4


def test_mass_friction_and_size_reach_the_physics(make_spec) -> None:
    """A pushed block slides less far on more friction; a heavy one falls as fast as a light one."""
    specs = [make_spec(z=0.3, mass=mass, y=-0.2) for mass in (0.05, 0.5)]
    simulator = BatchSimulator("pick_place", 2)
    simulator.reset(specs)
    for _ in range(1):
        simulator.step_chunk(np.zeros((2, 8, 7)), execute=4)
    drop = simulator.state().entity_position_base[:, 0, 2]
    np.testing.assert_allclose(drop, 0.3 - 9.81 * 0.2**2 / 2, atol=0.006)
    assert inertia("box", (0.1, 0.2, 0.3), 6.0) == pytest.approx((6 * 0.13 / 3, 6 * 0.10 / 3, 6 * 0.05 / 3))
    assert inertia("cylinder", (0.1, 0.1, 0.2), 2.0) == pytest.approx((2 * (0.03 + 0.16) / 12,) * 2 + (0.01,))


def test_contacts_between_entities(make_spec) -> None:
    base = make_spec("cube")
    upper = ObjectSpec(
        name="green cube",
        shape="box",
        role="distractor",
        half_extents=(0.02, 0.02, 0.02),
        color="green",
        pose=Pose.planar(0.5, 0.0, 0.06),
    )
    inner = ObjectSpec(
        name="blue cube",
        shape="box",
        role="distractor",
        half_extents=(0.02, 0.02, 0.02),
        color="blue",
        pose=Pose.planar(0.5, 0.25, 0.027),
    )
    spec = base.revise(objects=(*base.objects, upper, inner))
    simulator = BatchSimulator("pick_place", 1)
    simulator.reset([spec])
    for _ in range(2):
        simulator.step_chunk(np.zeros((1, 8, 7)))
    state = simulator.state()
    touching = {(i, j) for i, j in np.argwhere(state.contact[0]) if i < j}
    assert touching == {(0, 2), (1, 3)}
    assert state.on_table[0, :4].tolist() == [True, True, False, False]
    assert (state.contact[0] == state.contact[0].T).all()


def test_refusals_name_what_is_wrong(make_spec, train_specs) -> None:
    simulator = BatchSimulator("pick_place", 2)
    spec = make_spec()
    with pytest.raises(SimulationError, match="call reset first"):
        simulator.state()
    with pytest.raises(SimulationError, match="3 environments"):
        simulator.reset([spec] * 3)
    with pytest.raises(SimulationError, match="family 'stack'"):
        simulator.reset(train_specs("stack", 1))
    bins = [
        spec.objects[1].model_copy(update={"name": f"bin {i}", "pose": Pose.planar(0.5, 0.2 * i, 0.035)})
        for i in range(3)
    ]
    with pytest.raises(SimulationError, match="'bin 2' is one bin too many.*holds 2"):
        simulator.reset([spec.revise(objects=(spec.objects[0], spec.objects[1], *bins[1:]))])
    far = spec.revise(robot_start={"joint_positions": (9.0, *spec.robot_start.joint_positions[1:])})
    with pytest.raises(SimulationError, match="joint1 = 9.0000 rad, limits -2.8973"):
        simulator.reset([far])
    with pytest.raises(SimulationError, match="no family 'juggle'"):
        BatchSimulator("juggle", 1)
