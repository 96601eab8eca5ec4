"""Co-evolution: all nodes of the loop; the conductor runs the rounds and with it the launch ends."""

import os

from launch.actions import DeclareLaunchArgument, OpaqueFunction, SetEnvironmentVariable, Shutdown
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
                "out", default_value="runs/launch", description="folder of the run (artifact root)"
            ),
            DeclareLaunchArgument("rounds", default_value="3", description="rounds of co-evolution"),
            DeclareLaunchArgument(
                "simulator", default_value="mujoco", description="simulator: mujoco or gazebo"
            ),
            DeclareLaunchArgument(
                "critic", default_value="state", description="critic that diagnoses failures"
            ),
            DeclareLaunchArgument("seed", default_value="0", description="seed of everything random"),
            DeclareLaunchArgument("workers", default_value="2", description="rollout worker processes"),
            DeclareLaunchArgument(
                "config",
                default_value="",
                description="further settings of the run as JSON, as 'coda train' has them",
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
    """Return the environment and the nodes for the given arguments."""
    value = {
        name: LaunchConfiguration(name).perform(context)
        for name in (
            "out",
            "rounds",
            "simulator",
            "critic",
            "seed",
            "workers",
            "config",
            "domain_id",
            "use_sim_time",
        )
    }
    root = os.path.abspath(value["out"])
    conductor = {"autostart": True, "rounds": int(value["rounds"]), "config_json": value["config"]}
    graph = describe_graph(
        "train",
        GraphConfig(
            root=root,
            simulator=value["simulator"],
            critic=value["critic"],
            seed=int(value["seed"]),
            workers=int(value["workers"]),
            use_sim_time=value["use_sim_time"].lower() == "true",
            own={"conductor": conductor},
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
            on_exit=Shutdown() if node.name == "conductor" else None,
        )
        for node in graph
    ]
