"""The record of a round against counts made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from coda_nodes.conductor.closing import (
    GALLERY,
    add_counts,
    failure_records,
    family_records,
    family_text,
    program_records,
    round_record,
    solved_later,
    verdict_counts,
)
from coda_nodes.conductor.config import TrainConfig
from coda_nodes.conductor.loop import Loop
from coda_nodes.conductor.plan import exploration_programs
from coda_nodes.conductor.rounds import Found
from coda_nodes.conductor.state import LoopState
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.diagnosis import Cause, CriticInfo, Diagnosis, parse_diagnosis
from coda_nodes.world.episode import EpisodeSummary
from coda_nodes.world.programs import read_program
from coda_nodes.world.records import Count, DiagnosisCounts
from coda_nodes.world.splits import sample_split
from coda_nodes.world.validation import ValidationRecord

FAMILIES = ("stack", "push_insert")
VERDICTS = ["validated", "refuted", "inconclusive", "validated"]
"""Of the first four diagnoses of stack; push_insert has one draft, refuted."""


def program(value: float, state: str = "draft", diagnosis_id: str = "ab"):
    operator = {"kind": "reweigh", "mass": [value, value]}
    data = {"family": "stack", "operators": [operator], "state": state, "diagnosis_id": diagnosis_id, "reason": "because"}
    return read_program(data)


def diagnosis(spec, number: int, axis: str | None = "position", confidence: float = 0.5) -> Diagnosis:
    cause = Cause(axis=axis, parameter="object_x", observed=0.6, nominal=0.4) if axis else None
    return Diagnosis(
        text=f"failure {number}", stage="grasp", failure_mode="missed_grasp", cause=cause, confidence=confidence,
        critic=CriticInfo(name="state", version="1"), family=spec.family, episode=f"{number:016x}", environment=spec.content_hash,
    )


def ended(spec, outcome: str, actor: str = "abc") -> EpisodeSummary:
    return EpisodeSummary(
        hash=f"{spec.seed:016x}", environment_hash=spec.content_hash, family=spec.family, outcome=outcome, steps=100, seed=0,
        actor=actor,
    )


@pytest.fixture(scope="module")
def found() -> Found:
    """Eight scenes of stack (six failed, one invalid, one solved), two of push_insert (one failed)."""
    rng = np.random.default_rng(0)
    base = {family: sample_split(family, "train", rng) for family in FAMILIES}
    found = Found.__new__(Found)
    found.specs = [base["stack"].revise(seed=i) for i in range(8)] + [base["push_insert"].revise(seed=i) for i in (8, 9)]
    explored = exploration_programs("push_insert", rng)[0]
    found.specs[0] = with_program(found.specs[0], program(0.1).program_id)
    found.specs[9] = with_program(found.specs[9], explored.program_id)
    found.plan = [(program(0.1), 1), (explored, 1)]
    found.rejections = [
        "stack: reach: a: b is off the table", "stack: reach: c", "stack: settle: d moved", "push_insert: goal: e", "stack",
    ]
    outcomes = ["failure"] * 6 + ["invalid", "success", "failure", "success"]
    found.rollouts = [ended(spec, outcome) for spec, outcome in zip(found.specs, outcomes, strict=True)]
    found.diagnoses = [
        *(diagnosis(spec, i, "position" if i < 4 else None, 0.1 * i) for i, spec in enumerate(found.specs[:6])),
        diagnosis(found.specs[8], 8, "clutter"),
    ]
    drafted = [*found.diagnoses[:4], found.diagnoses[6]]
    found.drafts = [(item, program(0.2 + i / 10)) for i, item in enumerate(drafted)]
    found.verdicts = [
        ValidationRecord(diagnosis_id=item.diagnosis_id, verdict=verdict, words=f"{verdict}: words")
        for item, verdict in zip(drafted, [*VERDICTS, "refuted"], strict=True)
    ]
    return found


def with_program(spec, program_id: str):
    return spec.revise(provenance={**spec.provenance.model_dump(), "program_id": program_id})


@pytest.fixture
def loop(tmp_path) -> Loop:
    loop = Loop(TrainConfig(families=FAMILIES), None, ArtifactRoot(tmp_path), lambda event: None)
    loop.open_round(2)
    return loop


def state(checkpoint: str, successes: int, *programs) -> LoopState:
    counted = dict.fromkeys(FAMILIES, Count(successes=successes, episodes=10))
    return LoopState(
        checkpoint=checkpoint, first_checkpoint="first", programs=list(programs), dev=counted, train=counted, scenes={},
        train_outcomes=[],
    )


def test_verdicts_are_counted_by_family(found):
    assert verdict_counts(found, "stack") == DiagnosisCounts(made=6, validated=2, refuted=1, inconclusive=1)
    assert verdict_counts(found, "push_insert") == DiagnosisCounts(made=1, refuted=1)
    both = add_counts(verdict_counts(found, "stack"), verdict_counts(found, "push_insert"))
    assert both == DiagnosisCounts(made=7, validated=2, refuted=2, inconclusive=1)


def test_the_line_of_a_family_says_what_happened(found):
    assert family_text(found, "stack", 5) == (
        "8 generated; 6 failures diagnosed: missed grasp by position (4); 2 validated, 1 refuted, 1 inconclusive; "
        "5 episodes taught"
    )


def test_without_a_cause_the_line_says_so(found):
    nothing = Found.__new__(Found)
    nothing.specs, nothing.diagnoses, nothing.drafts, nothing.verdicts = [], [diagnosis(found.specs[0], 1, None)], [], []
    assert "1 failures diagnosed: no cause found; 0 validated" in family_text(nothing, "stack", 0)


def test_records_of_families(loop, found):
    records = family_records(loop, found, state("a", 3), state("b", 7), {"stack": 5})
    stack, push = records["stack"], records["push_insert"]
    assert stack.rollouts == Count(successes=1, episodes=7)  # the invalid one is in neither number
    assert (stack.generated, stack.rejected, stack.rejections) == (8, 3, {"reach": 2, "settle": 1})
    assert (push.generated, push.rejected, push.rejections) == (2, 1, {"goal": 1})
    assert (stack.supervision, push.supervision) == (5, 0)
    assert (stack.dev_before.successes, stack.dev_after.successes) == (3, 7)


def test_the_gallery_prefers_what_was_examined_then_what_is_solved_now_then_the_surest(found):
    first = [found.diagnoses[2].diagnosis_id]
    solved = {found.specs[1].content_hash: "later"}
    records = failure_records(found, solved, FAMILIES, first)
    of_stack = [record for record in records if record.family == "stack"]
    assert [int(record.episode, 16) for record in of_stack] == [2, 1, 5] and len(of_stack) == GALLERY
    assert of_stack[0].verdict == "inconclusive: words" and of_stack[0].program_id == found.drafts[2][1].program_id
    assert of_stack[1].solved_episode == "later" and of_stack[0].solved_episode == ""
    assert (of_stack[2].verdict, of_stack[2].program_id) == ("", "")
    assert [record.instruction for record in records] == [
        next(spec.instruction for spec in found.specs if spec.content_hash == key)
        for key in (found.specs[2].content_hash, found.specs[1].content_hash, found.specs[5].content_hash,
                    found.specs[8].content_hash)
    ]
    assert parse_diagnosis(records[0].diagnosis).text == "failure 2"


def test_records_of_programs_know_exploration_and_states(found):
    kept, retired = program(0.1, "validated"), program(0.9, "retired")
    pair = (Count(successes=1, episodes=5), Count(successes=4, episodes=5))
    records = program_records(state("b", 7, kept, retired), found, {kept.program_id: pair})
    by_id = {record.program_id: record for record in records}
    assert {record.state for record in records} == {"validated", "retired", "exploration"}
    mine = by_id[kept.program_id]
    assert (mine.environments, mine.before, mine.after, mine.reason) == (1, *pair, "because")
    assert by_id[retired.program_id].after == Count(successes=0, episodes=0)
    (explored,) = [record for record in records if record.state == "exploration"]
    assert explored.environments == 1 and explored.reason == ""


def test_only_successes_are_solved_later(found):
    solved = solved_later([ended(found.specs[0], "success"), ended(found.specs[1], "failure"), ended(found.specs[2], "invalid")])
    assert solved == {found.specs[0].content_hash: f"{0:016x}"}


@pytest.mark.parametrize(("candidate", "accepted"), [("b", True), ("c", False)])
def test_the_round_says_whether_the_candidate_went_on(loop, candidate, accepted):
    loop.budget.spend("rollout", 3, 300)
    record = round_record(loop, 2, {}, [], [], state("b", 7), candidate, "words of the gate")
    assert (record.round, record.accepted, record.gate) == (2, accepted, "words of the gate")
    assert (record.checkpoint, record.candidate) == ("b", candidate)
    assert (record.budget.environments, record.budget.control_steps) == (3, 300)
