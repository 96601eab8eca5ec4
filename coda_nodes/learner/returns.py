"""Returns and targets of executed chunks, with potential-based shaping.

A chunk of which ``k`` actions were executed counts as one decision of ``k`` steps:

    F      = gamma^k Phi(s_{t+k}) - Phi(s_t)
    target = sum_{i<k} gamma^i r_{t+i} + F + gamma^k V(s_{t+k})

At a true end neither ``Phi`` nor ``V`` of the state after it counts; a chunk cut by the time limit keeps both, for the
scene could have gone on. Shaping then moves every value by ``-Phi`` and leaves the best chunks the same (Ng, Harada and
Russell 1999; Grzes 2017 on ends); the bootstrap over a whole chunk is unbiased because what was executed is what is
credited (Li, Zhou and Levine 2025, Q-chunking).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Count = NDArray[np.int_]
Mask = NDArray[np.bool_]


def chunk_returns(rewards: Array, executed: Count, discount: float) -> Array:
    """Discounted reward of the executed steps of each chunk. ``rewards``: per control step, shape (m, K); what stands
    beyond ``executed`` (m,) does not count. Shape (m,)."""
    steps = np.arange(rewards.shape[1])
    return np.where(steps < executed[:, None], rewards, 0.0) @ discount**steps


def shaping(before: Array, after: Array, executed: Count, terminal: Mask, discount: float) -> Array:
    """``F`` of each chunk from the potentials of the states around it; ``after`` is taken as 0 at true ends. Shape (m,)."""
    return continuing(executed, terminal, discount) * after - before


def continuing(executed: Count, terminal: Mask, discount: float) -> Array:
    """What the state after each chunk is discounted by: ``gamma^k`` with the chunk's own ``k``, 0 at a true end. Shape (m,)."""
    return np.where(terminal, 0.0, discount ** executed.astype(float))


def chunk_targets(
    rewards: Array, executed: Count, terminal: Mask, before: Array, after: Array, value: Array, discount: float
) -> Array:
    """Shaped target of each chunk.

    Args:
        rewards: per control step. Shape (m, K).
        executed: steps executed, 1 to K. Shape (m,).
        terminal: whether the chunk ended in a true end; a time limit is none. Shape (m,).
        before: potential of the state before the chunk; 0 everywhere for no shaping. Shape (m,).
        after: potential of the state after it. Shape (m,).
        value: ``V`` of the state after it, of the shaped problem. Shape (m,).
        discount: per control step.
    """
    bootstrap = continuing(executed, terminal, discount) * value
    return chunk_returns(rewards, executed, discount) + shaping(before, after, executed, terminal, discount) + bootstrap
