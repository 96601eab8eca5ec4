"""What people hand to the command by mistake: each is one sentence that names value and place, and nothing is lost."""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

from coda_nodes.cli import train
from coda_nodes.cli.main import main
from coda_nodes.conductor import run as conductor_run
from coda_nodes.conductor.config import TrainConfig
from coda_nodes.conductor.patience import PatienceConfig
from coda_nodes.conductor.scenes import draw_valid
from coda_nodes.ros.supervision import SupervisionConfig
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.errors import ArtifactError
from coda_nodes.world.locks import exclusive
from coda_nodes.world.spec import EnvironmentSpec, Pose, write_specs


@pytest.fixture
def said(capsys):
    """Run the command and return its status and its one sentence."""

    def run(*words: object) -> tuple[int, str]:
        status = main([str(word) for word in words])
        text = " ".join(capsys.readouterr().err.split())
        assert text.startswith("error: ") and text.count("error: ") == 1 and "Traceback" not in text
        return status, text.removeprefix("error: ")

    return run


@pytest.fixture
def spec() -> EnvironmentSpec:
    return draw_valid("pick_place", "train", 1, np.random.default_rng(0))[0]


def moved(spec: EnvironmentSpec, name: str, pose: Pose) -> EnvironmentSpec:
    return spec.replace_entity(spec.entity(name).model_copy(update={"pose": pose}))


def test_a_folder_without_a_bag_is_refused_in_a_sentence(said, tmp_path: Path) -> None:
    assert said("critique", tmp_path)[1].startswith(f"{tmp_path} is no rosbag2: no metadata.yaml, and no file that ends in")
    (tmp_path / "metadata.yaml").write_text("rosbag2_bagfile_information: {}\n")
    assert said("critique", tmp_path)[1].startswith(f"{tmp_path} is no rosbag2: metadata.yaml names files that cannot be read")
    (tmp_path / "notes.txt").write_text("mine")
    assert "is no recorded failure" in said("critique", tmp_path / "notes.txt")[1]


def test_an_episode_cut_off_is_named(said, tmp_path: Path) -> None:
    path = tmp_path / "0123456789abcdef.npz"
    path.write_bytes(b"PK\x03\x04 half an archive")
    assert said("critique", path)[1].startswith(f"cannot read {path}: ")


def test_brackets_in_an_error_are_shown_as_they_are(said) -> None:
    assert said("render", "[/nowhere] [red].jsonl")[1].startswith("cannot read environments from [/nowhere] [red].jsonl")


def test_environments_that_cannot_be_used_are_refused_by_number(said, spec: EnvironmentSpec, tmp_path: Path) -> None:
    thing, plate = (spec.entity(name) for name in spec.goal.args)
    x, y, z = plate.pose.position
    on_it = Pose.planar(x, y, z + plate.half_extents[2] + thing.half_extents[2])
    thing = thing.name
    faults = {
        f"reach: {thing} at (1.50, 0.00) m is off the table": moved(spec, thing, Pose.planar(1.5, 0.0, 0.02)),
        "goal: the goal already holds at the start": moved(spec, thing, on_it),
        "no robot 'r2d2': panda": spec.model_copy(update={"robot": "r2d2"}),
    }
    path = tmp_path / "given.jsonl"
    for text, bad in faults.items():
        write_specs(path, [spec, bad])
        assert said("evaluate", "--expert", "--environments", path) == (1, f"{path}, environment 2: {text}")


def test_names_used_twice_are_told_by_line(said, spec: EnvironmentSpec, tmp_path: Path) -> None:
    data = json.loads(spec.to_json())
    data["objects"].append(data["objects"][0])
    path = tmp_path / "given.jsonl"
    path.write_text(json.dumps(data) + "\n")
    status, text = said("evaluate", "--expert", "--environments", path)
    assert status == 1 and f"{path}, line 1: " in text and "entity names used twice" in text


def test_what_is_no_checkpoint_is_named(said, tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text("{}")
    status, text = said("evaluate", "--checkpoint", tmp_path)
    assert status == 1 and "policy.json" in text


def test_what_is_no_memory_is_named_and_left_alone(said, tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite"
    path.write_bytes(b"half a file" * 50)
    status, text = said("memory", "show", tmp_path)
    assert status == 1 and "memory.sqlite" in text and path.read_bytes() == b"half a file" * 50


def test_where_nothing_can_be_written(said, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    below = tmp_path / "file" / "x"
    assert said("generate", "--family", "stack", "--n", 1, "--out", below)[1].startswith(f"cannot write {below}: ")
    assert said("train", "--out", below)[1] == f"cannot create {below}: Not a directory"
    assert "Not a directory" in said("memory", "import", below, tmp_path / "file")[1]
    assert (tmp_path / "file").read_text() == "mine"


def test_training_in_a_read_only_folder(said) -> None:
    root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o555)
        try:
            if root:
                os.seteuid(65534)
            assert said("train", "--out", name) == (1, f"cannot write {name}/.lock: Permission denied")
        finally:
            if root:
                os.seteuid(0)
            os.chmod(name, 0o755)


def test_training_on_a_disk_that_is_nearly_full(said, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(train, "LEAST_DISK", 2**60)
    status, text = said("train", "--out", tmp_path / "run")
    assert status == 1 and "MB of disk left; a run needs 1099511627776 MB" in text
    assert list((tmp_path / "run").iterdir()) == []


def test_two_runs_in_one_folder(said, tmp_path: Path) -> None:
    with exclusive(tmp_path / train.LOCK, "taken"):
        text = said("train", "--out", tmp_path)[1]
        assert text == f"another coda train is running in {tmp_path}; wait for it or choose another folder (--out)"
        (tmp_path / "config.json").write_text("{}")
        assert said("train", "--out", tmp_path, "--fresh")[0] == 1
        assert (tmp_path / "config.json").exists()


def test_another_seed_in_the_folder_of_a_run_is_refused_before_anything_starts(said, tmp_path: Path) -> None:
    conductor_run.claim(ArtifactRoot(tmp_path), TrainConfig(seed=1))
    before = (tmp_path / "config.json").read_text()
    status, text = said("train", "--out", tmp_path, "--seed", 2)
    assert status == 1 and text.startswith(f"{tmp_path} holds a run with seed = 1, asked for is 2; ")
    assert (tmp_path / "config.json").read_text() == before


def test_a_damaged_configuration_is_named(said, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"seed": 1')
    assert said("train", "--out", tmp_path)[1].startswith(f"cannot read {tmp_path}/config.json: ")


def test_two_conductors_in_one_folder(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(conductor_run, "PREDECESSOR", 0.0)
    with exclusive(tmp_path / conductor_run.LOCK, "taken"), pytest.raises(ArtifactError, match="another process runs"):
        conductor_run.run(TrainConfig(), None, ArtifactRoot(tmp_path), print)
    assert not (tmp_path / "config.json").exists()


def test_a_robot_there_is_not(said, tmp_path: Path) -> None:
    assert said("train", "--out", tmp_path / "run", "--robot", "r2d2") == (1, "no robot 'r2d2': panda")
    assert not (tmp_path / "run").exists()


def test_fresh_empties_the_folder_of_a_run_and_no_other(said, tmp_path: Path) -> None:
    run, link = tmp_path / "run", tmp_path / "elsewhere"
    (run / "episodes").mkdir(parents=True)
    link.mkdir()
    (link / "kept").write_text("")
    (run / "linked").symlink_to(link)
    (run / "config.json").write_text("{}")
    options = train.Options(out=run, fresh=True)
    with train._folder(options) as root:
        assert [path.name for path in root.path.iterdir()] == [train.LOCK]
    assert (link / "kept").exists()
    (run / "thesis.tex").write_text("mine")
    assert said("train", "--out", run, "--fresh")[1] == f"{run} is not the folder of a run (no config.json); nothing was deleted"
    assert (run / "thesis.tex").exists()


@pytest.mark.parametrize("path", sorted(Path(train.__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_every_option_has_a_description(path: Path) -> None:
    """The help of an option is the string after its field; ``settings`` are described where they are defined."""
    for kind in ast.parse(path.read_text()).body:
        if isinstance(kind, ast.ClassDef) and kind.name.endswith("Options"):
            for field, after in zip(kind.body, [*kind.body[1:], ast.Pass()], strict=True):
                if isinstance(field, ast.AnnAssign) and field.target.id != "settings":
                    assert isinstance(after, ast.Expr), f"{path.name}: {kind.name}.{field.target.id}"


@pytest.mark.parametrize("kind", [TrainConfig, PatienceConfig, SupervisionConfig])
def test_every_setting_has_a_description(kind: type) -> None:
    assert all(field.metadata["help"] for field in dataclasses.fields(kind))


@pytest.mark.parametrize("verb", ["benchmark", "memory", "results"])
def test_verbs_with_actions_say_which_there_are(verb: str, capsys) -> None:
    assert main([verb, "--help"]) == 0
    assert f"coda {verb} " in capsys.readouterr().out
