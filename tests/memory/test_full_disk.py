"""A memory whose disk refuses: one error, and what was stored before is still there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from coda_nodes.memory.store import MemoryStore
from coda_nodes.world.artifacts import ArtifactRoot

WRITER = """
import resource, sys
from coda_nodes.memory.service import MemoryService
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.errors import StoreError

def rows(count, number):
    return [{"program_id": f"{i:08x}", "family": "stack", "round": number, "successes": 1, "episodes": 2} for i in range(count)]

root = ArtifactRoot(sys.argv[1])
memory = MemoryService(root)
memory.store("progress", rows(3, 1))
largest = sum(path.stat().st_size for path in root.path.iterdir()) + 8192
resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
try:
    memory.store("progress", rows(3000, 2))
except StoreError as error:
    print(error)
"""


def test_nothing_of_a_batch_is_stored_and_nothing_before_it_is_lost(tmp_path: Path) -> None:
    """The kernel refuses the write half way, as a full disk does."""
    done = subprocess.run([sys.executable, "-c", WRITER, str(tmp_path)], capture_output=True, text=True, timeout=100)
    assert done.stdout.startswith(f"memory {tmp_path}/memory.sqlite: "), done.stderr
    with MemoryStore(ArtifactRoot(tmp_path).memory_url) as store:
        assert store.counts()["progress"] == 3
