"""What the set-up needs from the machine, looked at before anything is done."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path

from coda_setup.problems import SetupError

# Measured: 1.9 GB installed without GPU libraries, 5.9 GB with them, and pip unpacks before it installs.
# Which build of torch the index hands out is not known beforehand, so only the smaller one is asked for.
NEEDED_BYTES = 3 * 1024**3
MINIMUM_CMAKE = (3, 20)

Which = Callable[[str], "str | None"]


def find_compiler(env: Mapping[str, str], which: Which = shutil.which) -> str:
    """Return the C++ compiler; raise SetupError where there is none, or no C compiler beside it."""
    asked = env.get("CXX", "").split()
    compiler = next(filter(None, map(which, asked[:1] or ["c++", "g++", "clang++"])), None)
    if compiler is None:
        looked = f"CXX={asked[0]}" if asked else "c++, g++, clang++"
        raise SetupError(
            f"no C++ compiler was found ({looked}): the ROS 2 interfaces have to be compiled; install one, "
            "for instance the package g++ (Debian, Ubuntu) or gcc-c++ (Fedora)."
        )
    if not any(map(which, env.get("CC", "").split()[:1] or ["cc", "gcc", "clang"])):
        raise SetupError(
            f"a C++ compiler was found ({compiler}) but no C compiler (cc, gcc, clang): install one."
        )
    return compiler


def check_headers(include: str = "") -> None:
    """Raise SetupError where this Python has no C headers, which the interfaces are compiled with."""
    folder = Path(include or sysconfig.get_path("include"))
    if not (folder / "Python.h").is_file():
        raise SetupError(
            f"this Python has no C headers ({folder / 'Python.h'}): install them, for instance the package "
            "python3-dev (Debian, Ubuntu) or python3-devel (Fedora)."
        )


def check_disk(venv: Path, needed: int = NEEDED_BYTES) -> None:
    """Raise SetupError where the disk has no room for what the virtual environment still lacks [byte]."""
    folder = next(path for path in (venv, *venv.parents) if path.is_dir())
    free = shutil.disk_usage(folder).free
    present = sum(path.lstat().st_size for path in venv.rglob("*") if path.is_file())
    if free < max(needed - present, needed // 10):
        raise SetupError(
            f"not enough disk space: the set-up needs {needed / 1e9:.1f} GB in {folder}, "
            f"{free / 1e9:.1f} GB are free."
        )


def check_writable(folder: Path) -> None:
    """Raise SetupError where nothing can be written into a folder."""
    if not os.access(folder, os.W_OK):
        raise SetupError(f"{folder} is read-only: the set-up writes the virtual environment there.")


def cmake_is_usable(printed: str) -> bool:
    """Tell from the output of ``cmake --version`` whether it is new enough."""
    words = printed.split()[2:3]
    numbers = tuple(int(part) for part in words[0].split(".")[:2] if part.isdigit()) if words else ()
    return numbers >= MINIMUM_CMAKE
