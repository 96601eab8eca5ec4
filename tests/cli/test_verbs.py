"""Verbs that look at what a run has left, on a real failure."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from coda_nodes.cli.main import main
from coda_nodes.conductor.scenes import draw_valid
from coda_nodes.memory.service import MemoryService
from coda_nodes.simulator.actors import ScriptedActor
from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.simulator.rollout import rollout
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.diagnosis import parse_diagnosis
from coda_nodes.world.spec import read_specs, write_specs


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> ArtifactRoot:
    """A folder with one episode that the expert was given too little time for, and one that it solved."""
    root = ArtifactRoot(tmp_path_factory.mktemp("run"))
    spec = draw_valid("stack", "train", 1, np.random.default_rng(0))[0]
    specs = [spec.revise(horizon=24), spec]
    for episode in rollout(BatchSimulator("stack", 2), specs, [0, 0], ScriptedActor()):
        episode.save(root)
        (root.path / episode.outcome).write_text(episode.content_hash)
    return root


def test_a_failure_is_diagnosed_in_the_grammar(root: ArtifactRoot, capsys) -> None:
    key = (root.path / "failure").read_text()
    assert main(["critique", str(root.episode(key))]) == 0
    diagnosis = parse_diagnosis(capsys.readouterr().out)
    assert (diagnosis.critic.name, diagnosis.family) == ("state", "stack")


def test_what_did_not_fail_is_not_diagnosed(root: ArtifactRoot, capsys) -> None:
    key = (root.path / "success").read_text()
    assert main(["critique", str(root.episode(key))]) == 1
    assert "success" in capsys.readouterr().err


def test_environments_are_drawn_on_one_sheet(tmp_path: Path, capsys) -> None:
    path = tmp_path / "scenes.jsonl"
    assert main(["generate", "--family", "push_insert", "--n", "3", "--out", str(path)]) == 0
    assert main(["render", str(path), "--columns", "2", "--width", "64", "--height", "48"]) == 0
    sheet = cv2.imread(str(tmp_path / "scenes.png"))
    assert sheet.shape[1] >= 2 * 64 and sheet.shape[0] >= 2 * 48 and sheet.std() > 5
    assert "wrote 3 pictures" in capsys.readouterr().out


def test_the_memory_travels_between_runs(tmp_path: Path, root: ArtifactRoot, capsys) -> None:
    one, two, file = tmp_path / "one", tmp_path / "two", tmp_path / "memory.jsonl"
    one.mkdir()
    rows = [{"program_id": f"{i:08x}", "family": "stack", "round": 1, "successes": i, "episodes": 9} for i in range(4)]
    MemoryService(ArtifactRoot(one)).store("progress", rows)
    assert main(["memory", "export", str(one), str(file)]) == 0
    assert main(["memory", "import", str(two), str(file)]) == 0
    assert "wrote 4 records" in (text := capsys.readouterr().out) and "4 added" in text
    assert main(["memory", "show", str(two), "--kind", "progress"]) == 0
    assert "progress: 4 of 4" in capsys.readouterr().out


def test_brought_environments_are_evaluated(tmp_path: Path, capsys) -> None:
    given, out = tmp_path / "given.jsonl", tmp_path / "figures.json"
    write_specs(given, draw_valid("stack", "train", 2, np.random.default_rng(3)))
    words = ["evaluate", "--expert", "--environments", str(given), "--workers", "1", "--out", str(out)]
    assert main(words) == 0
    assert json.loads(out.read_text())["groups"]["all"] == {"successes": 2, "episodes": 2}
    assert len(read_specs(given)) == 2 and "Success of the expert" in capsys.readouterr().out
