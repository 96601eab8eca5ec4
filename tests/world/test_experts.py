"""Experts on the embedded physics: they solve train, put right what others left wrong, and keep to their
own rules."""

from __future__ import annotations

import numpy as np
import pytest

from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.world.action import CONTROL_PERIOD
from coda_nodes.world.errors import SpecError
from coda_nodes.world.experts import ExpertActor
from coda_nodes.world.experts.base import SPEED, TURN_SPEED
from coda_nodes.world.spec import AllOf, Atom, EnvironmentSpec, atoms
from coda_nodes.world.splits import sample_split

FAMILIES = ("pick_place", "stack")


def scenes(family: str, count: int, split: str = "train", seed: int = 0) -> list[EnvironmentSpec]:
    rng = np.random.default_rng(seed)
    return [sample_split(family, split, rng) for _ in range(count)]


def finish(simulator: BatchSimulator, specs: list[EnvironmentSpec], execute: int = 8) -> np.ndarray:
    """Let the expert act until all have succeeded or the time is over."""
    actor = ExpertActor(specs)
    for _ in range(max(spec.horizon for spec in specs) // execute):
        result = simulator.step_chunk(actor.act(simulator.state()), execute)
        if (result.success | result.invalid).all():
            break
    return result.success


@pytest.mark.parametrize("family", FAMILIES)
def test_train_scenes_are_solved(family: str) -> None:
    specs = scenes(family, 16)
    simulator = BatchSimulator(family, len(specs))
    simulator.reset(specs)
    assert finish(simulator, specs).sum() >= 15


def asking_for_another(spec: EnvironmentSpec) -> EnvironmentSpec:
    """The same scene with a distractor asked for in place of the object."""
    goal = next(atoms(spec.goal))
    other = next(entity.name for entity in spec.objects if entity.role == "distractor")
    return spec.revise(goal=Atom(predicate=goal.predicate, args=(other, goal.args[1])))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("chunks", [1, 2, 3, 4, 6])
def test_what_was_begun_with_the_wrong_object_is_put_right(family: str, chunks: int) -> None:
    """After 1 to 6 chunks the hand is on its way to, holds, carries or has placed something not asked for."""
    specs = scenes(family, 10, seed=chunks)
    simulator = BatchSimulator(family, len(specs))
    simulator.reset(specs)
    misled = ExpertActor([asking_for_another(spec) for spec in specs])
    for _ in range(chunks):
        simulator.step_chunk(misled.act(simulator.state()))
    assert finish(simulator, specs).sum() >= 9


@pytest.mark.parametrize("family", FAMILIES)
def test_closed_fingers_low_on_the_table_are_put_right(family: str) -> None:
    specs = scenes(family, 10, seed=5)
    simulator = BatchSimulator(family, len(specs))
    simulator.reset(specs)
    blind = np.zeros((len(specs), 8, 7))
    blind[:, :, 2] = -0.02 * np.arange(1, 9)
    blind[:, :, 1] = 0.01 * np.arange(1, 9)
    simulator.step_chunk(blind)
    simulator.step_chunk(blind)
    assert finish(simulator, specs).sum() >= 9


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("drop", [3, 4])
def test_an_object_dropped_on_the_way_is_fetched_again(family: str, drop: int) -> None:
    specs = scenes(family, 10, seed=9)
    simulator = BatchSimulator(family, len(specs))
    simulator.reset(specs)
    actor = ExpertActor(specs)
    for _ in range(drop):
        simulator.step_chunk(actor.act(simulator.state()))
    held = simulator.state().grasped.any()
    opened = np.zeros((len(specs), 8, 7))
    opened[:, :, 6] = 1.0
    simulator.step_chunk(opened)
    assert held
    assert finish(simulator, specs).sum() >= 9


@pytest.mark.parametrize("family", FAMILIES)
def test_chunks_depend_on_the_state_alone_and_not_on_other_rows(family: str) -> None:
    specs = scenes(family, 4, split="probe")
    simulator = BatchSimulator(family, len(specs))
    state = simulator.reset(specs)
    actor = ExpertActor(specs)
    first = actor.act(state)
    actor.act(state.select([2, 2, 2, 2]))
    np.testing.assert_array_equal(actor.act(state), first)
    np.testing.assert_allclose(ExpertActor([specs[2]]).act(state.select([2])), first[2:3], atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_commands_keep_to_the_speed_limits(family: str) -> None:
    specs = scenes(family, 8, split="probe", seed=2)
    simulator = BatchSimulator(family, len(specs))
    simulator.reset(specs)
    actor = ExpertActor(specs)
    for _ in range(8):
        chunks = actor.act(simulator.state())
        assert np.isfinite(chunks).all()
        assert ((chunks[..., 6] >= 0) & (chunks[..., 6] <= 1)).all()
        steps = np.diff(np.concatenate([np.zeros_like(chunks[:, :1]), chunks], axis=1), axis=1)
        assert np.linalg.norm(steps[..., :3], axis=-1).max() <= SPEED * CONTROL_PERIOD + 1e-9
        assert np.linalg.norm(steps[..., 3:6], axis=-1).max() <= 1.1 * TURN_SPEED * CONTROL_PERIOD
        simulator.step_chunk(chunks)


def test_mixed_families_are_served_row_by_row() -> None:
    mixed = [scenes("pick_place", 1)[0], scenes("stack", 1)[0], scenes("pick_place", 2)[1]]
    states = [BatchSimulator(spec.family, 1).reset([spec]) for spec in mixed]
    from coda_nodes.world.state import concatenate

    chunks = ExpertActor(mixed).act(concatenate(states))
    for i, spec in enumerate(mixed):
        np.testing.assert_allclose(chunks[i], ExpertActor([spec]).act(states[i])[0], atol=1e-12)


def test_a_goal_the_expert_does_not_serve_is_an_error() -> None:
    spec = scenes("stack", 1)[0]
    goal = AllOf(all_of=(Atom(predicate="lifted", args=(spec.objects[0].name,)),))
    with pytest.raises(SpecError, match="serves stacked_on, on"):
        ExpertActor([spec.revise(goal=goal)])
