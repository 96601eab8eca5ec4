"""Learning progress, allocation and the life of programs, on histories whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from coda_nodes.conductor.allocation import AllocationConfig, allocate, decide, scores
from coda_nodes.conductor.progress import ProgressConfig, belief, learning_progress, posteriors
from coda_nodes.world.errors import BudgetError
from coda_nodes.world.programs import read_program
from coda_nodes.world.records import Count


def counts(*pairs):
    return [Count(successes=successes, episodes=episodes) for successes, episodes in pairs]


def program(seed: float, state: str = "validated", version: int = 1):
    operator = {"kind": "rescale", "half_width": [0.01 + seed / 1000] * 2}
    return read_program({"family": "stack", "operators": [operator], "state": state, "version": version})


def test_belief_keeps_everything_or_only_the_last():
    history = counts((3, 10), (5, 10), (9, 10))
    everything = belief(history, ProgressConfig(keep=1.0))
    assert (everything.alpha, everything.beta) == (1 + 17, 1 + 13)
    last = belief(history, ProgressConfig(keep=0.0))
    assert (last.alpha, last.beta) == (1 + 9, 1 + 1)
    half = belief(history)
    assert (half.alpha, half.beta) == (1 + 9 + 2.5 + 0.75, 1 + 1 + 2.5 + 1.75)


def test_progress_is_the_change_of_the_mean_per_budget():
    history = counts((2, 20), (14, 20))
    before, after = posteriors(history)[-2:]
    progress = learning_progress(history, spent=50)
    assert progress.change == pytest.approx(after.mean - before.mean)
    assert progress.rate == pytest.approx(progress.change * 100 / 50)
    assert learning_progress(history, spent=25).rate == pytest.approx(2 * progress.rate)
    assert learning_progress(history).rate == pytest.approx(progress.change * 100 / 20)


def test_probability_of_gain_against_sampling():
    history = counts((4, 20), (9, 20))
    before, after = posteriors(history)[-2:]
    rng = np.random.default_rng(0)
    risen = stats.beta.rvs(after.alpha, after.beta, size=100_000, random_state=rng)
    risen = np.mean(risen > stats.beta.rvs(before.alpha, before.beta, size=100_000, random_state=rng))
    assert learning_progress(history).probability_of_gain == pytest.approx(risen, abs=0.02)


def test_nothing_is_known_of_change_before_two_measurements():
    for history in (counts(), counts((3, 9))):
        progress = learning_progress(history)
        assert (progress.change, progress.rate, progress.probability_of_gain) == (0.0, 0.0, 0.5)
        assert progress.deviation == belief(history).deviation


of_ten = st.integers(0, 10).map(lambda successes: Count(successes=successes, episodes=10))
histories = st.lists(st.lists(of_ten, max_size=4), min_size=1, max_size=7)


@given(histories, st.integers(0, 100), st.integers(0, 7), st.integers(0, 99))
def test_allocation_adds_up(items, total, rehearsed, seed):
    programs = [program(i, "rehearsal" if i < rehearsed else "validated") for i in range(len(items))]
    history = {one.program_id: item for one, item in zip(programs, items, strict=True)}
    shares = allocate(programs, history, total, np.random.default_rng(seed))
    assert sum(shares) == total and min(shares) >= 0
    assert shares == allocate(programs, history, total, np.random.default_rng(seed))
    if 0 < rehearsed < len(items):
        assert sum(shares[:rehearsed]) >= int(0.15 * total) - 1


def test_left_over_environments_fall_by_share():
    """The mean over many draws equals the exact share: small programs get their turn."""
    programs = [program(i) for i in range(3)]
    history = {programs[0].program_id: counts((0, 30)), programs[1].program_id: counts((2, 4), (4, 4))}
    exact = scores([history.get(item.program_id, ()) for item in programs])
    rng = np.random.default_rng(1)
    mean = np.mean([allocate(programs, history, 4, rng) for _ in range(4000)], axis=0)
    assert mean == pytest.approx(4 * exact, abs=0.05)


def test_programs_that_move_and_unknown_ones_get_more():
    moving, still, unknown = counts((2, 20), (12, 20)), counts((10, 20), (10, 20)), counts()
    shares = scores([moving, still, unknown])
    assert shares[0] > shares[1] and shares[2] > shares[1]
    only_uncertain = scores([moving, still, unknown], AllocationConfig(progress=0.0))
    deviations = np.array([belief(item).deviation for item in (moving, still, unknown)])
    assert only_uncertain == pytest.approx(deviations / deviations.sum())


def test_forgetting_draws_budget_too():
    falling, still = counts((19, 20), (9, 20)), counts((14, 20), (14, 20))
    assert scores([falling, still])[0] > 0.6


def test_rehearsal_floor_and_nothing_to_share():
    programs = [program(0), program(1, "rehearsal"), program(2, "rehearsal")]
    assert sum(allocate(programs, {}, 200, np.random.default_rng(0))[1:]) == 30
    assert allocate(programs[1:], {}, 10, np.random.default_rng(0)) == [5, 5]
    assert allocate([], {}, 0, np.random.default_rng(0)) == []
    with pytest.raises(BudgetError, match="cannot share 5 environments among 0 programs"):
        allocate([], {}, 5, np.random.default_rng(0))


@pytest.mark.parametrize(
    "history, version, action, words",
    [
        (counts((23, 25), (24, 25)), 1, "rehearse", "solved: 47 of 50 over the last two rounds"),
        (counts((8, 8)), 1, "keep", "8 of 8 over one round"),
        (counts((8, 8), (8, 8)), 1, "rehearse", "solved: 16 of 16"),
        (counts((0, 8), (0, 8)), 1, "easier", "too hard to learn from: 0 of 16 over the last two rounds"),
        (counts((0, 8), (0, 8)), 3, "retire", "retired after 3 versions, too hard to learn from: 0 of 16"),
        (counts((5, 20), (5, 20), (5, 20)), 1, "narrower", "taught nothing: 10 of 40"),
        (counts((5, 20), (5, 20), (5, 20)), 3, "retire", "retired after 3 versions, taught"),
        (counts((5, 20), (5, 20)), 1, "keep", "still learning"),
        (counts((6, 20), (16, 20)), 1, "harder", "learned: 22 of 40"),
        (counts((2, 20), (5, 20), (7, 20)), 1, "keep", "still learning: 12 of 40"),
        (counts(), 1, "keep", "0 of 0"),
    ],
)
def test_the_life_of_a_program(history, version, action, words):
    decision = decide(program(0, version=version), history)
    assert decision.action == action and words in decision.reason
