"""Launch files: read as text everywhere, loaded for real where the launch system is installed."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "launch"
FILES = sorted(FOLDER.glob("*.launch.py"))
ALLOWED = ("json", "os", "launch", "launch_ros", "coda_nodes.ros")


def calls(tree: ast.AST, name: str) -> list[ast.Call]:
    return [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == name
    ]


def test_the_three_launch_files_are_there():
    assert [file.name.split(".")[0] for file in FILES] == ["critique", "deploy", "train"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_imports_only_the_launch_system_and_the_graph(file: Path):
    names = []
    for node in ast.walk(ast.parse(file.read_text())):
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) else []
    assert [
        name for name in names if not any(name == ok or name.startswith(ok + ".") for ok in ALLOWED)
    ] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_argument_is_described_and_used(file: Path):
    tree = ast.parse(file.read_text())
    declared = {}
    for call in calls(tree, "DeclareLaunchArgument"):
        descriptions = [word.value.value for word in call.keywords if word.arg == "description"]
        declared[call.args[0].value] = descriptions
    assert declared and all(texts and len(texts[0]) > 10 for texts in declared.values()), declared
    (read,) = calls(tree, "argument_values")
    assert {word.value for word in read.args[1:]} == set(declared)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_loads_in_the_launch_system(file: Path, tmp_path: Path):
    pytest.importorskip(
        "launch.actions", reason="the launch system is not among the ROS 2 wheels; source a ROS 2 to run this"
    )
    from launch import LaunchContext
    from launch.actions import DeclareLaunchArgument, OpaqueFunction
    from launch_ros.actions import Node

    spec = importlib.util.spec_from_file_location(file.stem.replace(".", "_"), file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    context = LaunchContext(argv=[])
    context.launch_configurations.update(checkpoint=str(tmp_path), out=str(tmp_path))
    nodes = []
    for entity in module.generate_launch_description().entities:
        if isinstance(entity, DeclareLaunchArgument):
            entity.execute(context)
        elif isinstance(entity, OpaqueFunction):
            nodes += [action for action in entity.execute(context) if isinstance(action, Node)]
    assert nodes
