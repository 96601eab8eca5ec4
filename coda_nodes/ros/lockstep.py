"""A client of the simulator in lockstep: reset, then one call per chunk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from coda_interfaces.srv import ResetEnvironment, StepChunk
from numpy.typing import NDArray
from rclpy.node import Node

from coda_nodes.ros import names
from coda_nodes.ros.clients import ServiceCaller
from coda_nodes.ros.converters import chunk_to_message, observation_from_message
from coda_nodes.ros.quantities import time_from_message
from coda_nodes.world.errors import NodeError
from coda_nodes.world.robots import robot
from coda_nodes.world.spec import EnvironmentSpec
from coda_nodes.world.state import ObservationBatch


@dataclass(frozen=True)
class Answer:
    """What a chunk led to."""

    observation: ObservationBatch
    """n = 1."""
    steps: int
    """Control steps executed."""
    success: bool
    truncated: bool
    invalid: bool
    predicates_true: tuple[str, ...]

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self.success or self.truncated or self.invalid


class LockstepClient:
    """Drives the simulator node from a thread other than the executor's. Every method may raise NodeError."""

    def __init__(self, node: Node, timeout: float = 30.0) -> None:
        self._timeout = timeout
        self._reset = ServiceCaller(node, ResetEnvironment, names.RESET_ENVIRONMENT)
        self._step = ServiceCaller(node, StepChunk, names.STEP_CHUNK)
        self._joints: tuple[str, ...] = ()
        self._stamp = 0.0

    def wait(self, timeout: float) -> None:
        """Wait until the simulator is there."""
        self._reset.wait(timeout)
        self._step.wait(timeout)

    def reset(self, spec: EnvironmentSpec, seed: int = 0, record: bool = False) -> ObservationBatch:
        """Start an episode; return its first observation."""
        request = ResetEnvironment.Request(environment_json=spec.to_json(), seed=seed, record=record)
        answer = self._reset.call(request, self._timeout)
        self._joints = robot(spec.robot).joint_names
        return self._observation(answer.observation)

    def step(self, chunk: NDArray[np.float64], execute: int = 0) -> Answer:
        """Execute the first ``execute`` actions (0: all) of a chunk (8, 7)."""
        if not self._joints:
            raise NodeError("no environment was reset by this client")
        request = StepChunk.Request(chunk=chunk_to_message(chunk, self._stamp), execute=execute)
        answer = self._step.call(request, self._timeout)
        return Answer(
            observation=self._observation(answer.observation),
            steps=int(answer.steps),
            success=answer.success,
            truncated=answer.truncated,
            invalid=answer.invalid,
            predicates_true=tuple(answer.predicates_true),
        )

    def _observation(self, message: object) -> ObservationBatch:
        self._stamp = time_from_message(message.header.stamp)  # type: ignore[attr-defined]
        return observation_from_message(message, self._joints)  # type: ignore[arg-type]
