"""Starts the training graph, has the conductor run the rounds, and ends the graph again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import rclpy
from coda_interfaces.action import RunRounds

from coda_nodes.ros import names
from coda_nodes.ros.clients import ActionCaller
from coda_nodes.ros.environment import node_environment, take_domain
from coda_nodes.ros.graph import GraphConfig, describe_graph
from coda_nodes.ros.node_main import Spinner
from coda_nodes.ros.processes import NodeGroup, termination_as_interrupt
from coda_nodes.world.errors import NodeError

START_TIME = 60.0
"""Time in which the conductor has to appear [s]; importing torch on a busy machine takes long."""
FOREVER = 30 * 24 * 3600.0
"""[s]"""

Report = Callable[[dict[str, Any]], None]


def run_training(
    settings: Mapping[str, Any], graph: GraphConfig, root: Path, domain: int | None, report: Report
) -> Path:
    """Start all nodes as processes, run the rounds, stop the nodes; return the path of the summary.

    Args:
        settings: fields of the conductor's ``TrainConfig``.
        graph: what the nodes are told at their start.
        root: folder of the run.
        domain: ROS domain id; None: that of ROS_DOMAIN_ID, or a free one.
        report: receives every progress event.

    Raises:
        NodeError: a node ended by itself (the message holds its last log lines) or the rounds failed.
    """
    with take_domain(domain) as taken, termination_as_interrupt():
        env = node_environment(root, taken.number)
        os.environ.update(env)
        report({"event": "note", "text": f"nodes: ROS domain {taken.number}, this host only; logs in {root / 'logs'}"})
        nodes = describe_graph("train", graph)
        report({"event": "phase", "phase": "starting", "fraction": 0.0, "text": f"{len(nodes)} nodes", "seconds_left": -1.0})
        with NodeGroup(nodes, root, env) as group:
            return root / _run_rounds(settings, group, report)


def _run_rounds(settings: Mapping[str, Any], group: NodeGroup, report: Report) -> str:
    rclpy.init()
    try:
        node = rclpy.create_node("train_client", namespace="/coda")
        caller = ActionCaller(node, RunRounds, names.RUN_ROUNDS)
        goal = RunRounds.Goal(config_json=json.dumps(dict(settings)), rounds=int(settings["rounds"]))
        with Spinner(node):
            try:
                result = caller.run(
                    goal, FOREVER, lambda feedback: _relay(feedback.progress, report),
                    cancelled=lambda: bool(group.ended()), discovery=START_TIME,
                )
            except NodeError:
                group.check()
                raise
        group.check()
        if not result.summary_path:
            raise NodeError(result.message or "the conductor ended without a summary")
        return str(result.summary_path)
    finally:
        rclpy.try_shutdown()


def _relay(progress: Any, report: Report) -> None:
    """Hand the event inside a progress message on; a damaged one is shown by its text."""
    try:
        event = json.loads(progress.data_json)
    except ValueError:
        event = {"event": "note", "text": progress.text}
    report(event)


