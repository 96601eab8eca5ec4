"""What every simulator offers, and the results it gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from coda_nodes.world.spec import EnvironmentSpec
from coda_nodes.world.state import ObservationBatch, SceneState

Mask = NDArray[np.bool_]


class GoalEvaluator(Protocol):
    """Truth of goals over scenes; ``coda_nodes.world.predicates.CompiledGoals`` is one."""

    atom_names: tuple[tuple[str, ...], ...]
    """Columns of each scene."""

    def evaluate(self, state: SceneState) -> Mask:
        """Shape (n, P)."""
        ...

    def initial_memory(self) -> NDArray[np.int32]:
        """Memory before the first step. Shape (n, M)."""
        ...

    def advance(self, memory: NDArray[np.int32], truth: Mask) -> NDArray[np.int32]:
        """Memory after one more control step."""
        ...

    def succeeded(self, memory: NDArray[np.int32]) -> Mask:
        """Whether each goal has held for its time. Shape (n,)."""
        ...


@dataclass(frozen=True)
class StepResult:
    """What one chunk did to ``n`` scenes."""

    success: Mask
    """The goal has held for its required time (now or earlier). Shape (n,)."""
    predicates: Mask
    """Truth after each control step; False beyond ``executed``. Shape (n, steps, P)."""
    executed: NDArray[np.int_]
    """Control steps executed. Shape (n,)."""
    invalid: Mask
    """The physics diverged; such a scene stands still and counts neither way. Shape (n,)."""
    reasons: tuple[str, ...]
    """Why, empty where valid."""


class Simulator(Protocol):
    """One environment, as the interactive node drives it."""

    @property
    def observation(self) -> ObservationBatch:
        """What can be seen now (n = 1)."""
        ...

    def reset(self, spec: EnvironmentSpec) -> SceneState:
        """Build the scene; return its first state (n = 1)."""
        ...

    def step_chunk(self, chunk: np.ndarray, execute: int = 8) -> StepResult:
        """Execute the first ``execute`` actions of a chunk (8, 7), less when the goal is reached before."""
        ...


Specs = Sequence[EnvironmentSpec]
