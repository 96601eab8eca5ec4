"""What the simulator asks of a running Gazebo. ``coda_nodes.ros.gazebo`` speaks it over ROS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Seen:
    """Pose and linear velocity of a model, world frame."""

    position: Array
    """[m]. Shape (3,)."""
    quaternion_xyzw: Array
    """Shape (4,)."""
    velocity: Array
    """[m/s]. Shape (3,)."""


class GazeboWorld(Protocol):
    """One paused world that moves only when it is stepped. Every method may raise NodeError."""

    @property
    def time(self) -> float:
        """Simulated time [s]."""
        ...

    def spawn(self, name: str, sdf: str) -> None:
        """Add the model of an SDF document where the document puts it."""
        ...

    def delete(self, name: str) -> None:
        """Remove a model; one that is not there is no error."""
        ...

    def place(self, name: str, position: Sequence[float], quaternion_xyzw: Sequence[float]) -> None:
        """Pose a model and stop it."""
        ...

    def follow(self, joints: Sequence[str], times: Array, positions: Array, velocities: Array) -> None:
        """Give the arm's controller a trajectory that begins now: point k is the target until ``times[k]`` [s].

        ``positions`` and ``velocities`` (T, J) are counted from the start of each joint.
        """
        ...

    def step(self, steps: int) -> None:
        """Simulate; return when time has advanced by all of them."""
        ...

    def joints(self) -> Mapping[str, tuple[float, float]]:
        """Position and velocity of every joint now, counted from its start."""
        ...

    def poses(self, names: Sequence[str]) -> Mapping[str, Seen]:
        """Where models are now."""
        ...
