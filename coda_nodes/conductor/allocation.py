"""Where the next environments go, and what becomes of a program: by learning progress, uncertainty and
success."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from coda_nodes.conductor.progress import Counted, belief, learning_progress
from coda_nodes.world.config import check_settings, setting
from coda_nodes.world.errors import BudgetError
from coda_nodes.world.programs import GenerationProgram
from coda_nodes.world.statistics import BetaPosterior

Action = Literal["keep", "rehearse", "harder", "easier", "narrower", "retire"]
"""What becomes of a program; ``harder``, ``easier`` and ``narrower`` name a refinement that takes its
place."""


@dataclass(frozen=True)
class AllocationConfig:
    """How environments are shared out."""

    progress: float = setting(0.6, "weight of learning progress; the rest is uncertainty", low=0.0, high=1.0)
    rehearsal: float = setting(0.15, "least share of rehearsal, where there is any", low=0.0, high=0.5)

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class LifeConfig:
    """When a program is solved, too hard, or has taught nothing."""

    solved: float = setting(0.85, "success rate above which a program is solved", low=0.5, high=1.0)
    hopeless: float = setting(0.1, "success rate below which little is learned", low=0.0, high=0.4)
    sure: float = setting(0.8, "probability that a decision needs", low=0.5, high=0.999)
    gain: float = setting(0.02, "rise of the success rate that counts as taught", low=0.0, high=0.5)
    patience: int = setting(3, "measurements before a program without gain is refined", low=2, high=100)
    harder: float = setting(0.5, "success rate above which a gaining program is hardened", low=0.1, high=1.0)
    versions: int = setting(3, "version after which a program is retired, not refined again", low=1, high=100)

    def __post_init__(self) -> None:
        check_settings(self)


ALLOCATION, LIFE = AllocationConfig(), LifeConfig()


@dataclass(frozen=True)
class Decision:
    """What becomes of a program, and why in words."""

    action: Action
    reason: str


def allocate(
    programs: Sequence[GenerationProgram],
    history: Mapping[str, Sequence[Counted]],
    total: int,
    rng: np.random.Generator,
    config: AllocationConfig = ALLOCATION,
) -> list[int]:
    """Share ``total`` environments among programs; the numbers are in the order of ``programs`` and add up to
    it.

    Programs in rehearsal together get the floor share, evenly (forgetting checks). The rest goes to the
    others by ``scores``. Left-over single environments fall by chance, so that small shares get their turn.

    Args:
        history: program id -> measurements, oldest first; a program that is missing was never measured.

    Raises:
        BudgetError: a negative total, or one above 0 and nothing to spend it on.
    """
    if total < 0 or (total and not programs):
        raise BudgetError(f"cannot share {total} environments among {len(programs)} programs")
    if not programs:
        return []
    rehearsed = np.array([program.state == "rehearsal" for program in programs])
    weights = np.zeros(len(programs))
    floor = 1.0 if rehearsed.all() else config.rehearsal
    if rehearsed.any():
        weights[rehearsed] = floor / rehearsed.sum()
    if not rehearsed.all():
        learning = [program for program, done in zip(programs, rehearsed, strict=True) if not done]
        rest = 1.0 - (floor if rehearsed.any() else 0.0)
        weights[~rehearsed] = rest * scores([history.get(item.program_id, ()) for item in learning], config)
    return _round(weights * total, total, rng)


def scores(histories: Sequence[Sequence[Counted]], config: AllocationConfig = ALLOCATION) -> np.ndarray:
    """Shares that add up to 1: a mix of |learning progress| (what is learned, and what is being forgotten)
    and of the belief's standard deviation, each normalised over the programs. Shape (programs,)."""
    uncertainty = np.array([belief(history).deviation for history in histories])
    gains = np.array([abs(learning_progress(history).rate) for history in histories])
    mixed = (1 - config.progress) * uncertainty / uncertainty.sum()
    # Before anything has moved, uncertainty alone decides.
    mixed += config.progress * (gains / gains.sum() if gains.sum() > 0 else uncertainty / uncertainty.sum())
    return mixed / mixed.sum()


def _round(shares: np.ndarray, total: int, rng: np.random.Generator) -> list[int]:
    """Whole numbers of sum ``total`` whose expectations are ``shares`` (systematic sampling of the
    fractions)."""
    whole = np.floor(shares + 1e-9).astype(int)
    fractions = np.clip(shares - whole, 0.0, 1.0)
    left = total - int(whole.sum())
    if left > 0:
        edges = np.concatenate([[0.0], np.cumsum(fractions)]) * (left / fractions.sum())
        whole += np.diff(np.floor(edges - rng.random() + 1e-9).astype(int))
    return [int(number) for number in whole]


def decide(program: GenerationProgram, history: Sequence[Counted], config: LifeConfig = LIFE) -> Decision:
    """What becomes of a validated program after its measurements (oldest first).

    Solved: to rehearsal. Hopeless: easier. No gain over the last measurements: narrower. Gaining and mostly
    solved: harder. A program that was refined often enough is retired instead of being refined again.
    """
    recent = history[-2:]
    successes, episodes = sum(item.successes for item in recent), sum(item.episodes for item in recent)
    rounds = "the last two rounds" if len(recent) > 1 else "one round"
    counts = f"{successes} of {episodes} over {rounds}"
    rate = BetaPosterior().updated(successes, episodes - successes)
    if rate.probability_between(config.solved, 1.0) >= config.sure:
        return Decision("rehearse", f"solved: {counts}")
    if rate.probability_between(0.0, config.hopeless) >= config.sure:
        return _refine(program, "easier", f"too hard to learn from: {counts}", config)
    if len(history) >= config.patience and _gain(history, config) < config.gain:
        return _refine(program, "narrower", f"taught nothing: {counts}", config)
    gaining = len(history) >= 2 and learning_progress(history).probability_of_gain >= config.sure
    if gaining and rate.mean >= config.harder:
        return Decision("harder", f"learned: {counts}")
    return Decision("keep", f"still learning: {counts}")


def _refine(program: GenerationProgram, action: Action, reason: str, config: LifeConfig) -> Decision:
    if program.version >= config.versions:
        return Decision("retire", f"retired after {program.version} versions, {reason}")
    return Decision(action, reason)


def _gain(history: Sequence[Counted], config: LifeConfig) -> float:
    """Rise of the expected success rate from the first to the last of the last ``patience`` measurements."""
    first, last = history[-config.patience], history[-1]
    return belief([last]).mean - belief([first]).mean
