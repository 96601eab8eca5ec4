"""Starts the training graph, has the conductor run the rounds, and ends the graph again."""

from __future__ import annotations

import json
import os
import time
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
from coda_nodes.ros.supervision import Allowance, SupervisionConfig, Supervisor
from coda_nodes.world.errors import NodeError, NodeLostError

START_TIME = 60.0
"""Time in which the conductor has to appear [s]; importing torch on a busy machine takes long."""
FOREVER = 30 * 24 * 3600.0
"""[s]"""

Report = Callable[[dict[str, Any]], None]


def run_training(
    settings: Mapping[str, Any], graph: GraphConfig, root: Path, domain: int | None, report: Report,
    supervision: SupervisionConfig | None = None,
) -> Path:
    """Start all nodes as processes, run the rounds, stop the nodes; return the path of the summary.

    A node that dies or hangs meanwhile is started anew, and the rounds go on.

    Args:
        settings: fields of the conductor's ``TrainConfig``.
        graph: what the nodes are told at their start.
        root: folder of the run.
        domain: ROS domain id; None: that of ROS_DOMAIN_ID, or a free one.
        report: receives every progress event, from more than one thread.
        supervision: how often; the defaults where left out.

    Raises:
        NodeError: a node ended too often (the message holds its last log lines) or the rounds failed.
    """
    watch = supervision or SupervisionConfig()
    with take_domain(domain) as taken, termination_as_interrupt():
        env = node_environment(root, taken.number)
        os.environ.update(env)
        report({"event": "note", "text": f"nodes: ROS domain {taken.number}, this host only; logs in {root / 'logs'}"})
        nodes = describe_graph("train", graph)
        report({"event": "phase", "phase": "starting", "fraction": 0.0, "text": f"{len(nodes)} nodes", "seconds_left": -1.0})
        tell = lambda text: report({"event": "note", "text": text})  # noqa: E731
        with NodeGroup(nodes, root, env) as group, Supervisor(group, watch, tell) as supervisor:
            again = Allowance(watch.node_restarts, watch.restart_window)
            return root / _run_rounds(settings, supervisor, again, report)


def _run_rounds(settings: Mapping[str, Any], supervisor: Supervisor, again: Allowance, report: Report) -> str:
    rclpy.init()
    try:
        node = rclpy.create_node("train_client", namespace="/coda")
        caller = ActionCaller(node, RunRounds, names.RUN_ROUNDS)
        goal = RunRounds.Goal(config_json=json.dumps(dict(settings)), rounds=int(settings["rounds"]))
        with Spinner(node):
            result = _ask_conductor(caller, goal, supervisor, again, report)
        supervisor.check()
        if not result.summary_path:
            raise NodeError(result.message or "the conductor ended without a summary")
        return str(result.summary_path)
    finally:
        rclpy.try_shutdown()


def _ask_conductor(
    caller: ActionCaller, goal: Any, supervisor: Supervisor, again: Allowance, report: Report
) -> Any:
    """Result of the rounds; a conductor that was lost meanwhile is asked again, as often as that is allowed."""
    while True:
        try:
            return caller.run(
                goal, FOREVER, lambda feedback: _relay(feedback.progress, report),
                cancelled=lambda: supervisor.failed, discovery=START_TIME,
            )
        except NodeLostError:
            supervisor.check()
            if not again.take(time.monotonic()):
                raise
        except NodeError:
            supervisor.check()
            raise


def _relay(progress: Any, report: Report) -> None:
    """Hand the event inside a progress message on; a damaged one is shown by its text."""
    try:
        event = json.loads(progress.data_json)
    except ValueError:
        event = {"event": "note", "text": progress.text}
    report(event)
