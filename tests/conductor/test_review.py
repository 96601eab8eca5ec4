"""The life of a program after a round, from histories whose verdict anyone would give."""

from __future__ import annotations

import pytest

from coda_nodes.conductor.config import TrainConfig
from coda_nodes.conductor.loop import Loop
from coda_nodes.conductor.review import review
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.programs import check_bounds, read_program
from coda_nodes.world.progress import Measurement
from coda_nodes.world.splits import load_splits

NEVER = [(0, 10), (0, 10)]
ALWAYS = [(10, 10), (10, 10)]
STANDSTILL = [(5, 20), (5, 20), (5, 20)]
LEARNING = [(6, 20), (16, 20)]


def program(state: str = "validated", version: int = 1, magnitude: float = 1.0, span=(0.4, 0.6)):
    operator = {"kind": "shift_region", "x": list(span), "magnitude": magnitude}
    data = {"family": "stack", "operators": [operator], "state": state, "version": version, "diagnosis_id": "ab"}
    return read_program({**data, "reason": "as it was"})


def measured(item, history, last: int = 3):
    """One measurement a round, the last of them in round ``last``."""
    first = last - len(history) + 1
    return [
        Measurement(program_id=item.program_id, family="stack", round=first + i, successes=won, episodes=tried)
        for i, (won, tried) in enumerate(history)
    ]


@pytest.fixture
def loop(tmp_path) -> Loop:
    loop = Loop(TrainConfig(families=("stack",)), None, ArtifactRoot(tmp_path), print)
    loop.open_round(3)
    return loop


@pytest.mark.parametrize(
    ("history", "state", "words"),
    [(ALWAYS, "rehearsal", "solved: 20 of 20"), ([(4, 8)], "validated", "still learning: 4 of 8")],
)
def test_solved_programs_are_rehearsed_and_others_kept(loop, history, state, words):
    (after,) = review(loop, [item := program()], measured(item, history))
    assert after.state == state and words in after.reason
    assert after.program_id == item.program_id


@pytest.mark.parametrize(
    ("history", "how", "words"),
    [
        (NEVER, "easier", "too hard to learn from: 0 of 20"),
        (STANDSTILL, "narrower", "taught nothing: 10 of 40"),
        (LEARNING, "harder", "learned: 22 of 40"),
    ],
)
def test_a_refined_program_takes_the_place_of_its_parent(loop, history, how, words):
    old, new = review(loop, [item := program(span=(0.55, 0.58))], measured(item, history))
    assert (old.program_id, old.state) == (item.program_id, "retired")
    assert (new.state, new.parent, new.version) == ("validated", item.program_id, 2)
    assert new.program_id != item.program_id and new.diagnosis_id == item.diagnosis_id
    assert f"made {how}" in old.reason and words in old.reason and new.reason == old.reason
    check_bounds(new, load_splits().ranges("stack", "probe"))
    before, after = item.operators[0], new.operators[0]
    if how == "easier":
        assert after.magnitude < before.magnitude
    elif how == "narrower":
        assert before.x[0] < after.x[0] < after.x[1] < before.x[1]
    else:
        assert after.x[1] > before.x[1]


def test_after_three_versions_it_is_retired_for_good(loop):
    (after,) = review(loop, [item := program(version=3)], measured(item, NEVER))
    assert after.state == "retired" and "retired after 3 versions, too hard to learn from: 0 of 20" in after.reason


def test_what_cannot_be_refined_stays_and_says_why(loop):
    (after,) = review(loop, [item := program(magnitude=0.1)], measured(item, NEVER))
    assert after.state == "validated" and "it cannot be made easier" in after.reason


@pytest.mark.parametrize("state", ["draft", "rehearsal", "retired"])
def test_only_validated_programs_are_decided_on(loop, state):
    assert review(loop, [item := program(state)], measured(item, NEVER)) == [item]


@pytest.mark.parametrize("history", [[], NEVER])
def test_without_a_measurement_in_this_round_nothing_changes(loop, history):
    assert review(loop, [item := program()], measured(item, history, last=2)) == [item]


def test_measurements_of_other_programs_do_not_count(loop):
    item, other = program(), program(span=(0.5, 0.6))
    (kept, retired, refined) = review(loop, [item, other], [*measured(item, [(4, 8)]), *measured(other, NEVER)])
    assert kept.program_id == item.program_id and kept.state == "validated"
    assert retired.program_id == refined.parent == other.program_id


def test_a_refinement_that_exists_already_is_listed_once(loop):
    item = program(span=(0.55, 0.58))
    _, known = review(loop, [item], measured(item, NEVER))
    after = review(loop, [item, known], measured(item, NEVER))
    assert sorted(p.program_id for p in after) == sorted([item.program_id, known.program_id])
