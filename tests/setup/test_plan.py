"""What the set-up decides: which ROS 2, what to install, what is done already."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from coda_setup.plan import Place, SourcedRos, find_ros, lock_lines, read_stamp, step_keys, write_stamp
from coda_setup.problems import SetupError

ROOT = Path(__file__).parents[2]
SOURCED = {"ROS_DISTRO": "jazzy", "AMENT_PREFIX_PATH": "/opt/ros/jazzy"}


@pytest.fixture
def clone(tmp_path: Path) -> Place:
    """A copy of what the keys depend on."""
    for name in ("requirements", "ros2_ws", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "setup.cfg", "pyproject.toml", "package.xml"):
        shutil.copy(ROOT / name, tmp_path / name)
    return Place(tmp_path, tmp_path / ".venv")


def test_without_a_sourced_ros_the_wheels_are_used():
    def nobody_asks(python: str) -> bool:
        raise AssertionError(python)

    for env in ({}, {"ROS_DISTRO": "jazzy"}, {**SOURCED, "AMENT_PREFIX_PATH": "/clone/.venv"}):
        assert find_ros(env, ["python3"], nobody_asks, own_prefix="/clone/.venv") is None


def test_a_sourced_ros_is_used_with_the_first_python_that_knows_it():
    env = {**SOURCED, "AMENT_PREFIX_PATH": "/ws/install:/opt/ros/jazzy:/clone/.venv"}
    found = find_ros(env, ["/pyenv/python", "/usr/bin/python3"], "/usr/bin/python3".__eq__, "/clone/.venv")
    assert found == SourcedRos("jazzy", ("/ws/install", "/opt/ros/jazzy"), "/usr/bin/python3")


def test_a_sourced_ros_that_no_python_knows_is_one_sentence():
    with pytest.raises(SetupError, match=r"^ROS 2 jazzy is sourced, but .* /a or /b: [^\n]*\.$"):
        find_ros(SOURCED, ["/a", "/b"], lambda python: False, "")


def test_lock_lines_leave_out_what_is_skipped_under_any_spelling():
    text = "# comment\nnumpy==1.0 ; python_version < '3.11'\nPyYAML==6.0.4\n\nruamel-yaml==0.19.1  # why\n"
    assert lock_lines(text, ["NumPy", "ruamel.yaml"]) == ["PyYAML==6.0.4"]
    assert len(lock_lines(text)) == 3


def changed(clone: Place, before: dict[str, str], **other: object) -> set[str]:
    after = step_keys(clone, other.get("python", "3.11.7"), other.get("ros"))
    return {step for step in before if before[step] != after[step]}


def test_only_what_depends_on_a_change_is_done_again(clone: Place):
    before = step_keys(clone, "3.11.7", None)
    assert changed(clone, before) == set()
    assert changed(clone, before, python="3.12.1") == {"packages", "interfaces", "package"}
    assert changed(clone, before, ros=SourcedRos("jazzy", ("/opt",), "p")) == {
        "packages",
        "interfaces",
        "package",
    }
    with (clone.interfaces / "msg" / "ObjectState.msg").open("a") as file:
        file.write("# a comment\n")
    assert changed(clone, before) == {"interfaces"}
    before = step_keys(clone, "3.11.7", None)
    (clone.root / "setup.py").write_text("")
    assert changed(clone, before) == {"package"}
    before = step_keys(clone, "3.11.7", None)
    (clone.requirements / "base.lock").write_text("numpy==2.0\n")
    assert changed(clone, before) == {"packages", "interfaces", "package"}


def test_sources_and_files_of_runs_change_nothing(clone: Place):
    before = step_keys(clone, "3.11.7", None)
    (clone.root / "coda_nodes").mkdir()
    (clone.root / "coda_nodes" / "new.py").write_text("")
    assert changed(clone, before) == set()


def test_a_stamp_is_read_back_and_a_broken_one_counts_as_none(tmp_path: Path):
    write_stamp(tmp_path, {"packages": "abc"})
    assert read_stamp(tmp_path) == {"packages": "abc"}
    for broken in ("", "{", "[]", '{"packages": "abc'):
        (tmp_path / "coda_setup.json").write_text(broken)
        assert read_stamp(tmp_path) == {}
    assert read_stamp(tmp_path / "nowhere") == {}
