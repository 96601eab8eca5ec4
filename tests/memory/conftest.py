"""Fixtures of the memory's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coda_nodes.memory.store import MemoryStore


@pytest.fixture
def url(tmp_path: Path) -> str:
    """URL of a memory that does not exist yet."""
    return f"sqlite:///{tmp_path / 'run' / 'memory.sqlite'}"


@pytest.fixture
def store(url: str) -> Iterator[MemoryStore]:
    """An empty memory."""
    with MemoryStore(url) as opened:
        yield opened
