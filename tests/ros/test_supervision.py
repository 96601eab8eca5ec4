"""Nodes that die or hang, as real processes: noticed, started anew a bounded number of times, and told."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from coda_interfaces.srv import Query
from rclpy.node import Node

from coda_nodes.ros import names
from coda_nodes.ros.clients import ServiceCaller
from coda_nodes.ros.environment import node_environment
from coda_nodes.ros.graph import GraphConfig, NodeProcess, describe_graph
from coda_nodes.ros.node_main import Spinner
from coda_nodes.ros.processes import NodeGroup
from coda_nodes.ros.supervision import Allowance, SupervisionConfig, Supervisor
from coda_nodes.world.errors import NodeError, NodeLostError

NODE = '''
import os, subprocess, sys, time
from coda_nodes.ros import heartbeat

def main():
    """Tells its process and that of a worker, then ends with a status, beats, or is silent."""
    name = [word.split(":=")[1] for word in sys.argv if word.startswith("__node:=")][0]
    mode = [word.split(":=")[1].strip('"') for word in sys.argv if word.startswith("mode:=")][0]
    worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    with open(f"{os.environ['TEST_OUT']}/{name}.pids", "a") as file:
        file.write(f"{os.getpid()} {worker.pid}\\n")
    if mode.isdigit():
        os._exit(int(mode))
    pipe = heartbeat.take_pipe()
    while True:
        if mode == "beats":
            heartbeat.write(pipe)
        time.sleep(0.2)
'''


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sample_node.py").write_text(NODE)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{Path(__file__).parents[2]}")
    monkeypatch.setenv("TEST_OUT", str(tmp_path))
    return tmp_path


def group_of(run: Path, *modes: str) -> NodeGroup:
    nodes = [NodeProcess(f"n{i}", "sample_node", parameters={"mode": mode}) for i, mode in enumerate(modes)]
    return NodeGroup(nodes, run, node_environment(run, 1), grace=0.5)


def lives(run: Path, name: str) -> list[list[int]]:
    """Process of a node and of its worker, one pair per life."""
    path = run / f"{name}.pids"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [[int(word) for word in line.split()] for line in lines if line.endswith("\n")]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
def test_a_node_that_dies_or_hangs_is_started_anew_and_the_others_stay(
    run: Path, until: Callable[..., None], number: signal.Signals
) -> None:
    told: list[str] = []
    with group_of(run, "beats", "beats") as group, Supervisor(group, SupervisionConfig(silence=3), told.append) as supervisor:
        until(lambda: lives(run, "n0") and lives(run, "n1"), "the nodes started")
        os.kill(group.pids["n0"], number)
        until(lambda: len(lives(run, "n0")) == 2, "a second life of n0")
        first, second = lives(run, "n0")
        until(lambda: not any(map(alive, first)), "the first life ended with its worker")
        assert all(map(alive, second))
        assert group.pids["n0"] == second[0]
        until(lambda: told, "a sentence")
        assert not supervisor.failed
    assert len(lives(run, "n1")) == 1
    how = "shows no sign of life" if number == signal.SIGSTOP else f"was ended by {number.name}"
    assert told == [f"node n0 {how}; it is started anew (1 of 3)"]
    pids = [pid for name in ("n0", "n1") for life in lives(run, name) for pid in life]
    until(lambda: not any(map(alive, pids)), f"no orphan of {pids}")


@pytest.mark.parametrize(("mode", "starts"), [("3", 3), ("2", 1)])
def test_restarts_end_and_a_refusal_to_run_is_final(
    run: Path, until: Callable[..., None], mode: str, starts: int
) -> None:
    told: list[str] = []
    config = SupervisionConfig(node_restarts=2)
    with group_of(run, mode, "beats") as group, Supervisor(group, config, told.append) as supervisor:
        until(lambda: supervisor.failed, "the supervisor gave up")
        with pytest.raises(NodeError, match=f"node n0 ended with status {mode}; its log") as error:
            supervisor.check()
        assert ("after 2 restarts within 600 s: " in str(error.value)) == (starts == 3)
    assert len(lives(run, "n0")) == starts and len(told) == starts - 1


def test_a_node_may_be_silent_for_longer_while_it_starts(run: Path, until: Callable[..., None]) -> None:
    told: list[str] = []
    config = SupervisionConfig(silence=3, silence_at_start=5)
    with group_of(run, "silent", "beats") as group, Supervisor(group, config, told.append):
        until(lambda: told, "the silence is noticed")
    assert told == ["node n0 shows no sign of life; it is started anew (1 of 3)"]


def test_while_everything_stood_still_nobody_was_silent(run: Path, until: Callable[..., None]) -> None:
    """An hour between two looks (the lid was closed) is no hour of silence."""
    with group_of(run, "beats") as group:
        until(lambda: lives(run, "n0") and not group.silent(0.0, 3, 5), "the node started")
        assert group.silent(3600.0, 3601, 3602) == []


def test_an_allowance_counts_what_lies_within_its_window() -> None:
    allowance = Allowance(2, 10.0)
    assert [allowance.take(now) for now in (0, 1, 2, 9.9, 10.5, 10.9, 11.5)] == [1, 2, 0, 0, 2, 0, 2]
    assert Allowance(0, 10.0).take(0) == 0


def test_a_call_to_a_node_that_is_killed_ends_when_the_node_is_back(
    ros: None, until: Callable[..., None], tmp_path: Path
) -> None:
    """The killed life is seen for a long time after its death; the call must not wait for that, nor for its own time."""
    config = GraphConfig(artifact_root=str(tmp_path))
    nodes = [node for node in describe_graph("train", config) if node.name == "memory"]
    client = Node("lost_and_found")
    environment = node_environment(tmp_path, int(os.environ["ROS_DOMAIN_ID"]))
    with NodeGroup(nodes, tmp_path, environment) as group, Spinner(client):
        ask = ServiceCaller(client, Query, names.QUERY)
        request = Query.Request(kind="program", query_json=json.dumps({}))
        assert ask.call(request, 20, discovery=60).accepted
        os.kill(group.pids["memory"], signal.SIGSTOP)
        future = ask._client.call_async(request)  # asked before its death is known to anybody
        group.restart("memory")
        with pytest.raises(NodeLostError, match="/coda/memory/query: its node"):
            ask.call(request, 60)
        assert ask.call(request, 20, discovery=60).accepted
        assert not future.done()
    client.destroy_node()
