"""Two cells of the kill matrix: everything is killed in a rollout, the simulator in a validation; the run ends the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="no ROS 2 here: `make` sets one up, or source yours")
TREE = Path(__file__).resolve().parents[2]


def test_a_run_that_is_killed_on_the_way_ends_as_the_undisturbed_one(tmp_path: Path) -> None:
    out = tmp_path / "kills.json"
    command = [sys.executable, str(TREE / "benchmarks" / "kill_matrix.py"), "--kills", "tree:rollout", "simulator:validation",
               "--passes", "1"]
    environment = {**os.environ, "PYTHONPATH": str(TREE), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, "--out", str(out)], env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(out.read_text())
    row = figures["runs"]["several 1"]
    assert [cell["victim"] for cell in row["cells"]] == ["tree", "simulator"] and all(cell["killed"] for cell in row["cells"])
    assert row["same_episodes"] and row["same_records"] and row["same_memory"] and not row["different_steps"]
    assert (row["orphans"], row["locks"], row["half_written"], row["starts"]) == (0, [], 0, 2)
    assert row["resumptions_told"] >= 1 and row["restarts_told"] == 1
