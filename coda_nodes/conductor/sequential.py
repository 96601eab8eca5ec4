"""Group-sequential one-sided Fisher test of "these scenes fail more often than those".

The data are looked at several times; each look has its own boundary for the p-value, chosen so that the
probability of ever crossing one is at most alpha for every common failure rate. ``rejection_probability``
computes it exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, hypergeom

from coda_nodes.world.errors import ConfigError

Table = NDArray[np.float64]


@dataclass(frozen=True)
class Design:
    """Episodes per arm at each look, and the p-value at or below which the test rejects there.

    The default crosses a boundary with probability at most 0.043 when both arms fail equally often, whatever
    that common rate is; it tells failure rates 0.7 and 0.2 apart with probability 0.97.
    """

    looks: tuple[int, ...] = (4, 8, 12, 18, 24)
    boundaries: tuple[float, ...] = (0.015, 0.02, 0.03, 0.04, 0.05)

    def __post_init__(self) -> None:
        rising = bool(self.looks) and bool((np.diff((0, *self.looks)) > 0).all())
        if len(self.looks) != len(self.boundaries) or not rising:
            raise ConfigError(
                f"looks {self.looks}, boundaries {self.boundaries}: expected rising looks, one boundary each"
            )
        if not all(0 < bound < 1 for bound in self.boundaries):
            raise ConfigError(f"boundaries {self.boundaries}: expected probabilities between 0 and 1")


@lru_cache(maxsize=64)
def _rejects(n: int, boundary: float) -> NDArray[np.bool_]:
    """Which tables (failures in arm one, in arm two) of ``n`` + ``n`` episodes reject. Shape (n + 1, n +
    1)."""
    one, two = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    return np.asarray(hypergeom.sf(one - 1, 2 * n, one + two, n) <= boundary)


def rejection_probability(
    design: Design, rate: float, other_rate: float, start: tuple[int, int, int] = (0, 0, 0)
) -> float:
    """Exact probability that the test rejects when the arms fail with the given probabilities.

    ``start``: (episodes per arm, failures in arm one, failures in arm two) already seen, before any later
    look. With equal rates and the default start this is the error rate; else it is the (conditional) power.
    """
    seen, one, two = start
    mass = np.zeros((seen + 1, seen + 1))
    mass[one, two] = 1.0
    total = 0.0
    for look, boundary in zip(design.looks, design.boundaries, strict=True):
        if look > seen:
            mass = _more(mass, look - seen, rate, other_rate)
            crossed = _rejects(look, boundary)
            total += float(mass[crossed].sum())
            mass[crossed] = 0.0
            seen = look
    return total


def _more(mass: Table, count: int, rate: float, other_rate: float) -> Table:
    """Distribution of the two failure counts after ``count`` more episodes in each arm."""
    one = _transition(len(mass), count, rate)
    two = _transition(len(mass), count, other_rate)
    return np.asarray(one.T @ mass @ two)


def _transition(size: int, count: int, rate: float) -> Table:
    """Row i: distribution of failures when i were there already. Shape (size, size + count)."""
    added = binom.pmf(np.arange(count + 1), count, rate)
    matrix = np.zeros((size, size + count))
    for row in range(size):
        matrix[row, row : row + count + 1] = added
    return matrix


def conditional_power(design: Design, n: int, failures: int, other_failures: int) -> float:
    """Chance of still rejecting if the arms go on failing as seen so far (Lan, Simon and Halperin 1982).

    The rates are the observed ones shrunk by half an episode, so that 0 of 4 is not taken for certainty.
    """
    rate, other = (failures + 0.5) / (n + 1), (other_failures + 0.5) / (n + 1)
    return rejection_probability(design, rate, other, start=(n, failures, other_failures))
