"""Compilation: drafts recreate the cause they were compiled from, within the probe bounds, for every axis."""

from __future__ import annotations

import numpy as np
import pytest

from coda_nodes.generator.sampling import draw_valid
from coda_nodes.memory.compile import compile_program
from coda_nodes.memory.retrieval import Cure
from coda_nodes.memory.training import compile_training
from coda_nodes.world.axes import Deviation, deviations
from coda_nodes.world.diagnosis import Cause, Diagnosis
from coda_nodes.world.errors import ProgramError
from coda_nodes.world.programs import Regime, check_bounds, read_training
from coda_nodes.world.ranges import AXES, Choices
from coda_nodes.world.spec import FAMILIES, EnvironmentSpec
from coda_nodes.world.splits import load_splits, sample_split

from .histories import diagnosis, program

SPLITS = load_splits()
MOVED = {"clutter"}
"""Axes whose drafts recreate the difficulty by other means than the very parameter (a thing stands near)."""


def blamed(spec: EnvironmentSpec, deviation: Deviation) -> Diagnosis:
    """A diagnosis that blames one deviation of a scene."""
    cause = Cause(
        axis=deviation.axis,
        object=deviation.object,
        parameter=deviation.parameter,
        observed=deviation.observed,
        nominal=deviation.nominal,
    )
    return diagnosis(family=spec.family).model_copy(update={"cause": cause})


def probed(name: str, axis: str, count: int, seed: int = 0) -> list[tuple[EnvironmentSpec, Deviation]]:
    """Scenes with one axis inside the probe bounds, each with its largest deviation on that axis."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(80):
        if len(found) == count:
            break
        spec = sample_split(name, "probe", rng, axis=axis)
        found += [(spec, item) for item in deviations(spec, SPLITS) if item.axis == axis][:1]
    return found


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", FAMILIES)
def test_drafts_recreate_their_cause(name, axis):
    """Oracle: the scenes drawn from the draft deviate from train in the blamed parameter, and matched ones do
    not."""
    compiled = recreated = drawn = 0
    for spec, deviation in probed(name, axis, 6):
        draft = compile_program(blamed(spec, deviation), spec, SPLITS)
        assert draft is not None, deviation
        check_bounds(draft, SPLITS.ranges(name, "probe"))
        assert draft.state == "draft" and draft.diagnosis_id and "recreates" in draft.explanation
        compiled += 1
        stem = deviation.parameter.removesuffix("xy").removesuffix("x").removesuffix("y")
        scenes = draw_valid(draft, 4, np.random.default_rng(1), SPLITS).specs
        for scene in scenes:
            drawn += 1
            recreated += any(
                d.axis == axis and d.parameter.startswith(stem) for d in deviations(scene, SPLITS)
            )
        matched = draw_valid(draft.without_operators(), 4, np.random.default_rng(1), SPLITS).specs
        assert not any(deviations(scene, SPLITS) for scene in matched if axis not in MOVED)
    assert compiled >= 2 and drawn >= 2 * compiled
    assert axis in MOVED or recreated >= 0.8 * drawn


def test_spans_cover_the_observed_value_and_stay_off_the_nominal_one():
    found = diagnosis(cause={"observed": 0.56, "nominal": 0.52})
    draft = compile_program(found, None, SPLITS)
    assert draft.operators[0].x == pytest.approx((0.54, 0.57))
    edge = compile_program(diagnosis(cause={"observed": 0.60, "nominal": 0.52}), None, SPLITS)
    assert edge.operators[0].x == pytest.approx((0.56, 0.60))


def test_tasks_and_roles_are_those_of_the_failed_scene():
    rng = np.random.default_rng(2)
    while True:
        spec = sample_split("articulated", "probe", rng, axis="dynamics")
        found = [item for item in deviations(spec, SPLITS) if item.parameter == "drawer_damping"]
        if found and spec.provenance.task == "open":
            break
    draft = compile_program(blamed(spec, found[0]), spec, SPLITS)
    assert draft.base.tasks == ("open",) and draft.operators[0].role == "drawer"
    assert draft.without_operators().base.tasks == ("open",)


def test_a_thing_outside_the_task_is_redrawn_by_its_parameter():
    rng = np.random.default_rng(3)
    while True:
        spec = sample_split("articulated", "probe", rng, axis="dynamics")
        found = [item for item in deviations(spec, SPLITS) if item.parameter == "knob_damping"]
        if found and spec.provenance.task == "open":
            break
    draft = compile_program(blamed(spec, found[0]), spec, SPLITS)
    assert draft.operators[0].kind == "redraw" and draft.operators[0].parameter == "knob_damping"


@pytest.mark.parametrize(
    "found",
    [
        diagnosis().model_copy(update={"cause": None}),
        diagnosis(family=None),
        diagnosis(cause={"axis": "dynamics", "parameter": "object_x"}),
        diagnosis(cause={"parameter": "object_smell"}),
        diagnosis(cause={"observed": "far", "nominal": "near"}),
    ],
)
def test_what_cannot_be_set_gives_no_draft(found):
    assert compile_program(found, None, SPLITS) is None


def test_words_outside_the_probe_bounds_give_what_is_new_inside():
    cause = {"axis": "objects", "parameter": "color", "observed": "black", "nominal": "red"}
    draft = compile_program(diagnosis(cause=cause), None, SPLITS)
    assert set(draft.operators[0].colors) == {"purple", "orange"}


def test_a_cure_of_another_family_lends_its_width():
    """Its span is half of its bounds wide; so the draft's becomes half of its own bounds, still around its
    cause."""
    found = diagnosis(cause={"observed": 0.55, "nominal": 0.52})
    plain = compile_program(found, None, SPLITS)
    bounds = SPLITS.ranges("stack", "probe").allowed("position", "object_x")
    half = [bounds.low, 0.5 * (bounds.low + bounds.high)]
    cured = program("stack", {"kind": "shift_region", "x": half})
    draft = compile_program(found, None, SPLITS, [Cure(cured, diagnosis(family="stack"), 0.9, 0.5)])
    own = SPLITS.ranges("pick_place", "probe").allowed("position", "object_x")
    (low, high), (before_low, before_high) = draft.operators[0].x, plain.operators[0].x
    assert high - low == pytest.approx(0.5 * (own.high - own.low))
    assert low <= before_low and before_high <= high
    check_bounds(draft, SPLITS.ranges("pick_place", "probe"))
    assert cured.program_id in draft.explanation and "cured missed grasp" in draft.explanation
    assert draft.program_id != plain.program_id


@pytest.mark.parametrize(
    ("lender", "similarity"),
    [
        (program("stack", {"kind": "shift_region", "x": [0.36, 0.6]}), 0.2),
        (program("stack", {"kind": "retarget"}), 0.9),
    ],
)
def test_dissimilar_or_other_cures_lend_nothing(lender, similarity):
    plain = compile_program(diagnosis(), None, SPLITS)
    assert compile_program(diagnosis(), None, SPLITS, [Cure(lender, diagnosis(), similarity, 0.5)]) == plain


def test_training_programs_share_by_allocation():
    made = compile_training(
        {"ab" * 8: 30, "cd" * 8: 10, "ef" * 8: 0}, Regime.EXPERT, 100, 1e-3, train_share=0.6
    )
    shares = {item.program_id: item.share for item in made.environments}
    assert shares == pytest.approx({"train": 0.6, "ab" * 8: 0.3, "cd" * 8: 0.1})
    assert made.supervision == ("demonstrations", "corrections")
    assert read_training(made.to_json()) == made
    alone = compile_training({}, Regime.NO_EXPERT, 100, 1e-3)
    assert [(item.program_id, item.share) for item in alone.environments] == [("train", 1.0)]
    assert alone.supervision == ("demonstrations", "own_successes")


def test_impossible_training_programs_are_refused():
    with pytest.raises(ProgramError, match="expected 0 or more"):
        compile_training({"ab" * 8: -1}, Regime.EXPERT, 100, 1e-3)
    with pytest.raises(ProgramError, match="steps"):
        compile_training({}, Regime.EXPERT, 0, 1e-3)


def test_every_parameter_of_the_splits_compiles_without_a_scene():
    """The cause of a real failure has no scene: every parameter still gives a draft or a reasoned None."""
    for name in FAMILIES:
        train, probe = SPLITS.ranges(name, "train"), SPLITS.ranges(name, "probe")
        for axis, parameter in probe.parameters():
            allowed, known = probe.allowed(axis, parameter), train.allowed(axis, parameter)
            if isinstance(allowed, Choices):
                fresh = [value for value in allowed.values if not known.contains(value)]
                pair = (fresh[0], known.values[0]) if fresh else None
            else:
                pair = (allowed.high, known.nominal) if allowed.high > known.high else None
            if pair is None:
                continue
            observed, nominal = (float(v) if isinstance(v, int) else v for v in pair)
            cause = Cause(axis=axis, parameter=parameter, observed=observed, nominal=nominal)
            found = diagnosis(family=name).model_copy(update={"cause": cause})
            assert compile_program(found, None, SPLITS) is not None, (name, axis, parameter)
