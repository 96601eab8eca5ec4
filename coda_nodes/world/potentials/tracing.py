"""The potential over an episode, and where it stalled, in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coda_nodes.world.action import CONTROL_PERIOD
from coda_nodes.world.episode import Episode
from coda_nodes.world.potentials.compiled import CompiledPotential
from coda_nodes.world.potentials.spec import PotentialSpec

STILL = 0.01
"""Rise of the potential that does not count as going on."""


@dataclass(frozen=True)
class PotentialTrace:
    """An episode's potential at its T + 1 chunk boundaries."""

    time: NDArray[np.float64]
    """Since reset [s]. Shape (T + 1,)."""
    value: NDArray[np.float64]
    """Shape (T + 1,)."""
    stage: NDArray[np.int_]
    """Number of the stage under way from 0; the number of stages where the goal holds. Shape (T + 1,)."""
    words: tuple[str, ...]
    """One per stage."""

    @property
    def stalled(self) -> str:
        """Where it stopped rising: ``stalled at stage 2 of 6 'grasp': Phi 0.42 from 3.1 s on``."""
        if self.stage[-1] >= len(self.words):
            return f"reached the goal at {self.time[int(np.argmax(self.stage >= len(self.words)))]:.1f} s"
        number = int(self.stage[-1])
        name = self.words[number].split(":")[0]
        away = np.flatnonzero(np.abs(self.value - self.value[-1]) > STILL)
        since = int(away[-1]) + 1 if len(away) else 0
        fallen = f", fallen from {self.value.max():.2f}" if self.value.max() > self.value[-1] + STILL else ""
        return (
            f"stalled at stage {number + 1} of {len(self.words)} '{name}': Phi {self.value[-1]:.2f} "
            f"from {self.time[since]:.1f} s on{fallen}"
        )


def trace_potential(episode: Episode, potential: PotentialSpec | None = None) -> PotentialTrace:
    """Evaluate ``potential`` (default: the one of the episode's goal) at every chunk boundary.

    Raises:
        SpecError: the potential names what the scene does not hold, or the goal has none.
    """
    compiled = CompiledPotential([episode.spec] * episode.states.n, [potential] * episode.states.n)
    value, stage = compiled.evaluate(episode.states)
    time = np.concatenate([[0.0], np.cumsum(episode.executed)]) * CONTROL_PERIOD
    return PotentialTrace(time, value, stage, tuple(s.words for s in compiled.potentials[0].stages))
