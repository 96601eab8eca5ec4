"""When the actions of a chunk are due, given how long it took to decide them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coda_nodes.world.action import CONTROL_PERIOD

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Due:
    """The part of a chunk that can still be executed in time."""

    first: int
    """Actions before this one are late and are dropped."""
    times: Array
    """When each remaining action is to be reached, counted from now [s]; positive. Shape (T - first,)."""


def due_steps(steps: int, age: float, period: float = CONTROL_PERIOD, margin: float = 0.005) -> Due:
    """Schedule ``steps`` actions of a chunk whose observation is ``age`` [s] old.

    Action i is to be reached ``(i + 1) * period`` after the observation. What would be due in less than
    ``margin`` [s] from now is dropped: a controller refuses points of the past, and a jump is worse
    than a gap.
    """
    times = period * np.arange(1, steps + 1) - age
    first = int(np.searchsorted(times, margin))
    return Due(first, times[first:])
