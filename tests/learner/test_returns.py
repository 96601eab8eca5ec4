"""Shaped chunk targets against exact solutions of random tabular problems.

The oracle knows nothing of chunk targets: it walks step by step through (state, chunk, position in the chunk).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest

from coda_nodes.learner.returns import chunk_returns, chunk_targets, continuing, shaping

DISCOUNT, LENGTH, STATES, ACTIONS, CUT = 0.9, 3, 6, 2, 0.2
CHUNKS = np.array(list(product(range(ACTIONS), repeat=LENGTH)))
SWEEPS = 230
"""0.9^230 is below 1e-10."""
EXACT = 1e-8


@dataclass(frozen=True)
class Problem:
    """A random problem. The last state is a true end; with probability CUT a chunk is cut short after a step (a time
    limit, or half a chunk committed), and the scene goes on from there."""

    move: np.ndarray
    """Probability of the next state. Shape (S, A, S)."""
    reward: np.ndarray
    """Shape (S, A, S)."""

    @staticmethod
    def draw(rng: np.random.Generator) -> Problem:
        move = rng.dirichlet(np.full(STATES, 0.4), (STATES, ACTIONS))
        return Problem(move, np.where(np.arange(STATES) == STATES - 1, 1.0, rng.normal(0, 0.3, move.shape)))


def solve_stepwise(problem: Problem) -> np.ndarray:
    """Optimal value of each chunk in each state, step by step. Shape (S - 1, C)."""
    alive = STATES - 1
    move = problem.move[:alive]
    gained = (move * problem.reward[:alive]).sum(-1)
    value = np.zeros(alive)
    for _ in range(SWEEPS):
        then = np.repeat(value[None], len(CHUNKS), axis=0)  # worth of the state after the last step of each chunk
        for step in reversed(range(LENGTH)):
            actions = CHUNKS[:, step]
            later = gained[:, actions].T + DISCOUNT * np.einsum("cst,ct->cs", move[:, actions, :alive].swapaxes(0, 1), then)
            then = CUT * value + (1 - CUT) * later
        value = later.max(0)
    return later.T


@dataclass(frozen=True)
class Outcomes:
    """Every way each chunk can go in each state, with its probability: what an endless replay would hold."""

    before: np.ndarray
    number: np.ndarray
    after: np.ndarray
    probability: np.ndarray
    rewards: np.ndarray
    executed: np.ndarray
    terminal: np.ndarray


def outcomes(problem: Problem, rng: np.random.Generator) -> Outcomes:
    """Walk all paths. Rewards beyond the executed steps are filled with nonsense, which must not count."""
    rows = []

    def walk(start, number, state, probability, rewards):
        step = len(rewards)
        for following in range(STATES):
            chance = probability * problem.move[state, CHUNKS[number][step], following]
            gained = [*rewards, problem.reward[state, CHUNKS[number][step], following]]
            ended, full = following == STATES - 1, step + 1 == LENGTH
            stopping = 1.0 if ended or full else CUT
            padded = gained + [rng.normal(0, 10)] * (LENGTH - len(gained))
            rows.append((start, number, following, chance * stopping, padded, step + 1, ended))
            if stopping < 1:
                walk(start, number, following, chance * (1 - CUT), gained)

    for state, number in product(range(STATES - 1), range(len(CHUNKS))):
        walk(state, number, state, 1.0, [])
    before, number, after, probability, rewards, executed, terminal = zip(*rows, strict=True)
    return Outcomes(
        np.array(before), np.array(number), np.array(after), np.array(probability), np.array(rewards), np.array(executed),
        np.array(terminal),
    )


Target = Callable[[Outcomes, np.ndarray, np.ndarray], np.ndarray]
"""Targets of all outcomes from the potential (S,) and the values (S,)."""


def exact(o: Outcomes, phi: np.ndarray, value: np.ndarray) -> np.ndarray:
    """The code under test."""
    return chunk_targets(o.rewards, o.executed, o.terminal, phi[o.before], phi[o.after], value[o.after], DISCOUNT)


def solve(o: Outcomes, phi: np.ndarray, target: Target) -> np.ndarray:
    """Optimal chunk values by repeated targets. Shape (S - 1, C)."""
    value = np.zeros(STATES)
    value[-1] = 1e3  # the value of a true end must not be used
    shape, place = (STATES - 1, len(CHUNKS)), o.before * len(CHUNKS) + o.number
    for _ in range(SWEEPS):
        sums = np.bincount(place, o.probability * target(o, phi, value)).reshape(shape)
        value[:-1] = sums.max(1)
    return sums


def deviation(target: Target, problem: Problem, phi: np.ndarray, rng: np.random.Generator) -> float:
    """The test: how far shaped values are from the unshaped ones minus ``Phi``. 0 means that no chunk is preferred to
    another that was not before."""
    shaped = solve(outcomes(problem, rng), phi, target)
    return float(np.abs(shaped - (solve_stepwise(problem) - phi[:-1, None])).max())


def potentials(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Potentials, one not 0 at the true end: the targets take care of that themselves."""
    drawn = rng.random(STATES)
    return {"none": 0 * drawn, "drawn": drawn, "other": rng.random(STATES), "scaled": 3 * drawn, "shifted": drawn + 0.7}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["none", "drawn", "other", "scaled", "shifted"])
def test_optimal_chunks_are_the_same_with_and_without_shaping(seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    problem = Problem.draw(rng)
    phi = potentials(rng)[name]
    assert deviation(exact, problem, phi, rng) < EXACT
    shaped = solve(outcomes(problem, rng), phi, exact)
    assert (shaped.argmax(1) == solve_stepwise(problem).argmax(1)).all()


def terminal_potential_kept(o: Outcomes, phi: np.ndarray, value: np.ndarray) -> np.ndarray:
    return exact(o, phi, value) + np.where(o.terminal, DISCOUNT**o.executed * phi[o.after], 0.0)


def full_length_on_a_short_chunk(o: Outcomes, phi: np.ndarray, value: np.ndarray) -> np.ndarray:
    gained = chunk_returns(o.rewards, o.executed, DISCOUNT)
    return gained - phi[o.before] + np.where(o.terminal, 0.0, DISCOUNT**LENGTH * (phi + value)[o.after])


def full_length_in_the_shaping_only(o: Outcomes, phi: np.ndarray, value: np.ndarray) -> np.ndarray:
    wrong = np.where(o.terminal, 0.0, (DISCOUNT**LENGTH - DISCOUNT**o.executed) * phi[o.after])
    return exact(o, phi, value) + wrong


def two_potentials_in_one_replay(o: Outcomes, phi: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Half of the replay was labelled before the potential changed."""
    old = np.random.default_rng(99).random(STATES)
    return np.where(np.arange(len(o.before)) % 2 == 0, exact(o, phi, value), exact(o, old, value))


def old_label_before_new_label_after(o: Outcomes, phi: np.ndarray, value: np.ndarray) -> np.ndarray:
    old = np.random.default_rng(99).random(STATES)
    return chunk_targets(o.rewards, o.executed, o.terminal, old[o.before], phi[o.after], value[o.after], DISCOUNT)


def truncation_as_an_end(o: Outcomes, phi: np.ndarray, value: np.ndarray) -> np.ndarray:
    ended = o.terminal | (o.executed < LENGTH)
    return chunk_targets(o.rewards, o.executed, ended, phi[o.before], phi[o.after], value[o.after], DISCOUNT)


def truncation_without_potential(o: Outcomes, phi: np.ndarray, value: np.ndarray) -> np.ndarray:
    return exact(o, phi, value) - np.where(~o.terminal & (o.executed < LENGTH), DISCOUNT**o.executed * phi[o.after], 0.0)


def true_end_bootstraps(o: Outcomes, phi: np.ndarray, value: np.ndarray) -> np.ndarray:
    return exact(o, phi, value) + np.where(o.terminal, DISCOUNT**o.executed * 0.5, 0.0)


def rewards_after_success_counted(o: Outcomes, phi: np.ndarray, value: np.ndarray) -> np.ndarray:
    whole = np.full(len(o.executed), LENGTH)
    return exact(o, phi, value) + np.where(
        o.terminal, chunk_returns(np.clip(o.rewards, -1, 1), whole, DISCOUNT)
        - chunk_returns(np.clip(o.rewards, -1, 1), o.executed, DISCOUNT), 0.0,
    )


def undiscounted_difference(o: Outcomes, phi: np.ndarray, value: np.ndarray) -> np.ndarray:
    return exact(o, phi, value) + np.where(o.terminal, 0.0, (1 - DISCOUNT**o.executed) * phi[o.after])


WRONG = (
    terminal_potential_kept, full_length_on_a_short_chunk, full_length_in_the_shaping_only, two_potentials_in_one_replay,
    old_label_before_new_label_after, truncation_as_an_end, truncation_without_potential, true_end_bootstraps,
    rewards_after_success_counted, undiscounted_difference,
)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda f: f.__name__)
def test_wrong_targets_are_caught_by_the_same_test(wrong: Target) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        problem = Problem.draw(rng)
        assert deviation(wrong, problem, potentials(rng)["drawn"], rng) > 1e-2


def test_some_wrong_target_changes_which_chunk_is_best() -> None:
    """The deviation is not a matter of bookkeeping: it turns into other behaviour."""
    changed = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        problem, phi = Problem.draw(rng), 3 * rng.random(STATES)
        wrong = solve(outcomes(problem, rng), phi, terminal_potential_kept)
        changed.append((wrong.argmax(1) != solve_stepwise(problem).argmax(1)).any())
    assert any(changed)


def test_without_any_success_shaping_alone_prefers_nothing() -> None:
    """What the theory says: with no reward the shaped values are -Phi whatever the chunk."""
    rng = np.random.default_rng(0)
    silent = Problem(Problem.draw(rng).move, np.zeros((STATES, ACTIONS, STATES)))
    phi = potentials(rng)["drawn"]
    shaped = solve(outcomes(silent, rng), phi, exact)
    np.testing.assert_allclose(shaped, np.repeat(-phi[:-1, None], len(CHUNKS), 1), atol=EXACT)


def test_success_inside_a_chunk_ends_it_there() -> None:
    rewards = np.array([[0.0, 1.0, 1.0, 1.0]])
    target = chunk_targets(rewards, np.array([2]), np.array([True]), np.array([0.4]), np.array([1.0]), np.array([5.0]), 0.9)
    assert target == pytest.approx(0.9 - 0.4)


def test_truncation_bootstraps_and_keeps_the_potential() -> None:
    rewards = np.zeros((1, 4))
    before, after, value = np.array([0.4]), np.array([0.6]), np.array([0.5])
    target = chunk_targets(rewards, np.array([3]), np.array([False]), before, after, value, 0.9)
    assert target == pytest.approx(0.9**3 * 0.6 - 0.4 + 0.9**3 * 0.5)
    assert shaping(before, after, np.array([3]), np.array([False]), 0.9) == pytest.approx(0.9**3 * 0.6 - 0.4)
    assert continuing(np.array([3]), np.array([True]), 0.9) == 0
