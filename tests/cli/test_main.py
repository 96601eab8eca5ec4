"""The command as a person uses it: a real process, its exit status and what it prints."""

import json
import subprocess
import sys

import pytest

from coda_nodes.cli.main import VERBS, main
from coda_nodes.world.spec import read_specs
from coda_nodes.world.splits import load_splits


def coda(*words, **kwargs):
    command = [sys.executable, "-m", "coda_nodes.cli.main", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **kwargs)


def test_an_error_ends_the_process_with_its_status_and_no_traceback(tmp_path):
    done = coda("render", "nowhere.jsonl", cwd=tmp_path)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert " ".join(done.stderr.split()).startswith("error: cannot read environments from nowhere.jsonl")


def test_without_words_all_verbs_are_listed():
    done = coda()
    assert done.returncode == 0
    assert all(verb in done.stdout for verb in VERBS)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["trian"], 2, "no verb 'trian': train, evaluate"),
        (["critic", "train"], 2, "vision-language critic is not part of this version"),
        (["train", "--regime", "some_expert"], 1, "expert, no_expert"),
        (["train", "--bags-per-round", "-3"], 1, "TrainConfig.bags_per_round = -3: expected from 0 to 10000"),
        (["train", "--critic", "hf"], 2, "only the state critic is part of this version"),
        (["train", "--simulator", "gazebo"], 2, "only the embedded simulator"),
        (["train", "--rounds", "-1"], 1, "TrainConfig.rounds = -1: expected from 0 to 1000"),
        (["train", "--families", "stak"], 1, "no family 'stak': pick_place, stack"),
        (["generate", "--family", "stak", "--out", "x"], 1, "no family 'stak'"),
        (["generate", "--family", "stack", "--axis", "colour", "--out", "x"], 1, "no axis of stack 'colour': position"),
        (["generate", "--family", "stack", "--split", "held_out", "--out", "x"], 1, "held_out is closed in this process"),
        (["evaluate"], 1, "name one of --checkpoint FOLDER or --expert"),
        (["evaluate", "--checkpoint", "nowhere"], 1, "no readable policy.json in nowhere"),
        (["evaluate", "--final", "nowhere"], 1, "only a finished run is evaluated on held_out"),
        (["render", "nowhere.jsonl"], 1, "cannot read environments from nowhere.jsonl"),
        (["critique", "nowhere"], 1, "no such file or folder: nowhere"),
        (["memory", "show", "nowhere"], 1, "nowhere holds no memory.sqlite"),
        (["memory", "forget", "nowhere"], 1, "no action of coda memory 'forget': show, search, export, import"),
        (["report", "nowhere"], 1, "holds no finished round"),
        (["results", "check", "--folder", "nowhere"], 1, "no result file"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_sentence(words, status, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(words) == status
    text = " ".join(capsys.readouterr().err.split())
    assert said in text and text.startswith("error: ")
    assert not list(tmp_path.glob("x*"))


def test_generated_environments_move_only_the_axis_asked_for(tmp_path):
    path = tmp_path / "stack.jsonl"
    assert main(["generate", "--family", "stack", "--axis", "position", "--n", "8", "--out", str(path)]) == 0
    specs = read_specs(path)
    assert len(specs) == 8 and len({spec.content_hash for spec in specs}) == 8
    assert {spec.provenance.axes for spec in specs} == {("position",)}
    train = load_splits().ranges("stack", "train")
    assert all(train.allowed("dynamics", "mass").contains(spec.objects[0].mass) for spec in specs)


def test_the_same_seed_generates_the_same_file(tmp_path):
    for name in ("one", "two"):
        assert main(["generate", "--family", "push_insert", "--n", "4", "--out", str(tmp_path / name)]) == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_damaged_environment_file_is_told_by_line(tmp_path):
    path = tmp_path / "bad.jsonl"
    assert main(["generate", "--family", "stack", "--n", "2", "--out", str(path)]) == 0
    first, second = path.read_text().splitlines()
    broken = json.loads(second)
    broken["objects"][0]["mass"] = float("nan")
    path.write_text(f"{first}\n{json.dumps(broken)}\n")
    done = coda("evaluate", "--expert", "--environments", path)
    assert done.returncode == 1 and "line 2" in done.stderr and "mass" in done.stderr


def test_the_expert_is_evaluated_and_the_figures_are_written(tmp_path):
    out = tmp_path / "figures.json"
    done = coda("evaluate", "--expert", "--split", "train", "--family", "stack", "--n", "3", "--workers", "1", "--out", out)
    assert done.returncode == 0, done.stderr
    figures = json.loads(out.read_text())
    assert figures["actor"] == "expert" and figures["groups"]["stack"]["episodes"] == 3
