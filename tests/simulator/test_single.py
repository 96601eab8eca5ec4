"""The interactive path: equal to the batch path in lockstep; in real time an arm that follows
trajectories."""

from __future__ import annotations

import numpy as np
import pytest

from coda_nodes.simulator.actors import ScriptedActor
from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.simulator.rollout import rollout
from coda_nodes.simulator.single import SingleSimulator
from coda_nodes.world.errors import SimulationError
from coda_nodes.world.experts import ExpertActor


@pytest.mark.parametrize("family", ["pick_place", "articulated"])
def test_lockstep_gives_the_batch_paths_episodes(family: str, train_specs) -> None:
    specs = train_specs(family, 5, seed=2)
    batch = rollout(BatchSimulator(family, 8), specs, [0] * 5, ScriptedActor())
    single = SingleSimulator()
    for spec, episode in zip(specs, batch, strict=True):
        state = single.reset(spec)
        expert, steps, success = ExpertActor([spec]), 0, False
        for k in range(len(episode.chunks)):
            chunk = expert.act(state)[0]
            np.testing.assert_allclose(chunk, episode.chunks[k], atol=1e-6)
            result = single.step_chunk(chunk, min(8, spec.horizon - steps))
            state, steps, success = single.state, steps + int(result.executed[0]), bool(result.success[0])
        assert success == episode.success and steps == episode.steps
        np.testing.assert_allclose(
            state.entity_position_base[0], episode.states.entity_position_base[-1], atol=1e-9
        )


def test_real_time_follows_a_trajectory_and_holds(make_spec) -> None:
    single = SingleSimulator()
    start = single.reset(make_spec()).joint_positions[0].copy()
    single.advance(100.0)  # the first call starts the clock
    single.command(np.array([start + 0.1, start + 0.15]), [0.4, 0.8])
    single.command_gripper([0.2], [0.3])
    for k in range(1, 25):
        single.advance(100.0 + k / 60)
    np.testing.assert_allclose(single.state.joint_positions[0] - start, 0.1, atol=4e-3)
    for k in range(25, 91):
        single.advance(100.0 + k / 60)
    state = single.state
    np.testing.assert_allclose(state.joint_positions[0] - start, 0.15, atol=1e-3)
    assert state.gripper_opening[0] == pytest.approx(0.2, abs=5e-3)
    assert state.time[0] == pytest.approx(1.5, abs=0.02)
    for k in range(91, 120):  # nothing more is commanded: hold
        single.advance(100.0 + k / 60)
    np.testing.assert_allclose(single.state.joint_positions[0], state.joint_positions[0], atol=1e-4)


def test_real_time_drops_what_it_cannot_make_up(make_spec) -> None:
    single = SingleSimulator()
    single.reset(make_spec())
    single.advance(0.0)
    assert single.advance(10.0) == 30
    assert single.dropped == pytest.approx(9.5)


@pytest.mark.parametrize(
    ("positions", "times", "message"),
    [
        ([[0.0] * 7], [0.0], "positive and rising"),
        ([[0.0] * 7, [0.1] * 7], [0.5, 0.4], "positive and rising"),
        ([[0.0] * 6], [0.5], "expected"),
        ([], [], "expected"),
        ([[np.nan] * 7], [0.5], "not finite"),
        ([[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]], [0.5], "joint 3: 1.0000, limits"),
    ],
)
def test_bad_trajectories_are_refused(make_spec, positions, times, message) -> None:
    single = SingleSimulator()
    single.reset(make_spec())
    with pytest.raises(SimulationError, match=message):
        single.command(np.array(positions), times)


def test_a_tiny_overshoot_of_a_limit_is_clamped(make_spec) -> None:
    single = SingleSimulator()
    start = single.reset(make_spec()).joint_positions[0].copy()
    start[0] = 2.8973 + 1e-5
    single.command(start[None], [5.0])


def test_a_refused_specification_keeps_the_old_scene(make_spec) -> None:
    single = SingleSimulator()
    with pytest.raises(SimulationError, match="call reset first"):
        single.observation  # noqa: B018
    spec = make_spec()
    single.reset(spec)
    with pytest.raises(SimulationError):
        single.reset(spec.revise(robot_start={"joint_positions": (0.0,) * 3}))
    assert single.observation.instructions == (spec.instruction,)
