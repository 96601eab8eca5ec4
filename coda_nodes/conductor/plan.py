"""Which programs generate how many environments in a round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from coda_nodes.conductor.allocation import allocate
from coda_nodes.world.programs import BaseDistribution, GenerationProgram
from coda_nodes.world.splits import load_splits

if TYPE_CHECKING:
    from coda_nodes.conductor.loop import Loop
    from coda_nodes.conductor.state import LoopState

Share = Callable[[Sequence[GenerationProgram], int, np.random.Generator], list[int]]
"""Shares a number of environments out among programs."""
EXPLORATION_SHARE = 0.5
"""Part of a round's environments that look for new failures; all of them while no program is validated."""
COMPOSITIONS = 8
"""Exploration programs per family and round that move several axes at once."""


def exploration_programs(family: str, rng: np.random.Generator) -> list[GenerationProgram]:
    """Programs that look for failures: one per axis within the probe bounds, and some random sets of two or three axes."""
    axes = list(load_splits().axes(family))
    chosen = [(axis,) for axis in axes]
    for _ in range(COMPOSITIONS if len(axes) > 2 else 0):
        size = int(rng.integers(2, 4))
        picked = rng.choice(len(axes), size=min(size, len(axes)), replace=False)
        chosen.append(tuple(axes[i] for i in sorted(picked)))
    return [
        GenerationProgram(family=family, base=BaseDistribution(probe_axes=item), explanation="looks for failures")
        for item in dict.fromkeys(chosen)
    ]


def spread(total: int, parts: int, rng: np.random.Generator) -> list[int]:
    """Split ``total`` evenly over ``parts``; what is left over goes to random ones."""
    numbers = [total // parts] * parts
    for index in rng.permutation(parts)[: total - sum(numbers)]:
        numbers[index] += 1
    return numbers


def plan_environments(loop: Loop, state: LoopState) -> list[tuple[GenerationProgram, int]]:
    """Programs of all families with the number of environments each; programs with none are left out."""

    def share(active: Sequence[GenerationProgram], total: int, rng: np.random.Generator) -> list[int]:
        return allocate(active, {item.program_id: state.history(item.program_id) for item in active}, total, rng)

    return _planned(loop, state, share)


def plan_evenly(loop: Loop, state: LoopState) -> list[tuple[GenerationProgram, int]]:
    """The same without learning progress: all programs of a family get as many environments."""
    return _planned(loop, state, lambda active, total, rng: spread(total, len(active), rng) if active else [])


def _planned(loop: Loop, state: LoopState, share: Share) -> list[tuple[GenerationProgram, int]]:
    rng = loop.rng("plan")
    plan: list[tuple[GenerationProgram, int]] = []
    for family in loop.config.families:
        exploring = exploration_programs(family, rng)
        active = state.active(family)
        total = loop.config.environments
        explored = round(EXPLORATION_SHARE * total) if active else total
        plan += zip(exploring, spread(explored, len(exploring), rng), strict=True)
        plan += zip(active, share(active, total - explored, rng), strict=True)
    return [(program, count) for program, count in plan if count]
