"""Prioritized level replay (Jiang, Grefenstette and Rocktaeschel 2021): scores of levels, and how likely each is replayed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Estimate = Literal["l1", "positive"]
"""``l1``: mean size of the generalised advantage (equation 2 of Jiang 2021a, "value loss"); ``positive``: mean of its positive
part (Jiang 2021b and Parker-Holder 2022, an estimate of regret)."""


def advantages(errors: Array, decay: Array) -> Array:
    """Generalised advantages of one episode (Schulman 2016): A_t = delta_t + decay_t A_{t+1}, 0 after the end.

    Args:
        errors: delta_t = r_t + gamma^k V(s_{t+1}) - V(s_t), the value after a true end taken as 0. Shape (T,).
        decay: gamma^k lambda of each chunk. Shape (T,).
    """
    found, after = np.zeros(len(errors)), 0.0
    for t in range(len(errors) - 1, -1, -1):
        after = errors[t] + decay[t] * after
        found[t] = after
    return found


def score(found: Array, estimate: Estimate) -> float:
    """Learning potential of a level from the advantages of one episode there. Shape of ``found``: (T,); 0 without any."""
    if not len(found):
        return 0.0
    return float(np.abs(found).mean() if estimate == "l1" else np.maximum(found, 0.0).mean())


def replay_probabilities(scores: Sequence[float], ages: Sequence[int], temperature: float, staleness: float) -> Array:
    """How likely each level is replayed: (1 - rho) P_S + rho P_C (equation 4 of Jiang 2021a). Shape (n,).

    P_S goes with (1 / rank)^(1 / beta), rank 1 for the highest score (equation 3); P_C with the time since a level was last
    played, evenly where all were played just now.

    Args:
        scores: of each level.
        ages: rounds since each was last played.
        temperature: beta.
        staleness: rho.
    """
    count = len(scores)
    if not count:
        return np.zeros(0)
    rank = np.empty(count)
    rank[np.argsort(-np.asarray(scores, dtype=float), kind="stable")] = np.arange(1, count + 1)
    by_score = (1.0 / rank) ** (1.0 / temperature)
    age = np.asarray(ages, dtype=float)
    by_age = age / age.sum() if age.sum() > 0 else np.full(count, 1.0 / count)
    return np.asarray((1 - staleness) * by_score / by_score.sum() + staleness * by_age)


def draw(probabilities: Array, count: int, rng: np.random.Generator) -> list[int]:
    """Indices of ``count`` different levels (all where there are fewer), drawn one after another by ``probabilities``."""
    possible = int((probabilities > 0).sum())
    chosen = rng.choice(len(probabilities), size=min(count, possible), replace=False, p=probabilities) if possible else []
    return [int(index) for index in chosen]
