"""Signs of life of a node's executor, by a pipe from whoever started it.

The pipe needs no discovery and no network: what is silent on it is stopped, stuck in a callback or dead.
"""

from __future__ import annotations

import contextlib
import os

HEARTBEAT = "CODA_HEARTBEAT_FD"
"""Environment variable with the descriptor a node writes to; without it nothing is written."""
PERIOD = 1.0
"""Between two signs of life [s]."""


def take_pipe() -> int | None:
    """Return the descriptor to write signs of life to; None where nobody listens."""
    named = os.environ.pop(HEARTBEAT, "")  # the node's own children are not watched by it
    if not named.isdigit():
        return None
    os.set_blocking(int(named), False)
    return int(named)


def write(pipe: int) -> None:
    """Write one sign of life."""
    with contextlib.suppress(BlockingIOError, BrokenPipeError):  # nobody reads; lifetime.py looks after that
        os.write(pipe, b".")


class Pulse:
    """The reading end of one node's signs of life."""

    def __init__(self) -> None:
        self._read, self.pipe = os.pipe()
        """``pipe`` is the end to hand to the node."""
        os.set_blocking(self._read, False)
        self.silent = 0.0
        """Time watched since the last sign of life, or since the start [s]."""
        self.begun = False
        """Whether there was any sign of life yet."""

    def handed(self) -> None:
        """Close the node's end in this process."""
        os.close(self.pipe)
        self.pipe = -1

    def look(self, passed: float) -> None:
        """Take in what has come; ``passed`` is the time since the last look [s]."""
        self.silent += passed
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read, 4096):
                self.silent, self.begun = 0.0, True

    def close(self) -> None:
        """Close the ends that are still open."""
        for end in (self._read, self.pipe):
            if end >= 0:
                os.close(end)
        self._read = self.pipe = -1
