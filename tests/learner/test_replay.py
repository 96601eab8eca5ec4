"""Replay of chunk transitions: branches, labels, and what cannot be mixed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coda_nodes.learner.replay import ChunkReplay, Transitions
from coda_nodes.simulator.actors import ScriptedActor
from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.simulator.rollout import rollout
from coda_nodes.world.errors import ConfigError
from coda_nodes.world.potentials import CompiledPotential, TaskPotential, task_potential, trace_potential
from coda_nodes.world.splits import sample_split

DISCOUNT = 0.98


@pytest.fixture(scope="module")
def recorded():
    """Expert episodes of real physics: the last of them is cut by its horizon in the middle of a chunk."""
    rng = np.random.default_rng(0)
    specs = [sample_split("push_insert", "train", rng) for _ in range(4)]
    specs[3] = specs[3].model_copy(update={"horizon": 21})
    return rollout(BatchSimulator("push_insert", 4), specs, range(4), ScriptedActor())


@pytest.fixture(scope="module")
def replay(recorded):
    return ChunkReplay.from_episodes(recorded)


def lifted(replay: ChunkReplay) -> list[TaskPotential]:
    """The default potentials of the scenes' goals, their first stage heavier."""
    tasks = []
    for kind in sorted({spec.goal.predicate for spec in replay.specs}):
        first, *rest = task_potential(kind).stages
        tasks.append(TaskPotential(predicate=kind, stages=(first.model_copy(update={"weight": 2.0}), *rest)))
    return tasks


def test_each_executed_chunk_is_one_transition_between_the_states_around_it(recorded, replay):
    assert replay.transitions.n == sum(len(episode.chunks) for episode in recorded)
    first = len(recorded[0].chunks)
    for k in range(first):
        assert replay.states.time[replay.transitions.before[k]] == recorded[0].states.time[k]
        assert replay.states.time[replay.transitions.after[k]] == recorded[0].states.time[k + 1]
    assert replay.transitions.before[first] == first + 1


def test_success_is_a_true_end_with_one_reward_and_the_time_limit_is_none(recorded, replay):
    ends = np.cumsum([len(episode.chunks) for episode in recorded]) - 1
    assert [episode.outcome for episode in recorded] == ["success"] * 3 + ["failure"]
    assert list(np.flatnonzero(replay.transitions.terminal)) == list(ends[:3])
    rewards = replay.transitions.rewards
    assert rewards.sum() == 3
    for end in ends[:3]:
        assert rewards[end, replay.transitions.executed[end] - 1] == 1
    assert replay.transitions.executed[ends[3]] == 21 % 8


def test_discounted_targets_add_up_to_the_return_of_the_episode(recorded, replay):
    """An oracle without chunks: walking back through an episode with V the value of what followed, the target of its
    first chunk is gamma^(steps - 1) for the success, less the potential of the first state."""
    position = 0
    for episode in recorded:
        count, value = len(episode.chunks), np.zeros(1)
        for k in reversed(range(position, position + count)):
            value = replay.targets(value, DISCOUNT, np.array([k]))
        first, last = replay.phi[replay.transitions.before[position]], replay.phi[replay.transitions.after[position + count - 1]]
        gained = DISCOUNT ** (episode.steps - 1) if episode.success else DISCOUNT**episode.steps * last
        assert value[0] == pytest.approx(gained - first, abs=1e-9)
        position += count


def test_labels_are_the_potentials_of_the_states(recorded, replay):
    np.testing.assert_allclose(replay.phi, np.concatenate([trace_potential(episode).value for episode in recorded]))
    assert replay.phi[replay.transitions.after[replay.transitions.terminal]] == pytest.approx(1.0)


def test_a_changed_potential_labels_all_of_the_replay_anew(replay):
    tasks = lifted(replay)
    new = replay.relabelled(tasks)
    assert np.abs(new.phi - replay.phi).max() > 0.01
    expected = CompiledPotential(replay.specs, [task_of(tasks, spec) for spec in replay.specs])(replay.states)
    np.testing.assert_allclose(new.phi, expected)
    np.testing.assert_allclose(new.relabelled(replay.tasks).phi, replay.phi)


def task_of(tasks, spec):
    from coda_nodes.world.potentials import PotentialSpec

    (task,) = [task for task in tasks if task.predicate == spec.goal.predicate]
    return PotentialSpec(parts=(task.ground(spec.goal),))


def test_joined_replays_have_one_potential_however_they_were_labelled(replay):
    tasks = lifted(replay)
    joined = ChunkReplay.join([replay, replay.relabelled(tasks)], tasks)
    half = replay.states.n
    np.testing.assert_allclose(joined.phi[:half], joined.phi[half:])
    assert joined.transitions.n == 2 * replay.transitions.n
    np.testing.assert_array_equal(joined.transitions.before[replay.transitions.n :], replay.transitions.before + half)


def test_unshaped_targets_do_not_see_the_potential(replay):
    value = np.random.default_rng(1).random(replay.transitions.n)
    plain = replay.targets(value, DISCOUNT, shaped=False)
    np.testing.assert_allclose(plain, replay.relabelled(lifted(replay)).targets(value, DISCOUNT, shaped=False))
    t = replay.transitions
    after = np.where(t.terminal, 0, DISCOUNT ** t.executed.astype(float) * replay.phi[t.after])
    np.testing.assert_allclose(replay.targets(value, DISCOUNT) - plain, after - replay.phi[t.before])


def test_branches_of_one_state_share_its_row_and_its_potential(replay):
    """Several chunks from one state: their targets differ by what came after only."""
    t = replay.transitions
    branch = Transitions(t.before[[0, 0]], t.after[[0, 5]], t.chunks[[0, 5]], t.executed[[0, 5]], np.zeros(2, bool))
    both = ChunkReplay.of(replay.states, replay.specs, branch)
    target = both.targets(np.zeros(2), DISCOUNT)
    later = DISCOUNT ** branch.executed.astype(float) * replay.phi[branch.after]
    np.testing.assert_allclose(target, later - replay.phi[t.before[0]])


def test_noisy_and_invalid_episodes_give_no_values(recorded):
    noisy, broken = replace(recorded[0], variant="noise=0.01"), replace(recorded[1], outcome="invalid")
    assert ChunkReplay.from_episodes([noisy, broken, recorded[2]]).transitions.n == len(recorded[2].chunks)
    with pytest.raises(ConfigError, match="2 episodes, none valid, executed and free of noise"):
        ChunkReplay.from_episodes([noisy, broken])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"executed": np.array([0])}, "executed steps of 0 to 0"),
        ({"executed": np.array([9])}, "executed steps of 9 to 9"),
        ({"chunks": np.full((1, 8, 7), np.nan)}, "not finite"),
        ({"chunks": np.zeros((1, 4, 7))}, r"\(1, 4, 7\), expected \(1, 8, 7\)"),
        ({"terminal": np.zeros(2, bool)}, "2 values of 'terminal' for 1"),
    ],
)
def test_transitions_that_cannot_be_are_refused(change, words):
    fine = {
        "before": np.array([0]), "after": np.array([1]), "chunks": np.zeros((1, 8, 7)), "executed": np.array([8]),
        "terminal": np.array([False]),
    }
    with pytest.raises(ConfigError, match=words):
        Transitions(**{**fine, **change})


def test_two_potentials_for_one_kind_of_goal_and_rows_that_are_not_there_are_refused(replay):
    task = lifted(replay)[0]
    with pytest.raises(ConfigError, match="expected one for each kind of goal; merge them"):
        replay.relabelled([task, task])
    with pytest.raises(ConfigError, match=f"the table holds {replay.states.n}"):
        ChunkReplay.of(replay.states, replay.specs, replay.transitions.moved(1))
    with pytest.raises(ConfigError, match="1 specifications"):
        ChunkReplay.of(replay.states, replay.specs[:1], replay.transitions)
