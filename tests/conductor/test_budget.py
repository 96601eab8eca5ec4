"""Budget: never passed, never lost, the same after it was stored."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coda_nodes.conductor.budget import PURPOSES, Budget
from coda_nodes.world.errors import BudgetError
from coda_nodes.world.records import BudgetRecord

rows = st.tuples(st.sampled_from(PURPOSES), st.integers(0, 40), st.integers(0, 4000))
bookings = st.lists(rows, max_size=30)


@given(bookings, st.integers(1, 200), st.integers(1, 20_000))
def test_the_sum_of_what_was_let_through_is_kept_and_within_the_limits(rows, environments, steps):
    budget, spent = Budget(environments, steps), [0, 0]
    for purpose, some, more in rows:
        fits = spent[0] + some <= environments and spent[1] + more <= steps
        try:
            budget.spend(purpose, some, more)
            assert fits
            spent = [spent[0] + some, spent[1] + more]
        except BudgetError:
            assert not fits
    assert [budget.environments, budget.control_steps] == spent
    assert budget.left == (environments - spent[0], steps - spent[1])


@given(bookings, bookings)
def test_stored_and_continued(first, second):
    budget = Budget()
    for row in first:
        budget.spend(*row)
    mark, before = json.loads(json.dumps(budget.to_dict())), budget.ledger()
    for row in second:
        budget.spend(*row)
    resumed = Budget.from_dict(mark).plus(json.loads(json.dumps(budget.since(before))))
    assert (resumed.environments, resumed.control_steps) == (budget.environments, budget.control_steps)
    assert all(resumed.ledger().get(name, (0, 0)) == row for name, row in budget.ledger().items())


def test_refusals_state_what_is_left():
    budget = Budget(10, 1000)
    budget.spend("rollout", 8, 100)
    with pytest.raises(BudgetError, match="recreation needs 3 environments; 2 of 10 are left"):
        budget.reserve("recreation", 3)
    with pytest.raises(BudgetError, match="rollout needs 901 control steps; 900 of 1000 are left"):
        budget.spend("rollout", 1, 901)
    assert budget.ledger() == {"rollout": (8, 100)}
    with pytest.raises(BudgetError, match="no budget purpose 'fun': rollout"):
        budget.spend("fun", 1)
    with pytest.raises(BudgetError, match="below 0"):
        budget.spend("rollout", -1)
    with pytest.raises(BudgetError, match="not a stored budget"):
        Budget.from_dict({"limits": 3})


@given(st.lists(st.integers(1, 300), max_size=20), st.integers(0, 12), st.integers(0, 2000))
def test_affordable_is_the_longest_prefix_that_can_be_spent(horizons, environments, steps):
    budget = Budget(12, 2000)
    budget.spend("rollout", environments, steps)
    count = budget.affordable(horizons)
    budget.reserve("rollout", count, sum(horizons[:count]))
    if count < len(horizons):
        with pytest.raises(BudgetError):
            budget.reserve("rollout", count + 1, sum(horizons[: count + 1]))


def test_no_limit_and_record():
    budget = Budget()
    budget.spend("demonstration", 10**6, 10**9)
    record = BudgetRecord(**budget.record())
    assert record.by_purpose == {"demonstration": (10**6, 10**9)} and record.environments == 10**6
