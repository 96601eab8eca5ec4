"""The described graph as actions of the ROS 2 launch system; imported by launch files only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from launch.actions import SetEnvironmentVariable, Shutdown
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from coda_nodes.ros.environment import launch_environment
from coda_nodes.ros.graph import NodeProcess


def argument_values(context: Any, *names: str) -> list[str]:
    """Return the values given for launch arguments."""
    return [LaunchConfiguration(name).perform(context) for name in names]


def launch_actions(nodes: Sequence[NodeProcess], run: str, domain: str, ends_with: str = "") -> list[Any]:
    """Return the environment and the nodes as launch actions.

    `run` is the folder of the logs, an empty `domain` that of the shell; with the end of the node `ends_with`
    the whole launch ends.
    """
    environment = launch_environment(run, domain)
    return [SetEnvironmentVariable(name, text) for name, text in environment.items()] + [
        Node(
            package="coda_nodes",
            executable=node.executable,
            name=node.name,
            namespace=node.namespace,
            parameters=[node.parameters_for_launch()],
            output="both",
            on_exit=Shutdown() if node.name == ends_with else None,
        )
        for node in nodes
    ]
