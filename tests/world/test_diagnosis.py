"""The grammar of diagnoses: text and data carry the same, and what cannot be read is quoted."""

from __future__ import annotations

import contextlib
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coda_nodes.world.diagnosis import (
    FAILURE_MODES,
    STAGES,
    Cause,
    CriticInfo,
    Diagnosis,
    Evidence,
    check_diagnosis,
    one_line,
    parse_diagnosis,
    read_diagnosis,
)
from coda_nodes.world.errors import DiagnosisError
from coda_nodes.world.ranges import AXES
from coda_nodes.world.spec import FAMILIES, Atom, EnvironmentSpec, ObjectSpec, Pose, RobotStart

EXAMPLE = """
text: The gripper closed beside the red cube.
stage: grasp
failure_mode: missed_grasp
cause: axis=position; object=red cube; parameter=x; observed=0.62; nominal=0.45
evidence: time=3.2; frame=8; note="fingers closed 34 mm; beside the \\"red\\" cube"
evidence: time=9.6
confidence: 0.8
critic: name=state; version=1.0
"""
CAUSE = Cause(axis="position", object="red cube", parameter="x", observed=0.62, nominal=0.45)

finite = st.floats(allow_nan=False, allow_infinity=False)
printable = st.text(max_size=80)
filled = printable.map(one_line).filter(bool)
names = st.from_regex(r"\A[a-z0-9][a-z0-9 _-]{0,20}\Z").map(str.strip).filter(bool)
labels = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9 _.:/+-]{0,20}\Z").map(str.strip)
hashes = st.text(string.hexdigits.lower()[:16], max_size=16)
values = st.one_of(
    st.tuples(finite, finite),
    st.tuples(filled, filled),
    st.tuples(*[st.lists(finite, max_size=4).map(tuple)] * 2),
)
causes = st.builds(
    lambda axis, item, name, pair: Cause(
        axis=axis, object=item, parameter=name, observed=pair[0], nominal=pair[1]
    ),
    st.sampled_from(AXES), names, names, values,
)
evidences = st.builds(
    Evidence, time=st.floats(0, 1e6), frame=st.none() | st.integers(0, 10_000), note=printable
)
diagnoses = st.builds(
    Diagnosis,
    text=filled, stage=st.sampled_from(STAGES), failure_mode=st.sampled_from(sorted(FAILURE_MODES)),
    cause=st.none() | causes, evidence=st.lists(evidences, max_size=3).map(tuple), confidence=st.floats(0, 1),
    critic=st.builds(CriticInfo, name=labels, version=labels), family=st.none() | st.sampled_from(FAMILIES),
    episode=hashes, environment=hashes,
)


@given(diagnoses)
def test_text_and_data_carry_the_same(diagnosis):
    assert parse_diagnosis(diagnosis.render()) == diagnosis


@given(diagnoses)
def test_json_and_back(diagnosis):
    again = read_diagnosis(diagnosis.to_json())
    assert again == diagnosis and again.diagnosis_id == diagnosis.diagnosis_id


def test_example_reads_as_written():
    diagnosis = parse_diagnosis(EXAMPLE)
    assert diagnosis.cause == CAUSE
    assert [(item.time, item.frame) for item in diagnosis.evidence] == [(3.2, 8), (9.6, None)]
    assert diagnosis.evidence[0].note == 'fingers closed 34 mm; beside the "red" cube'
    assert diagnosis.critic == CriticInfo(name="state", version="1.0")
    assert "x of red cube is 0.62 instead of 0.45" in diagnosis.sentence


def test_line_order_and_blank_lines_do_not_matter():
    lines = EXAMPLE.strip().splitlines()
    assert parse_diagnosis("\n\n".join(reversed(lines))).cause == parse_diagnosis(EXAMPLE).cause


def test_critic_may_come_from_outside_and_cause_may_be_unknown():
    text = "text: It fell.\nstage: lift\nfailure_mode: slip\ncause: unknown\nconfidence: 0.5\n"
    diagnosis = parse_diagnosis(text, CriticInfo(name="hf", version="some/model-2B"))
    assert diagnosis.cause is None and diagnosis.critic.name == "hf"


@pytest.mark.parametrize(
    "old, new, parts",
    [
        ("stage: grasp", "stage: grab", ["'grab'", "approach", "insert"]),
        ("failure_mode: missed_grasp", "failure_mode: missed", ["'missed'", "missed_grasp", "stopped_short"]),
        ("confidence: 0.8", "confidence: high", ["'high'", "number"]),
        ("confidence: 0.8", "confidence: 1.5", ["confidence", "1.5"]),
        ("confidence: 0.8", "certainty: 0.8", ["'certainty'", "failure_mode", "confidence"]),
        ("confidence: 0.8", "I am not sure", ["I am not sure", "key: value"]),
        ("confidence: 0.8", "", ["no line confidence"]),
        ("stage: grasp", "stage: grasp\nstage: lift", ["twice", "stage"]),
        ("axis=position", "axis=smell", ["no axis 'smell'", "position", "composition"]),
        ("parameter=x", "colour=x", ["'colour'", "parameter", "observed"]),
        ("parameter=x", "the x value", ["the x value", "name=value"]),
        ("object=red cube; ", "object=red cube; object=bin; ", ["object is given twice"]),
        ("observed=0.62", 'observed="left"', ["not of one kind", "left"]),
        ("observed=0.62", "observed=nan", ["cause.observed"]),
        ("nominal=0.45", "nominal=(0.1, b)", ["'b'", "number"]),
        ("time=3.2", "time=-1", ["evidence.0.time", "-1"]),
        ("time=3.2", "time=soon", ["evidence.0.time", "soon"]),
        ("version=1.0", "version=", ["critic.version"]),
    ],
)
def test_what_cannot_be_read_is_quoted_with_what_exists(old, new, parts):
    assert old in EXAMPLE
    with pytest.raises(DiagnosisError) as caught:
        parse_diagnosis(EXAMPLE.replace(old, new))
    for part in parts:
        assert part in str(caught.value)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text):
    try:
        parse_diagnosis(text)
    except DiagnosisError as error:
        assert str(error)


@given(st.lists(st.sampled_from(EXAMPLE.strip().splitlines()), max_size=12).map("\n".join), st.data())
def test_damaged_text_is_read_or_refused(text, data):
    cut = data.draw(st.integers(0, len(text)))
    with contextlib.suppress(DiagnosisError):
        parse_diagnosis(text[:cut] + data.draw(st.sampled_from(["", ";", '"', "=", "\n", ":"])) + text[cut:])


def _scene() -> EnvironmentSpec:
    cube = ObjectSpec(
        name="red cube", shape="box", role="object", half_extents=(0.02,) * 3, color="red",
        pose=Pose.planar(0.5, 0, 0.02),
    )
    return EnvironmentSpec(
        family="pick_place", instruction="lift the red cube", objects=(cube,),
        goal=Atom(predicate="lifted", args=("red cube",)), robot_start=RobotStart(joint_positions=(0.0,) * 7),
    )


def test_names_are_checked_against_the_scene():
    diagnosis = parse_diagnosis(EXAMPLE)
    check_diagnosis(diagnosis, _scene(), axes=("position", "clutter"))
    with pytest.raises(DiagnosisError, match="no axis 'position': clutter, dynamics"):
        check_diagnosis(diagnosis, _scene(), axes=("clutter", "dynamics"))
    elsewhere = diagnosis.model_copy(update={"cause": CAUSE.model_copy(update={"object": "blue can"})})
    with pytest.raises(DiagnosisError, match="no object 'blue can': scene, red cube"):
        check_diagnosis(elsewhere, _scene())
    with pytest.raises(DiagnosisError, match="family 'stack'"):
        check_diagnosis(diagnosis.model_copy(update={"family": "stack"}), _scene())


def test_the_documentation_names_every_word():
    page = (Path(__file__).parents[2] / "docs" / "grammar.md").read_text()
    parts = ("axis", "object", "parameter", "observed", "nominal", "evidence")
    for word in (*STAGES, *FAILURE_MODES, *AXES, *parts):
        assert f"`{word}`" in page
    example = page.split("```text\n")[1].split("```")[0]
    assert parse_diagnosis(example).render() == example
