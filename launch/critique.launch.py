"""Critique of recorded failures: critic and memory, listening to what `ros2 bag play` publishes."""

import os

from launch.actions import DeclareLaunchArgument, OpaqueFunction, SetEnvironmentVariable
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from coda_nodes.ros.environment import launch_environment
from coda_nodes.ros.graph import GraphConfig, describe_graph
from launch import LaunchDescription


def generate_launch_description():
    """Describe the arguments; the nodes follow from their values."""
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "out", default_value="runs/critique", description="folder of memory and diagnoses"
            ),
            DeclareLaunchArgument(
                "critic", default_value="state", description="critic that diagnoses failures"
            ),
            DeclareLaunchArgument(
                "domain_id", default_value="", description="ROS domain id; empty: that of the shell"
            ),
            DeclareLaunchArgument(
                "use_sim_time",
                default_value="false",
                description="take the time from /clock (ros2 bag play --clock)",
            ),
            OpaqueFunction(function=start_nodes),
        ]
    )


def start_nodes(context):
    """Return the environment and the nodes for the given arguments."""
    value = {
        name: LaunchConfiguration(name).perform(context)
        for name in ("out", "critic", "domain_id", "use_sim_time")
    }
    root = os.path.abspath(value["out"])
    graph = describe_graph(
        "critique",
        GraphConfig(root=root, critic=value["critic"], use_sim_time=value["use_sim_time"].lower() == "true"),
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
