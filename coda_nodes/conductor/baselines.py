"""Methods that CoDA is compared with, open loop: plain imitation, and domain randomization."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from coda_nodes.conductor.config import TrainConfig
from coda_nodes.conductor.loop import Loop
from coda_nodes.conductor.state import LoopState
from coda_nodes.conductor.strategy import Plan, Strategy
from coda_nodes.world.programs import BaseDistribution, GenerationProgram, Regime
from coda_nodes.world.splits import load_splits


@dataclass(frozen=True)
class Sft(Strategy):
    """Supervised fine-tuning: imitation goes on for as many gradient steps as the other methods take, on the demonstrations of
    the train split.

    In regime ``expert`` it is shown as many more episodes of the train split as the others are taught. ``more``: gradient
    steps in all against those of the other methods; 2 is the control that tells whether imitation had reached its plateau,
    and is not held to equal gradient steps.
    """

    trains_always: bool = True
    more: float = 1.0

    def demonstrations(self, config: TrainConfig) -> int:
        """As many as the others are taught."""
        return 0 if Regime(config.regime) is Regime.NO_EXPERT else config.corrections

    def gradient_steps(self, config: TrainConfig) -> int:
        """Those of a round, and the round's part of what comes on top."""
        practice = config.practice_steps if config.practice_environments else 0
        total = config.imitation_steps + practice + config.rounds * config.update_steps
        return config.update_steps + round((self.more - 1.0) * total / max(1, config.rounds))


@dataclass(frozen=True)
class DomainRandomization(Strategy):
    """Domain randomization (Tobin 2017; Peng 2018): scenes drawn evenly within the probe bounds, whatever the policy can do.

    Of each scene ``moved`` axes (low, high), chosen at random, are drawn from the whole of their probe ranges, the others from
    train. Tobin moves everything at once: (9, 9) does that here. The number was chosen on dev.
    """

    moved: tuple[int, int] = (2, 3)

    def plan(self, loop: Loop, state: LoopState) -> Plan:
        """New sets of axes for every scene."""
        count = rollouts(loop)
        return [item for family in loop.config.families for item in self.fresh(family, count, loop.rng(f"plan {family}"))]

    def fresh(self, family: str, count: int, rng: np.random.Generator) -> Plan:
        """``count`` scenes as programs of one or several scenes each."""
        axes = list(load_splits().axes(family))
        sets: Counter[tuple[str, ...]] = Counter()
        for _ in range(count):
            size = min(int(rng.integers(self.moved[0], self.moved[1] + 1)), len(axes))
            sets[tuple(axes[i] for i in sorted(rng.choice(len(axes), size, replace=False)))] += 1
        return [
            (GenerationProgram(family=family, base=BaseDistribution(probe_axes=chosen), explanation="drawn at random"), number)
            for chosen, number in sorted(sets.items())
        ]


ROLLOUTS = 0.45
"""Part of a round's environments that goes to rollouts where the budget is limited; the rest checks solvability and teaches."""


def rollouts(loop: Loop) -> int:
    """Scenes per family and round: a share of what the round may spend, or the setting where there is no limit."""
    left = loop.budget.left[0]
    if not np.isfinite(left):
        return loop.config.environments
    return int(ROLLOUTS * left / len(loop.config.families))
