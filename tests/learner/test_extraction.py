"""Weights of samples by advantage, and the best of several chunks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from coda_nodes.learner.extraction import BestOfN, ExtractionConfig, ProposalConfig, advantage_weights, propose
from coda_nodes.policy.protocol import ChunkPolicy
from coda_nodes.world.errors import ConfigError


def test_weights_are_exponential_in_the_advantage():
    advantages = np.array([-0.1, 0.0, 0.05, 0.2])
    weights = advantage_weights(advantages, ExtractionConfig(temperature=1.5, ceiling=1e6, floor=1e-9))
    np.testing.assert_allclose(np.log(weights[1:] / weights[0]), (advantages[1:] + 0.1) / (1.5 * advantages.std()))
    assert weights.mean() == pytest.approx(1)
    np.testing.assert_allclose(weights, advantage_weights(100 * advantages, ExtractionConfig(1.5, 1e6, 1e-9)))


def test_weights_are_bounded_and_even_where_nothing_is_better():
    weights = advantage_weights(np.array([-50.0, *[0.0] * 98, 50.0]), ExtractionConfig(temperature=0.01, ceiling=10, floor=0.1))
    assert weights.max() / weights.min() == pytest.approx(100)
    np.testing.assert_allclose(advantage_weights(np.zeros(5)), 1)


class Still:
    """Closes the hand where it is."""

    def reset(self, n: int) -> None:
        """Nothing is kept."""

    def act(self, observation):
        """Zero displacement."""
        return np.zeros((observation.n, 8, 7))


@dataclass
class Towards:
    """Stands in for critics: values chunks by how near they bring the tool to a point."""

    point: np.ndarray
    asked: int = 0

    def cautious(self, observation, chunks):
        """Minus the distance that is left."""
        self.asked += observation.n
        return -np.linalg.norm(observation.tool_position_base + chunks[:, -1, :3] - self.point, axis=1)


@pytest.fixture
def seen(point_world):
    rng = np.random.default_rng(0)
    return point_world.PointWorld([point_world.sample_spec(rng) for _ in range(5)], rng).state().observation()


def test_the_best_of_all_proposals_is_taken(seen):
    config = ProposalConfig(count=12, largest=0.05)
    critics = Towards(np.array([0.5, 0.0, 0.1]))
    policy = BestOfN(Still(), critics, config, seed=3)
    assert isinstance(policy, ChunkPolicy)
    policy.reset(5)
    chunks = policy.act(seen)
    assert critics.asked == 5 * 12
    left = critics.cautious(seen, chunks)
    assert (left > critics.cautious(seen, np.zeros_like(chunks)) + 1e-3).all()
    more = BestOfN(Still(), critics, ProposalConfig(count=400, largest=0.05), seed=3).act(seen)
    assert critics.cautious(seen, more).mean() > left.mean()


def test_the_policys_own_chunk_is_kept_where_nothing_is_better(seen):
    class Indifferent:
        def cautious(self, observation, chunks):
            return np.ones(observation.n)

    np.testing.assert_array_equal(BestOfN(Still(), Indifferent()).act(seen), 0)


def test_a_scene_gets_the_same_chunk_alone_and_among_others(seen):
    policy = BestOfN(Still(), Towards(np.zeros(3)), ProposalConfig(largest=0.1), seed=1)
    together = policy.act(seen)
    for i in range(seen.n):
        np.testing.assert_array_equal(policy.act(seen.select([i]))[0], together[i])
    assert len(np.unique(together[:, -1, 0])) == seen.n
    assert policy.act(seen.select([])).shape == (0, 8, 7)
    assert (BestOfN(Still(), Towards(np.zeros(3)), ProposalConfig(largest=0.1), seed=2).act(seen) != together).any()


def test_proposals_grow_over_the_chunk_within_their_size_and_some_turn_the_gripper_round():
    config = ProposalConfig(count=4000, smallest=0.004, largest=0.03, flips=0.25)
    base = np.zeros((1, 8, 7))
    base[..., 6] = 1.0
    tried = propose(base, [np.random.default_rng(0)], config)[0]
    np.testing.assert_array_equal(tried[0], base[0])
    np.testing.assert_allclose(tried[:, 0, :6] * 8, tried[:, 7, :6], atol=1e-12)
    expected = np.sqrt((0.03**2 - 0.004**2) / (2 * np.log(0.03 / 0.004)))  # root mean square of a log-uniform size
    assert tried[1:, -1, 0].std() == pytest.approx(expected, rel=0.05)
    assert tried[1:, -1, 3].std() == pytest.approx(4 * expected, rel=0.05)
    assert (tried[1:, :, 6] == 0).all(1).mean() == pytest.approx(0.25, abs=0.03)


@pytest.mark.parametrize("bad", [{"count": 1}, {"largest": 0.0}, {"flips": 2.0}])
def test_settings_are_checked(bad):
    with pytest.raises(ConfigError, match=next(iter(bad))):
        ProposalConfig(**bad)
