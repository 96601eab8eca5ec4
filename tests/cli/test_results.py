"""Result files against their schema, and what a result says about where it came from."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from coda_nodes.cli.main import main
from coda_nodes.cli.provenance import provenance
from coda_nodes.cli.results import check
from coda_nodes.world.errors import ConfigError

ABOUT = {
    "command": "coda benchmark throughput", "commit": "0123456789ab-dirty", "versions": {"python": "3.11"}, "seeds": [0],
    "machine": {"processor": "x", "cores": 2, "load": 0.1},
}
THROUGHPUT = {
    **ABOUT, "batch_vs_mj_step": 1.6, "ros_lockstep_vs_in_process": 0.9, "inference_ms_p50": 2.0, "inference_ms_p99": 3.0,
    "rollout_200_episodes_s": 20.0, "node_rss_mb": {"memory": 150.0},
}
COUNT, INTERVAL = {"successes": 5, "episodes": 10}, {"mean": 0.1, "low": 0.0, "high": 0.2}
RUN = {"seed": 0, "before": COUNT, "after": COUNT, "difference": INTERVAL, "seconds": 600.0}
CELL = {"victim": "critic", "step": "dev", "hit": "dev", "killed": 1, "seconds": 3.0}
KILLS = {
    "cells": [CELL], "faults": [], "same_episodes": True, "same_records": True, "same_memory": True, "orphans": 0, "locks": [],
}
HELD = {"memory_mb": [100.0, 100.5], "file_handles": [20, 20], "threads": [9, 9]}
GOOD: dict[str, dict[str, Any]] = {
    "endurance": {
        **ABOUT, "rounds": 200, "seconds": 900.0, "settled": 20, "kept": {}, "processes": {"critic": HELD}, "miniature": "x",
    },
    "kill_matrix": {**ABOUT, "miniature": "--rounds 1", "steps": ["dev"], "episodes": 57, "runs": {"critic": KILLS}},
    "throughput": THROUGHPUT, "gain": {**ABOUT, "runs": [RUN], "difference": INTERVAL},
}


def checked(folder: Path, name: str, data: Any) -> None:
    path = folder / f"{name}.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    check(path)


@pytest.mark.parametrize("name", GOOD)
def test_a_good_file_fits(name: str, tmp_path: Path, capsys) -> None:
    checked(tmp_path, name, GOOD[name])
    assert main(["results", "check", "--folder", str(tmp_path)]) == 0
    assert "fits its schema" in capsys.readouterr().out


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("key", ABOUT)
def test_a_file_without_a_common_key_is_refused_by_that_key(name: str, key: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"{name}.json: top level: '{key}' is a required property"):
        checked(tmp_path, name, {other: value for other, value in GOOD[name].items() if other != key})


@pytest.mark.parametrize(("name", "key"), [(name, key) for name in GOOD for key in GOOD[name] if key not in ABOUT])
def test_a_file_without_one_of_its_figures_is_refused(name: str, key: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"'{key}' is a required property"):
        checked(tmp_path, name, {other: value for other, value in GOOD[name].items() if other != key})


@pytest.mark.parametrize(
    ("name", "path", "value", "place"),
    [
        ("throughput", ("batch_vs_mj_step",), 0, "batch_vs_mj_step: 0 is less than or equal to the minimum"),
        ("throughput", ("batch_vs_mj_step",), "fast", "batch_vs_mj_step: 'fast' is not of type 'number'"),
        ("throughput", ("commit",), "HEAD", "commit: 'HEAD' does not match"),
        ("throughput", ("seeds",), [], "seeds: "),
        ("throughput", ("machine", "cores"), 1.5, "machine/cores: 1.5 is not of type 'integer'"),
        ("gain", ("runs",), [], "runs: "),
        ("kill_matrix", ("runs", "critic", "cells"), [], "runs/critic/cells: "),
        ("gain", ("runs", 0, "before", "episodes"), 0, "runs/0/before/episodes: 0 is less than the minimum of 1"),
    ],
)
def test_a_wrong_value_is_told_by_its_place(name: str, path: tuple[Any, ...], value: Any, place: str, tmp_path: Path) -> None:
    data = json.loads(json.dumps(GOOD[name]))
    inner: Any = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(ConfigError, match=re.escape(f"{name}.json: {place}")):
        checked(tmp_path, name, data)


def test_a_damaged_file_and_one_of_no_kind(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read .*gain.json"):
        checked(tmp_path, "gain", '{"runs": [')
    with pytest.raises(ConfigError, match=r"no kind of result 'speed': .*throughput"):
        checked(tmp_path, "speed", ABOUT)


def test_results_that_are_committed_fit() -> None:
    for path in sorted((Path(__file__).resolve().parents[2] / "benchmarks" / "results").glob("*.json")):
        check(path)


def test_provenance_says_what_this_machine_and_commit_are() -> None:
    about = provenance("some command", [3, 4])
    assert (about["command"], about["seeds"]) == ("some command", [3, 4])
    assert about["machine"]["cores"] == os.cpu_count() and about["machine"]["processor"]
    assert about["versions"]["python"] == platform.python_version() and "mujoco" in about["versions"]
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    if shutil.which("git") and head.returncode == 0:
        assert about["commit"].removesuffix("-dirty") == head.stdout[:12]
    else:
        assert about["commit"] == "0" * 12
