"""What a result needs so that another can repeat it: command, commit, versions, machine, load."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from coda_nodes.conductor.run import software_versions


def provenance(command: str, seeds: Sequence[int]) -> dict[str, Any]:
    """Fields that all result files share. The load is the mean number of busy processes over the last minute."""
    return {
        "command": command, "commit": commit(), "versions": {"python": platform.python_version(), **software_versions()},
        "machine": {"processor": _processor(), "cores": os.cpu_count() or 1, "load": round(os.getloadavg()[0], 2)},
        "seeds": list(seeds),
    }


def commit() -> str:
    """Hash of the checked-out commit, with ``-dirty`` where tracked files differ; zeros outside a repository."""
    folder = Path(__file__).resolve().parent
    head = _git("rev-parse", "HEAD", cwd=folder)
    if not head:
        return "0" * 12
    return head[:12] + ("-dirty" if _git("status", "--porcelain", "--untracked-files=no", cwd=folder) else "")


def _git(*words: str, cwd: Path) -> str:
    try:
        done = subprocess.run(["git", *words], cwd=cwd, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
