"""The whole graph in processes of its own: over the wire it does what the same rooms do in this process."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import psutil
import pytest
from coda_interfaces.action import RunRounds
from coda_interfaces.msg import Progress
from coda_interfaces.srv import Generate
from rclpy.node import Node

from coda_nodes.conductor.config import TrainConfig
from coda_nodes.conductor.local import LocalPorts
from coda_nodes.conductor.node import RosPorts
from coda_nodes.conductor.ports import DatasetItem, EpisodesRequest
from coda_nodes.ros import names, qos
from coda_nodes.ros.clients import ActionCaller, ServiceCaller
from coda_nodes.ros.environment import node_environment
from coda_nodes.ros.graph import GraphConfig, describe_graph
from coda_nodes.ros.node_main import Spinner
from coda_nodes.ros.processes import NodeGroup
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.errors import CodaError, NodeError
from coda_nodes.world.programs import TRAIN_SPLIT, GenerationProgram, Regime, Share, TrainingProgram
from coda_nodes.world.records import Summary
from coda_nodes.world.splits import sample_split

MOST_MEMORY = 500e6
"""Resident memory of a node [bytes]."""


@pytest.fixture(scope="module")
def graph(ros: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[NodeGroup, Path]]:
    """All nodes of the training graph on one artifact root."""
    run = tmp_path_factory.mktemp("run")
    environment = node_environment(run, int(os.environ["ROS_DOMAIN_ID"]))
    nodes = describe_graph("train", GraphConfig(artifact_root=str(run), workers=1))
    with NodeGroup(nodes, run, environment) as group:
        yield group, run


@pytest.fixture(scope="module")
def client(graph: tuple[NodeGroup, Path]) -> Iterator[Node]:
    """A node of this process that sees the graph."""
    node = Node("wire_client")
    with Spinner(node):
        yield node
    node.destroy_node()


@pytest.fixture(scope="module")
def both(
    graph: tuple[NodeGroup, Path], client: Node, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RosPorts, LocalPorts]]:
    """Ports over the wire, and in this process on a root of its own."""
    with LocalPorts(ArtifactRoot(tmp_path_factory.mktemp("local")), workers=1, seed=0) as local:
        yield RosPorts(client, ArtifactRoot(graph[1])), local


def specs(count: int = 2):
    rng = np.random.default_rng(7)
    return [sample_split("pick_place", "train", rng) for _ in range(count)]


def test_generation(both) -> None:
    wire, local = both
    program = GenerationProgram(family="stack")
    here, there = (ports.generate([program, program], [2, 1], 11) for ports in (local, wire))
    assert here.specs == there.specs
    assert here.rejections == there.rejections
    assert len(there.specs) == 3


def test_generation_of_solvable_environments(both, client: Node) -> None:
    ask = ServiceCaller(client, Generate, names.GENERATE)
    program = GenerationProgram(family="pick_place").to_json()
    request = Generate.Request(programs_json=[program], count=3, seed=2, require_solvable=True)
    answer = ask.call(request, 120, discovery=60)
    rejected = [json.loads(text) for text in answer.rejections_json]
    unsolved = sum(item["reason"] == "the expert does not solve it" for item in rejected)
    assert answer.environments_spent == answer.accepted_count + unsolved == 3
    assert answer.control_steps_spent > 0
    with pytest.raises(NodeError, match="no operator 'melt'"):
        wrong = '{"family": "stack", "operators": [{"kind": "melt"}]}'
        ask.call(Generate.Request(programs_json=[wrong], count=1), 60)


def test_episodes_diagnoses_memory_and_training(both) -> None:
    wire, local = both
    seen: list[float] = []
    report = lambda event: seen.append(event["fraction"])  # noqa: E731
    shown = [
        ports.run_episodes(EpisodesRequest(specs(), "expert", 3, "demonstration", 4, 0.01)) for ports in both
    ]
    assert shown[0] == shown[1]
    failed = [ports.run_episodes(EpisodesRequest(specs(1), "hold", 3, "rollout"), report) for ports in both]
    assert failed[0] == failed[1]
    assert failed[0][0].outcome == "failure"
    assert seen[-1] == 1.0
    diagnoses = [ports.diagnose([failed[0][0].hash]) for ports in both]
    assert diagnoses[0] == diagnoses[1]
    records = [diagnosis.model_dump(mode="json") for diagnosis in diagnoses[0]]
    assert wire.store("diagnosis", records) == local.store("diagnosis", records)
    assert wire.query("diagnosis", {"limit": 5}) == local.query("diagnosis", {"limit": 5})
    assert wire.compile(diagnoses[0]) == local.compile(diagnoses[0])
    program = TrainingProgram(
        regime=Regime.EXPERT,
        environments=(Share(program_id=TRAIN_SPLIT, share=1.0),),
        supervision=("demonstrations",),
        steps=20,
        learning_rate=1e-3,
    )
    items = [DatasetItem(summary.hash) for summary in shown[0]]
    trained = [ports.train(program, items, "", 5) for ports in both]
    assert trained[0].checkpoint == trained[1].checkpoint
    rolled = [
        ports.run_episodes(EpisodesRequest(specs(), trained[0].checkpoint, 3, "rollout")) for ports in both
    ]
    assert rolled[0] == rolled[1]


def test_errors_of_other_nodes_arrive_with_their_words(both) -> None:
    wire, _ = both
    with pytest.raises(NodeError, match="/coda/critic/diagnose refused: cannot read"):
        wire.diagnose(["0123456789abcdef"])
    with pytest.raises(NodeError, match="/coda/memory/query refused: no "):
        wire.query("recipe", {})
    with pytest.raises(CodaError, match="0123456789abcdef"):
        wire.run_episodes(EpisodesRequest(specs(1), "0123456789abcdef", 0, "rollout"))


def test_the_conductor_runs_a_small_loop(graph, client: Node, until) -> None:
    group, run = graph
    heard: list[str] = []
    qos.subscription(
        client, Progress, names.PROGRESS, lambda message: heard.append(message.phase), qos.EVENTS
    )
    config = TrainConfig(
        families=("pick_place",),
        environments=4,
        rounds=0,
        demonstrations=2,
        imitation_steps=20,
        practice_environments=2,
        practice_corrections=2,
        practice_steps=10,
        dev_environments=1,
        gate_environments=1,
    )
    events: list[dict] = []
    caller = ActionCaller(client, RunRounds, names.RUN_ROUNDS)
    goal = RunRounds.Goal(config_json=json.dumps(asdict(config)), rounds=0)
    result = caller.run(goal, 120, lambda feedback: events.append(json.loads(feedback.progress.data_json)))
    summary = Summary.model_validate_json((run / result.summary_path).read_text())
    assert summary.rounds == 0
    assert summary.families["pick_place"].dev_after.episodes <= 1
    until(lambda: events and events[-1].get("event") == "done", "the last event")
    assert {"demonstrations", "imitation"} <= {event.get("phase") for event in events}
    assert "imitation" in heard
    changed = json.dumps(asdict(config) | {"seed": 1})
    with pytest.raises(NodeError, match="holds a run with seed = 0"):
        caller.run(RunRounds.Goal(config_json=changed, rounds=0), 60)
    with pytest.raises(NodeError, match="no setting 'round'"):
        caller.run(RunRounds.Goal(config_json='{"round": 1}', rounds=0), 60)
    last = lambda: events[-1].get("phase") == "rollout"  # noqa: E731
    goal.rounds = 1
    stopped = caller.run(
        goal, 120, lambda feedback: events.append(json.loads(feedback.progress.data_json)), last
    )
    assert not stopped.accepted
    assert "cancelled" in stopped.message
    group.check()
    memory = {name: psutil.Process(pid).memory_info().rss for name, pid in group.pids.items()}
    assert max(memory.values()) < MOST_MEMORY, memory


def test_a_conductor_that_starts_by_itself_ends_with_its_run(start_node, tmp_path: Path) -> None:
    settings = json.dumps(json.dumps({"round": 1}))
    conductor = start_node(
        "coda_nodes.conductor.node", artifact_root=tmp_path / "run", autostart=True, config_json=settings
    )
    assert conductor.process.wait(60) == 2
    assert "no setting 'round'" in conductor.text()
