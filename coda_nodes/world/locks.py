"""A lock on a folder that ends with the process that holds it, however that process ends."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from coda_nodes.world.errors import ArtifactError

log = logging.getLogger(__name__)
POLL = 0.1
"""Between two tries while waiting for another holder to end [s]."""


@contextlib.contextmanager
def exclusive(path: Path, refusal: str, wait: float = 0.0) -> Iterator[None]:
    """Hold the file ``path`` as a lock of this process; it is made where it does not exist, and stays.

    The kernel gives the lock back when the process dies (flock), so a killed holder locks nobody out.

    Args:
        path: lock file.
        refusal: what to say when another process holds it.
        wait: how long to wait for the other process to end [s].

    Raises:
        ArtifactError: another process holds the lock, or the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "a", encoding="utf-8")  # noqa: SIM115 (closed below; an error of the block is not one of opening)
    except OSError as error:
        raise ArtifactError(f"cannot write {path}: {error.strerror or error}") from error
    with file:
        until = time.monotonic() + wait
        while not _taken(file):
            if time.monotonic() >= until:
                raise ArtifactError(refusal)
            time.sleep(POLL)
        yield


def _taken(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:  # some network file systems know no locks: a run there goes on without
        log.warning("%s cannot be locked (%s); do not start a second run there", file.name, error.strerror or error)
    return True
