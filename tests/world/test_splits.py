"""Splits: one file states every range, axes move alone, held_out stays shut, scenes
are what the ranges say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from coda_nodes.world import splits as module
from coda_nodes.world.axes import deviations
from coda_nodes.world.errors import ConfigError
from coda_nodes.world.families import FAMILIES, family
from coda_nodes.world.ranges import AXES, Choices, FamilyRanges, Range, parse_allowed
from coda_nodes.world.spec import atoms, parse_spec
from coda_nodes.world.splits import (
    COLUMNS,
    HeldOutError,
    close_held_out,
    describe,
    load_splits,
    open_held_out,
    parse_splits,
    sample_split,
)

SPLITS = load_splits()
CELLS = [(name, axis) for name in FAMILIES for axis in SPLITS.axes(name)]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Path]:
    log = tmp_path / "openings.jsonl"
    open_held_out(log, "test of the ranges")
    yield log
    close_held_out()


def within(inner: Range | Choices, outer: Range | Choices) -> bool:
    if isinstance(inner, Choices):
        return set(inner.values) <= set(outer.values)
    return all(
        any(a - 1e-9 <= low and high <= b + 1e-9 for a, b in outer.intervals) for low, high in inner.intervals
    )


def test_every_family_has_every_axis_and_every_column() -> None:
    assert set(SPLITS.families) == set(FAMILIES)
    for name in FAMILIES:
        assert set(SPLITS.axes(name)) == set(family(name).axes) <= set(AXES)


@pytest.mark.parametrize(("name", "axis"), CELLS)
def test_far_lies_outside_train_and_probe_on_every_axis(name: str, axis: str) -> None:
    parameters = SPLITS.axes(name)[axis].values()
    assert any(
        not p.columns["far"].overlaps(p.columns["train"])
        and not p.columns["far"].overlaps(p.columns["probe"])
        for p in parameters
    )


@pytest.mark.parametrize(("name", "axis"), CELLS)
def test_train_and_near_lie_inside_the_bounds_of_programs(name: str, axis: str) -> None:
    for parameter, entry in SPLITS.axes(name)[axis].items():
        if parameter not in ("phrasing", "phrase"):
            assert within(entry.columns["near"], entry.columns["probe"]), parameter
        if parameter not in ("phrasing", "phrase"):
            assert within(entry.columns["train"], entry.columns["probe"]), parameter


@pytest.mark.parametrize("name", FAMILIES)
def test_phrasings_of_train_are_met_in_no_evaluation_and_those_of_far_nowhere_else(name: str) -> None:
    table = SPLITS.axes(name)["instruction"]
    entry = table["phrasing"] if "phrasing" in table else table["phrase"]
    for column in ("dev", "near", "far"):
        assert not entry.columns["train"].overlaps(entry.columns[column])
    for column in ("train", "probe", "dev", "near"):
        assert not entry.columns["far"].overlaps(entry.columns[column])


@pytest.mark.parametrize("name", ["pick_place", "stack"])
def test_every_split_has_phrasings_of_its_own(name: str) -> None:
    values = [set(SPLITS.axes(name)["instruction"]["phrasing"].columns[column].values) for column in COLUMNS]
    assert sum(len(group) for group in values) == len(set.union(*values))


@dataclass(frozen=True)
class Recording(FamilyRanges):
    """Ranges that note which parameters are asked for."""

    seen: set[tuple[str, str]] = field(default_factory=set)

    def allowed(self, axis: str, parameter: str) -> Range | Choices:
        self.seen.add((axis, parameter))
        return super().allowed(axis, parameter)


@pytest.mark.parametrize("name", FAMILIES)
def test_sampling_reads_the_stated_parameters_and_no_others(name: str) -> None:
    ranges = SPLITS.ranges(name, "probe")
    recording = Recording(name, ranges.axes)
    rng = np.random.default_rng(0)
    for _ in range(60):
        family(name).sample(recording, rng)
    assert recording.seen == set(ranges.parameters())


@pytest.mark.parametrize(("name", "axis"), CELLS)
def test_moving_one_axis_moves_nothing_else(name: str, axis: str) -> None:
    rng = np.random.default_rng(3)
    moved = set()
    for _ in range(8):
        spec = sample_split(name, "probe", rng, axis=axis)
        assert spec.provenance.axes == (axis,)
        moved |= {deviation.axis for deviation in deviations(spec, SPLITS)}
    assert moved <= {axis} | ALSO.get(axis, set())


ALSO = {"composition": {"objects"}, "clutter": {"objects"}, "position": {"clutter"}}
"""Axes that may follow: scenes of more things than train has names for need further colours, and what is
not asked for
stands around where the region of objects is in train."""


@pytest.mark.parametrize("name", FAMILIES)
def test_train_scenes_show_no_deviation(name: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert deviations(sample_split(name, "train", rng), SPLITS) == []


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("split", ["train", "probe", "dev", "near", "far"])
def test_scenes_of_every_split_are_valid_data_and_speak_of_what_they_ask(
    name: str, split: str, opened: Path
) -> None:
    rng = np.random.default_rng(7)
    half = split if split in ("near", "far") else None
    hashes = set()
    for _ in range(15):
        spec = sample_split(name, "held_out" if half else split, rng, half=half)
        assert parse_spec(spec.to_json()) == spec
        hashes.add(spec.content_hash)
        for atom in atoms(spec.goal):
            assert atom.args[0] in spec.instruction
    assert len(hashes) == 15


def test_the_same_seed_gives_the_same_scene_and_another_seed_another() -> None:
    draw = [
        sample_split("pick_place", "probe", np.random.default_rng(seed)).content_hash for seed in (1, 1, 2)
    ]
    assert draw[0] == draw[1] != draw[2]


def test_every_asked_pairing_of_train_is_of_an_allowed_class_and_language_is_needed() -> None:
    rng = np.random.default_rng(0)
    asked = {tuple(next(atoms(sample_split("pick_place", "train", rng).goal)).args) for _ in range(150)}
    objects, places = {pair[0] for pair in asked}, {pair[1] for pair in asked}
    assert len(objects) >= 3 and len(places) == 3
    assert len(asked) < len(objects) * len(places)


def test_held_out_is_shut_until_opened_and_every_opening_is_logged(tmp_path: Path) -> None:
    close_held_out()
    rng = np.random.default_rng(0)
    for ask in (
        lambda: sample_split("stack", "held_out", rng),
        lambda: SPLITS.ranges("stack", "held_out", "far"),
    ):
        with pytest.raises(HeldOutError, match="closed"):
            ask()
    log = tmp_path / "run" / "openings.jsonl"
    with pytest.raises(HeldOutError, match="reason"):
        open_held_out(log, "  ")
    try:
        open_held_out(log, "first")
        open_held_out(log, "second")
        assert sample_split("stack", "held_out", rng).provenance.split in ("held_out_near", "held_out_far")
    finally:
        close_held_out()
    assert [json.loads(line)["reason"] for line in log.read_text().splitlines()] == ["first", "second"]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: sample_split("juggle", "train", np.random.default_rng(0)), "no family 'juggle'"),
        (lambda: sample_split("stack", "test", np.random.default_rng(0)), "no split 'test'"),
        (
            lambda: sample_split("stack", "probe", np.random.default_rng(0), axis="smell"),
            "no axis of stack 'smell'",
        ),
        (lambda: SPLITS.ranges("stack", "held_out", "middle"), "no half of held_out 'middle'"),
        (lambda: parse_allowed("wide"), "expected 'low .. high'"),
        (lambda: parse_allowed("2 .. 1"), "ascending"),
    ],
)
def test_wrong_names_are_errors_that_say_what_exists(call: object, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        call()


def test_a_file_that_leaves_out_a_column_is_refused() -> None:
    table = {"position": {"x": {"train": "0 .. 1", "probe": "0 .. 1", "dev": "0 .. 1", "near": "0 .. 1"}}}
    with pytest.raises(ConfigError, match=r"stack.position.x states no far"):
        parse_splits({"families": {"stack": table}, "moved": {}})


def test_a_range_samples_all_its_intervals_and_nothing_else() -> None:
    allowed = parse_allowed("-0.3 .. -0.2 | 0.1 .. 0.4")
    draws = np.array([allowed.sample(np.random.default_rng(i)) for i in range(300)])
    assert all(allowed.contains(value) for value in draws)
    assert 0.1 < np.mean(draws < 0) < 0.4
    assert not allowed.contains(0.0)


def test_the_description_names_every_parameter() -> None:
    text = describe()
    for name in FAMILIES:
        for axis, parameter in SPLITS.ranges(name, "train").parameters():
            assert f"| {axis} | {parameter} |" in text
    assert module.COLUMNS == COLUMNS
