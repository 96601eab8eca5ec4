"""Episodes: outcome, recording, noise, starts, identity."""

from __future__ import annotations

import numpy as np
import pytest

from coda_nodes.simulator.actors import HoldActor, PolicyActor, ScriptedActor
from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.simulator.rollout import rollout
from coda_nodes.world.action import CHUNK_STEPS
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.episode import Episode
from coda_nodes.world.errors import SimulationError
from coda_nodes.world.state import ObservationBatch


@pytest.fixture(scope="module")
def simulator() -> BatchSimulator:
    return BatchSimulator("pick_place", 4)


def test_the_expert_succeeds_and_is_recorded(simulator, train_specs, tmp_path) -> None:
    specs = train_specs("pick_place", 6)  # more than the simulator holds at once
    episodes = rollout(simulator, specs, list(range(6)), ScriptedActor(), record_physics=True)
    assert sum(episode.success for episode in episodes) >= 5
    for spec, episode in zip(specs, episodes, strict=True):
        chunks = len(episode.chunks)
        assert episode.spec == spec and episode.actor == "expert" and episode.versions["mujoco"]
        assert episode.states.n == chunks + 1 == len(episode.physics_states)
        assert episode.executed.sum() == episode.steps == len(episode.predicates)
        assert (episode.executed[:-1] == CHUNK_STEPS).all() and 1 <= episode.executed[-1] <= CHUNK_STEPS
        np.testing.assert_allclose(episode.states.time[-1], episode.steps / 20, atol=1e-9)
        loaded = Episode.load(tmp_path / "episodes" / f"{episode.save(ArtifactRoot(tmp_path))}.npz")
        np.testing.assert_array_equal(loaded.chunks, episode.chunks)
        np.testing.assert_array_equal(loaded.predicates, episode.predicates)
        assert loaded.content_hash == episode.content_hash and loaded.outcome == episode.outcome
    assert len({tuple(episode.states.entity_position_base[0, 0]) for episode in episodes}) == 6


def test_holding_still_fails_at_the_time_limit(simulator, train_specs) -> None:
    specs = [
        spec.revise(horizon=horizon)
        for spec, horizon in zip(train_specs("pick_place", 2), (20, 33), strict=True)
    ]
    episodes = rollout(simulator, specs, [0, 0], HoldActor(), execute=5)
    assert [episode.outcome for episode in episodes] == ["failure", "failure"]
    assert [episode.steps for episode in episodes] == [20, 33]
    assert episodes[1].executed.tolist() == [5, 5, 5, 5, 5, 5, 3]
    assert episodes[0].variant == "execute=5"


def test_same_seed_same_episode_and_noise_follows_the_seed(simulator, train_specs) -> None:
    spec = train_specs("pick_place", 1)[0]
    runs = [rollout(simulator, [spec] * 2, [3, seed], ScriptedActor(), noise=0.008) for seed in (4, 3)]
    np.testing.assert_array_equal(runs[0][0].states.tool_position_base, runs[1][0].states.tool_position_base)
    np.testing.assert_array_equal(runs[1][0].chunks, runs[1][1].chunks)
    assert not np.array_equal(
        runs[0][0].states.tool_position_base[1], runs[0][1].states.tool_position_base[1]
    )


def test_noise_moves_the_arm_but_the_clean_chunk_is_recorded(simulator, train_specs) -> None:
    spec = train_specs("pick_place", 1)[0]
    (noisy,) = rollout(simulator, [spec], [0], ScriptedActor(), noise=0.01)
    (clean,) = rollout(simulator, [spec], [0], ScriptedActor())
    np.testing.assert_array_equal(noisy.chunks[0], clean.chunks[0])
    apart = noisy.states.tool_position_base[1] - clean.states.tool_position_base[1]
    assert 1e-3 < np.linalg.norm(apart) < 0.06
    assert noisy.content_hash != clean.content_hash


def test_an_episode_can_start_from_a_recorded_state(simulator, train_specs) -> None:
    spec = train_specs("pick_place", 1)[0]
    (first,) = rollout(simulator, [spec], [0], ScriptedActor(), record_physics=True)
    middle = len(first.chunks) // 2
    # a batch with a longer goal beside it pads the state's memory columns
    again, other = rollout(
        simulator,
        [spec, train_specs("pick_place", 2, 9)[1]],
        [0, 0],
        ScriptedActor(),
        start_states=[first.physics_states[middle], None],
    )
    np.testing.assert_allclose(
        again.states.entity_position_base[0], first.states.entity_position_base[middle], atol=1e-12
    )
    np.testing.assert_allclose(
        again.states.joint_positions[0], first.states.joint_positions[middle], atol=1e-12
    )
    assert again.success and again.steps < first.steps
    assert other.states.time[0] == 0.0


def test_a_diverged_episode_is_invalid(simulator, train_specs) -> None:
    specs = train_specs("pick_place", 2)
    (good,) = rollout(simulator, specs[:1], [0], ScriptedActor(), record_physics=True)
    broken = good.physics_states[0].copy()
    broken[1 + simulator.scene.model.nq + 3] = np.inf
    episodes = rollout(simulator, specs, [0, 0], ScriptedActor(), start_states=[broken, None])
    assert [episode.outcome for episode in episodes] == ["invalid", "success"]
    assert "not finite" in episodes[0].reason and not episodes[0].success and episodes[0].steps == 0
    assert len(episodes[0].chunks) == 1 and episodes[1].reason == ""


class Watching:
    """A policy that notes what it is shown."""

    def __init__(self) -> None:
        self.seen: list[ObservationBatch] = []

    def reset(self, n: int) -> None:
        self.seen.clear()

    def act(self, observation: ObservationBatch) -> np.ndarray:
        self.seen.append(observation)
        return np.zeros((observation.n, 8, 7))


def test_a_policy_sees_observations_of_running_scenes_only(simulator, train_specs) -> None:
    specs = [
        spec.revise(horizon=horizon)
        for spec, horizon in zip(train_specs("pick_place", 3), (8, 24, 16), strict=True)
    ]
    policy = Watching()
    rollout(simulator, specs, [0] * 3, PolicyActor(policy, "abc"))
    assert [observation.n for observation in policy.seen] == [3, 2, 1]
    assert not hasattr(policy.seen[0], "grasped")
    assert policy.seen[2].instructions == (specs[1].instruction,)


def test_arguments_are_checked(simulator, train_specs) -> None:
    specs = train_specs("pick_place", 1)
    with pytest.raises(SimulationError, match="1 specifications, 2 seeds"):
        rollout(simulator, specs, [0, 1], HoldActor())
    with pytest.raises(SimulationError, match="execute = 0"):
        rollout(simulator, specs, [0], HoldActor(), execute=0)
