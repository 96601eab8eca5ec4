"""Reading, setting and judging the parameters of scenes of every family."""

from __future__ import annotations

import numpy as np
import pytest

from coda_nodes.world.axes import deviations, retarget, set_value, values
from coda_nodes.world.errors import SpecError
from coda_nodes.world.families import FAMILIES, family
from coda_nodes.world.ranges import Range
from coda_nodes.world.spec import EnvironmentSpec, atoms
from coda_nodes.world.splits import load_splits, sample_split

SPLITS = load_splits()
CASES = [(name, axis) for name in FAMILIES for axis in SPLITS.axes(name)]


def scenes(
    name: str, count: int, axis: str | None = None, split: str = "probe", seed: int = 0
) -> list[EnvironmentSpec]:
    rng = np.random.default_rng(seed)
    return [sample_split(name, split, rng, axis=axis) for _ in range(count)]


def by_place(spec: EnvironmentSpec) -> dict[tuple[str, str, int], object]:
    """Values by axis, parameter and number of the thing, so that renamed things keep their key."""
    counted: dict[tuple[str, str, int], object] = {}
    for (axis, thing, name), value in values(spec).items():
        place = 0 if thing == "scene" else [*spec.entity_names].index(thing)
        counted[axis, name, place] = value
    return counted


@pytest.mark.parametrize("name", list(FAMILIES))
def test_every_parameter_of_the_splits_can_be_read_from_some_scene(name: str) -> None:
    drawn = [spec for axis in (None, "composition", "clutter") for spec in scenes(name, 20, axis=axis)]
    read = {(axis, parameter) for spec in drawn for axis, _, parameter in values(spec)}
    assert read == set(SPLITS.ranges(name, "train").parameters())


@pytest.mark.parametrize("name", list(FAMILIES))
def test_values_read_lie_where_they_were_sampled(name: str) -> None:
    train, probe = SPLITS.ranges(name, "train"), SPLITS.ranges(name, "probe")
    for spec in scenes(name, 20):
        for (axis, _, parameter), value in values(spec).items():
            if parameter == "spread":  # of the region around, wherever position puts that
                continue
            if parameter == "gap":  # bounds the layout from below only
                assert value >= probe.allowed(axis, parameter).low - 1e-6
                continue
            for part in value if isinstance(value, tuple) else (value,):
                part = abs(part) if parameter == "joint_offset" else part
                ranges = (train.allowed(axis, parameter), probe.allowed(axis, parameter))
                assert any(allowed.contains(part) for allowed in ranges), (axis, parameter, value)


@pytest.mark.parametrize("name", list(FAMILIES))
def test_train_scenes_do_not_deviate(name: str) -> None:
    assert [deviations(spec) for spec in scenes(name, 20, split="train")] == [[]] * 20


@pytest.mark.parametrize(("name", "axis"), CASES)
def test_only_the_moved_axis_deviates(name: str, axis: str) -> None:
    found = [item for spec in scenes(name, 8, axis=axis) for item in deviations(spec)]
    # Distractors stand around where position puts things, so that moving it spreads them too.
    assert {item.axis for item in found if item.parameter != "spread"} <= {axis}


@pytest.mark.parametrize(("name", "axis"), CASES)
def test_what_is_written_is_read_back_and_little_else_changes(name: str, axis: str) -> None:
    train, rng = SPLITS.ranges(name, "train"), np.random.default_rng(1)
    written = 0
    for spec in scenes(name, 4):
        before = by_place(spec)
        for (owner, thing, parameter), old in values(spec).items():
            if owner != axis:
                continue
            value = train.draw(axis, parameter, rng)
            value = value if isinstance(value, str) else float(value)
            if parameter == "joint_offset":
                value = tuple(float(train.draw(axis, parameter, rng)) for _ in old)
            try:
                changed = set_value(spec, axis, thing, parameter, value)
            except SpecError:
                continue  # this scene cannot have it: a name taken, nothing to add
            written += 1
            place = 0 if thing == "scene" else spec.entity_names.index(thing)
            after = by_place(changed)
            key = (axis, parameter, place)
            if parameter == "pairing" and key not in after:  # another thing is asked for now
                assert value in [v for (a, p, _), v in after.items() if (a, p) == (axis, parameter)]
            elif parameter == "gap":
                assert after[key] >= value - 1e-6
            elif parameter == "spread":
                assert after[key] == pytest.approx(value, abs=1e-6)
            else:
                assert after[key] == pytest.approx(value, abs=1e-9)
            if len(changed.entities) == len(spec.entities):
                assert_little_changed(before, after, axis)
            family(name).stages(changed)
    assert written > 0


# A value of one axis can imply one of another: a pairing is made of colours, a gap of places and sizes.
IMPLIED = {
    ("instruction", "pairing"),
    ("clutter", "gap"),
    ("clutter", "spread"),
    ("position", "drawer_start"),
    ("position", "drawer_idle"),
    ("position", "knob_start"),
    ("position", "knob_idle"),
    ("objects", "clearance"),
    ("instruction", "task"),
    ("clutter", "distractors"),
    ("position", "object_yaw"),
}


def assert_little_changed(before: dict, after: dict, axis: str) -> None:
    for key, value in before.items():
        if key[0] != axis and key[:2] not in IMPLIED and key in after:
            if axis == "clutter" and key[0] == "position":
                continue
            assert after[key] == pytest.approx(value, abs=1e-9), key


@pytest.mark.parametrize("name", list(FAMILIES))
def test_setting_a_deviation_to_its_nominal_value_removes_it(name: str) -> None:
    for spec in scenes(name, 6):
        for item in deviations(spec):
            changed = set_value(spec, item.axis, item.object, item.parameter, item.nominal)
            place = None if item.object == "scene" else spec.entity_names.index(item.object)
            same = [
                other
                for other in deviations(changed)
                if other.parameter == item.parameter
                and (
                    place is None
                    or (place < len(changed.entities) and other.object == changed.entity_names[place])
                )
            ]
            assert not same, (item, same)


@pytest.mark.parametrize("name", list(FAMILIES))
def test_setting_what_is_there_already_changes_nothing(name: str) -> None:
    for spec in scenes(name, 3):
        for (axis, thing, parameter), value in values(spec).items():
            again = set_value(spec, axis, thing, parameter, value)
            for key, read in by_place(spec).items():
                assert by_place(again)[key] == pytest.approx(read, abs=1e-6), key
            assert (again.goal, again.instruction, again.entity_names) == (
                spec.goal,
                spec.instruction,
                spec.entity_names,
            )


def test_deviations_are_ordered_and_measured_in_widths_of_train() -> None:
    spec = scenes("pick_place", 1, split="train")[0]
    name = next(item.name for item in spec.objects if item.role == "object")
    train = SPLITS.ranges("pick_place", "train")
    width = train.allowed("position", "object_x")
    assert isinstance(width, Range)
    far = set_value(spec, "position", name, "object_x", width.high + 2 * (width.high - width.low))
    heavy = set_value(far, "dynamics", name, "mass", 0.12)
    first, second = deviations(heavy)
    assert first.key == ("position", name, "object_x") and first.size == pytest.approx(2.0)
    assert width.contains(first.nominal) and first.nominal >= width.nominal
    assert second.key == ("dynamics", name, "mass") and second.size == pytest.approx(0.5)


def test_both_coordinates_outside_are_one_deviation() -> None:
    spec = scenes("stack", 1, split="train")[0]
    name = next(item.name for item in spec.objects if item.role == "object")
    far = set_value(spec, "position", name, "object_x", 0.62)
    moved = set_value(far, "position", name, "object_y", -0.25)
    (item,) = [found for found in deviations(moved) if found.axis == "position"]
    assert item.parameter == "object_xy" and item.observed == pytest.approx((0.62, -0.25))
    back = set_value(moved, *item.key, item.nominal)
    assert back.entity(name).pose.position[:2] == pytest.approx(item.nominal)


def test_a_nominal_place_is_not_inside_another_thing() -> None:
    for spec in scenes("pick_place", 15, axis="position", seed=3):
        for item in deviations(spec):
            if item.object == "scene":
                continue
            changed = set_value(spec, item.axis, item.object, item.parameter, item.nominal)
            moved = np.array(changed.entity(item.object).pose.position[:2])
            others = [np.array(e.pose.position[:2]) for e in changed.objects if e.name != item.object]
            assert min(np.linalg.norm(moved - other) for other in others) > 0.03


def test_colour_and_shape_change_name_goal_and_instruction() -> None:
    spec = next(s for s in scenes("pick_place", 20, split="train") if "purple cube" not in s.entity_names)
    old = next(atoms(spec.goal)).args[0]
    changed = set_value(spec, "objects", old, "color", "purple")
    assert "purple cube" in changed.instruction and old not in changed.instruction
    assert next(atoms(changed.goal)).args[0] == "purple cube"
    round_one = set_value(changed, "objects", "purple cube", "shape", "can")
    entity = round_one.entity("purple can")
    assert entity.shape == "cylinder" and "purple can" in round_one.instruction
    assert entity.pose.position[2] == pytest.approx(entity.half_extents[2])


def test_a_name_that_is_taken_is_an_error() -> None:
    spec = next(
        s for s in scenes("pick_place", 20, split="train") if len({e.color for e in s.objects[:2]}) == 2
    )
    first, second = spec.objects[0], spec.objects[1]
    with pytest.raises(SpecError, match="has one already"):
        set_value(spec, "objects", first.name, "color", second.color)


def test_dropping_the_second_step_keeps_the_first() -> None:
    for name, parameter, value in (
        ("pick_place", "steps", 1.0),
        ("articulated", "steps", "single"),
        ("push_insert", "steps", "single"),
    ):
        spec = next(s for s in scenes(name, 60, axis="composition") if len(list(atoms(s.goal))) > 1)
        single = set_value(spec, "composition", "scene", parameter, value)
        assert list(atoms(single.goal)) == list(atoms(spec.goal))[:1]
        assert single.horizon < spec.horizon and "then" not in single.instruction


def test_another_thing_can_be_asked_for_in_the_same_scene() -> None:
    spec = next(s for s in scenes("pick_place", 20, split="train") if len(list(atoms(s.goal))) == 1)
    atom = next(atoms(spec.goal))
    other = next(item.name for item in spec.objects if item.role == "distractor")
    changed = retarget(spec, atom.args[0], other, atom.args[1])
    assert other in changed.instruction and atom.args[0] not in changed.instruction
    assert changed.entity(other).role == "object" and changed.entity(atom.args[0]).role == "distractor"
    assert [e.pose for e in changed.objects] == [e.pose for e in spec.objects]


def test_free_words_stay_as_they_are() -> None:
    spec = scenes("pick_place", 1, split="train")[0].revise(instruction="kindly tidy the table")
    assert not any(axis == "instruction" and name == "phrasing" for axis, _, name in values(spec))
    name = spec.objects[0].name
    assert set_value(spec, "dynamics", name, "mass", 0.2).instruction == "kindly tidy the table"


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (("position", "red dragon", "object_x", 0.5), "red dragon"),
        (("position", "scene", "object_z", 0.5), "object_z"),
        (("clutter", "scene", "distractors", 9.0), "taken away"),
        (("dynamics", "scene", "damping_scale", "strong"), "expected a number"),
        (("instruction", "scene", "phrasing", "bellow"), "bellow"),
    ],
)
def test_what_cannot_be_set_is_an_error_that_says_so(key: tuple, message: str) -> None:
    spec = scenes("pick_place", 1, split="train")[0]
    with pytest.raises(SpecError, match=message):
        set_value(spec, *key)
