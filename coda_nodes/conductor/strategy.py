"""What one method does differently within the common loop: which environments it generates, from which failures it learns,
and what it carries to the next round. Everything else (budget, supervision, training, gate) is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coda_nodes.conductor.config import TrainConfig
from coda_nodes.conductor.plan import plan_environments, plan_evenly
from coda_nodes.world.episode import EpisodeSummary
from coda_nodes.world.programs import GenerationProgram
from coda_nodes.world.spec import EnvironmentSpec

if TYPE_CHECKING:
    from coda_nodes.conductor.loop import Loop
    from coda_nodes.conductor.rounds import Found
    from coda_nodes.conductor.state import Level, LoopState

Plan = list[tuple[GenerationProgram, int]]
"""Programs with the number of environments of each."""


@dataclass(frozen=True)
class Strategy:
    """A method. This one learns from all its failures and carries nothing on; others override what they do."""

    diagnoses: bool = False
    """Whether a critic says why episodes failed, and causes become draft programs."""
    validates: bool = False
    """Whether drafts are tested; without it every draft is trusted."""
    grounds: bool = False
    """Whether confirmed diagnoses refine the potentials that lookahead is led by; else it has the default ones."""
    tracks: bool = False
    """Whether progress is measured per program and decides about its share, refinement and end."""
    retrieves: bool = False
    """Whether cures of similar failures take part in the compilation of drafts."""
    remembers: bool = False
    """Whether programs outlive the round after the one they were compiled in."""
    trains_always: bool = False
    """Whether a round without a new episode trains too."""

    def plan(self, loop: Loop, state: LoopState) -> Plan:
        """Programs that generate in this round. The budget's share is kept."""
        return []

    def levels(self, loop: Loop, state: LoopState) -> list[EnvironmentSpec]:
        """Scenes of the round beside those of the plan."""
        return []

    def solvable(self, state: LoopState) -> set[str]:
        """Content hashes of scenes that the expert is known to solve, and need not be asked about again."""
        return set()

    def order(self, loop: Loop, state: LoopState, found: Found, failures: Sequence[EpisodeSummary]) -> list[EpisodeSummary]:
        """Failures to learn from, in the order in which the budget is spent on them.

        ``failures``: the usable ones of this round, those whose cause was confirmed first.
        """
        return list(failures)

    def carry(self, loop: Loop, state: LoopState, found: Found) -> list[Level]:
        """Levels that the next round starts with."""
        return []

    def demonstrations(self, config: TrainConfig) -> int:
        """Scenes of the train split per family and round in which the expert demonstrates."""
        return 0

    def gradient_steps(self, config: TrainConfig) -> int:
        """Gradient steps of a round."""
        return config.update_steps


@dataclass(frozen=True)
class Coda(Strategy):
    """Failures are diagnosed, causes validated, programs remembered; flags switch parts off for ablations."""

    diagnoses: bool = True
    validates: bool = True
    grounds: bool = True
    tracks: bool = True
    retrieves: bool = True
    remembers: bool = True

    def plan(self, loop: Loop, state: LoopState) -> Plan:
        """Programs in memory by learning progress, and exploration; without progress every program gets the same."""
        return (plan_environments if self.tracks else plan_evenly)(loop, state)


CODA = Coda()
