"""Joint trajectories that arrive while time runs: where the arm should be at each instant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Following:
    """A trajectory being followed as a joint_trajectory_controller does: linear in between, then standing."""

    begin: float
    """When it started [s]."""
    times: Array
    """After the start [s], rising. Shape (T,)."""
    positions: Array
    """[rad] or [m]. Shape (T, J)."""
    origin: Array
    """Set point at the start. Shape (J,)."""

    def at(self, now: float) -> Array:
        """Set point at time ``now`` [s]. Shape (J,)."""
        times = np.concatenate([[0.0], self.times])
        points = np.concatenate([self.origin[None], self.positions])
        elapsed = now - self.begin
        return np.array([np.interp(elapsed, times, points[:, j]) for j in range(points.shape[1])])


def standing(origin: Array, now: float) -> Following:
    """Stay at ``origin`` (J,)."""
    return Following(now, np.array([1e-3]), np.array([origin]), np.asarray(origin))
