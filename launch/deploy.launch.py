"""A trained policy: the executor, which sends joint trajectories to what listens, as ros2_control does.

In this version it has driven the simulator node in real time only, no physical arm.
"""

import os

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction

from coda_nodes.ros.graph import GraphConfig, describe_graph
from coda_nodes.ros.launching import argument_values, launch_actions


def generate_launch_description():
    """Describe the arguments; the node follows from their values."""
    return LaunchDescription(
        [
            DeclareLaunchArgument("checkpoint", description="folder of the checkpoint to run"),
            DeclareLaunchArgument("robot", default_value="panda", description="robot description of the arm"),
            DeclareLaunchArgument(
                "dry_run", default_value="true", description="true: check every command, send none"
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
    """Return the actions for the given arguments."""
    checkpoint, robot, dry_run, out, domain, sim_time = argument_values(
        context, "checkpoint", "robot", "dry_run", "out", "domain_id", "use_sim_time"
    )
    executor = {"checkpoint": os.path.abspath(checkpoint), "robot": robot, "dry_run": dry_run != "false"}
    graph = GraphConfig(
        artifact_root=os.path.abspath(out), use_sim_time=sim_time == "true", own={"executor": executor}
    )
    return launch_actions(describe_graph("deploy", graph), graph.artifact_root, domain)
