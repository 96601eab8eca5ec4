"""Corrections: which states of failing episodes the expert takes over from."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from coda_nodes.learner.corrections import CorrectionConfig, choose_starts, solvable_until, stalled_at
from coda_nodes.world.errors import BudgetError, ConfigError


@pytest.fixture()
def failures(episodes):
    """Ten failures of ten chunks that stalled after the third."""
    truth = np.zeros((80, 3), dtype=bool)
    truth[5:, 0] = True
    truth[20:30, 1] = True
    return [
        replace(e, outcome="failure", actor="abc", predicates=truth, physics_states=np.zeros((11, 4)))
        for e in episodes[:10]
    ]


def test_stall_is_where_something_new_last_happened(failures):
    assert stalled_at(failures[0]) == 2
    assert stalled_at(replace(failures[0], predicates=np.zeros((80, 3), bool))) == 0
    late = np.zeros((80, 3), bool)
    late[79] = True
    assert stalled_at(replace(failures[0], predicates=late)) == 9


def test_starts_are_different_and_within_the_episode(failures):
    starts = choose_starts(failures, 1000, np.random.default_rng(0), CorrectionConfig(per_episode=4))
    assert len(starts) == len(set(starts)) == 40
    assert all(0 <= start.chunk < 10 for start in starts)
    assert set(Counter(start.episode for start in starts).values()) == {4}


def test_the_count_is_never_exceeded_and_shared_in_turns(failures):
    for count in (0, 3, 10, 13):
        starts = choose_starts(failures, count, np.random.default_rng(1))
        assert len(starts) == count
        assert max(Counter(start.episode for start in starts).values(), default=0) <= 1 + (count > 10)
    with pytest.raises(BudgetError, match="-1"):
        choose_starts(failures, -1, np.random.default_rng(0))


def test_denser_near_the_stall(failures):
    rng, config = np.random.default_rng(2), CorrectionConfig(per_episode=1)
    chunks = np.array([s.chunk for _ in range(60) for s in choose_starts(failures, 10, rng, config)])
    share = np.mean(np.abs(chunks - 2) <= 2)
    assert share > 0.65 and chunks.max() == 9


def test_none_after_the_thing_fell_off(failures, episodes):
    slot = failures[0].spec.entity_names.index(failures[0].spec.goal.args[0])
    position = failures[0].states.entity_position_base.copy()
    position[6:, slot, 2] = -0.5
    fallen = replace(failures[0], states=replace(failures[0].states, entity_position_base=position))
    assert solvable_until(failures[0]) == 9 and solvable_until(fallen) == 5
    starts = choose_starts([fallen], 50, np.random.default_rng(0), CorrectionConfig(per_episode=50))
    assert sorted(s.chunk for s in starts) == [0, 1, 2, 3, 4, 5]


def test_successes_invalid_and_unrestorable_are_passed_over(failures):
    others = [
        replace(failures[0], outcome="success"),
        replace(failures[1], outcome="invalid"),
        replace(failures[2], physics_states=None),
    ]
    assert choose_starts(others, 10, np.random.default_rng(0)) == []


def test_same_seed_same_starts(failures):
    first, second = (choose_starts(failures, 12, np.random.default_rng(5)) for _ in range(2))
    assert first == second


def test_settings_are_checked():
    with pytest.raises(ConfigError, match="near_stall"):
        CorrectionConfig(near_stall=2.0)
