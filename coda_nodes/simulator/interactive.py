"""Episodes driven from outside, one environment at a time: what the interactive node does, without ROS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coda_nodes.simulator.protocol import StepResult
from coda_nodes.simulator.recording import Tape
from coda_nodes.simulator.single import SingleSimulator
from coda_nodes.world.action import CHUNK_STEPS, CONTROL_PERIOD
from coda_nodes.world.episode import Episode
from coda_nodes.world.errors import SimulationError
from coda_nodes.world.robots import RobotDescription
from coda_nodes.world.spec import EnvironmentSpec
from coda_nodes.world.state import SceneState

Array = NDArray[np.float64]
ACTOR = "interactive"
"""Actor of recorded episodes: whoever calls the services."""


@dataclass(frozen=True)
class Stepped:
    """How the episode stands after a chunk, or after some real time."""

    state: SceneState
    """n = 1."""
    steps: int
    """Control steps executed by this call."""
    success: bool
    truncated: bool
    """The time limit is reached without success."""
    invalid: bool
    reason: str
    """Why it is invalid."""
    predicates_true: tuple[str, ...] = ()
    """Atoms that hold after the last executed step of a chunk."""

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self.success or self.truncated or self.invalid


class InteractiveSession:
    """The episode that runs now."""

    def __init__(self) -> None:
        self._simulator = SingleSimulator()
        self.spec: EnvironmentSpec | None = None
        self.seed = 0
        self.steps = 0
        """Control steps since the reset."""
        self.last: Stepped | None = None
        """How it stood after the last call, None right after a reset."""
        self._tape: Tape | None = None

    def reset(self, spec: EnvironmentSpec, seed: int = 0, record: bool = False) -> SceneState:
        """Start an episode. Raises SimulationError and keeps the old one when the scene is refused."""
        state = self._simulator.reset(spec)
        self.spec, self.seed, self.steps, self.last = spec, seed, 0, None
        self._tape = Tape(self._simulator.batch, physics=True) if record else None
        return state

    @property
    def running(self) -> bool:
        """Whether an episode has been started and has not ended."""
        return self.spec is not None and not (self.last is not None and self.last.over)

    @property
    def robot(self) -> RobotDescription:
        """The arm of this episode."""
        return self._simulator.batch.scene.robot

    def state(self) -> SceneState:
        """Truth now (n = 1)."""
        return self._simulator.state

    def step_chunk(self, chunk: Array, execute: int = CHUNK_STEPS) -> Stepped:
        """Execute the first ``execute`` actions of a chunk (8, 7), fewer at success or at the time limit.

        Raises:
            SimulationError: no episode runs, another shape, or numbers that are not finite.
        """
        spec = self._must_run()
        if not 1 <= execute <= CHUNK_STEPS:
            raise SimulationError(f"execute = {execute}: expected 1 to {CHUNK_STEPS}")
        result = self._simulator.step_chunk(chunk, min(execute, spec.horizon - self.steps))
        if self._tape is not None:
            self._tape.add(np.asarray(chunk)[None], np.ones(1, dtype=bool), result)
        return self._stand(spec, int(result.executed[0]), self._held(result))

    def command(self, positions: Array, times: Sequence[float]) -> None:
        """In real time: follow joint positions (m, J) [rad], reached ``times`` (m,) [s] from now."""
        self._must_have()
        self._simulator.command(positions, times)

    def command_gripper(self, openings: Sequence[float], times: Sequence[float]) -> None:
        """In real time: follow gripper openings (m,) 0 to 1, reached ``times`` (m,) [s] from now."""
        self._must_have()
        self._simulator.command_gripper(openings, times)

    def advance(self, now: float) -> Stepped:
        """In real time: simulate up to wall time ``now`` [s] (monotonic); the world outlives the episode."""
        spec = self._must_have()
        self._simulator.advance(now)
        steps = round(float(self._simulator.state.time[0]) / CONTROL_PERIOD)
        return self._stand(spec, steps - self.steps, ())

    def episode(self) -> Episode | None:
        """What was recorded since the reset, if that was asked for and the episode has ended."""
        if self._tape is None or self.running:
            return None
        return self._tape.episodes([self.seed], ACTOR, [""])[0]

    def _must_have(self) -> EnvironmentSpec:
        if self.spec is None:
            raise SimulationError("no environment is loaded; reset one first")
        return self.spec

    def _must_run(self) -> EnvironmentSpec:
        spec = self._must_have()
        if not self.running:
            raise SimulationError("the episode has ended; reset an environment first")
        return spec

    def _held(self, result: StepResult) -> tuple[str, ...]:
        steps = int(result.executed[0])
        names = self._simulator.batch.predicate_names[0]
        truth = result.predicates[0, steps - 1] if steps else []
        return tuple(name for name, holds in zip(names, truth, strict=False) if holds)

    def _stand(self, spec: EnvironmentSpec, steps: int, held: tuple[str, ...]) -> Stepped:
        batch = self._simulator.batch
        self.steps += steps
        invalid = bool(batch.reasons[0])
        success = bool(batch.success[0]) and not invalid
        self.last = Stepped(
            state=self._simulator.state,
            steps=steps,
            success=success,
            truncated=not success and not invalid and self.steps >= spec.horizon,
            invalid=invalid,
            reason=batch.reasons[0],
            predicates_true=held,
        )
        return self.last
