"""Measurements of running nodes: lockstep rate over the wire, memory of each process."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import rclpy
from rclpy.node import Node

from coda_nodes.ros.environment import node_environment, take_domain
from coda_nodes.ros.graph import GraphConfig, NodeProcess, describe_graph
from coda_nodes.ros.lockstep import LockstepClient
from coda_nodes.ros.node_main import Spinner
from coda_nodes.ros.processes import NodeGroup
from coda_nodes.world.errors import NodeError

START_TIME = 60.0
"""Time in which nodes have to appear [s]."""


@contextmanager
def _running(nodes: Sequence[NodeProcess], root: Path) -> Iterator[tuple[NodeGroup, Node]]:
    """Nodes as processes in a domain of their own, and a spinning client node beside them."""
    with ExitStack() as stack:
        domain = stack.enter_context(take_domain())
        env = node_environment(root, domain.number)
        os.environ.update(env)
        group = stack.enter_context(NodeGroup(nodes, root, env))
        rclpy.init()
        stack.callback(rclpy.try_shutdown)
        node = rclpy.create_node("measurement", namespace="/coda")
        stack.enter_context(Spinner(node))
        yield group, node


@contextmanager
def simulator_client(root: Path) -> Iterator[LockstepClient]:
    """Start the simulator node in a domain of its own; give a lockstep client of it."""
    nodes = [node for node in describe_graph("train", GraphConfig(artifact_root=str(root))) if node.name == "simulator"]
    with _running(nodes, root) as (_, node):
        client = LockstepClient(node)
        client.wait(START_TIME)
        yield client


def graph_memory(config: GraphConfig, root: Path) -> dict[str, float]:
    """Resident memory of every node of the training graph once all are up [MB]. Raises NodeError when one dies."""
    nodes = describe_graph("train", config)
    with _running(nodes, root) as (group, node):
        _wait_for_all(group, node, {item.name for item in nodes})
        return {name: psutil.Process(pid).memory_info().rss / 2**20 for name, pid in group.pids.items()}


def _wait_for_all(group: NodeGroup, node: Node, names: set[str]) -> None:
    end = time.monotonic() + START_TIME
    while missing := names - set(node.get_node_names()):
        group.check()
        if time.monotonic() > end:
            raise NodeError(f"nodes not there after {START_TIME:g} s: {', '.join(sorted(missing))}")
        time.sleep(0.05)
