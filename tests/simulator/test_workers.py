"""Worker processes: order, resuming, a killed worker, a killed parent, errors, memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import psutil
import pytest

from coda_nodes.simulator.actors import ScriptedActor
from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.simulator.rollout import rollout
from coda_nodes.simulator.workers import RolloutPool
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.episode import Episode
from coda_nodes.world.errors import CheckpointError, SimulationError
from coda_nodes.world.spec import write_specs

WORKER_MEMORY = 300 * 2**20

PARENT = """
import sys
import threading
from coda_nodes.simulator.workers import RolloutPool
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.spec import read_specs

def run():
    with RolloutPool(2, ArtifactRoot(sys.argv[1])) as pool:
        tell = lambda done, total, fresh: print(*pool.process_ids, flush=True)
        pool.run(read_specs(sys.argv[2]), "expert", on_progress=tell)
        pool.run(read_specs(sys.argv[2]) * 400, "hold", seed=5)

work = threading.Thread(target=run)
work.start() if sys.argv[3] == "thread" else run()
"""
"""In a thread the kernel is not asked to tie the workers; they must notice by themselves."""


@pytest.fixture
def pool(tmp_path):
    with RolloutPool(2, ArtifactRoot(tmp_path)) as pool:
        yield pool


def test_episodes_of_two_families_in_order_and_only_once(pool, train_specs, tmp_path) -> None:
    specs = [
        spec
        for pair in zip(train_specs("pick_place", 4), train_specs("stack", 4), strict=True)
        for spec in pair
    ]
    reports = []
    summaries = pool.run(
        specs,
        "expert",
        seed=3,
        on_progress=lambda done, total, fresh: reports.append((done, total, len(fresh))),
    )
    assert [summary.environment_hash for summary in summaries] == [spec.content_hash for spec in specs]
    assert all(summary.actor == "expert" and summary.seed == 3 for summary in summaries)
    assert reports[0] == (0, 8, 0) and reports[-1][:2] == (8, 8) and sum(fresh for *_, fresh in reports) == 8
    assert all(psutil.Process(pid).memory_info().rss < WORKER_MEMORY for pid in pool.process_ids)
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "episodes").iterdir()}
    assert len(files) == 8 and pool.run(specs, "expert", seed=3) == summaries
    assert files == {path: path.stat().st_mtime_ns for path in (tmp_path / "episodes").iterdir()}
    here = rollout(BatchSimulator("stack", 4), specs[1::2], [3] * 4, ScriptedActor())
    for mine, theirs in zip(here, summaries[1::2], strict=True):
        stored = Episode.load(tmp_path / "episodes" / f"{theirs.hash}.npz")
        np.testing.assert_array_equal(mine.states.entity_position_base, stored.states.entity_position_base)


def test_a_specification_listed_again_gets_the_next_seed(pool, train_specs) -> None:
    spec = train_specs("pick_place", 1)[0]
    summaries = pool.run([spec] * 3, "expert", seed=10, noise=0.005)
    assert [summary.seed for summary in summaries] == [10, 11, 12] and len(
        {summary.hash for summary in summaries}
    ) == 3


def test_damaged_or_poorer_episodes_are_run_again(pool, train_specs, tmp_path) -> None:
    spec = train_specs("pick_place", 1)[0]
    (summary,) = pool.run([spec], "expert")
    path = tmp_path / "episodes" / f"{summary.hash}.npz"
    path.write_bytes(path.read_bytes()[:100])
    assert pool.run([spec], "expert") == [summary] and Episode.load(path).success == (
        summary.outcome == "success"
    )
    pool.run([spec], "expert", record_physics=True)
    assert Episode.load(path).physics_states is not None
    (started,) = pool.run([spec], "expert", starts=[(summary.hash, 1)])
    assert started.hash != summary.hash and started.steps < summary.steps


def test_a_killed_worker_is_replaced_and_its_task_run_again(pool, train_specs) -> None:
    specs = train_specs("pick_place", 30)
    killed = []

    def kill_once(done: int, total: int, fresh: object) -> None:
        if done and not killed:
            killed.append(pool.process_ids)
            for pid in killed[0]:
                os.kill(pid, signal.SIGKILL)

    summaries = pool.run(specs, "expert", on_progress=kill_once)
    assert killed and len(summaries) == 30 and not set(pool.process_ids) & set(killed[0])


def test_errors_come_back_under_their_own_type(pool, train_specs, tmp_path) -> None:
    spec = train_specs("pick_place", 1)[0]
    with pytest.raises(CheckpointError):
        pool.run([spec], "0123456789abcdef")
    with pytest.raises(SimulationError, match="joints, panda has 7"):
        pool.run([spec.revise(robot_start={"joint_positions": (0.0,) * 6})], "expert")
    assert pool.process_ids == []
    assert pool.run([spec], "expert")[0].outcome in ("success", "failure")
    with pytest.raises(SimulationError, match="0 workers"):
        RolloutPool(0, ArtifactRoot(tmp_path))


@pytest.mark.parametrize("place", ["main", "thread"])
def test_workers_end_when_their_parent_is_killed(place: str, train_specs, tmp_path) -> None:
    specs = train_specs("pick_place", 2) + train_specs("stack", 2)
    write_specs(tmp_path / "specs.jsonl", specs)
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "run"), str(tmp_path / "specs.jsonl"), place],
        stdout=subprocess.PIPE,
        text=True,
    )
    workers: list[psutil.Process] = []
    while len(workers) < 2:
        line = parent.stdout.readline()
        assert line, "the parent ended before its workers answered"
        workers = [psutil.Process(int(pid)) for pid in line.split()]
    parent.kill()
    parent.wait()
    gone, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive and len(gone) == 2
    parent.stdout.close()
