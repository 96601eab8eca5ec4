"""Intervals and tests for success counts: what tables, verdicts and allocations are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from coda_nodes.world.errors import CodaError

_QUANTILES = 1000
"""Steps of the one numeric integral here; its error stays below 1e-3."""


class StatisticsError(CodaError):
    """Counts or samples from which the asked figure cannot be computed."""


@dataclass(frozen=True)
class Estimate:
    """A point estimate with the interval that covers it."""

    mean: float
    low: float
    high: float

    def as_dict(self) -> dict[str, float]:
        """Plain data with the keys that result files use."""
        return {"mean": self.mean, "low": self.low, "high": self.high}


def _check_counts(successes: int, n: int) -> None:
    if n < 0 or not 0 <= successes <= n:
        raise StatisticsError(f"{successes} successes of {n}: expected 0 <= successes <= n")


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise StatisticsError(f"confidence {confidence!r}: expected a number between 0 and 1")


def wilson(successes: int, n: int, confidence: float = 0.95) -> Estimate:
    """Wilson score interval of a proportion (Wilson 1927); (0, 1) around 0.5 where ``n`` is 0.

    ``mean`` is the plain proportion, not the centre of the interval. Raises StatisticsError.
    """
    _check_counts(successes, n)
    _check_confidence(confidence)
    if n == 0:
        return Estimate(0.5, 0.0, 1.0)
    z = float(stats.norm.ppf(0.5 + confidence / 2))
    p = successes / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == n else centre + half
    return Estimate(p, max(0.0, low), min(1.0, high))


def newcombe_difference(
    successes_a: int, n_a: int, successes_b: int, n_b: int, confidence: float = 0.95
) -> Estimate:
    """Interval of p_a - p_b for independent samples: Newcombe 1998, method 10 (two Wilson intervals)."""
    a, b = wilson(successes_a, n_a, confidence), wilson(successes_b, n_b, confidence)
    difference = a.mean - b.mean
    below = math.hypot(a.mean - a.low, b.high - b.mean)
    above = math.hypot(a.high - a.mean, b.mean - b.low)
    return Estimate(difference, max(-1.0, difference - below), min(1.0, difference + above))


def paired_bootstrap(
    a: ArrayLike,
    b: ArrayLike,
    rng: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = 10_000,
    groups: Sequence[object] | None = None,
) -> Estimate:
    """Percentile bootstrap interval of mean(a - b); ``a[i]`` and ``b[i]`` are results on the same pair i.

    Pairs are (seed, specification). With ``groups`` (the seed of each pair) whole groups are drawn first and
    pairs within each drawn group second: variation between seeds is counted too. Groups weigh by their size.

    Args:
        a, b: results, Shape (n,), booleans or numbers.
        rng: drawn from; the same state gives the same interval.

    Raises:
        StatisticsError: no pair, or lengths that differ.
    """
    first, second = np.asarray(a, dtype=float).ravel(), np.asarray(b, dtype=float).ravel()
    if len(first) == 0 or len(first) != len(second):
        raise StatisticsError(f"{len(first)} and {len(second)} results: expected as many, at least one")
    _check_confidence(confidence)
    difference = first - second
    if groups is None:
        means = _resampled_sums(difference, resamples, rng) / len(difference)
    else:
        means = _resampled_group_means(difference, groups, resamples, rng)
    low, high = np.quantile(means, [0.5 - confidence / 2, 0.5 + confidence / 2])
    return Estimate(float(difference.mean()), float(low), float(high))


def _resampled_sums(values: np.ndarray, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Sums of ``len(values)`` draws with replacement (multinomial counts). Shape (resamples,)."""
    distinct, counts = np.unique(values, return_counts=True)
    return rng.multinomial(len(values), counts / len(values), size=resamples) @ distinct


def _resampled_group_means(
    values: np.ndarray, groups: Sequence[object], resamples: int, rng: np.random.Generator
) -> np.ndarray:
    labels = np.asarray([str(group) for group in groups])
    if len(labels) != len(values):
        raise StatisticsError(f"{len(labels)} groups for {len(values)} pairs: expected one group per pair")
    members = [values[labels == label] for label in np.unique(labels)]
    sums, sizes = np.zeros(resamples), np.zeros(resamples)
    for _ in members:
        drawn = rng.integers(len(members), size=resamples)
        for index, member in enumerate(members):
            chosen = drawn == index
            sums[chosen] += _resampled_sums(member, int(chosen.sum()), rng)
            sizes[chosen] += len(member)
    return sums / sizes


def fisher_one_sided(events_a: int, n_a: int, events_b: int, n_b: int) -> float:
    """One-sided p value of Fisher's exact test against "the event is no more frequent in a than in b".

    1.0 where a side has no trial. Raises StatisticsError on impossible counts.
    """
    _check_counts(events_a, n_a)
    _check_counts(events_b, n_b)
    table = [[events_a, n_a - events_a], [events_b, n_b - events_b]]
    return float(stats.fisher_exact(table, alternative="greater").pvalue)


@dataclass(frozen=True)
class BetaPosterior:
    """Beta belief about a success rate; the default prior is uniform."""

    alpha: float = 1.0
    beta: float = 1.0

    def __post_init__(self) -> None:
        if not (self.alpha > 0 and self.beta > 0 and math.isfinite(self.alpha + self.beta)):
            raise StatisticsError(f"Beta({self.alpha}, {self.beta}): expected two positive finite numbers")

    @property
    def mean(self) -> float:
        """Expected success rate."""
        return self.alpha / (self.alpha + self.beta)

    @property
    def deviation(self) -> float:
        """Standard deviation of the belief."""
        total = self.alpha + self.beta
        return math.sqrt(self.alpha * self.beta / (total * total * (total + 1)))

    def updated(self, successes: float, failures: float) -> BetaPosterior:
        """Belief after more trials; fractional counts weigh old evidence. Raises StatisticsError below 0."""
        if successes < 0 or failures < 0:
            raise StatisticsError(f"{successes} successes, {failures} failures: below 0")
        return BetaPosterior(self.alpha + successes, self.beta + failures)

    def interval(self, confidence: float = 0.95) -> Estimate:
        """Equal-tailed credible interval around the mean."""
        _check_confidence(confidence)
        low, high = stats.beta.ppf([0.5 - confidence / 2, 0.5 + confidence / 2], self.alpha, self.beta)
        return Estimate(self.mean, float(low), float(high))

    def probability_between(self, low: float, high: float) -> float:
        """Probability that the success rate lies in [low, high]."""
        return float(stats.beta.cdf(high, self.alpha, self.beta) - stats.beta.cdf(low, self.alpha, self.beta))


def probability_not_worse(gained: int, lost: int, same: int, tolerance: float) -> float:
    """Probability that the success rate changed by more than ``-tolerance``, from paired counts.

    ``gained`` pairs went from failure to success, ``lost`` from success to failure, ``same`` did not
    change. The three shares have a Dirichlet(1/2, 1/2, 1/2) prior; the changed share m is Beta and
    independent of the gained part u of it, so P(m (2u - 1) > -tolerance) is an integral over m alone
    (aggregation of the Dirichlet).
    """
    if min(gained, lost, same) < 0 or not 0 <= tolerance < 1:
        counts = f"{gained} gained, {lost} lost, {same} same, tolerance {tolerance}"
        raise StatisticsError(f"{counts}: expected counts of at least 0 and 0 <= tolerance < 1")
    changed, part = stats.beta(gained + lost + 1.0, same + 0.5), stats.beta(gained + 0.5, lost + 0.5)
    # Midpoints of equal quantile steps of m: a bounded integrand however narrow the density.
    shares = changed.ppf((np.arange(_QUANTILES) + 0.5) / _QUANTILES)
    needed = (1 - tolerance / np.maximum(shares, 1e-300)) / 2
    return float(part.sf(needed).mean())
