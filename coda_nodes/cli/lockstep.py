"""Compares the interactive path over ROS with the same path in this process; measures the node's memory."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
from numpy.typing import NDArray

from coda_nodes.policy.protocol import ChunkPolicy
from coda_nodes.ros.environment import node_environment, take_domain
from coda_nodes.ros.graph import GraphConfig, describe_graph
from coda_nodes.ros.lockstep import LockstepClient
from coda_nodes.ros.node_main import client_node
from coda_nodes.ros.processes import NodeGroup
from coda_nodes.simulator.interactive import InteractiveSession
from coda_nodes.world.spec import EnvironmentSpec
from coda_nodes.world.state import ObservationBatch

Array = NDArray[np.float64]
START_TIME = 90.0
"""Time in which the simulator node has to appear [s]."""


@dataclass(frozen=True)
class LockstepFigures:
    """Wall time per chunk (policy, physics, everything between), medians over blocks that alternate [ms]."""

    in_process_ms: float
    ros_ms: float
    chunks: int
    largest_difference: float
    """Largest absolute difference of a first chunk between the two paths [m], [rad]."""
    same_outcomes: int
    episodes: int
    node_rss_mb: dict[str, float]

    @property
    def ratio(self) -> float:
        """Speed over ROS as a share of that in process."""
        return self.in_process_ms / self.ros_ms


def measure_lockstep(
    policy: ChunkPolicy, specs: Sequence[EnvironmentSpec], run: Path, chunks: int = 12
) -> LockstepFigures:
    """Run each specification on both paths in turn, ``chunks`` chunks at most; the node has its own process.

    Raises:
        NodeError: the node does not start or answer.
    """
    with take_domain() as domain:
        environment = node_environment(run, domain.number)
        os.environ.update(environment)
        graph = describe_graph("train", GraphConfig(artifact_root=str(run)))
        nodes = [node for node in graph if node.name == "simulator"]
        with NodeGroup(nodes, run, environment) as group, client_node("lockstep") as node:
            client = LockstepClient(node)
            client.wait(START_TIME)
            return _compare(policy, specs, chunks, client, group)


def _compare(
    policy: ChunkPolicy,
    specs: Sequence[EnvironmentSpec],
    chunks: int,
    client: LockstepClient,
    group: NodeGroup,
) -> LockstepFigures:
    session = InteractiveSession()
    here, there = _InProcess(session), _OverRos(client)
    for path in (here, there):  # models are built once
        _run(policy, specs[0], path, 1)
    pairs = [(_run(policy, spec, here, chunks), _run(policy, spec, there, chunks)) for spec in specs]
    return LockstepFigures(
        in_process_ms=1e3 * statistics.median(mine.seconds for mine, _ in pairs),
        ros_ms=1e3 * statistics.median(theirs.seconds for _, theirs in pairs),
        chunks=sum(mine.chunks for mine, _ in pairs),
        largest_difference=max(float(np.abs(mine.first - theirs.first).max()) for mine, theirs in pairs),
        same_outcomes=sum(mine.success == theirs.success for mine, theirs in pairs),
        episodes=len(pairs),
        node_rss_mb={name: psutil.Process(pid).memory_info().rss / 1e6 for name, pid in group.pids.items()},
    )


@dataclass(frozen=True)
class _Block:
    """Chunks of one episode."""

    seconds: float
    """Wall time per chunk."""
    chunks: int
    first: Array
    """First chunk. Shape (8, 7)."""
    success: bool


class _InProcess:
    def __init__(self, session: InteractiveSession) -> None:
        self._session = session

    def reset(self, spec: EnvironmentSpec) -> ObservationBatch:
        return self._session.reset(spec).observation()

    def step(self, chunk: Array) -> tuple[ObservationBatch, bool, bool]:
        done = self._session.step_chunk(chunk)
        return done.state.observation(), done.over, done.success


class _OverRos:
    def __init__(self, client: LockstepClient) -> None:
        self._client = client

    def reset(self, spec: EnvironmentSpec) -> ObservationBatch:
        return self._client.reset(spec)

    def step(self, chunk: Array) -> tuple[ObservationBatch, bool, bool]:
        done = self._client.step(chunk)
        return done.observation, done.over, done.success


def _run(policy: ChunkPolicy, spec: EnvironmentSpec, path: _InProcess | _OverRos, chunks: int) -> _Block:
    observation = path.reset(spec)
    policy.reset(1)
    taken, first, success, begun = 0, np.zeros(0), False, time.perf_counter()
    for _ in range(chunks):
        chunk = policy.act(observation)[0]
        first = first if taken else chunk
        observation, over, success = path.step(chunk)
        taken += 1
        if over:
            break
    return _Block((time.perf_counter() - begun) / taken, taken, first, success)
