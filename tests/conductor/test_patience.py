"""What comes from outside and may pass makes the loop wait; the causes are real ones wherever the system lets them be made."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from coda_nodes.conductor.patience import Patience, PatienceConfig
from coda_nodes.memory import schema
from coda_nodes.memory.service import MemoryService
from coda_nodes.simulator.worker import answer
from coda_nodes.simulator.workers import _error
from coda_nodes.world.artifacts import ArtifactRoot, write_atomic
from coda_nodes.world.errors import ArtifactError, ClockError, NodeError, StoreError, may_pass

TREE = Path(__file__).resolve().parents[2]

LOOP = """
import sys
from pathlib import Path
from coda_nodes.conductor.config import TrainConfig
from coda_nodes.conductor.loop import Loop
from coda_nodes.conductor.patience import Patience
from coda_nodes.world.artifacts import ArtifactRoot, write_atomic

root, cause = ArtifactRoot(sys.argv[1]), sys.argv[2]
for folder in ("episodes", "journal"):
    (root.path / folder).mkdir(exist_ok=True)
filler = root.path / "filler"

def refuse():
    if cause == "full":
        with open(filler, "wb", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                pass
    if cause == "forbidden":
        (root.path / "episodes").chmod(0o500)
    if cause == "forbidden journal":
        (root.path / "journal" / "1").mkdir(exist_ok=True)
        (root.path / "journal" / "1").chmod(0o500)

def allow(text):
    print(text, flush=True)
    if text.startswith("paused"):
        filler.unlink(missing_ok=True)
        for folder in ("episodes", "journal/1"):
            if (root.path / folder).exists():
                (root.path / folder).chmod(0o700)

runs = []
def work():
    runs.append(1)
    if len(runs) == 1:
        refuse()
    if cause != "forbidden journal":
        write_atomic(root.path / "episodes" / "one.npz", bytes(65536))
    return len(runs)

loop = Loop(TrainConfig(), None, root, lambda event: None, Patience(root, tell=allow))
loop.open_round(1)
print("result", loop.step("rollout", work), loop.journal.done("rollout"))
print("left", sorted(path.name for path in root.path.rglob(".*")))
"""


def obey_permissions() -> None:
    """Give up CAP_DAC_OVERRIDE for whatever is executed next: permissions count for root too then."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)


def run_loop(folder: Path, cause: str, *before: str) -> list[str]:
    command = [*before, sys.executable, "-c", LOOP, str(folder), cause]
    env = {**os.environ, "PYTHONPATH": str(TREE)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env, preexec_fn=obey_permissions)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def own_mounts() -> bool:
    """Whether this user may mount a file system of its own, in a namespace of its own."""
    return shutil.which("unshare") is not None and subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not own_mounts(), reason="no user namespaces here: a small file system cannot be mounted")
def test_a_full_disk_makes_a_step_wait(tmp_path: Path) -> None:
    mount = f'mount -t tmpfs -o size=2m none "{tmp_path}" && exec "$@"'
    told = run_loop(tmp_path, "full", "unshare", "-rm", "sh", "-c", mount, "sh")
    path = tmp_path / "episodes" / "one.npz"
    limit = "goes on by itself when that has passed, stops after 12 h"
    assert told[0] == f"paused: cannot write {path}: {os.strerror(errno.ENOSPC)}; {limit}"
    assert told[1].startswith("goes on after a pause of ")
    assert told[2:] == ["result 2 True", "left []"]


def test_lost_permission_makes_a_step_wait(tmp_path: Path) -> None:
    told = run_loop(tmp_path, "forbidden")
    path = tmp_path / "episodes" / "one.npz"
    assert told[0].startswith(f"paused: cannot write {path}: {os.strerror(errno.EACCES)}; ")
    assert told[2:] == ["result 2 True", "left []"]


def test_where_only_the_result_cannot_be_stored_the_step_is_not_done_again(tmp_path: Path) -> None:
    told = run_loop(tmp_path, "forbidden journal")
    assert told[0].startswith(f"paused: cannot write {tmp_path}/journal/1/rollout.json: {os.strerror(errno.EACCES)}; ")
    assert told[2:] == ["result 1 True", "left []"]


HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
"""


def test_a_memory_that_another_process_locks_makes_the_loop_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "BUSY_TIMEOUT", 100)
    root = ArtifactRoot(tmp_path)
    memory = MemoryService(root)
    record = {"program_id": "00000000", "family": "stack", "round": 1, "successes": 1, "episodes": 2}
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "memory.sqlite")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        told: list[str] = []

        def tell(text: str) -> None:
            told.append(text)
            if text.startswith("paused"):
                threading.Timer(1.5, holder.kill).start()  # after the first look

        stored = Patience(root, tell=tell).bear(lambda: memory.store("progress", [record]))
    assert memory.records.counts()["progress"] == len(stored) == 1
    assert told[0].startswith(f"paused: memory {tmp_path}/memory.sqlite: database is locked; ")
    assert len(told) == 2
    memory.close()


def seen_at(root: ArtifactRoot, ahead: float) -> None:
    """A finished step that was written `ahead` seconds from now, as it looks after the clock was set back."""
    path = root.path / "journal" / "0" / "dev.json"
    write_atomic(path, b"{}")
    os.utime(path, (time.time() + ahead,) * 2)


def test_a_clock_that_was_set_back_makes_the_loop_wait_until_it_has_caught_up(tmp_path: Path) -> None:
    seen_at(root := ArtifactRoot(tmp_path), ahead=3.0)
    told: list[str] = []
    begun = time.monotonic()
    assert Patience(root, tell=told.append).bear(lambda: 1) == 1
    assert 0.9 < time.monotonic() - begun < 10
    assert told[0].startswith("paused: the clock shows ") and len(told) == 2


def test_a_clock_that_is_set_back_while_a_step_runs_is_seen_before_its_result_is_taken(tmp_path: Path, monkeypatch) -> None:
    root = ArtifactRoot(tmp_path)
    now = [time.time()]
    monkeypatch.setattr(time, "time", lambda: now[0])
    patience = Patience(root, PatienceConfig(pause=0.3))

    def work() -> None:
        now[0] -= 3600

    with pytest.raises(ArtifactError, match="stopped after a pause of 0.3 s: the clock shows"):
        patience.bear(work)


def test_a_cause_that_does_not_pass_ends_the_loop_cleanly_and_once(tmp_path: Path) -> None:
    """Also where one wait stands inside another: the inner one has waited for both."""
    root = ArtifactRoot(tmp_path)
    seen_at(root, ahead=3600)
    told: list[str] = []
    patience = Patience(root, PatienceConfig(pause=0.3), told.append)
    begun = time.monotonic()
    with pytest.raises(ArtifactError, match="stopped after a pause of 0.3 s: .*the same command continues"):
        patience.bear(lambda: patience.bear(lambda: 1))
    assert time.monotonic() - begun < 5 and len(told) == 1


def test_a_pause_ends_when_the_run_is_stopped(tmp_path: Path) -> None:
    seen_at(root := ArtifactRoot(tmp_path), ahead=3600)
    with pytest.raises(NodeError, match="cancelled in a pause"):
        Patience(root, stopped=lambda: True).bear(lambda: 1)


def test_what_does_not_pass_by_itself_is_raised_at_once(tmp_path: Path) -> None:
    calls: list[int] = []

    def fail() -> None:
        calls.append(1)
        raise StoreError("unknown kind")

    with pytest.raises(StoreError):
        Patience(ArtifactRoot(tmp_path)).bear(fail)
    assert calls == [1]


def raised_from(cause: BaseException) -> ArtifactError:
    try:
        raise ArtifactError("cannot write") from cause
    except ArtifactError as error:
        return error


@pytest.mark.parametrize(("cause", "passes"), [
    (OSError(errno.ENOSPC, "full"), True), (OSError(errno.EDQUOT, "quota"), True), (PermissionError(errno.EACCES, "no"), True),
    (OSError(errno.EROFS, "read-only"), True), (FileNotFoundError(errno.ENOENT, "gone"), False), (ValueError("x"), False),
    (sqlite3.OperationalError("database is locked"), True), (sqlite3.OperationalError("database or disk is full"), True),
    (sqlite3.OperationalError("no such table: records"), False), (ClockError("behind"), True), (NodeError("refused"), False),
])
def test_what_may_pass_is_known_by_its_cause(cause: Exception, passes: bool) -> None:
    assert may_pass(cause) is may_pass(raised_from(cause)) is may_pass(raised_from(raised_from(cause))) is passes


def test_a_worker_hands_on_that_its_error_may_pass() -> None:
    class Full:
        def run(self, task: object) -> list[dict]:
            raise raised_from(OSError(errno.ENOSPC, "full"))

    told = json.loads(answer(Full(), b"{}"))
    assert may_pass(_error(told["error"], told["message"], told["passing"]))
