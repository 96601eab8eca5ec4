"""The graph as data: nodes, parameters, and how they reach a process."""

from __future__ import annotations

import json

import pytest
import yaml

from coda_nodes.ros.graph import GRAPHS, GraphConfig, NodeProcess, describe_graph
from coda_nodes.world.errors import ConfigError


def parameters_of(words: list[str]) -> dict[str, object]:
    """Read -p arguments the way the middleware does: as YAML."""
    texts = [words[i + 1] for i, word in enumerate(words) if word == "-p"]
    return {text.partition(":=")[0]: yaml.safe_load(text.partition(":=")[2]) for text in texts}


def test_all_nodes_share_the_artifact_root_and_the_clock():
    for kind, names in GRAPHS.items():
        graph = describe_graph(kind, GraphConfig(artifact_root="/run", use_sim_time=True))
        assert [node.name for node in graph] == list(names)
        for node in graph:
            assert node.parameters["artifact_root"] == "/run" and node.parameters["use_sim_time"] is True
            assert node.module == f"coda_nodes.{node.executable}.node"


def test_parameters_arrive_with_their_types():
    given = {
        "text": "5",
        "empty": "",
        "whole": 5,
        "real": 5.0,
        "yes": True,
        "names": ("a", "b"),
        "quote": "it's: {x}",
    }
    words = NodeProcess("n", "coda_nodes.memory.node", parameters=given).ros_arguments()
    assert words[:5] == ["--ros-args", "-r", "__node:=n", "-r", "__ns:=/coda"]
    read = parameters_of(words)
    assert read == {**given, "names": ["a", "b"]}
    assert {key: type(value) for key, value in read.items()}["real"] is float


def test_own_parameters_of_a_node_come_over_the_shared_ones():
    config = {"families": ["stack"]}
    own = {"conductor": {"config_json": json.dumps(config), "artifact_root": "/other"}}
    graph = {node.name: node for node in describe_graph("train", GraphConfig(artifact_root="/run", own=own))}
    assert json.loads(graph["conductor"].parameters["config_json"]) == config
    assert graph["conductor"].parameters["artifact_root"] == "/other"
    assert graph["memory"].parameters["artifact_root"] == "/run"


def test_the_simulator_is_told_its_engine_and_workers():
    graph = {node.name: node for node in describe_graph("train", GraphConfig(simulator="gazebo", workers=5))}
    assert graph["simulator"].parameters["simulator"] == "gazebo"
    assert graph["simulator"].parameters["workers"] == 5
    assert "workers" not in graph["memory"].parameters


def test_parameters_of_a_node_that_is_not_there_are_refused():
    with pytest.raises(ConfigError, match="'conductr'.*memory, generator"):
        describe_graph("train", GraphConfig(own={"conductr": {}}))
    with pytest.raises(ConfigError, match="'trian'.*train, deploy, critique"):
        describe_graph("trian", GraphConfig())
    with pytest.raises(ConfigError, match=r"simulator.*'gazeboo'.*mujoco, gazebo"):
        GraphConfig(simulator="gazeboo")
