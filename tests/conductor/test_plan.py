"""Which programs generate: the numbers add up, and exploration gives way once causes are validated."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coda_nodes.conductor.config import TrainConfig
from coda_nodes.conductor.loop import Loop
from coda_nodes.conductor.plan import exploration_programs, plan_environments, spread
from coda_nodes.conductor.state import LoopState
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.programs import check_bounds, read_program
from coda_nodes.world.splits import load_splits

FAMILIES = ("stack", "push_insert")


def program(value: float, state: str = "validated", family: str = "stack"):
    operator = {"kind": "reweigh", "mass": [value, value]}
    return read_program({"family": family, "operators": [operator], "state": state, "diagnosis_id": "ab"})


def state(*programs) -> LoopState:
    return LoopState(
        checkpoint="c", first_checkpoint="c", programs=list(programs), dev={}, train={}, scenes={}, train_outcomes=[]
    )


def plan(path, *programs, environments: int = 60, seed: int = 0):
    loop = Loop(TrainConfig(families=FAMILIES, environments=environments, seed=seed), None, ArtifactRoot(path), print)
    loop.open_round(1)
    return plan_environments(loop, state(*programs))


def per_family(planned) -> Counter:
    return Counter({family: sum(count for item, count in planned if item.family == family) for family in FAMILIES})


@pytest.mark.parametrize("environments", [1, 7, 60, 101])
@pytest.mark.parametrize("validated", [0, 1, 5])
def test_the_numbers_add_up_per_family(tmp_path, environments, validated):
    planned = plan(tmp_path, *(program(0.1 + i / 100) for i in range(validated)), environments=environments)
    assert per_family(planned) == dict.fromkeys(FAMILIES, environments)
    assert all(count > 0 for _, count in planned)


def test_everything_explores_while_nothing_is_validated_and_half_of_it_afterwards(tmp_path):
    """A family is judged by itself: what is validated in one leaves the other exploring."""
    planned = plan(tmp_path, program(0.2), program(0.3))
    explored = Counter()
    for item, count in planned:
        explored[item.family] += count * (not item.diagnosis_id)
    assert explored == {"stack": 30, "push_insert": 60}


def test_only_programs_that_are_validated_or_rehearsed_generate(tmp_path):
    known = [program(0.1, "draft"), program(0.2, "retired"), program(0.3, "rehearsal"), program(0.4)]
    planned = [item for item, _ in plan(tmp_path, *known) if item.diagnosis_id]
    assert {item.program_id for item in planned} == {known[2].program_id, known[3].program_id}


def test_retired_programs_alone_leave_everything_to_exploration(tmp_path):
    planned = plan(tmp_path, program(0.2, "retired"))
    assert all(not item.diagnosis_id for item, _ in planned)


def test_a_resumed_plan_is_the_same_and_another_seed_gives_another(tmp_path):
    assert plan(tmp_path, program(0.2)) == plan(tmp_path, program(0.2)) != plan(tmp_path, program(0.2), seed=1)


@pytest.mark.parametrize("family", ["pick_place", "stack", "articulated", "push_insert"])
def test_exploration_looks_at_every_axis_alone_and_stays_within_the_probe_bounds(family):
    programs = exploration_programs(family, np.random.default_rng(0))
    axes = set(load_splits().axes(family))
    alone = [item.axes for item in programs if len(item.axes) == 1]
    assert sorted(alone) == sorted((axis,) for axis in axes)
    together = [item.axes for item in programs if len(item.axes) > 1]
    assert together and {len(axes) for axes in together} <= {2, 3}
    assert len({item.program_id for item in programs}) == len(programs)
    for item in programs:
        check_bounds(item, load_splits().ranges(family, "probe"))


@given(total=st.integers(0, 500), parts=st.integers(1, 40), seed=st.integers(0, 100))
def test_spreading_is_even(total, parts, seed):
    numbers = spread(total, parts, np.random.default_rng(seed))
    assert sum(numbers) == total and len(numbers) == parts
    assert max(numbers) - min(numbers) <= 1
