"""What the set-up asks of the machine, and what it says when that is missing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from coda_setup import checks
from coda_setup.plan import Place
from coda_setup.problems import SetupError, explain_build, explain_pip
from coda_setup.steps import drop_half_installed, installed_files, remove_files, run_logged

from coda_nodes import __version__

ROOT = Path(__file__).parents[2]


def which(*present: str):
    return lambda name: f"/usr/bin/{name}" if name in present else None


def test_the_compiler_that_was_asked_for_comes_first():
    assert checks.find_compiler({}, which("clang++", "clang")) == "/usr/bin/clang++"
    assert checks.find_compiler({"CXX": "g++-13 -O1"}, which("g++-13", "g++", "cc")) == "/usr/bin/g++-13"


@pytest.mark.parametrize(
    ("env", "present", "words"),
    [
        ({}, ("gcc",), r"no C\+\+ compiler was found \(c\+\+, g\+\+, clang\+\+\)"),
        ({"CXX": "icpc"}, ("g++", "gcc"), r"no C\+\+ compiler was found \(CXX=icpc\)"),
        ({}, ("g++",), r"no C compiler"),
    ],
)
def test_no_compiler_is_one_sentence(env: dict[str, str], present: tuple[str, ...], words: str):
    with pytest.raises(SetupError, match=words) as caught:
        checks.find_compiler(env, which(*present))
    assert "\n" not in str(caught.value)


def test_headers_of_this_python_are_there_and_those_of_nowhere_are_not(tmp_path: Path):
    with pytest.raises(SetupError, match=f"no C headers.*{tmp_path}"):
        checks.check_headers(str(tmp_path))


def test_disk_space_counts_what_is_there_already(tmp_path: Path):
    free = checks.shutil.disk_usage(tmp_path).free
    with pytest.raises(SetupError, match=f"not enough disk space.*{tmp_path}"):
        checks.check_disk(tmp_path / "venv", needed=free * 2)
    checks.check_disk(tmp_path / "venv", needed=1)
    (tmp_path / "venv").mkdir()
    with (tmp_path / "venv" / "big").open("wb") as file:
        file.truncate(2 * free)  # sparse: as long as what is needed, without taking the room
    checks.check_disk(tmp_path / "venv", needed=2 * free)


@pytest.mark.parametrize(
    ("printed", "usable"),
    [
        ("cmake version 3.20.0\n", True),
        ("cmake version 4.4.5\n", True),
        ("cmake version 3.16.3\n", False),
        ("cmake version 3.25.1-rc2", True),
        ("", False),
        ("nonsense", False),
    ],
)
def test_cmake_version(printed: str, usable: bool):
    assert checks.cmake_is_usable(printed) is usable


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("WARNING: Retrying ... Failed to establish a new connection: [Errno 111]\nERROR: No matching "
         "distribution found for numpy==2.4.6", "package index cannot be reached"),
        ("NameResolutionError(...): Temporary failure in name resolution", "package index cannot be reached"),
        ("ERROR: Could not install packages: [Errno 28] No space left on device", "disk became full"),
        ("ERROR: No matching distribution found for torch==2.13.0", "no wheel of torch==2.13.0"),
        ("line\nERROR: something new\n[notice] a pip", "pip failed: ERROR: something new"),
        ("", "pip failed: it printed nothing"),
    ],
)  # fmt: skip
def test_a_failed_pip_is_explained_in_one_sentence(printed: str, words: str):
    sentence = explain_pip(printed, "log")
    assert words in sentence and "\n" not in sentence


def test_a_failed_build_names_its_error():
    assert "fatal error: Python.h" in explain_build(
        "ok\nx.c:1: fatal error: Python.h: No such file\nmake: ***", "log"
    )
    assert "disk became full" in explain_build(
        "fatal error: error writing to x.o: No space left on device", "log"
    )


def test_a_failing_command_leaves_its_output_in_the_log(tmp_path: Path):
    command = [sys.executable, "-c", "print('why'); raise SystemExit(3)"]
    with pytest.raises(SetupError, match="pip failed: why"):
        run_logged(command, {}, tmp_path / "log", explain_pip)
    assert "why\n" in (tmp_path / "log").read_text()


def test_packages_cut_off_in_the_middle_are_forgotten_and_whole_ones_stay(tmp_path: Path):
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    for name in ("whole-1.dist-info", "half-1.dist-info"):
        (packages / name).mkdir(parents=True)
        (packages / name / "METADATA").write_text("")
    (packages / "whole-1.dist-info" / "RECORD").write_text("")
    drop_half_installed(Place(tmp_path, tmp_path))
    assert [path.name for path in packages.iterdir()] == ["whole-1.dist-info"]


def test_only_files_inside_the_environment_are_removed(tmp_path: Path):
    venv, outside = tmp_path / "venv", tmp_path / "outside"
    venv.mkdir()
    for file in (venv / "old.msg", outside):
        file.write_text("")
    (venv / "manifest").write_text(f"{venv / 'old.msg'}\n{outside}\n{venv / 'gone'}\n")
    remove_files(installed_files(venv / "manifest"), venv)
    assert installed_files(tmp_path / "nowhere") == set()
    assert outside.exists() and not (venv / "old.msg").exists()


def test_the_makefile_lists_its_targets():
    done = subprocess.run(["make", "-s", "-C", str(ROOT)], capture_output=True, text=True)
    assert done.returncode == 0
    for target in ("train", "test", "setup"):
        assert f"make {target}" in done.stdout


def test_a_python_that_cannot_run_is_one_sentence(tmp_path: Path):
    script = ROOT / "scripts" / "setup.sh"
    done = subprocess.run(
        [script], env={"PATH": "/usr/bin:/bin", "PYTHON": "/none"}, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr == "set-up: PYTHON=/none cannot be run; name a Python from 3.10 to 3.13.\n"


def test_an_old_python_says_which_one_is_needed(tmp_path: Path):
    """The guard runs before anything that an old Python would not understand."""
    source = (ROOT / "scripts" / "bootstrap.py").read_text()
    pretended = tmp_path / "bootstrap.py"
    pretended.write_text("import sys\nsys.version_info = (3, 8, 1)\n" + source)
    done = subprocess.run([sys.executable, str(pretended)], capture_output=True, text=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "needs Python 3.10 to 3.13, but" in done.stderr and "is 3.8" in done.stderr


def test_one_version_everywhere():
    texts = {
        "package.xml": r"<version>(.*?)</version>",
        "setup.py": r'version="(.*?)"',
        "CHANGELOG.md": r"^## (\S+)",
        "ros2_ws/src/coda_interfaces/package.xml": r"<version>(.*?)</version>",
    }
    found = {
        name: re.search(text, (ROOT / name).read_text(), re.MULTILINE).group(1)
        for name, text in texts.items()
    }
    assert set(found.values()) == {__version__}, found


def test_the_lock_names_exact_versions_and_nothing_of_an_accelerator():
    for lock in (ROOT / "requirements").glob("*.lock"):
        for line in lock.read_text().splitlines():
            name, exact, version = line.split(";")[0].strip().partition("==")
            assert exact and version, f"{lock.name}: {line}"
            assert not name.startswith(("nvidia", "cuda", "triton")), f"{lock.name}: {line}"
    assert "torch==2.13.0" in (ROOT / "requirements" / "base.lock").read_text().splitlines()
