"""Real processes: started, watched, ended, and gone when their parent is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from coda_nodes.ros.environment import node_environment
from coda_nodes.ros.graph import NodeProcess
from coda_nodes.ros.processes import NodeGroup
from coda_nodes.world.errors import NodeError

NODE = '''
import json, multiprocessing, os, signal, sys, time

def work(stubborn):
    signal.signal(signal.SIGTERM, signal.SIG_IGN if stubborn else signal.SIG_DFL)
    while True:
        time.sleep(1)

def main():
    """Starts two workers, says who they are, and waits for its end."""
    name = [word.split(":=")[1] for word in sys.argv if word.startswith("__node:=")][0]
    mode = [word.split(":=")[1].strip('"') for word in sys.argv if word.startswith("mode:=")][0]
    if mode == "dies":
        print("the last words", flush=True)
        os._exit(3)
    stubborn = mode == "stubborn"
    if stubborn:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if mode == "counts":
        def count(number, frame):
            with open(f"{os.environ['TEST_OUT']}/{name}.signals", "a") as file:
                file.write("x")
            ends.append(time.monotonic() + 1.5)
        ends = []
        signal.signal(signal.SIGTERM, count)
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=work, args=(stubborn,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    out = os.environ["TEST_OUT"]
    with open(f"{out}/{name}.new", "w") as file:
        json.dump([os.getpid()] + [worker.pid for worker in workers], file)
    os.replace(f"{out}/{name}.new", f"{out}/{name}.json")
    try:
        while mode != "counts" or not ends or time.monotonic() < ends[0]:
            time.sleep(0.1)
        os._exit(0)
    except KeyboardInterrupt:
        open(f"{out}/{name}.closed", "w").close()
        os._exit(0)
'''

PARENT = """
import json, os, sys, time
from pathlib import Path
from coda_nodes.ros.graph import NodeProcess
from coda_nodes.ros.environment import node_environment
from coda_nodes.ros.processes import NodeGroup, termination_as_interrupt
run, modes = Path(sys.argv[1]), sys.argv[2:]
nodes = [NodeProcess(f"n{i}", "sample_node", parameters={"mode": mode}) for i, mode in enumerate(modes)]
with termination_as_interrupt(), NodeGroup(nodes, run, node_environment(run, 1), grace=1.0) as group:
    (run / "reaper.new").write_text(str(group._reaper.pid))
    os.replace(run / "reaper.new", run / "reaper")
    while True:
        time.sleep(1)
"""


def alive(pid: int) -> bool:
    """A zombie holds nothing any more; it only waits for its parent to look."""
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


def pids_in(run: Path, count: int) -> list[int]:
    files = sorted(run.glob("n*.json"))
    return [pid for file in files for pid in json.loads(file.read_text())] if len(files) == count else []


def parent_of(
    run: Path, until: Callable[..., None], *modes: str
) -> tuple[subprocess.Popen[bytes], list[int], int]:
    """Start a parent with nodes; return it, the processes of the nodes and workers, and the reaper."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(run), *modes])
    until(lambda: pids_in(run, len(modes)) and (run / "reaper").exists(), "the nodes started")
    pids = pids_in(run, len(modes))
    assert len(pids) == 3 * len(modes) and all(map(alive, pids))
    return parent, pids, int((run / "reaper").read_text())


@pytest.mark.parametrize("mode", ["plain", "stubborn"])
def test_no_orphan_stays_when_the_parent_is_killed(run: Path, until: Callable[..., None], mode: str):
    parent, pids, reaper = parent_of(run, until, mode, "plain", mode)
    parent.kill()
    parent.wait()
    until(lambda: not any(map(alive, [*pids, reaper])), f"all of {pids} and the reaper {reaper} are gone")


def test_no_orphan_stays_when_the_reaper_is_killed_too(run: Path, until: Callable[..., None]):
    parent, pids, reaper = parent_of(run, until, "stubborn", "plain")
    os.kill(reaper, signal.SIGKILL)
    parent.kill()
    parent.wait()
    until(lambda: not any(map(alive, pids)), f"all nodes and workers {pids} are gone")


def test_a_killed_parent_leaves_its_nodes_time_for_an_orderly_end(run: Path, until: Callable[..., None]):
    """One SIGTERM and no second one: a node that holds an arm on its way out is not cut short."""
    parent, pids, reaper = parent_of(run, until, "counts", "counts")
    parent.kill()
    parent.wait()
    until(lambda: not any(map(alive, [*pids, reaper])), f"all of {pids} and the reaper {reaper} are gone")
    assert [(run / f"n{i}.signals").read_text() for i in range(2)] == ["x", "x"]


def test_the_parent_ends_its_nodes_in_order_on_sigterm(run: Path, until: Callable[..., None]):
    parent, pids, reaper = parent_of(run, until, "plain", "plain")
    parent.terminate()
    parent.wait(20)
    assert not any(map(alive, [*pids, reaper]))
    assert (run / "n0.closed").exists() and (run / "n1.closed").exists()


def group_of(run: Path, *modes: str) -> NodeGroup:
    nodes = [NodeProcess(f"n{i}", "sample_node", parameters={"mode": mode}) for i, mode in enumerate(modes)]
    return NodeGroup(nodes, run, node_environment(run, 1), grace=0.5)


def test_a_node_that_does_not_want_to_end_is_ended_with_its_workers(run: Path, until: Callable[..., None]):
    with group_of(run, "stubborn") as group:
        until(lambda: pids_in(run, 1), "the node started")
        pids = pids_in(run, 1)
        assert list(group.pids.values()) == pids[:1]
    until(lambda: not any(map(alive, pids)), f"{pids} are gone")


def test_a_node_that_died_is_reported_with_its_last_words(run: Path, until: Callable[..., None]):
    with group_of(run, "plain", "dies") as group:
        until(group.ended, "a node ended")
        with pytest.raises(
            NodeError, match=r"node n1 ended with status 3; its log \(.*n1\.log\).*\n    the last words"
        ):
            group.check()
        assert [end.name for end in group.ended()] == ["n1"]


def test_a_node_that_was_killed_is_reported_by_the_signal(run: Path, until: Callable[..., None]):
    with group_of(run, "plain") as group:
        until(lambda: pids_in(run, 1), "the node started")
        os.kill(group.pids["n0"], signal.SIGKILL)
        until(group.ended, "the node ended")
        with pytest.raises(NodeError, match="node n0 was ended by SIGKILL"):
            group.check()


def test_logs_that_cannot_be_written_are_one_clear_error(run: Path):
    (run / "logs").write_text("a file where the folder should be")
    with pytest.raises(NodeError, match="logs"):
        group_of(run, "plain").start()
