"""One environment at a time, driven from outside: the session behind the interactive node."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.simulator.protocol import StepResult
from coda_nodes.simulator.rollout import versions
from coda_nodes.world.action import CHUNK_STEPS
from coda_nodes.world.episode import Episode, Outcome
from coda_nodes.world.errors import SimulationError
from coda_nodes.world.robots import RobotDescription
from coda_nodes.world.spec import EnvironmentSpec
from coda_nodes.world.state import SceneState

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Stepped:
    """What a chunk, or a control step, did."""

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
    predicates_true: tuple[str, ...]
    """Atoms that hold after the last executed step."""

    @property
    def over(self) -> bool:
        """Whether the episode has ended."""
        return self.success or self.truncated or self.invalid


class InteractiveSession:
    """The environment that runs now. Simulators are kept per family and robot: building one takes time."""

    def __init__(self) -> None:
        self._simulators: dict[tuple[str, str], BatchSimulator] = {}
        self._simulator: BatchSimulator | None = None
        self.spec: EnvironmentSpec | None = None
        self.seed = 0
        self.steps = 0
        """Control steps since the reset."""
        self.last: Stepped | None = None
        """Result of the last call, None right after a reset."""
        self._tape: _Tape | None = None

    def reset(self, spec: EnvironmentSpec, seed: int = 0, record: bool = False) -> SceneState:
        """Start an episode. Raises SimulationError when the simulator refuses the specification."""
        key = (spec.family, spec.robot)
        simulator = self._simulators.get(key) or BatchSimulator(spec.family, 1, spec.robot)
        state = simulator.reset([spec])
        self._simulators[key] = self._simulator = simulator
        self.spec, self.seed, self.steps, self.last = spec, seed, 0, None
        self._tape = _Tape([state], [simulator.snapshot()]) if record else None
        return state

    @property
    def running(self) -> bool:
        """Whether an episode has been started and has not ended."""
        return self.spec is not None and not (self.last is not None and self.last.over)

    @property
    def robot(self) -> RobotDescription:
        """The arm of this episode."""
        return self._loaded.scene.robot

    def state(self) -> SceneState:
        """Truth now (n = 1)."""
        return self._loaded.state()

    def step_chunk(self, chunk: Array, execute: int = CHUNK_STEPS) -> Stepped:
        """Execute the first ``execute`` actions of a chunk (8, 7), fewer at success or at the time limit.

        Raises:
            SimulationError: no episode runs, another shape, or numbers that are not finite.
        """
        simulator = self._must_run()
        if not 1 <= execute <= CHUNK_STEPS:
            raise SimulationError(f"execute = {execute}: expected 1 to {CHUNK_STEPS}")
        left = self.spec.horizon - self.steps  # type: ignore[union-attr]
        result = simulator.step_chunk(np.asarray(chunk)[None], min(execute, left))
        stepped = self._after(simulator, result)
        if self._tape is not None:
            self._tape.add(np.asarray(chunk), stepped, result, simulator.snapshot())
        return stepped

    def step_joints(self, target: Array, opening: float) -> Stepped:
        """One control step towards joint positions (J,) [rad] and a gripper opening 0 to 1.

        Raises SimulationError as ``step_chunk`` does.
        """
        simulator = self._must_run()
        return self._after(simulator, simulator.step_joints(target[None, None], np.array([[opening]])))

    def episode(self, actor: str) -> Episode | None:
        """What was recorded since the reset, if it was asked for and the episode has ended."""
        if self._tape is None or self.running or self.last is None or self.spec is None:
            return None
        return self._tape.episode(self.spec, self.seed, actor, self.last, self._loaded.predicate_names[0])

    @property
    def _loaded(self) -> BatchSimulator:
        if self._simulator is None:
            raise SimulationError("no environment is loaded; reset one first")
        return self._simulator

    def _must_run(self) -> BatchSimulator:
        simulator = self._loaded
        if not self.running:
            raise SimulationError("the episode has ended; reset an environment first")
        return simulator

    def _after(self, simulator: BatchSimulator, result: StepResult) -> Stepped:
        steps = int(result.executed[0])
        self.steps += steps
        success, invalid = bool(result.success[0]), bool(result.invalid[0])
        held = result.predicates[0, steps - 1] if steps else np.zeros(0, dtype=bool)
        names = simulator.predicate_names[0]
        self.last = Stepped(
            state=simulator.state(),
            steps=steps,
            success=success and not invalid,
            truncated=not success and not invalid and self.steps >= self.spec.horizon,  # type: ignore[union-attr]
            invalid=invalid,
            reason=result.reasons[0],
            predicates_true=tuple(name for name, true in zip(names, held, strict=False) if true),
        )
        return self.last


class _Tape:
    def __init__(self, states: list[SceneState], physics: list[Array]) -> None:
        self._states, self._physics = states, physics
        self._chunks: list[Array] = []
        self._executed: list[int] = []
        self._predicates: list[NDArray[np.bool_]] = []

    def add(self, chunk: Array, stepped: Stepped, result: StepResult, physics: Array) -> None:
        self._states.append(stepped.state)
        self._physics.append(physics)
        self._chunks.append(chunk)
        self._executed.append(stepped.steps)
        self._predicates.append(result.predicates[0, : stepped.steps])

    def episode(
        self, spec: EnvironmentSpec, seed: int, actor: str, last: Stepped, names: tuple[str, ...]
    ) -> Episode:
        texts = ("entity_names", "instructions")
        columns = {
            f.name: np.concatenate([getattr(state, f.name) for state in self._states])
            for f in fields(SceneState)
            if f.name not in texts
        }
        count = len(self._states)
        outcome: Outcome = "invalid" if last.invalid else "success" if last.success else "failure"
        return Episode(
            spec=spec,
            seed=seed,
            actor=actor,
            outcome=outcome,
            steps=sum(self._executed),
            states=SceneState(
                **columns, entity_names=(spec.entity_names,) * count, instructions=(spec.instruction,) * count
            ),
            chunks=np.array(self._chunks),
            executed=np.array(self._executed),
            predicate_names=names,
            predicates=np.concatenate([part[:, : len(names)] for part in self._predicates]),
            reason=last.reason,
            physics_states=np.concatenate(self._physics),
            versions=versions(),
        )
