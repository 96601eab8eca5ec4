"""One environment for the interactive path: in lockstep with chunks, or in real time as an arm that follows
trajectories. It is a batch of one, so that both paths share model, kinematics, contacts and goals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.simulator.physics import PART_PERIOD
from coda_nodes.simulator.protocol import StepResult
from coda_nodes.simulator.trajectory import Trajectory
from coda_nodes.world.action import CHUNK_STEPS
from coda_nodes.world.errors import SimulationError
from coda_nodes.world.spec import EnvironmentSpec
from coda_nodes.world.state import ObservationBatch, SceneState

Array = NDArray[np.float64]

MOST_BEHIND = 0.5
"""Wall time [s] beyond which a simulation that cannot keep up drops time instead of racing after it."""


class SingleSimulator:
    """Keeps one model per family and robot; holds one environment at a time."""

    def __init__(self) -> None:
        self._simulators: dict[tuple[str, str], BatchSimulator] = {}
        self._batch: BatchSimulator | None = None
        self._arm: Trajectory | None = None
        self._gripper: Trajectory | None = None
        self._clock: float | None = None
        self.dropped = 0.0
        """Wall time [s] not simulated since the reset, because stepping took longer than real time."""

    @property
    def batch(self) -> BatchSimulator:
        """The simulator of the environment loaded. Raises SimulationError before the first reset."""
        if self._batch is None:
            raise SimulationError("no environment is loaded; call reset first")
        return self._batch

    @property
    def state(self) -> SceneState:
        """Truth now (n = 1)."""
        return self.batch.state()

    @property
    def observation(self) -> ObservationBatch:
        """What can be seen now (n = 1)."""
        return self.state.observation()

    def reset(self, spec: EnvironmentSpec) -> SceneState:
        """Load an environment; commands are forgotten. Raises SimulationError and keeps the old one when
        refused."""
        key = (spec.family, spec.robot)
        batch = self._simulators.get(key) or BatchSimulator(spec.family, 1, spec.robot)
        state = batch.reset([spec])
        self._simulators[key] = self._batch = batch
        self._arm = self._gripper = self._clock = None
        self.dropped = 0.0
        return state

    def step_chunk(self, chunk: Array, execute: int = CHUNK_STEPS) -> StepResult:
        """Execute the first ``execute`` actions of a chunk (8, 7). Raises SimulationError, see
        ``BatchSimulator``."""
        return self.batch.step_chunk(np.asarray(chunk, dtype=float)[None], execute)

    def command(self, positions: Array, times: Sequence[float]) -> None:
        """Follow joint positions (m, J) [rad], each reached its time (m,) [s] from now, in place of what was
        commanded.

        Raises:
            SimulationError: wrong shape, times not positive and rising, positions not finite or beyond the
            limits.
        """
        robot = self.batch.scene.robot
        self._arm = Trajectory(
            self._time, self.batch.set_points[0], positions, times, robot.lower, robot.upper
        )

    def command_gripper(self, openings: Sequence[float], times: Sequence[float]) -> None:
        """Follow gripper openings (m,) 0 to 1, each reached its time (m,) [s] from now. Raises
        SimulationError."""
        now = self._opening()
        self._gripper = Trajectory(
            self._time, now, np.asarray(openings, dtype=float)[:, None], times, (0.0,), (1.0,)
        )

    def advance(self, now: float) -> int:
        """Simulate up to wall time ``now`` [s] (monotonic) since the call before; return the parts
        stepped."""
        if self._clock is None:
            self._clock = now
        if now - self._clock > MOST_BEHIND:
            self.dropped += now - self._clock - MOST_BEHIND
            self._clock = now - MOST_BEHIND
        parts = int((now - self._clock) / PART_PERIOD + 1e-9)
        for _ in range(parts):
            self._part()
        self._clock += parts * PART_PERIOD
        return parts

    @property
    def _time(self) -> float:
        return float(self.state.time[0])

    def _opening(self) -> Array:
        if self._gripper is not None:
            return self._gripper.at(self._time)
        return self.state.gripper_opening.copy()

    def _part(self) -> None:
        end = self._time + PART_PERIOD
        targets = self.batch.set_points if self._arm is None else self._arm.at(end)[None]
        opening = self._opening() if self._gripper is None else self._gripper.at(end)
        if self._gripper is None:
            # the first reading stays the command: following the measured opening would let the gripper creep
            self._gripper = Trajectory(self._time, opening, opening[None], (PART_PERIOD,), (0.0,), (1.0,))
        self.batch.follow(targets, opening)
