"""Statistics against scipy, statement-by-statement enumeration and Monte Carlo."""

from __future__ import annotations

import itertools
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from coda_nodes.world.statistics import (
    BetaPosterior,
    StatisticsError,
    fisher_one_sided,
    newcombe_difference,
    paired_bootstrap,
    probability_not_worse,
    wilson,
)


@given(n=st.integers(1, 200), data=st.data(), confidence=st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_equals_scipy(n, data, confidence):
    k = data.draw(st.integers(0, n))
    ours = wilson(k, n, confidence)
    theirs = stats.binomtest(k, n).proportion_ci(confidence, method="wilson")
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
    assert ours.low <= ours.mean == k / n <= ours.high


def test_wilson_without_trials_knows_nothing():
    assert (wilson(0, 0).low, wilson(0, 0).high) == (0.0, 1.0)


@pytest.mark.parametrize("k, n", [(-1, 3), (4, 3), (0, -1)])
def test_impossible_counts_are_refused(k, n):
    with pytest.raises(StatisticsError, match=f"{k} successes of {n}"):
        wilson(k, n)


def test_newcombe_published_values():
    """Newcombe 1998, Statistics in Medicine 17:873, table II, method 10, cases a, c, e and h."""
    for (a, m, b, n), (low, high) in {
        (56, 70, 48, 80): (0.0524, 0.3339),
        (6, 7, 2, 7): (0.0582, 0.8062),
        (0, 10, 0, 20): (-0.1611, 0.2775),
        (10, 10, 0, 10): (0.6075, 1.0000),
    }.items():
        estimate = newcombe_difference(a, m, b, n)
        assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=6e-5)


@given(st.integers(1, 60), st.integers(1, 60), st.data())
def test_newcombe_is_antisymmetric(n, m, data):
    a, b = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))
    forward, back = newcombe_difference(a, n, b, m), newcombe_difference(b, m, a, n)
    assert (forward.mean, forward.low, forward.high) == pytest.approx((-back.mean, -back.high, -back.low))
    assert -1 <= forward.low <= forward.mean <= forward.high <= 1


def _all_resamples(values):
    return np.array([np.mean(draw) for draw in itertools.product(values, repeat=len(values))])


def test_bootstrap_equals_enumeration_of_all_resamples():
    a, b = np.array([1, 1, 0, 1, 0, 1]), np.array([0, 1, 0, 0, 1, 0])
    exact = _all_resamples(a - b)
    estimate = paired_bootstrap(a, b, np.random.default_rng(0), confidence=0.9, resamples=100_000)
    assert estimate.mean == pytest.approx((a - b).mean())
    low, high = np.quantile(exact, [0.05, 0.95])
    assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=1e-9)


def test_bootstrap_uses_the_pairing():
    rng = np.random.default_rng(1)
    hard = rng.random(400) < 0.5
    better = hard.copy()
    better[:20] = True
    paired = paired_bootstrap(better, hard, rng)
    shuffled = paired_bootstrap(better, rng.permutation(hard), rng)
    assert paired.high - paired.low < 0.5 * (shuffled.high - shuffled.low)


def test_bootstrap_by_group_counts_variation_between_seeds():
    """Seeds agree within themselves, not with one another: the spread is that of three draws of three."""
    groups = np.repeat([0, 1, 2], 100)
    a = np.repeat([0.0, 0.1, 0.2], 100)
    rng = np.random.default_rng(2)
    estimate = paired_bootstrap(a, np.zeros(300), rng, groups=list(groups), confidence=0.9)
    exact = _all_resamples([0.0, 0.1, 0.2])
    assert (estimate.low, estimate.high) == pytest.approx(tuple(np.quantile(exact, [0.05, 0.95])), abs=1e-6)
    flat = paired_bootstrap(a, np.zeros(300), np.random.default_rng(2), confidence=0.9)
    assert flat.high - flat.low < 0.3 * (estimate.high - estimate.low)


def test_bootstrap_same_seed_same_interval_and_refusals():
    a, b = np.arange(30) % 2, np.arange(30) % 3 == 0
    one = paired_bootstrap(a, b, np.random.default_rng(3))
    assert one == paired_bootstrap(a, b, np.random.default_rng(3))
    with pytest.raises(StatisticsError, match="0 and 0"):
        paired_bootstrap([], [], np.random.default_rng(0))
    with pytest.raises(StatisticsError, match="3 and 2"):
        paired_bootstrap([1, 0, 1], [1, 0], np.random.default_rng(0))


@given(st.integers(1, 24), st.integers(1, 24), st.data())
def test_fisher_equals_the_hypergeometric_tail(n, m, data):
    a, b = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))
    total = a + b
    tail = sum(comb(n, x) * comb(m, total - x) for x in range(a, min(n, total) + 1) if total - x <= m)
    assert fisher_one_sided(a, n, b, m) == pytest.approx(tail / comb(n + m, total), rel=1e-9)


def test_fisher_without_trials_shows_nothing():
    assert fisher_one_sided(0, 0, 3, 10) == 1.0


@given(st.floats(0.5, 30), st.floats(0.5, 30), st.integers(0, 50), st.integers(0, 50))
def test_beta_posterior_equals_scipy(alpha, beta, successes, failures):
    posterior = BetaPosterior(alpha, beta).updated(successes, failures)
    frozen = stats.beta(alpha + successes, beta + failures)
    assert posterior.mean == pytest.approx(frozen.mean())
    assert posterior.deviation == pytest.approx(frozen.std())
    interval = posterior.interval(0.9)
    assert (interval.low, interval.high) == pytest.approx(frozen.interval(0.9))
    assert posterior.probability_between(0.0, 1.0) == pytest.approx(1.0)


def test_beta_posterior_refuses_nonsense():
    with pytest.raises(StatisticsError, match="expected two positive"):
        BetaPosterior(0.0, 1.0)
    with pytest.raises(StatisticsError, match="-1 successes"):
        BetaPosterior().updated(-1, 0)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 15), st.integers(0, 15), st.integers(0, 60), st.sampled_from([0.0, 0.02, 0.05, 0.1]))
def test_probability_not_worse_equals_sampling_the_dirichlet(gained, lost, same, tolerance):
    draws = np.random.default_rng(4).dirichlet([gained + 0.5, lost + 0.5, same + 0.5], size=200_000)
    sampled = np.mean(draws[:, 0] - draws[:, 1] > -tolerance)
    assert probability_not_worse(gained, lost, same, tolerance) == pytest.approx(sampled, abs=5e-3)


def test_probability_not_worse_orders_as_it_should():
    assert probability_not_worse(0, 0, 50, 0.05) > 0.95
    assert probability_not_worse(0, 10, 40, 0.05) < 0.05
    assert probability_not_worse(5, 5, 40, 0.0) == pytest.approx(0.5, abs=1e-3)
