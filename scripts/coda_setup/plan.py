"""What there is to do: the ROS 2 to use, what to install, and what is done already."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from coda_setup.problems import SetupError

TRIED_WITH = ("jazzy", "kilted")
STAMP = "coda_setup.json"


@dataclass(frozen=True)
class SourcedRos:
    """A ROS 2 whose set-up file was sourced in this shell."""

    distribution: str
    prefixes: tuple[str, ...]
    python: str


@dataclass(frozen=True)
class Place:
    """Where the set-up works: the clone and the virtual environment in it."""

    root: Path
    venv: Path

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"

    @property
    def requirements(self) -> Path:
        return self.root / "requirements"

    @property
    def interfaces(self) -> Path:
        return self.root / "ros2_ws" / "src" / "coda_interfaces"

    @property
    def log(self) -> Path:
        return self.venv / "setup.log"


def find_ros(
    env: Mapping[str, str], pythons: Iterable[str], imports_rclpy: Callable[[str], bool], own_prefix: str
) -> SourcedRos | None:
    """Return the sourced ROS 2 with the first Python that imports its rclpy, or None where none is sourced.

    Raises:
        SetupError: a ROS 2 is sourced, but none of the Pythons can use it.
    """
    distribution = env.get("ROS_DISTRO", "")
    found = (part for part in env.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if part)
    prefixes = tuple(part for part in found if part != own_prefix)
    if not distribution or not prefixes:
        return None
    tried = list(pythons)
    for python in tried:
        if imports_rclpy(python):
            return SourcedRos(distribution, prefixes, python)
    raise SetupError(
        f"ROS 2 {distribution} is sourced, but its rclpy cannot be imported by {' or '.join(tried)}: source "
        "it again with its own Python, or unset ROS_DISTRO and AMENT_PREFIX_PATH to use ROS 2 from wheels."
    )


def lock_lines(text: str, skip: Iterable[str] = ()) -> list[str]:
    """Return the requirements of a lock file, without the skipped projects."""
    skipped = {normal_name(name) for name in skip}
    lines = (line.split("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line and normal_name(re.split(r"[=<>!~;\[ ]", line)[0]) not in skipped]


def normal_name(name: str) -> str:
    """Return a project name in its normal form (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def digest(parts: Iterable[str], files: Iterable[Path]) -> str:
    """Return one hash over texts and the contents of files."""
    total = hashlib.sha256()
    for part in parts:
        total.update(part.encode() + b"\0")
    for file in sorted(files):
        total.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return total.hexdigest()


def step_keys(place: Place, python: str, ros: SourcedRos | None) -> dict[str, str]:
    """Return for each step a key that changes when, and only when, the step has to be done again."""
    where = [
        python,
        "wheels" if ros is None else f"{ros.distribution} {ros.python} {ros.prefixes}",
        str(place.venv),
    ]
    packages = digest(where, place.requirements.glob("*.lock"))
    definitions = [path for path in place.interfaces.rglob("*") if path.is_file()]
    scripts = [place.root / "scripts" / "ros_wheels.cmake"]
    own = [place.root / name for name in ("setup.py", "setup.cfg", "pyproject.toml", "package.xml")]
    return {
        "packages": packages,
        "interfaces": digest([packages], definitions + scripts),
        "package": digest([packages, str(place.root)], own),
    }


def read_stamp(venv: Path) -> dict[str, str]:
    """Return what is recorded as done; nothing where there is no readable record."""
    try:
        stamp = json.loads((venv / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def write_stamp(venv: Path, stamp: Mapping[str, str]) -> None:
    """Record what is done, whole or not at all."""
    fresh = venv / (STAMP + ".new")
    fresh.write_text(json.dumps(stamp, indent=1), encoding="utf-8")
    os.replace(fresh, venv / STAMP)
