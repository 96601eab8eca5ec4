"""The benchmark of methods: cells that were killed go on, the same seed gives the same cell, figures made by hand come out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from coda_nodes.cli.cell import Cell, run_base, run_cell
from coda_nodes.cli.coevolution import Options, Settings, cells
from coda_nodes.cli.main import main
from coda_nodes.conductor.config import TrainConfig
from coda_nodes.conductor.methods import EXPERT, METHODS
from coda_nodes.report import coevolution
from coda_nodes.report.cells import difference, figures, read_cells
from coda_nodes.world.errors import ConfigError

MINIATURE = TrainConfig(
    families=("stack",), rounds=1, demonstrations=8, imitation_steps=40, update_steps=8, batch_size=32, practice_environments=0,
    environments=6, lookaheads=1000, lookahead_branches=4, gate_environments=2, progress_environments=1,
)
TIMES = ("cpu_seconds", "seconds", "machine", "commit")


def cell_in(work: Path, out: Path) -> Cell:
    return Cell("no_expert", "domain_randomization", 0, MINIATURE, 24, 12_000, "dev", 2, str(work), str(out), "command")


def comparable(cell: Cell) -> dict:
    return {key: value for key, value in json.loads(cell.result.read_text()).items() if key not in TIMES}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Cell:
    """A cell that ran without interruption, on real physics and with a real policy."""
    folder = tmp_path_factory.mktemp("whole")
    cell = cell_in(folder / "runs", folder / "results")
    run_base(cell)
    run_cell(cell)
    return cell


def killed_at(cell: Cell, step: str) -> list[str]:
    """Start the cell in a process of its own, kill it once ``step`` is finished; return the steps finished by then."""
    process = subprocess.Popen(
        [sys.executable, "-m", "coda_nodes.cli.cell", "cell", str(os.getpid())], stdin=subprocess.PIPE, text=True
    )
    process.stdin.write(cell.to_json() + "\n")
    process.stdin.close()
    path, until = cell.folder / "journal" / "1" / f"{step}.json", time.monotonic() + 120
    while not path.exists():
        assert process.poll() is None and time.monotonic() < until, f"ended with {process.poll()} before {step}"
    process.send_signal(signal.SIGKILL)
    process.wait()
    return [path.stem for path in (cell.folder / "journal" / "1").glob("*.json")]


def test_a_cell_that_was_killed_goes_on_to_the_result_of_an_uncut_one(whole, tmp_path):
    cell = replace(cell_in(Path(whole.work), tmp_path / "results"), work=str(tmp_path / "runs"))
    cell.base.parent.mkdir()
    cell.base.symlink_to(whole.base)
    finished = killed_at(cell, "rollout")
    assert "rollout" in finished and not cell.result.exists()
    run_cell(cell)
    assert comparable(cell) == comparable(whole)
    assert json.loads(cell.result.read_text())["cpu_seconds"] is None  # only a part of it was measured


def test_a_finished_cell_is_not_run_again(whole):
    before = whole.result.stat().st_mtime_ns
    run_cell(whole)
    assert whole.result.stat().st_mtime_ns == before


def test_the_result_holds_what_another_needs_to_repeat_it(whole):
    result = json.loads(whole.result.read_text())
    assert {"command", "commit", "versions", "machine", "seeds", "settings", "strategy", "budget", "scenes"} <= set(result)
    assert result["budget"]["limits"] == {"environments": 24, "control_steps": 12_000}
    for name, limit in result["budget"]["limits"].items():
        assert 0 < result["budget"]["spent"][name] <= limit
    assert len(result["scenes"]) == 2 and {"environment", "family", "axes", "half", "before", "after"} <= set(result["scenes"][0])


def scene(number: int, family: str, half: str, before: str, after: str, axes=("position",)) -> dict:
    return {"environment": f"{number:04x}", "family": family, "half": half, "axes": list(axes), "task": "", "before": before,
            "after": after}


F, S, I = "failure", "success", "invalid"  # noqa: E741
SCENES = {
    ("sft", 0): [(F, F), (F, F), (S, S), (F, I)],
    ("sft", 1): [(F, S), (F, F), (F, F), (F, F)],
    ("coda", 0): [(F, S), (F, F), (S, S), (F, S)],
    ("coda", 1): [(F, S), (F, S), (F, S), (F, F)],
    ("failure_curriculum", 0): [(F, S), (F, F), (S, F), (F, F)],
}


def raw(name: str, seed: int, pairs) -> dict:
    kinds = [("stack", "near"), ("stack", "far"), ("pick_place", "near"), ("pick_place", "far")]
    spent = {"environments": 90 + seed, "control_steps": 900}
    return {
        "regime": "no_expert", "method": name, "seed": seed, "split": "held_out", "rounds": 2, "commit": "0123456789ab",
        "budget": {"limits": {"environments": 100, "control_steps": 1000}, "spent": spent}, "gradient_steps": 70,
        "cpu_seconds": 60.0 if seed else None, "gates": ["accepted: x", "rejected: y"],
        "scenes": [
            scene(i, family, half, *pair, axes=("position", "clutter") if i == 1 else ("position",))
            for i, ((family, half), pair) in enumerate(zip(kinds, pairs, strict=True))
        ],
    }


@pytest.fixture
def folder(tmp_path) -> Path:
    for (name, seed), pairs in SCENES.items():
        path = tmp_path / "raw" / "no_expert" / f"{name}-{seed}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(raw(name, seed, pairs)))
    return tmp_path / "raw"


def test_figures_made_by_hand(folder):
    found = figures(read_cells(folder))["regimes"]["no_expert"]
    coda, sft = (found["methods"][name]["held_out"] for name in ("coda", "sft"))
    assert coda["mean"] == 6 / 8 and coda["n"] == 8 and coda["seeds"] == 2
    assert sft["mean"] == pytest.approx(2 / 7)  # an invalid episode is in neither number
    assert {family: row["mean"] for family, row in coda["per_family"].items()} == {"stack": 3 / 4, "pick_place": 3 / 4}
    assert (coda["near"]["mean"], coda["far"]["mean"]) == (1.0, 0.5)
    per_axis = {axis: (row["mean"], row["n"]) for axis, row in coda["per_axis"].items()}
    assert per_axis == {"position": (6 / 8, 8), "clutter": (0.5, 2)}
    assert found["differences"]["coda-sft"]["mean"] == pytest.approx(3 / 7)  # of the seven scenes valid in both
    assert found["differences"]["coda-failure_curriculum"] | {"low": 0, "high": 0} == {
        "mean": 0.5, "low": 0, "high": 0, "n": 4, "seeds": 1}
    assert found["best_other_closed_loop"] == "failure_curriculum"
    assert found["methods"]["sft"]["environments"] == 91 and found["methods"]["sft"]["cpu_minutes"] == 1.0
    assert found["before"]["held_out"]["mean"] == pytest.approx(1 / 8)


def test_intervals_cover_seeds_and_scenes_as_a_plain_bootstrap_does():
    """Seeds are drawn first, scenes within each second; written out in loops, over three seeds of 80 scenes."""
    rng, means = np.random.default_rng(7), []
    rates = {0: (0.7, 0.4), 1: (0.5, 0.4), 2: (0.6, 0.2)}
    one, other = (
        {(seed, f"{i:02d}"): (float(rng.random() < rates[seed][which]), {}) for seed in rates for i in range(80)}
        for which in (0, 1)
    )
    gaps = {seed: np.array([one[key][0] - other[key][0] for key in one if key[0] == seed]) for seed in rates}
    for _ in range(4000):
        means.append(np.mean([rng.choice(gaps[seed], 80).mean() for seed in rng.integers(3, size=3)]))
    found = difference(one, other, lambda scene: True)
    assert found["mean"] == pytest.approx(np.mean([gap.mean() for gap in gaps.values()]))
    np.testing.assert_allclose((found["low"], found["high"]), np.quantile(means, [0.025, 0.975]), atol=0.015)


def test_one_command_writes_figures_tables_and_plot_and_always_the_same(folder, tmp_path, monkeypatch, capsys):
    page = tmp_path / "docs" / "coevolution.md"
    page.parent.mkdir()
    page.write_text(f"# Words\n\n{coevolution.BEGIN}\nold\n{coevolution.END}\n\nlast words\n")
    monkeypatch.setattr(coevolution, "PAGE", page)
    monkeypatch.setattr(coevolution, "RESULTS", tmp_path)
    made = []
    for _ in range(2):
        assert main(["benchmark", "coevolution", "--collect", "--out", str(folder)]) == 0
        made.append((page.read_text(), page.with_suffix(".svg").read_bytes()))
    assert made[0] == made[1]
    text = page.read_text()
    assert text.startswith("# Words") and text.endswith("last words\n") and "old" not in text
    assert "| `coda` | 75.0 [" in text and "| `coda-sft` | +42.9 [" in text and "91 of 100" in text
    document = json.loads((tmp_path / "coevolution.json").read_text())
    assert document["regimes"]["no_expert"]["methods"]["coda"]["held_out"]["mean"] == 0.75


def test_results_of_two_splits_are_not_mixed(folder, tmp_path):
    path = folder / "no_expert" / "sft-0.json"
    path.write_text(path.read_text().replace("held_out", "dev"))
    with pytest.raises(ConfigError, match="holds results of dev and held_out"):
        read_cells(folder)
    with pytest.raises(ConfigError, match="no raw results"):
        read_cells(tmp_path / "none")


def test_cells_are_ordered_by_seed_and_regimes_have_their_methods(tmp_path):
    made = cells(Options(settings=Settings(families=("stack",)), regimes=("no_expert", "expert"), seeds=(0, 1)), tmp_path)
    assert [(cell.seed, cell.regime) for cell in made] == [
        (seed, regime) for seed in (0, 1) for regime, count in (("no_expert", len(METHODS)), ("expert", len(EXPERT)))
        for _ in range(count)
    ]
    assert {(cell.environments, cell.control_steps) for cell in made if cell.regime == "no_expert"} == {(400, 225_000)}
    assert made[0].command == (
        "coda benchmark coevolution --regimes no_expert --methods sft --seeds 0 --split dev --families stack"
        " --lookaheads 40 --lookahead-tries 1"
    )
    assert all(Cell.from_json(cell.to_json()) == cell for cell in made)


@pytest.mark.parametrize(("words", "sentence"), [
    (["--methods", "coda", "magic"], "no method of regime no_expert 'magic': sft, "),
    (["--regimes", "offline"], "no regime 'offline': expert, no_expert"),
    (["--split", "train"], "no split of the benchmark 'train': dev, held_out"),
    (["--rounds", "-1"], "TrainConfig.rounds = -1"),
    (["--families", "juggle"], "no family 'juggle'"),
])
def test_what_does_not_exist_is_told_in_a_sentence(words, sentence, tmp_path, capsys):
    assert main(["benchmark", "coevolution", *words, "--work", str(tmp_path)]) == 1
    told = " ".join(capsys.readouterr().err.split())
    assert sentence in told and "Traceback" not in told and list(tmp_path.iterdir()) == []
