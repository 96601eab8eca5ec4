"""held_out stays shut for everything but the final evaluation, whose figures are known here beforehand."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from coda_nodes.cli.held_out import OPENINGS, _difference, evaluate_run
from coda_nodes.cli.main import main
from coda_nodes.conductor.config import TrainConfig
from coda_nodes.conductor.local import LocalPorts
from coda_nodes.conductor.run import claim
from coda_nodes.conductor.scenes import draw_valid, solvable_scenes
from coda_nodes.generator.sampling import draw_valid as draw_program
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.episode import EpisodeSummary
from coda_nodes.world.errors import ArtifactError, ProgramError
from coda_nodes.world.programs import read_program
from coda_nodes.world.records import BudgetRecord, Count, DiagnosisCounts, FamilySummary, Summary
from coda_nodes.world.splits import HeldOutError, Splits, close_held_out, load_splits, sample_split

PACKAGE = Path(sys.modules["coda_nodes.cli.main"].__file__).resolve().parents[1]
RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    "reach",
    [
        lambda: sample_split("stack", "held_out", RNG),
        lambda: sample_split("stack", "held_out", RNG, axis="position", half="far"),
        lambda: draw_valid("stack", "held_out", 1, RNG, half="near"),
        lambda: solvable_scenes(("stack",), "held_out", 1, 0, lambda request: [], "far"),
        lambda: load_splits().ranges("stack", "held_out", "near"),
        lambda: load_splits().mixed("stack", {"position": "far"}),
        lambda: Splits(load_splits().families, load_splits().moved, {}).ranges("stack", "held_out", "far"),
    ],
)
def test_the_processes_of_the_loop_cannot_draw_held_out_scenes(reach) -> None:
    with pytest.raises(HeldOutError, match="held_out is closed in this process; only the final evaluation opens it"):
        reach()


@pytest.mark.parametrize("base", [{"split": "held_out"}, {"split": "held_out_far"}, {"split": "dev"}, {"split": "far"}])
def test_no_program_can_name_another_split_than_train(base) -> None:
    with pytest.raises(ProgramError, match="base.split"):
        read_program({"family": "stack", "base": base})


def test_programs_of_the_generator_stay_within_the_probe_bounds(tmp_path: Path) -> None:
    probe, far = ({name: parameter.columns[column] for name, parameter in load_splits().axes("stack")["position"].items()}
                  for column in ("probe", "far"))
    middle = np.mean(far["object_x"].intervals[0])
    assert not probe["object_x"].contains(middle)
    program = read_program({"family": "stack", "operators": [{"kind": "shift_region", "x": [middle, middle]}]})
    with pytest.raises(ProgramError, match="outside the probe bounds"):
        draw_program(program, 1, RNG, load_splits())
    ports = LocalPorts.__new__(LocalPorts)  # without its worker processes
    with pytest.raises(ProgramError, match="outside the probe bounds"):
        ports.generate([program], [1], 0)


@pytest.mark.parametrize("words", [
    ["generate", "--family", "stack", "--split", "held_out", "--n", "1", "--out"],
    ["evaluate", "--expert", "--split", "held_out", "--family", "stack", "--n", "1", "--out"],
])
def test_no_verb_draws_held_out_scenes(words, tmp_path: Path, capsys) -> None:
    assert main([*words, str(tmp_path / "out")]) == 1
    assert "held_out is closed in this process" in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []


def test_only_the_final_evaluation_opens_it() -> None:
    """Every module of the package is read: who names the key that opens held_out, or the variable behind it?"""
    openers = set()
    for path in PACKAGE.rglob("*.py"):
        words = {getattr(node, "id", "") or getattr(node, "attr", "") or getattr(node, "name", "")
                 for node in ast.walk(ast.parse(path.read_text()))}
        if words & {"open_held_out", "_opened", "_require_open"}:
            openers.add(path.relative_to(PACKAGE).as_posix())
    assert openers == {"world/splits.py", "cli/held_out.py"}


def finished_run(folder: Path, before: str, after: str) -> ArtifactRoot:
    """The files of a run that has ended."""
    root = ArtifactRoot(folder)
    claim(root, TrainConfig(families=("stack",), held_out_environments=1))
    row = FamilySummary(dev_before=Count(successes=1, episodes=4), dev_after=Count(successes=2, episodes=4))
    summary = Summary(
        regime="expert", critic="state", seed=0, families={"stack": row}, budget=BudgetRecord(), programs=0, rounds=0,
        diagnoses=DiagnosisCounts(), seconds=1.0, checkpoints={"before": before, "after": after},
    )
    (root.path / "summary.json").write_text(summary.model_dump_json())
    return root


def test_a_run_that_has_not_ended_opens_nothing(tmp_path: Path) -> None:
    claim(ArtifactRoot(tmp_path), TrainConfig())
    with pytest.raises(ArtifactError, match=r"holds no summary\.json: only a finished run is evaluated on held_out"):
        evaluate_run(tmp_path, 1)
    assert not (tmp_path / OPENINGS).exists()


def final(folder: Path) -> Summary:
    command = [sys.executable, "-m", "coda_nodes.cli.main", "evaluate", "--final", str(folder), "--workers", "1"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=env)
    assert done.returncode == 0, done.stderr
    return Summary.model_validate_json((folder / "summary.json").read_text())


def test_the_final_evaluation_of_known_actors(tmp_path: Path) -> None:
    """An arm that holds still solves none of the scenes, the expert all that were chosen because it does."""
    root = finished_run(tmp_path / "run", before="hold", after="expert")
    summary = final(root.path)
    stack = summary.families["stack"]
    assert stack.held_out_before == Count(successes=0, episodes=2)
    assert stack.held_out_after == Count(successes=2, episodes=2)
    assert summary.held_out_difference == (1.0, 1.0, 1.0)
    assert summary.held_out_halves["after"] == dict.fromkeys(("near", "far"), Count(successes=1, episodes=1))
    assert stack.dev_after == Count(successes=2, episodes=4)  # what was there stays
    rows = json.loads((root.path / "held_out.json").read_text())
    assert [(row["half"], row["before"], row["after"]) for row in rows] == [
        (half, "failure", "success") for half in ("near", "far")
    ]
    assert all(row["axes"] for row in rows)

    moved = root.path.rename(tmp_path / "moved")
    try:
        assert evaluate_run(moved, 1).held_out_difference == (1.0, 1.0, 1.0)
    finally:
        close_held_out()
    openings = [json.loads(line) for line in (moved / OPENINGS).read_text().splitlines()]
    assert [line["reason"] for line in openings] == ["final evaluation of run", "final evaluation of moved"]
    assert [row["environment"] for row in json.loads((moved / "held_out.json").read_text())] == [
        row["environment"] for row in rows
    ]


def outcomes(words: list[str]) -> list[EpisodeSummary]:
    same = {"hash": "", "environment_hash": "", "family": "stack", "steps": 1, "seed": 0, "actor": ""}
    return [EpisodeSummary(outcome=word, **same) for word in words]


def test_the_interval_is_what_an_independent_bootstrap_says() -> None:
    rng = np.random.default_rng(5)
    before = rng.choice(["success", "failure", "invalid"], 200, p=[0.2, 0.75, 0.05]).tolist()
    after = rng.choice(["success", "failure", "invalid"], 200, p=[0.4, 0.55, 0.05]).tolist()
    mean, low, high = _difference({"before": outcomes(before), "after": outcomes(after)})
    pairs = [(b == "success", a == "success") for b, a in zip(before, after, strict=True) if "invalid" not in (a, b)]
    change = np.array([int(a) - int(b) for b, a in pairs])
    assert mean == pytest.approx(change.mean())
    resampled = np.array([rng.choice(change, len(change)).mean() for _ in range(4000)])
    expected = np.quantile(resampled, [0.025, 0.975])
    assert (low, high) == pytest.approx(expected, abs=0.012)  # one scene is 0.0056; quantiles of 4000 draws
    assert _difference({"before": outcomes(["invalid"]), "after": outcomes(["success"])}) is None
