"""Ends process groups when the process that started them is gone, however it went.

Run as a file by `processes.py`, in isolated mode and with the standard library only, so that it is small and
starts at once. Reads lines "+GROUP" and "-GROUP" from standard input. At the end of input, or when its parent
has changed, each remaining group gets SIGTERM (nodes hold their arm and close their files), then SIGKILL.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

GRACE = 3.0  # [s] between SIGTERM and SIGKILL
POLL = 0.5  # [s] between two looks at the parent, for the case that another process holds the input open


def main() -> None:
    """Keep the list of groups until the parent is gone, then end them."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    end(watch(int(sys.argv[1])))


def watch(parent: int) -> set[int]:
    """Return the groups that were still listed when the parent was gone."""
    groups: set[int] = set()
    rest = b""
    while os.getppid() == parent:
        if not select.select([0], [], [], POLL)[0]:
            continue
        data = os.read(0, 65536)
        if not data:
            break
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
    return groups


def end(groups: set[int]) -> None:
    """End all processes of the groups."""
    deadline = time.monotonic() + GRACE
    alive = {group for group in groups if send(group, signal.SIGTERM)}
    while alive and time.monotonic() < deadline:
        time.sleep(0.02)
        alive = {group for group in alive if send(group, 0)}
    for group in alive:
        send(group, signal.SIGKILL)


def send(group: int, number: int) -> bool:
    """Send a signal to a group; return whether it has any process."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


if __name__ == "__main__":
    main()
