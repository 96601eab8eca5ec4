"""A process that ends when the one that started it is gone, even by SIGKILL.

Whoever starts it names itself in the environment variable CODA_PARENT_PID; without it nothing is watched, so
that a node can be started by hand and outlive its shell.
"""

from __future__ import annotations

import os
import signal
import threading

PARENT = "CODA_PARENT_PID"
REAPER = "CODA_REAPER_PID"
GRACE = 5.0
"""Time for an orderly end after the parent's death [s]; longer than the reaper's, which comes first."""

_never = threading.Event()


def parent_alive() -> bool:
    """Tell whether the process that started this one is still there (True where none is named)."""
    named = os.environ.get(PARENT, "")
    return not named.isdigit() or os.getppid() == int(named)


def follow_parent() -> None:
    """End this process and its group with its parent; does nothing where no parent is named.

    The reaper ends it in order; this is for the case that the reaper is gone too. The signal that the kernel
    can send at a parent's death is not used: a second SIGTERM beside the reaper's would cut an orderly end
    short (an arm that is being told to hold), and workers would not get it.
    """
    if os.environ.get(PARENT, "").isdigit():
        threading.Thread(target=_watch, daemon=True, name="parent-watch").start()


def _watch() -> None:
    while parent_alive():
        _never.wait(0.5)
    if not _reaper_alive():
        _signal_group(signal.SIGTERM)
    _never.wait(GRACE)
    _signal_group(signal.SIGKILL)


def _reaper_alive() -> bool:
    try:
        os.kill(int(os.environ.get(REAPER, "")), 0)
    except (ValueError, OSError):
        return False
    return True


def _signal_group(number: int) -> None:
    """Signal the own group where this process leads one, else this process alone."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), number)
    else:
        os.kill(os.getpid(), number)
