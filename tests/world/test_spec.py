"""Specifications that are not valid data: refused with the place and the value, nothing guessed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coda_nodes.world.errors import ArtifactError, ConfigError, SpecError
from coda_nodes.world.robots import robot
from coda_nodes.world.spec import EnvironmentSpec, parse_spec, read_specs, specs_hash, write_specs
from coda_nodes.world.splits import sample_split


@pytest.fixture(scope="module")
def spec() -> EnvironmentSpec:
    return sample_split("pick_place", "train", np.random.default_rng(0))


def edited(spec: EnvironmentSpec, path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """Plain data with one place changed; REMOVE deletes it."""
    data = json.loads(spec.to_json())
    place = data
    for key in path[:-1]:
        place = place[key]
    if value is REMOVE:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return data


REMOVE = object()


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("goal",), REMOVE, "goal: Field required"),
        (("gaol",), 1, "gaol: Extra inputs are not permitted"),
        (("objects", 1, "weight"), 1.0, "objects.1.weight: Extra inputs are not permitted"),
        (("schema_version",), 2, "schema_version: Input should be 1 (got '2')"),
        (("family",), "juggle", "family: Input should be 'pick_place', 'stack'"),
        (("objects", 0, "mass"), -0.1, "objects.0.mass: Input should be greater than 0 (got '-0.1')"),
        (("objects", 0, "mass"), float("nan"), "objects.0.mass"),
        (("objects", 0, "mass"), "heavy", "objects.0.mass: Input should be a valid number"),
        (("objects", 0, "half_extents"), [0.02, 0.02], "objects.0.half_extents"),
        (("objects", 0, "pose", "position", 2), float("inf"), "objects.0.pose.position.2: Input should be a finite number"),
        (("objects", 0, "pose", "quaternion_xyzw"), [0, 0, 0, 0], "quaternion norm 0.0000, expected 1"),
        (("objects", 0, "pose", "quaternion_xyzw"), [1, 1, 0, 0], "quaternion norm 1.4142, expected 1"),
        (("physics", "gravity"), 300, "physics.gravity: Input should be less than 30 (got '300')"),
        (("robot_start", "gripper_opening"), 1.5, "robot_start.gripper_opening: Input should be less than or equal to 1"),
        (("horizon",), 0, "horizon: Input should be greater than 0"),
        (("instruction",), "", "instruction: String should have at least 3 characters"),
        (("seed",), -1, "seed"),
    ],
)
def test_each_fault_is_refused_with_its_place(spec: EnvironmentSpec, path: tuple[Any, ...], value: Any, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec(edited(spec, path, value))
    assert said in str(caught.value)


def test_a_name_used_twice_and_one_that_is_not_there(spec: EnvironmentSpec) -> None:
    first = spec.objects[0].name
    with pytest.raises(SpecError, match=f"entity names used twice: {first}"):
        parse_spec(edited(spec, ("objects", 1, "name"), first))
    with pytest.raises(SpecError, match=f"no entity 'lost cube': .*{first}"):
        parse_spec(edited(spec, ("goal",), {"predicate": "inside", "args": ["lost cube", first]}))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"family": "stack"', "\x00"])
def test_what_is_no_specification_at_all(text: str) -> None:
    with pytest.raises(SpecError):
        parse_spec(text)


def test_an_unknown_robot_lists_those_there_are() -> None:
    with pytest.raises(ConfigError, match="no robot 'r2d2': panda"):
        robot("r2d2")


def test_a_list_cut_off_anywhere_is_refused_by_line_or_read_to_a_whole_line(spec: EnvironmentSpec, tmp_path: Path) -> None:
    path = tmp_path / "specs.jsonl"
    specs = [spec, sample_split("stack", "train", np.random.default_rng(1))]
    write_specs(path, specs)
    whole = path.read_bytes()
    assert read_specs(path) == specs and specs_hash(read_specs(path)) == specs_hash(specs)
    first = whole.index(b"\n")
    for cut in (1, first // 2, first + 2, len(whole) - 30):
        path.write_bytes(whole[:cut])
        line = 1 if cut < first else 2
        with pytest.raises(SpecError, match=rf"specs\.jsonl, line {line}: "):
            read_specs(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="cannot read environments from"):
        read_specs(path)
    path.write_text("\n\n")
    with pytest.raises(SpecError, match="holds no environment"):
        read_specs(path)


def test_a_list_that_cannot_be_written_is_one_error(spec: EnvironmentSpec, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match="cannot write"):
        write_specs(tmp_path / "file" / "specs.jsonl", [spec])
