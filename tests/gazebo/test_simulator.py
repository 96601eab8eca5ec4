"""Whole episodes through the Gazebo simulator, against a world of the same SDF in drake (no ROS in between)."""

from __future__ import annotations

import numpy as np
import pytest

from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.simulator.gazebo.simulator import GazeboSimulator
from coda_nodes.simulator.gazebo.worlds import WorldConfig
from coda_nodes.simulator.single import SingleSimulator
from coda_nodes.world.errors import NotAvailableError, SimulationError
from coda_nodes.world.experts import ExpertActor
from coda_nodes.world.spec import EnvironmentSpec, PhysicsSpec
from coda_nodes.world.splits import sample_split

pytest.importorskip("pydrake", reason="drake is not installed: pip install drake (wheels for Linux, Python 3.10 to 3.13)")

from direct import DirectWorld

COARSE = WorldConfig(physics_step=0.002)
"""Twice the step of exported worlds, for the sake of time."""


def scene(family: str, seed: int = 0) -> EnvironmentSpec:
    return sample_split(family, "train", np.random.default_rng(seed))


@pytest.fixture
def simulator() -> GazeboSimulator:
    return GazeboSimulator(DirectWorld(COARSE), COARSE)


@pytest.mark.parametrize(("family", "seed"), [("pick_place", 0), ("stack", 0), ("articulated", 1)])
def test_the_expert_solves_a_scene(simulator: GazeboSimulator, family: str, seed: int) -> None:
    spec = scene(family, seed)
    simulator.reset(spec)
    expert, left = ExpertActor([spec]), spec.horizon
    while left > 0 and not simulator.success[0]:
        before = simulator.world.time
        result = simulator.step_chunk(expert.act(simulator.state)[0], min(8, left))
        steps = int(result.executed[0])
        assert simulator.world.time - before == pytest.approx(0.05 * steps) and not result.invalid[0]
        left -= steps
    assert simulator.success[0]
    assert result.predicates.shape == (1, steps, len(simulator.predicate_names[0]))


def test_the_arm_follows_a_chunk_as_in_mujoco(simulator: GazeboSimulator) -> None:
    spec, other = scene("stack"), SingleSimulator()
    simulator.reset(spec)
    other.reset(spec)
    chunk = np.zeros((8, 7))
    chunk[:, 0], chunk[:, 2] = np.linspace(0.005, 0.04, 8), np.linspace(-0.005, -0.04, 8)
    for one in (simulator, other):
        one.step_chunk(chunk)
    here, there = simulator.state, other.state
    assert np.abs(here.tool_position_base - there.tool_position_base).max() < 2e-3
    assert np.abs(here.gripper_opening - there.gripper_opening).max() < 0.05


def test_a_reset_puts_back_what_moved_and_takes_away_what_is_not_wanted(simulator: GazeboSimulator) -> None:
    spec, other = scene("pick_place", 1), scene("articulated", 1)
    first = simulator.reset(spec)
    chunk = np.zeros((8, 7))
    chunk[:, 2] = -0.02
    simulator.step_chunk(chunk)
    assert np.abs(simulator.state.joint_positions - first.joint_positions).max() > 1e-3
    again = simulator.reset(spec)
    for name in ("joint_positions", "entity_position_base", "gripper_opening"):
        assert np.allclose(getattr(again, name), getattr(first, name), atol=1e-9), name
    state = simulator.reset(other)
    fixture = other.fixtures[0]
    assert state.entity_joint_value[0, len(other.objects)] == pytest.approx(fixture.joint_value)
    held = set(simulator.world.drake.entities)
    assert held == {"table", "floor", "panda", "camera_front", *(name.replace(" ", "_") for name in other.entity_names)}


def test_mujoco_goes_on_from_a_state_of_gazebo(simulator: GazeboSimulator) -> None:
    spec, batch = scene("stack"), BatchSimulator("stack", 1)
    simulator.reset(spec)
    chunk = np.zeros((8, 7))
    chunk[:, 1], chunk[:, 6] = 0.03, 1.0
    simulator.step_chunk(chunk)
    batch.reset([spec])
    batch.restore(simulator.snapshot())
    for name in ("joint_positions", "entity_position_base", "tool_position_base"):
        assert np.allclose(getattr(batch.state(), name), getattr(simulator.state, name), atol=1e-9), name


def test_what_cannot_be_done_is_said(simulator: GazeboSimulator) -> None:
    with pytest.raises(SimulationError, match="call reset first"):
        simulator.step_chunk(np.zeros((8, 7)))
    with pytest.raises(SimulationError, match="gravity 5"):
        simulator.reset(scene("stack").revise(physics=PhysicsSpec(gravity=5.0)))
    simulator.reset(scene("stack"))
    with pytest.raises(SimulationError, match="finite"):
        simulator.step_chunk(np.full((8, 7), np.nan))
    with pytest.raises(SimulationError, match="execute = 9"):
        simulator.step_chunk(np.zeros((8, 7)), 9)
    with pytest.raises(NotAvailableError, match="lockstep only"):
        simulator.advance(0.0)
