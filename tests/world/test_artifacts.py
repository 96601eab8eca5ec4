"""Writing and locking where the disk refuses: one error, nothing half-written, nothing lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from coda_nodes.world.artifacts import ArtifactRoot, sweep, write_atomic
from coda_nodes.world.errors import ArtifactError
from coda_nodes.world.locks import exclusive

FULL = """
import resource, sys
from pathlib import Path
from coda_nodes.world.artifacts import write_atomic
from coda_nodes.world.errors import ArtifactError
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_atomic(Path(sys.argv[1]), b"new" * 1000)
except ArtifactError as error:
    print(error)
"""
HOLDER = """
import sys, time
from pathlib import Path
from coda_nodes.world.locks import exclusive
with exclusive(Path(sys.argv[1]), "taken"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_full_disk_is_one_error_and_the_old_file_stays(tmp_path: Path) -> None:
    """The kernel refuses the write half way, as a full disk does."""
    path = tmp_path / "summary.json"
    write_atomic(path, b"old")
    done = subprocess.run([sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith(f"cannot write {path}: "), done.stderr
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["summary.json"]


def test_a_read_only_folder_is_one_error() -> None:
    root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o555)
        try:
            if root:
                os.seteuid(65534)  # root writes everywhere; nobody does not
            with pytest.raises(ArtifactError, match=f"cannot write {name}/x: Permission denied"):
                write_atomic(Path(name) / "x", b"data")
            with pytest.raises(ArtifactError, match=r"cannot write .*\.lock: Permission denied"), exclusive(
                Path(name) / ".lock", ""
            ):
                pass
        finally:
            if root:
                os.seteuid(0)
            os.chmod(name, 0o755)
        assert os.listdir(name) == []


def test_a_path_below_a_file_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactError, match="cannot write .*/file/x"):
        write_atomic(tmp_path / "file" / "x", b"data")


def test_what_is_being_written_is_not_listed(tmp_path: Path) -> None:
    root = ArtifactRoot(tmp_path)
    write_atomic(root.episode("ab"), b"")
    root.episode("ab").with_name(".cd.npz.1.part").write_bytes(b"half")
    root.episode("ab").with_name(".cd.npz").write_bytes(b"half")
    assert list(root.episode_keys()) == ["ab"]


def test_a_lock_is_held_once_and_given_back_at_death(tmp_path: Path) -> None:
    path = tmp_path / "run" / ".lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    with pytest.raises(ArtifactError, match="^taken$"), exclusive(path, "taken"):
        pass
    threading.Timer(0.3, holder.send_signal, [signal.SIGKILL]).start()
    with exclusive(path, "taken", wait=30.0):
        assert holder.wait(timeout=10) == -signal.SIGKILL
    with exclusive(path, "taken"):
        pass
    holder.stdout.close()


KILLED = """
import os, signal, sys
from pathlib import Path
from coda_nodes.world import artifacts
artifacts.os.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)
artifacts.write_atomic(Path(sys.argv[1]), b"new")
"""


def test_what_a_process_killed_while_writing_left_is_swept_away(tmp_path: Path) -> None:
    write_atomic(tmp_path / "episodes" / "old.npz", b"old")
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "episodes" / "new.npz")], check=False)
    (tmp_path / "checkpoints" / ".abc.1.part").mkdir(parents=True)
    assert done.returncode == -signal.SIGKILL and len(list(tmp_path.rglob(".*.part"))) == 2
    assert sweep(tmp_path) == 2
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["old.npz"] and not sweep(tmp_path)
