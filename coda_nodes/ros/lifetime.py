"""A process that ends when the one that started it is gone, even by SIGKILL.

Whoever starts it names itself in the environment variable CODA_PARENT_PID; without it nothing is watched, so
that a node can be started by hand and outlive its shell.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading

PARENT = "CODA_PARENT_PID"
GRACE = 5.0
"""Time for an orderly end after the parent's death [s]; longer than the reaper's, which comes first."""

_PR_SET_PDEATHSIG = 1
_never = threading.Event()


def parent_alive() -> bool:
    """Tell whether the process that started this one is still there (True where none is named)."""
    named = os.environ.get(PARENT, "")
    return not named.isdigit() or os.getppid() == int(named)


def follow_parent() -> None:
    """End this process with its parent: SIGTERM at once (Linux), SIGKILL to its group where that did not do.

    Does nothing where no parent is named.
    """
    if not os.environ.get(PARENT, "").isdigit():
        return
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if not parent_alive():  # it died before the request stood
        os._exit(1)
    threading.Thread(target=_watch, daemon=True, name="parent-watch").start()


def _watch() -> None:
    while parent_alive():
        _never.wait(0.5)
    os.kill(os.getpid(), signal.SIGTERM)
    _never.wait(GRACE)
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
