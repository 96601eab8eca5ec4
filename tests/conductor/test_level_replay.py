"""Prioritized level replay against closed forms and definitions written down a second time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from coda_nodes.conductor.level_replay import advantages, draw, replay_probabilities, score
from coda_nodes.conductor.level_values import ScoreConfig, score_episodes
from coda_nodes.learner.critic_network import CriticNetworkConfig
from coda_nodes.learner.replay import ChunkReplay
from coda_nodes.learner.valuing import CriticConfig, fit_critics
from coda_nodes.simulator.single import SingleSimulator
from coda_nodes.world.episode import Episode
from coda_nodes.world.splits import sample_split
from coda_nodes.world.state import concatenate

errors = st.lists(st.floats(-2, 2), min_size=1, max_size=12)


@given(errors, st.floats(0, 1), st.floats(0.5, 1))
def test_advantages_are_the_discounted_sums_of_later_errors(deltas, trace, discount):
    """A_t = sum_l (gamma lambda)^l delta_{t+l}, written out."""
    found = advantages(np.array(deltas), np.full(len(deltas), trace * discount))
    expected = [sum((trace * discount) ** (u - t) * deltas[u] for u in range(t, len(deltas))) for t in range(len(deltas))]
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_a_value_that_knows_the_outcome_leaves_nothing_to_learn():
    """Undiscounted, reward 1 at the end and V = 1 everywhere: no error; V = 0.25: all of it, wherever one looks."""
    for value, left in ((1.0, 0.0), (0.25, 0.75)):
        deltas = np.array([0.0, 0.0, 1.0 - value])
        found = advantages(deltas, np.ones(3))
        assert score(found, "l1") == score(found, "positive") == pytest.approx(left)


def test_a_disappointment_is_learning_potential_but_no_regret():
    found = advantages(np.array([0.0, -0.6]), np.ones(2))
    assert (score(found, "l1"), score(found, "positive")) == (pytest.approx(0.6), 0.0)
    assert score(np.zeros(0), "l1") == 0.0


def test_probabilities_by_rank_and_staleness_in_closed_form():
    """Ranks 2, 3, 1 at beta = 1/2: weights 1/4, 1/9, 1 of 49/36. Ages 0, 1, 3: shares 0, 1/4, 3/4."""
    found = replay_probabilities([0.5, 0.2, 0.9], [0, 1, 3], temperature=0.5, staleness=0.4)
    by_rank, by_age = np.array([9, 4, 36]) / 49, np.array([0, 1, 3]) / 4
    np.testing.assert_allclose(found, 0.6 * by_rank + 0.4 * by_age)


def test_the_published_temperature_is_nearly_greedy_and_staleness_brings_the_others_back():
    found = replay_probabilities([0.1, 0.3, 0.2], [5, 0, 5], temperature=0.1, staleness=0.1)
    assert found[1] == pytest.approx(0.9 / (1 + 2**-10 + 3**-10.0))
    assert found[0] > 0.05 and found[2] > 0.05
    np.testing.assert_allclose(replay_probabilities([1.0, 2.0], [0, 0], 1.0, 1.0), [0.5, 0.5])
    assert replay_probabilities([], [], 0.1, 0.1).shape == (0,)


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 9)), min_size=1, max_size=20), st.floats(0.05, 5), st.floats(0, 1))
def test_probabilities_add_up_and_a_higher_score_is_never_less_likely(levels, temperature, staleness):
    scores, ages = zip(*levels, strict=True)
    found = replay_probabilities(scores, [3] * len(levels), temperature, staleness)
    assert found.sum() == pytest.approx(1) and (found >= 0).all()
    order = np.argsort(-np.array(scores), kind="stable")
    assert (np.diff(found[order]) <= 1e-12).all()
    assert replay_probabilities(scores, ages, temperature, staleness).sum() == pytest.approx(1)


def test_draws_follow_the_probabilities_and_take_each_level_once():
    chances, rng = replay_probabilities([3.0, 2.0, 1.0, 0.5], [1, 1, 1, 4], 1.0, 0.3), np.random.default_rng(0)
    first = np.bincount([draw(chances, 1, rng)[0] for _ in range(4000)], minlength=4)
    assert chisquare(first, 4000 * chances).pvalue > 0.001
    assert sorted(draw(chances, 9, rng)) == [0, 1, 2, 3]
    assert draw(np.array([0.0, 1.0]), 2, rng) == [1] and draw(np.zeros(0), 3, rng) == []


@pytest.fixture(scope="module")
def episodes() -> list[Episode]:
    """Three episodes in which nothing moves, of 1 to 3 chunks; the second reaches the goal, the last is invalid."""
    made = []
    for number, outcome in enumerate(("failure", "success", "failure", "invalid"), start=1):
        spec = sample_split("stack", "train", np.random.default_rng(number))
        state, chunks = SingleSimulator().reset(spec), min(number, 3)
        made.append(Episode(
            spec=spec, seed=0, actor="abc", outcome=outcome, steps=8 * chunks, states=concatenate([state] * (chunks + 1)),
            chunks=np.zeros((chunks, 8, 7)), executed=np.full(chunks, 8), predicate_names=("p",),
            predicates=np.zeros((8 * chunks, 1), bool),
        ))
    return made


def test_episodes_are_scored_each_by_itself(episodes):
    config = ScoreConfig(steps=5, discount=0.9, trace=0.5)
    found = score_episodes(episodes, config, seed=3)
    settings = CriticConfig(
        steps=5, batch=128, discount=0.9, shaped=False, expectile=0.5, pessimism=0.0, network=CriticNetworkConfig(members=2)
    )
    critics, _ = fit_critics(ChunkReplay.from_episodes(episodes[:3]), settings, 3)
    for one, value in zip(episodes[:3], found, strict=False):
        v = np.clip(critics.state_values(one.states.observation()), 0, 1)
        deltas = [0.9**8 * v[t + 1] - v[t] for t in range(len(one.chunks))]
        if one.success:
            deltas[-1] = 0.9**7 - v[-2]
        sums = [sum((0.5 * 0.9**8) ** (u - t) * deltas[u] for u in range(t, len(deltas))) for t in range(len(deltas))]
        assert value == pytest.approx(np.mean(np.abs(sums)), rel=1e-4)
    assert found[3] == 0.0 and score_episodes([replace(episodes[0], outcome="invalid")], config, 0) == [0.0]
