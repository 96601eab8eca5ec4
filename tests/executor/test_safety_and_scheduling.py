"""Limits against the numbers of the robot description; schedules against arithmetic by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coda_nodes.executor.safety import Limits, SafetyConfig, SafetyError
from coda_nodes.executor.scheduling import due_steps
from coda_nodes.policy.kinematics import Kinematics
from coda_nodes.world.errors import ConfigError
from coda_nodes.world.robots import PANDA

HOME = np.array(PANDA.home)
TIMES = 0.05 * np.arange(1, 4)


@pytest.fixture(scope="module")
def limits() -> Limits:
    return Limits(PANDA, Kinematics(PANDA), SafetyConfig())


def path(joint: int, values: list[float]) -> np.ndarray:
    """Targets that stay at home but for one joint."""
    targets = np.tile(HOME, (len(values), 1))
    targets[:, joint] = values
    return targets


def test_what_is_within_the_limits_passes_unchanged(limits: Limits) -> None:
    targets = path(0, [0.05, 0.1, 0.15])
    assert np.array_equal(limits.check(HOME, targets, TIMES), targets)


def test_a_tiny_overshoot_is_cut_and_a_larger_one_refused(limits: Limits) -> None:
    top = PANDA.upper[6]
    start = HOME.copy()
    start[6] = top - 0.01
    cut = limits.check(start, path(6, [top, top, top + 9e-4]), TIMES)
    assert cut[2, 6] == top
    with pytest.raises(SafetyError, match=r"joint7 = 2\.9\d+ rad: expected -2\.8973 to 2\.8973"):
        limits.check(start, path(6, [top, top, top + 0.01]), TIMES)


@pytest.mark.parametrize("turns", [-1, 1])
def test_a_goal_off_by_a_whole_turn_is_wrapped(limits: Limits, turns: int) -> None:
    targets = path(0, [0.02, 0.04, 0.06])
    wrapped = limits.check(HOME, targets + turns * 2 * np.pi * np.eye(7)[0], TIMES)
    assert np.allclose(wrapped, targets, atol=1e-12)


def test_speed_limits_name_the_joint(limits: Limits) -> None:
    most = PANDA.velocity[4] * 0.05
    limits.check(HOME, path(4, [most, 2 * most, 3 * most]), TIMES)
    with pytest.raises(SafetyError, match=r"joint5 at 5\.22 rad/s: expected at most 2\.74"):
        limits.check(HOME, path(4, [most, 3 * most, 3 * most]), TIMES)
    with pytest.raises(SafetyError, match="joint5"):  # the first point counts from where the arm is
        limits.check(HOME, path(4, [2 * most] * 3), TIMES)


def test_time_to_reach_is_that_of_the_slowest_joint(limits: Limits) -> None:
    goal = HOME + np.array([0.2175, 0, 0, 0, 0.2871, 0, 0])
    assert limits.reach_time(HOME, goal) == pytest.approx(0.11)


def test_a_tool_outside_the_workspace_is_refused(limits: Limits) -> None:
    folded = HOME.copy()
    folded[0] = 2.5  # behind the base
    with pytest.raises(SafetyError, match=r"tool at \[-0\.\d+, .* m is outside \[0\.28, -0\.45, 0\.0\]"):
        limits.check(folded, np.tile(folded, (2, 1)), TIMES[:2])


def test_numbers_that_are_not_finite_are_refused(limits: Limits) -> None:
    with pytest.raises(SafetyError, match="not finite"):
        limits.check(HOME, path(3, [np.nan, -2.2, -2.2]), TIMES)
    with pytest.raises(ConfigError, match=r"joint_tolerance = 1\.0"):
        SafetyConfig(joint_tolerance=1.0)


def test_steps_that_are_late_are_dropped() -> None:
    fresh = due_steps(8, age=0.0)
    assert (fresh.first, len(fresh.times)) == (0, 8)
    assert np.allclose(fresh.times, 0.05 * np.arange(1, 9))
    late = due_steps(8, age=0.12)
    assert late.first == 2  # due 0.05 and 0.10 after the observation
    assert np.allclose(late.times, 0.05 * np.arange(3, 9) - 0.12)
    assert len(due_steps(8, age=0.5).times) == 0


@given(age=st.floats(0, 1), steps=st.integers(1, 8))
def test_every_step_is_either_due_in_the_future_or_dropped(age: float, steps: int) -> None:
    due = due_steps(steps, age)
    assert due.first + len(due.times) == steps
    assert (due.times > 0).all()
