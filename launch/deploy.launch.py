"""A trained policy on an arm: the executor, driving ros2_control by trajectories."""

import os

from launch.actions import DeclareLaunchArgument, OpaqueFunction, SetEnvironmentVariable
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from coda_nodes.ros.environment import launch_environment
from coda_nodes.ros.graph import GraphConfig, describe_graph
from launch import LaunchDescription


def generate_launch_description():
    """Describe the arguments; the node follows from their values."""
    return LaunchDescription(
        [
            DeclareLaunchArgument("checkpoint", description="folder of the checkpoint to run"),
            DeclareLaunchArgument("robot", default_value="panda", description="robot description of the arm"),
            DeclareLaunchArgument(
                "dry_run", default_value="true", description="true: decide and check every command, send none"
            ),
            DeclareLaunchArgument(
                "out", default_value="runs/deploy", description="folder of logs and recordings"
            ),
            DeclareLaunchArgument(
                "domain_id", default_value="", description="ROS domain id; empty: that of the shell"
            ),
            DeclareLaunchArgument(
                "use_sim_time", default_value="false", description="take the time from /clock"
            ),
            OpaqueFunction(function=start_nodes),
        ]
    )


def start_nodes(context):
    """Return the environment and the node for the given arguments."""
    value = {
        name: LaunchConfiguration(name).perform(context)
        for name in ("checkpoint", "robot", "dry_run", "out", "domain_id", "use_sim_time")
    }
    root = os.path.abspath(value["out"])
    executor = {
        "checkpoint": os.path.abspath(value["checkpoint"]),
        "robot": value["robot"],
        "dry_run": value["dry_run"].lower() == "true",
    }
    graph = describe_graph(
        "deploy",
        GraphConfig(
            root=root, use_sim_time=value["use_sim_time"].lower() == "true", own={"executor": executor}
        ),
    )
    environment = launch_environment(root, value["domain_id"])
    return [SetEnvironmentVariable(name, text) for name, text in environment.items()] + [
        Node(
            package="coda_nodes",
            executable=node.executable,
            name=node.name,
            namespace=node.namespace,
            parameters=[node.parameters_for_launch()],
            output="both",
        )
        for node in graph
    ]
