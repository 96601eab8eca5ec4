"""The stand-in world without ROS, for measuring physics alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from drake_world import ContactConfig, DrakeWorld, Trajectory
from pydrake.common.eigen_geometry import Quaternion
from pydrake.math import RigidTransform

from coda_nodes.simulator.gazebo.wire import Seen
from coda_nodes.simulator.gazebo.worlds import WorldConfig, empty_world


def rigid(position: Sequence[float], quaternion_xyzw: Sequence[float]) -> RigidTransform:
    """Drake's pose."""
    x, y, z, w = quaternion_xyzw
    return RigidTransform(Quaternion(np.array([w, x, y, z]) / np.linalg.norm([w, x, y, z])), list(position))


class DirectWorld:
    """A ``GazeboWorld`` in this process."""

    def __init__(self, config: WorldConfig | None = None, contact: ContactConfig | None = None) -> None:
        self.drake = DrakeWorld(empty_world(config), contact)

    @property
    def time(self) -> float:
        return self.drake.time

    def spawn(self, name: str, sdf: str) -> None:
        self.drake.spawn(name, sdf)

    def delete(self, name: str) -> None:
        if name in self.drake.entities:
            self.drake.delete(name)

    def place(self, name: str, position: Sequence[float], quaternion_xyzw: Sequence[float]) -> None:
        self.drake.place(name, rigid(position, quaternion_xyzw))

    def follow(self, joints: Sequence[str], times: np.ndarray, positions: np.ndarray, velocities: np.ndarray) -> None:
        ends = np.round(np.asarray(times) / self.drake.step).astype(int)
        self.drake.follow("panda", Trajectory(tuple(joints), ends, positions, velocities))

    def step(self, steps: int) -> None:
        self.drake.advance(steps)

    def joints(self) -> Mapping[str, tuple[float, float]]:
        return {joint: value for name in self.drake.entities for joint, value in self.drake.joints(name).items()}

    def poses(self, names: Sequence[str]) -> Mapping[str, Seen]:
        made = {}
        for name in names:
            pose, (w, x, y, z) = self.drake.pose(name), self.drake.pose(name).rotation().ToQuaternion().wxyz()
            made[name] = Seen(pose.translation(), np.array([x, y, z, w]), self.drake.velocity(name)[3:])
        return made
