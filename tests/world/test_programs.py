"""Programs as data: JSON and back, what is refused and what the refusal lists, identity, regimes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coda_nodes.world.errors import ProgramError
from coda_nodes.world.operators import OPERATORS
from coda_nodes.world.programs import (
    GenerationProgram,
    Regime,
    check_bounds,
    read_operator,
    read_program,
    read_training,
)
from coda_nodes.world.ranges import AXES, Choices, FamilyRanges, Range
from coda_nodes.world.spec import FAMILIES

numbers = st.floats(-10, 10, allow_nan=False)
spans = st.tuples(numbers, numbers).map(lambda pair: tuple(sorted(pair)))
words = st.lists(st.sampled_from(["red", "blue", "cube", "can"]), min_size=1, max_size=3).map(tuple)
roles = st.sampled_from(["object", "receptacle", "distractor"])
maybe = st.none() | spans
fields = {
    "shift_region": {"role": roles, "x": maybe, "y": maybe, "yaw": maybe},
    "swap_roles": {"first": roles, "second": roles},
    "add_distractor": {
        "role": roles, "relation": st.sampled_from(["near", "similar"]), "count": st.integers(1, 3)
    },
    "rescale": {"role": roles, "half_width": spans},
    "recolor": {"role": roles, "colors": words},
    "reshape": {"role": roles, "shapes": words},
    "reweigh": {"role": roles, "mass": maybe, "friction": maybe, "damping": maybe, "damping_scale": maybe},
    "rephrase": {"templates": st.just(()) | words | st.just((0.0, 3.0))},
    "retarget": {"role": roles},
    "occlude": {"role": roles, "gap": spans},
    "perturb_camera": {"camera_distance": maybe, "light_intensity": maybe},
    "offset_start": {"base_yaw": maybe, "joint_offset": maybe, "gripper_opening": maybe},
    "start_past_stage": {"stage": st.sampled_from(["approach", "grasp", "open", "close", "turn"])},
    "compose": {"steps": st.just(()) | st.just((2.0,)) | words},
    "redraw": {"of": st.sampled_from(AXES), "parameter": st.just("mass"), "span": spans},
}
operators = st.sampled_from(sorted(fields)).flatmap(
    lambda kind: st.fixed_dictionaries({"kind": st.just(kind), "magnitude": st.floats(0, 1), **fields[kind]})
)
programs = st.builds(
    lambda family, axes, ops: read_program(
        {"family": family, "base": {"probe_axes": axes}, "operators": ops, "explanation": "drawn"}
    ),
    st.sampled_from(FAMILIES),
    st.lists(st.sampled_from(AXES), unique=True, max_size=2),
    st.lists(operators, max_size=3),
)

PROBE = FamilyRanges(
    "pick_place",
    {
        "position": {"object_x": Range(((0.3, 0.7),)), "object_y": Range(((-0.35, -0.1), (0.1, 0.35)))},
        "objects": {"color": Choices(("red", "green")), "half_width": Range(((0.015, 0.03),))},
    },
)


def test_every_operator_is_covered_here():
    assert set(fields) == set(OPERATORS)


@given(programs)
def test_programs_survive_json(program):
    again = read_program(program.to_json())
    assert again == program and again.program_id == program.program_id
    assert program.sentence.startswith(program.family)


@given(programs)
def test_identity_is_what_is_sampled(program):
    assert program.in_state("retired", "solved " * 200).program_id == program.program_id
    other = program.model_copy(update={"base": program.base.model_copy(update={"probe_axes": AXES})})
    assert other.program_id != program.program_id


def test_every_operator_says_what_it_recreates():
    for kind, operator in OPERATORS.items():
        assert kind == "redraw" or operator.axis in AXES
        assert any(mark in operator.__doc__ for mark in (":", "so that")), kind


@pytest.mark.parametrize(
    "operator, parts",
    [
        ({"kind": "shift"}, ["no operator 'shift'", "shift_region", "compose"]),
        ({}, ["no operator 'None'", "shift_region"]),
        ({"kind": "shift_region", "z": [0, 1]}, ["shift_region 'z'", "role", "magnitude"]),
        ({"kind": "shift_region", "x": [0.6, 0.5]}, ["operators.0", "(0.6, 0.5)", "low <= high"]),
        ({"kind": "shift_region", "x": [0.5]}, ["operators.0", "x"]),
        ({"kind": "rescale"}, ["half_width", "required"]),
        ({"kind": "compose", "magnitude": 1.5}, ["magnitude", "1.5"]),
        ({"kind": "compose", "magnitude": float("nan")}, ["magnitude", "nan"]),
        ({"kind": "start_past_stage", "stage": "win"}, ["'win'", "grasp", "turn"]),
        ({"kind": "add_distractor", "count": 9}, ["count", "9"]),
        ({"kind": "add_distractor", "gap": [0.0, 0.1]}, ["0.005", "(0.0, 0.1)"]),
        ({"kind": "retarget", "role": "banana"}, ["no role 'banana'", "object, distractor", "knob"]),
        ({"kind": "redraw", "of": "smell", "parameter": "x", "span": [0, 1]}, ["'smell'", "position"]),
        ({"kind": "redraw", "of": "position", "parameter": "x"}, ["either a span or values"]),
        ("shift_region", ["operators.0"]),
    ],
)
def test_refusals_list_what_exists(operator, parts):
    with pytest.raises(ProgramError) as caught:
        read_program({"family": "pick_place", "operators": [operator]})
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "data, part",
    [
        ("{", "not JSON"),
        ("[]", "program"),
        ({"family": "cooking"}, "cooking"),
        ({"family": "stack", "base": {"split": "held_out"}}, "held_out"),
        ({"family": "stack", "base": {"probe_axes": ["smell"]}}, "no axis 'smell': position"),
        ({"family": "stack", "code": "import os"}, "code"),
        ({"family": "stack", "schema_version": 2}, "schema_version"),
    ],
)
def test_other_data_is_refused(data, part):
    with pytest.raises(ProgramError, match=None) as caught:
        read_program(data)
    assert part in str(caught.value)


def test_values_stay_within_the_probe_bounds():
    inside = [{"kind": "shift_region", "x": [0.5, 0.7]}, {"kind": "recolor", "colors": ["green"]}]
    check_bounds(read_program({"family": "pick_place", "operators": inside}), PROBE)
    for operator, parts in [
        ({"kind": "shift_region", "x": [0.5, 0.8]}, ["0.5 to 0.8", "0.3 .. 0.7"]),
        ({"kind": "shift_region", "yaw": [0, 0]}, ["position 'object_yaw'", "object_x, object_y"]),
        ({"kind": "recolor", "colors": ["mauve"]}, ["'mauve'", "red, green"]),
        ({"kind": "shift_region", "y": [-0.05, 0.05]}, ["-0.05 to 0.05", "-0.35 .. -0.1 | 0.1 .. 0.35"]),
        ({"kind": "redraw", "of": "objects", "parameter": "color", "span": [0, 1]}, ["red, green"]),
        ({"kind": "redraw", "of": "objects", "parameter": "half_width", "values": ["a"]}, ["span within"]),
        ({"kind": "compose"}, ["no axis of pick_place 'composition'", "position, objects"]),
    ]:
        with pytest.raises(ProgramError) as caught:
            check_bounds(read_program({"family": "pick_place", "operators": [operator]}), PROBE)
        for part in parts:
            assert part in str(caught.value)


def test_axes_and_matched_program():
    program = read_program(
        {
            "family": "stack",
            "base": {"probe_axes": ["dynamics"]},
            "operators": [{"kind": "compose", "magnitude": 0.0}, {"kind": "retarget"}],
        }
    )
    assert program.axes == ("instruction", "dynamics")
    assert program.without_operators() == GenerationProgram(family="stack", base=program.base)


def test_one_operator_alone():
    assert read_operator({"kind": "retarget", "role": "receptacle"}).role == "receptacle"
    with pytest.raises(ProgramError, match="no operator"):
        read_operator({"kind": "paint"})


TRAINING = {
    "regime": "no_expert",
    "environments": [{"program_id": "train", "share": 0.5}, {"program_id": "0123456789abcdef", "share": 0.5}],
    "supervision": ["demonstrations", "own_successes"],
    "weights": {"demonstrations": 1.0, "own_successes": 0.5},
    "potential": [
        {"stage": "grasp", "atom": {"predicate": "grasped", "args": ["red cube"]}, "worth": 0.4},
        {"stage": "lift", "atom": {"predicate": "lifted", "args": ["red cube"]}, "worth": 0.6},
    ],
    "steps": 100,
    "learning_rate": 1e-3,
}


def test_training_programs_survive_json():
    program = read_training(TRAINING)
    assert program.regime is Regime.NO_EXPERT
    assert read_training(program.to_json()) == program
    assert read_training(program.to_json()).training_id == program.training_id


@pytest.mark.parametrize(
    "change, part",
    [
        ({"regime": "some_expert"}, "no_expert"),
        ({"environments": [{"program_id": "train", "share": 0.9}]}, "add up to 0.9"),
        ({"environments": [{"program_id": "train", "share": 0.5}] * 2}, "named twice"),
        ({"environments": []}, "environments"),
        ({"supervision": ["corrections"]}, "allows no corrections"),
        ({"environments": [{"program_id": "0123456789abcdef", "share": 1}]}, "train is missing"),
        ({"supervision": ["magic"]}, "demonstrations"),
        ({"potential": TRAINING["potential"] * 2}, "more than 1"),
        ({"steps": 0}, "steps"),
        ({"chunk_length": 9}, "chunk_length"),
        ({"learning_rate": float("inf")}, "learning_rate"),
        ({"rewards": 1}, "rewards"),
    ],
)
def test_training_refusals(change, part):
    with pytest.raises(ProgramError) as caught:
        read_training({**TRAINING, **change})
    assert part in str(caught.value)


def test_the_expert_regime_may_correct():
    program = read_training({**TRAINING, "regime": "expert", "supervision": ["corrections"]})
    assert program.regime is Regime.EXPERT


def test_the_documentation_names_every_operator_and_parameter():
    page = (Path(__file__).parents[2] / "docs" / "programs.md").read_text()
    for kind, operator in OPERATORS.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{kind}` |"))
        for name in operator.model_fields:
            assert name in ("kind", "magnitude") or f"`{name}`" in row, (kind, name)
