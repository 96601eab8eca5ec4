"""Which stage of the task an episode stalled at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from coda_nodes.critic.trace import Trace
from coda_nodes.world.families import Stage, family
from coda_nodes.world.spec import AllOf, Goal, atoms

SUSTAINED = 3
"""Control steps over which a grasp must be felt to count as one; a squeeze that pops out is none."""


@dataclass(frozen=True)
class Stall:
    """The stages of a task and the index of the first one that was not passed.

    ``since``: boundary at which the stage before it was passed.
    """

    trace: Trace
    stages: tuple[Stage, ...]
    index: int
    since: int

    @property
    def stage(self) -> Stage:
        """The stage that was not passed."""
        return self.stages[self.index]

    @property
    def target(self) -> str:
        """What the stage handles."""
        return self.stage.atom.args[0]

    @cached_property
    def destination(self) -> str | None:
        """Where the target is to go in this part of the task, None when it goes nowhere."""
        part = [stage.atom.args for stage in self.stages if stage.part == self.stage.part]
        return next((args[1] for args in part if args[0] == self.target and len(args) > 1), None)

    @cached_property
    def later_targets(self) -> frozenset[str]:
        """Things that only later parts of the task handle."""
        targets = {stage.atom.args[0] for stage in self.stages if stage.part > self.stage.part}
        return frozenset(
            targets - {stage.atom.args[0] for stage in self.stages if stage.part <= self.stage.part}
        )

    @property
    def others(self) -> tuple[str, ...]:
        """Everything that can move, except the target."""
        names = [item.name for item in self.trace.spec.objects if item.role in ("object", "distractor")]
        names += [item.name for item in self.trace.spec.fixtures]
        return tuple(name for name in names if name != self.target)


def find_stall(trace: Trace) -> Stall:
    """The first stage that was not passed; where all were passed once, the first whose end does not last."""
    stages = family(trace.spec.family).stages(trace.spec)
    truth = np.array([_truth(trace, stage) for stage in stages])
    step, part = 0, stages[0].part
    for index, stage in enumerate(stages):
        if stage.part != part:
            step, part = 0, stage.part
        if not _skipped(stages, truth, index, step):
            times = np.flatnonzero(truth[index, step:])
            if not len(times):
                return Stall(trace, stages, index, trace.boundary_of(step - 1))
            step += int(times[0])
    return Stall(trace, stages, _undone(trace, stages, truth), trace.boundary_of(step))


def _truth(trace: Trace, stage: Stage) -> np.ndarray:
    """The truth of a stage's atom after each control step; of a grasp only where it lasts SUSTAINED steps."""
    if stage.name != "grasp":
        return trace.atom(stage.atom)
    held = trace.held_steps(stage.atom.args[0])
    return np.asarray(np.convolve(held.astype(int), np.ones(SUSTAINED, dtype=int))[: len(held)] >= SUSTAINED)


def _skipped(stages: tuple[Stage, ...], truth: np.ndarray, index: int, step: int) -> bool:
    """Whether a stage never held after ``step`` but a later one of the same part came true after it."""
    if truth[index, step:].any():
        return False
    later = [j for j in range(index + 1, len(stages)) if stages[j].part == stages[index].part]
    return any(not truth[j, step] and truth[j, step:].any() for j in later)


def _undone(trace: Trace, stages: tuple[Stage, ...], truth: np.ndarray) -> int:
    """Of stages all passed: the first one that the goal needs and that does not hold at the end."""
    wanted = set(map(str, atoms(trace.spec.goal)))
    lost = [i for i, stage in enumerate(stages) if str(stage.atom) in wanted and not truth[i, -1]]
    return lost[0] if lost else len(stages) - 1


def order_broken(trace: Trace) -> tuple[int, str] | None:
    """The first control step at which an ordered goal was done in another order, and the thing done too
    early."""
    for earlier, later in _ordered(trace.spec.goal):
        first, then = trace.atom(earlier), trace.atom(later)
        early = np.flatnonzero(then & ~np.logical_or.accumulate(first)) if len(then) else []
        if len(early) and not then[0]:
            return int(early[0]), later.args[0]
    return None


def _ordered(goal: Goal) -> list[tuple]:
    if not isinstance(goal, AllOf):
        return []
    pairs = [pair for part in goal.all_of for pair in _ordered(part)]
    if goal.ordered:
        for first, second in pairwise(goal.all_of):
            pairs += [(a, b) for a in atoms(first) for b in atoms(second)]
    return pairs
