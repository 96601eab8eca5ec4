"""Refinement: children stay within the probe bounds, say what changed, and go the way of their name."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coda_nodes.generator.refine import easier, harder, narrower, split, wider
from coda_nodes.generator.sampling import draw_valid
from coda_nodes.world.errors import ProgramError
from coda_nodes.world.programs import check_bounds, read_program
from coda_nodes.world.splits import load_splits

SPLITS = load_splits()
PROBE = SPLITS.ranges("pick_place", "probe")


def program(*operators: dict, **fields):
    return read_program({"family": "pick_place", "operators": list(operators), **fields})


def x_of(made):
    return made.operators[0].x


@st.composite
def shifts(draw):
    low, high = sorted((draw(st.floats(0.36, 0.6)), draw(st.floats(0.36, 0.6))))
    return program({"kind": "shift_region", "x": [low, high], "magnitude": draw(st.floats(0.05, 1.0))})


@settings(max_examples=60, deadline=None)
@given(shifts())
def test_children_are_within_bounds_and_know_their_parent(made):
    for refine in (
        lambda p: harder(p, SPLITS),
        easier,
        lambda p: narrower(p, SPLITS),
        lambda p: wider(p, SPLITS),
    ):
        try:
            child = refine(made)
        except ProgramError as error:
            assert "at its bounds" in str(error)
            continue
        check_bounds(child, PROBE)
        assert child.parent == made.program_id and child.version == made.version + 1
        assert child.program_id != made.program_id
        assert made.program_id in child.explanation and "became" in child.explanation
        assert read_program(child.to_json()) == child


@settings(max_examples=40, deadline=None)
@given(shifts())
def test_width_follows_the_name(made):
    low, high = x_of(made)
    if high - low > 1e-6:
        a, b = x_of(narrower(made, SPLITS))
        assert b - a == pytest.approx(0.5 * (high - low)) and low - 1e-9 <= a and b <= high + 1e-9
    if high - low < 0.239:
        try:
            a, b = x_of(wider(made, SPLITS))
        except ProgramError:
            return
        assert b - a >= high - low


def test_harder_first_raises_the_magnitude_then_leaves_train_farther():
    first = harder(program({"kind": "shift_region", "x": [0.53, 0.55], "magnitude": 0.5}), SPLITS)
    assert first.operators[0].magnitude == 0.75 and x_of(first) == (0.53, 0.55)
    out = harder(program({"kind": "shift_region", "x": [0.53, 0.55]}), SPLITS)
    assert x_of(out)[0] > 0.53 and x_of(out)[1] > 0.55
    back = harder(program({"kind": "shift_region", "x": [0.38, 0.40]}), SPLITS)
    assert x_of(back)[0] < 0.38
    with pytest.raises(ProgramError, match="cannot be made harder: it is at its bounds"):
        harder(program({"kind": "shift_region", "x": [0.6, 0.6]}), SPLITS)


def test_harder_adds_distractors():
    assert harder(program({"kind": "add_distractor", "count": 2}), SPLITS).operators[0].count == 3


def test_easier_comes_nearer_and_may_start_past_the_stage_before_the_failed_one():
    made = program({"kind": "shift_region", "x": [0.55, 0.6]}, state="validated")
    nearer = easier(made)
    assert nearer.operators[0].magnitude == pytest.approx(0.6) and len(nearer.operators) == 1
    started = easier(made, failed_stage="lift")
    assert started.operators[1].stage == "grasp" and started.state == "validated"
    assert "start past stage" in started.explanation
    again = easier(started, failed_stage="lift")
    assert len(again.operators) == 2
    with pytest.raises(ProgramError, match="easier"):
        easier(program({"kind": "shift_region", "x": [0.55, 0.6], "magnitude": 0.12}))


def test_an_easier_program_really_is_nearer_to_train():
    made = program({"kind": "shift_region", "x": [0.6, 0.6]})
    places = []
    for one in (made, easier(made), easier(easier(made))):
        specs = draw_valid(one, 12, np.random.default_rng(0), SPLITS).specs
        places.append(
            np.mean([e.pose.position[0] for spec in specs for e in spec.objects if e.role == "object"])
        )
    assert places[0] > places[1] > places[2] > 0.5


def test_words_are_halved_and_completed():
    made = program({"kind": "recolor", "colors": ["red", "purple", "orange"]})
    assert narrower(made, SPLITS).operators[0].colors == ("red",)
    assert set(wider(made, SPLITS).operators[0].colors) == set(PROBE.allowed("objects", "color").values)


@settings(max_examples=30, deadline=None)
@given(shifts())
def test_halves_cover_the_whole(made):
    low, high = x_of(made)
    if high == low:
        with pytest.raises(ProgramError, match="cannot be split"):
            split(made, SPLITS)
        return
    first, second = split(made, SPLITS)
    assert x_of(first)[0] == pytest.approx(low) and x_of(second)[1] == pytest.approx(high)
    assert x_of(first)[1] == pytest.approx(x_of(second)[0])
    assert "first half of" in first.explanation and "second half of" in second.explanation


def test_words_split_too_and_a_solved_parent_has_an_active_child():
    made = program({"kind": "recolor", "colors": ["red", "purple", "orange"]}, state="rehearsal")
    first, second = split(made, SPLITS)
    assert first.operators[0].colors + second.operators[0].colors == ("red", "purple", "orange")
    assert {first.state, second.state} == {"validated"}
    assert easier(program({"kind": "retarget"})).state == "draft"
