"""Rooms keep to themselves: the imports of every module are read and compared with what its room may use."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "coda_nodes"
NODES = ("generator", "simulator", "critic", "memory", "learner", "executor", "perception")
EVERYTHING = ("world", "policy", *NODES, "conductor", "report", "cli", "ros", "benchmarks", "models")
ALLOWED = {
    "world": ("world",),
    "policy": ("world", "policy"),
    **{node: ("world", "policy", node) for node in NODES},
    "ros": ("world", "ros"),
    **{room: EVERYTHING for room in ("conductor", "report", "cli", "benchmarks")},
}
ROS_ROOMS = ("ros", "cli", "benchmarks")
"""Besides every node.py, these may import coda_nodes.ros."""
ROS_PACKAGES = ("rclpy", "launch", "launch_ros", "ament_index_python", "rosidl_runtime_py", "rpyutils")


def is_ros(module: str) -> bool:
    """Whether a module belongs to ROS."""
    top = module.split(".")[0]
    return top in ROS_PACKAGES or top.endswith(("_msgs", "_interfaces", "_srvs"))


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and absolute name of everything imported, inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import"
            base = node.module or ""
            names = [f"{base}.{alias.name}" for alias in node.names] if base == "coda_nodes" else [base]
            yield from ((node.lineno, name) for name in names)


def violations(path: str, source: str) -> list[str]:
    """What a module, named by its path inside the package, imports and may not."""
    room, file = path.split("/")[0], path.split("/")[-1]
    node = file == "node.py"
    wrong = []
    for line, name in imports(ast.parse(source)):
        ours = name.split(".")[1] if name.startswith("coda_nodes.") else None
        if is_ros(name) and not (node or room == "ros"):
            wrong.append(f"{path}:{line} imports {name}: only node.py and ros/ may")
        elif ours == "ros" and not (node or room in ROS_ROOMS):
            wrong.append(f"{path}:{line} imports {name}: only node.py, cli and benchmarks may")
        elif ours and ours not in (*ALLOWED[room], *(("ros",) if node else ())):
            wrong.append(f"{path}:{line} imports {name}: {room} may import {', '.join(ALLOWED[room])}")
    return wrong


MODULES = sorted(
    path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE
)


def test_every_room_is_known() -> None:
    assert MODULES
    assert sorted({path.split("/")[0] for path in MODULES} - set(ALLOWED)) == []


@pytest.mark.parametrize("room", sorted({path.split("/")[0] for path in MODULES}))
def test_room_imports_only_what_it_may(room: str) -> None:
    mine = [path for path in MODULES if path.split("/")[0] == room]
    found = [text for path in mine for text in violations(path, (PACKAGE / path).read_text())]
    assert found == []


@pytest.mark.parametrize(
    ("path", "source", "word"),
    [
        ("world/a.py", "from coda_nodes.policy import runner", "world may import world"),
        ("world/a.py", "from coda_nodes import simulator", "world may import world"),
        ("critic/a.py", "def f():\n    import coda_nodes.memory.store", "critic may import"),
        ("critic/node.py", "from coda_nodes.memory import store", "critic may import"),
        ("learner/a.py", "import rclpy", "only node.py and ros/ may"),
        ("cli/a.py", "from coda_interfaces.msg import Progress", "only node.py and ros/ may"),
        ("simulator/bags.py", "from sensor_msgs.msg import Image", "only node.py and ros/ may"),
        ("conductor/rounds.py", "from coda_nodes.ros import clients", "only node.py, cli"),
    ],
)
def test_a_wrong_import_is_found(path: str, source: str, word: str) -> None:
    (found,) = violations(path, source)
    assert word in found


@pytest.mark.parametrize(
    ("path", "source"),
    [
        (
            "critic/node.py",
            "import rclpy\nfrom coda_nodes.ros import qos\nfrom coda_nodes.critic import state",
        ),
        ("ros/qos.py", "import rclpy\nfrom coda_nodes.world import errors"),
        ("conductor/rounds.py", "from coda_nodes.simulator import workers"),
        ("cli/train.py", "from coda_nodes.ros import graph"),
    ],
)
def test_a_right_import_passes(path: str, source: str) -> None:
    assert violations(path, source) == []
