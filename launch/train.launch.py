"""Co-evolution: all nodes of the loop; the conductor runs the rounds, and with it the launch ends."""

import json
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
                "out", default_value="runs/launch", description="folder of the run (artifact root)"
            ),
            DeclareLaunchArgument("rounds", default_value="3", description="rounds of co-evolution"),
            DeclareLaunchArgument(
                "simulator", default_value="mujoco", description="physics engine: mujoco or gazebo"
            ),
            DeclareLaunchArgument("seed", default_value="0", description="seed of everything random"),
            DeclareLaunchArgument("workers", default_value="2", description="rollout worker processes"),
            DeclareLaunchArgument(
                "config", default_value="{}", description="further settings of the run, as a JSON object"
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
    out, rounds, simulator, seed, workers, config, domain, sim_time = argument_values(
        context, "out", "rounds", "simulator", "seed", "workers", "config", "domain_id", "use_sim_time"
    )
    run = {"rounds": int(rounds), "seed": int(seed), "workers": int(workers), **json.loads(config)}
    graph = GraphConfig(
        artifact_root=os.path.abspath(out),
        simulator=simulator,
        workers=int(workers),
        use_sim_time=sim_time == "true",
        own={"conductor": {"autostart": True, "config_json": json.dumps(run)}},
    )
    return launch_actions(describe_graph("train", graph), graph.artifact_root, domain, ends_with="conductor")
