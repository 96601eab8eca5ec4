"""Learning progress of a program: how the belief about its success rate changes per budget spent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from scipy import stats

from coda_nodes.world.config import check_settings, setting
from coda_nodes.world.statistics import BetaPosterior


class Counted(Protocol):
    """Success of one checkpoint on one program (``records.Count`` and ``progress.Measurement`` are such)."""

    @property
    def successes(self) -> int:
        """Successful episodes."""

    @property
    def episodes(self) -> int:
        """Valid episodes."""


@dataclass(frozen=True)
class ProgressConfig:
    """How old evidence counts, and in what unit budget is measured."""

    keep: float = setting(0.5, "share of its weight that evidence keeps per measurement", low=0.0, high=1.0)
    per: float = setting(100.0, "progress is stated per so many environments", low=1.0, high=1e6)

    def __post_init__(self) -> None:
        check_settings(self)


DEFAULT = ProgressConfig()


@dataclass(frozen=True)
class Progress:
    """Change of the expected success rate at the last measurement, with its standard deviation."""

    change: float
    deviation: float
    """Both beliefs taken as independent: an upper bound, as the later one contains part of the earlier."""
    rate: float
    """Change per ``ProgressConfig.per`` environments spent in between."""

    @property
    def probability_of_gain(self) -> float:
        """Probability that the success rate rose (normal approximation)."""
        return 0.5 if self.deviation == 0 else float(stats.norm.cdf(self.change / self.deviation))


def posteriors(history: Sequence[Counted], config: ProgressConfig = DEFAULT) -> list[BetaPosterior]:
    """Belief before any measurement, and after each; evidence of earlier policies fades by ``keep`` each
    time.

    After measurement t: Beta(1 + a_t, 1 + b_t) with a_t = keep a_{t-1} + successes_t, and b_t likewise of
    failures.
    """
    beliefs = [BetaPosterior()]
    successes = failures = 0.0
    for item in history:
        successes = config.keep * successes + item.successes
        failures = config.keep * failures + item.episodes - item.successes
        beliefs.append(BetaPosterior().updated(successes, failures))
    return beliefs


def belief(history: Sequence[Counted], config: ProgressConfig = DEFAULT) -> BetaPosterior:
    """Belief now; uniform where nothing was measured."""
    return posteriors(history, config)[-1]


def learning_progress(
    history: Sequence[Counted], spent: int | None = None, config: ProgressConfig = DEFAULT
) -> Progress:
    """Change of the posterior mean at the last measurement, per budget spent since the one before.

    With fewer than two measurements nothing is known of a change: 0, with the deviation of the belief itself.

    Args:
        history: measurements, oldest first.
        spent: environments spent on the program since the measurement before; None: the episodes of the last
        one.
    """
    beliefs = posteriors(history, config)
    if len(history) < 2:
        return Progress(0.0, beliefs[-1].deviation, 0.0)
    before, after = beliefs[-2:]
    change = after.mean - before.mean
    cost = max(1, history[-1].episodes if spent is None else spent)
    return Progress(change, math.hypot(after.deviation, before.deviation), change * config.per / cost)
