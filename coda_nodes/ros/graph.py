"""The graph as plain data: nodes and their parameters. Launch files and `coda` start this same list."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from coda_nodes.world.config import check_settings, setting
from coda_nodes.world.errors import ConfigError, unknown

Value = bool | int | float | str | Sequence[str]

GRAPHS: dict[str, tuple[str, ...]] = {
    "train": ("memory", "generator", "simulator", "critic", "learner", "conductor"),
    "deploy": ("executor",),
    "critique": ("memory", "critic"),
}
"""Nodes of each graph, in the order in which they are started."""

SIMULATORS = ("mujoco", "gazebo")


@dataclass(frozen=True)
class NodeProcess:
    """One node, in a process of its own."""

    name: str
    module: str
    namespace: str = "/coda"
    parameters: Mapping[str, Value] = field(default_factory=dict)

    @property
    def executable(self) -> str:
        """Name under which `ros2 run coda_nodes` finds the node."""
        return self.module.split(".")[-2]

    def ros_arguments(self) -> list[str]:
        """Return the command line arguments that name the node and set its parameters."""
        words = ["--ros-args", "-r", f"__node:={self.name}", "-r", f"__ns:={self.namespace}"]
        for key, value in self.parameters.items():
            # JSON is YAML: "5" stays a string, 5.0 a float, and an empty string can be said
            words += ["-p", f"{key}:={json.dumps(list(value) if isinstance(value, tuple) else value)}"]
        return words

    def parameters_for_launch(self) -> dict[str, Value]:
        """Return the parameters as launch_ros takes them: without empty lists, which have no type there."""
        return {
            key: value
            for key, value in self.parameters.items()
            if not isinstance(value, Sequence) or value or value == ""
        }

    def command(self) -> list[str]:
        """Return the command that runs the node with the Python of this process, ended with its parent."""
        return [sys.executable, "-m", "coda_nodes.ros.child", self.module, *self.ros_arguments()]


@dataclass(frozen=True)
class GraphConfig:
    """What a graph is told at its start; everything else comes with services and actions."""

    artifact_root: str = setting("runs/default", "folder of the run, shared by all its nodes")
    simulator: str = setting("mujoco", "physics engine", choices=SIMULATORS)
    workers: int = setting(2, "rollout worker processes", low=1, high=256)
    use_sim_time: bool = setting(False, "take the time from /clock")
    own: Mapping[str, Mapping[str, Value]] = setting(None, "further parameters of nodes, by node name")

    def __post_init__(self) -> None:
        check_settings(self)
        object.__setattr__(self, "own", dict(self.own or {}))


def describe_graph(kind: str, config: GraphConfig) -> list[NodeProcess]:
    """Return the nodes of a graph ("train", "deploy" or "critique").

    Raises:
        ConfigError: there is no such graph, or further parameters are given for a node that is not in it.
    """
    if kind not in GRAPHS:
        raise ConfigError(unknown("graph", kind, GRAPHS))
    for name in config.own:
        if name not in GRAPHS[kind]:
            raise ConfigError(unknown(f"node of graph {kind}", name, GRAPHS[kind]))
    return [
        NodeProcess(name, f"coda_nodes.{name}.node", parameters=_parameters(name, config))
        for name in GRAPHS[kind]
    ]


def _parameters(name: str, config: GraphConfig) -> dict[str, Value]:
    made: dict[str, Value] = {"artifact_root": config.artifact_root, "use_sim_time": config.use_sim_time}
    if name == "simulator":
        made.update(simulator=config.simulator, workers=config.workers)
    made.update(config.own.get(name, {}))
    return made
