"""A commanded trajectory, followed linearly between its points and held at its last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from coda_nodes.world.errors import SimulationError

Array = NDArray[np.float64]

LIMIT_TOLERANCE = 1e-3
"""Overshoot of a limit [rad] that is clamped in silence; more is refused."""


class Trajectory:
    """Positions over time, from where the command found the joints."""

    def __init__(
        self,
        now: float,
        start: Array,
        positions: Array,
        times: Sequence[float],
        lower: Sequence[float],
        upper: Sequence[float],
    ) -> None:
        """Positions (m, J), reached ``times`` (m,) [s] after ``now`` [s], from ``start`` (J,).

        Raises:
            SimulationError: no points, wrong shape, not finite, times not positive and rising, beyond the
            limits.
        """
        points, moments = np.asarray(positions, dtype=float), np.asarray(times, dtype=float)
        if (
            points.ndim != 2
            or points.shape[1] != len(start)
            or moments.shape != (len(points),)
            or not len(points)
        ):
            raise SimulationError(
                f"trajectory of shape {points.shape} with {moments.size} times, "
                f"expected (m, {len(start)}), m >= 1"
            )
        if not (np.isfinite(points).all() and np.isfinite(moments).all()):
            raise SimulationError("trajectory holds a number that is not finite")
        if (np.diff(moments, prepend=0.0) <= 0).any():
            raise SimulationError(f"times from start {moments.tolist()}, expected positive and rising")
        self._check_limits(points, np.asarray(lower), np.asarray(upper))
        self._times = np.concatenate([[now], now + moments])
        self._points = np.concatenate([np.asarray(start)[None], np.clip(points, lower, upper)])

    @staticmethod
    def _check_limits(points: Array, lower: Array, upper: Array) -> None:
        beyond = np.maximum(points - upper, lower - points)
        row, joint = np.unravel_index(int(np.argmax(beyond)), beyond.shape)
        if beyond[row, joint] > LIMIT_TOLERANCE:
            raise SimulationError(
                f"point {row}, joint {joint}: {points[row, joint]:.4f}, "
                f"limits {lower[joint]:g} to {upper[joint]:g}"
            )

    def at(self, time: float) -> Array:
        """Positions at ``time`` [s]. Shape (J,)."""
        return np.array([np.interp(time, self._times, column) for column in self._points.T])
