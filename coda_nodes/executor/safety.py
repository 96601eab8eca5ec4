"""Limits that every command to an arm is held to, whatever decided it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coda_nodes.policy.kinematics import Kinematics
from coda_nodes.world.config import check_settings, setting
from coda_nodes.world.errors import CodaError
from coda_nodes.world.robots import RobotDescription

Array = NDArray[np.float64]


class SafetyError(CodaError):
    """A command leaves the joint, velocity or workspace limits; the arm holds instead."""


@dataclass(frozen=True)
class SafetyConfig:
    """Tolerances: overshoots within them are cut to the limit, beyond them the command is refused."""

    joint_tolerance: float = setting(1e-3, "overshoot of a joint limit that is cut", "rad", 0.0, 0.1)
    velocity_tolerance: float = setting(0.05, "share by which a velocity limit may be exceeded", "", 0.0, 0.5)
    workspace_tolerance: float = setting(
        0.08, "distance outside the workspace that is let pass", "m", 0.0, 0.5
    )

    def __post_init__(self) -> None:
        check_settings(self)


class Limits:
    """Joint, velocity and workspace limits of one arm."""

    def __init__(self, robot: RobotDescription, kinematics: Kinematics, config: SafetyConfig) -> None:
        self._robot, self._kinematics, self._config = robot, kinematics, config
        self._lower, self._upper = np.array(robot.lower), np.array(robot.upper)

    def reach_time(self, start: Array, target: Array) -> float:
        """Shortest time [s] from joints ``start`` (J,) to ``target`` (J,) at the velocity limits."""
        return float((np.abs(target - start) / np.array(self._robot.velocity)).max())

    def check(self, start: Array, targets: Array, times: Array) -> Array:
        """Return joint targets (T, J) [rad] within limits, reached at ``times`` (T,) [s] from ``start`` (J,).

        Raises:
            SafetyError: NaN, or a limit exceeded beyond tolerance; names the joint or the tool position.
        """
        if not (np.isfinite(targets).all() and np.isfinite(start).all()):
            raise SafetyError("a joint target or measured position is not finite")
        targets = self._wrapped(start, targets)
        self._check_positions(targets)
        cut = np.clip(targets, self._lower, self._upper)
        self._check_velocities(start, cut, times)
        self._check_workspace(cut)
        return cut

    def _wrapped(self, start: Array, targets: Array) -> Array:
        """Targets beyond a limit, moved by whole turns to where they are nearest to ``start``."""
        outside = (targets > self._upper) | (targets < self._lower)
        turns = np.round((start - targets) / (2 * np.pi))
        return np.where(outside, targets + turns * 2 * np.pi, targets)

    def _check_positions(self, targets: Array) -> None:
        over = np.maximum(targets - self._upper, self._lower - targets)
        step, joint = np.unravel_index(np.argmax(over), over.shape)
        if over[step, joint] > self._config.joint_tolerance:
            low, high = self._lower[joint], self._upper[joint]
            name, value = self._robot.joint_names[joint], targets[step, joint]
            raise SafetyError(f"{name} = {value:.4f} rad: expected {low:.4f} to {high:.4f}")

    def _check_velocities(self, start: Array, targets: Array, times: Array) -> None:
        moves = np.diff(targets, axis=0, prepend=start[None])
        speed = np.abs(moves) / np.diff(times, prepend=0.0)[:, None]
        most = np.array(self._robot.velocity) * (1 + self._config.velocity_tolerance)
        step, joint = np.unravel_index(np.argmax(speed / most), speed.shape)
        if speed[step, joint] > most[joint]:
            name = self._robot.joint_names[joint]
            raise SafetyError(f"{name} at {speed[step, joint]:.2f} rad/s: expected at most {most[joint]:.2f}")

    def _check_workspace(self, targets: Array) -> None:
        tool, _ = self._kinematics.forward(targets)
        low, high = np.array(self._robot.workspace_low), np.array(self._robot.workspace_high)
        outside = np.maximum(tool - high, low - tool).max(axis=1)
        worst = int(np.argmax(outside))
        if outside[worst] > self._config.workspace_tolerance:
            place = np.round(tool[worst], 3).tolist()
            raise SafetyError(f"tool at {place} m is outside {low.tolist()} to {high.tolist()}")
