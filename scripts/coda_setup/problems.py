"""What can go wrong in the set-up, each as one sentence for the person at the terminal."""

from __future__ import annotations

import re

NO_NETWORK = re.compile(
    r"Failed to establish a new connection|Temporary failure in name resolution|Name or service not known"
    r"|Network is unreachable|Connection refused|Connection reset|ConnectTimeout|Read timed out|ProxyError"
    r"|Max retries exceeded|NewConnectionError|NameResolutionError|SSLError"
)
DISK_FULL = re.compile(r"No space left on device|\[Errno 28\]|Disk quota exceeded|\[Errno 122\]")
NOT_FOUND = re.compile(r"No matching distribution found for (\S+)")


class SetupError(Exception):
    """The set-up cannot go on; the message is the sentence to show."""


def explain_pip(output: str, log: str) -> str:
    """Return the sentence for a failed pip, from what it printed; `log` is where all of it stands."""
    if DISK_FULL.search(output):
        return disk_full("while packages were installed")
    if NO_NETWORK.search(output):
        return (
            "the package index cannot be reached, so nothing could be installed: connect to the network "
            "(or point pip at an index that can be reached) and run make again; it continues where it was "
            f"({log})."
        )
    missing = NOT_FOUND.search(output)
    if missing:
        return f"the package index has no wheel of {missing.group(1)} for this Python and machine ({log})."
    return f"pip failed: {last_error(output)} ({log})"


def explain_build(output: str, log: str) -> str:
    """Return the sentence for a failed build of the interfaces."""
    if DISK_FULL.search(output):
        return disk_full("while the interfaces were built")
    return f"the interfaces could not be built: {last_error(output)} ({log})"


def disk_full(when: str) -> str:
    """Return the sentence for a full disk."""
    return (
        f"the disk became full {when}: free some space (a full set-up takes 2 GB, with GPU libraries 6 GB) "
        "and run make again."
    )


def last_error(output: str) -> str:
    """Return the last line that speaks of an error, or the last line at all."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"error", line, re.IGNORECASE)]
    return (errors or lines or ["it printed nothing"])[-1][:300]
