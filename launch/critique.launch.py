"""Critique of recorded failures: critic and memory alone, asked by service. Bags are not read in this version."""

import os

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction

from coda_nodes.ros.graph import GraphConfig, describe_graph
from coda_nodes.ros.launching import argument_values, launch_actions


def generate_launch_description():
    """Describe the arguments; the nodes follow from their values."""
    return LaunchDescription(
        [
            DeclareLaunchArgument(
                "out", default_value="runs/critique", description="folder of memory and diagnoses"
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
    """Return the actions for the given arguments."""
    out, domain, sim_time = argument_values(context, "out", "domain_id", "use_sim_time")
    graph = GraphConfig(artifact_root=os.path.abspath(out), use_sim_time=sim_time == "true")
    return launch_actions(describe_graph("critique", graph), graph.artifact_root, domain)
