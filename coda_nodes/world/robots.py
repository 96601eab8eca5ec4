"""Descriptions of the arms: joint names, limits, gripper unit, home, workspace, tool frame and model in one
place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from coda_nodes.world.errors import ConfigError, unknown

Array = NDArray[np.float64]

MODELS = Path(__file__).resolve().parent.parent / "models" / "robots"
"""Folder of the MJCF files; inside the package, so that an installed copy finds it too."""


@dataclass(frozen=True)
class RobotDescription:
    """One arm with its gripper. Joint arrays follow the order of ``joint_names``."""

    name: str
    model_path: Path
    """MJCF file."""
    joint_names: tuple[str, ...]
    """Arm joints, base to tip: as in the MJCF and (prefixed as the driver does) in JointState."""
    actuator_names: tuple[str, ...]
    """Position actuators of the arm joints in the MJCF."""
    lower: tuple[float, ...]
    """Joint position limits [rad]."""
    upper: tuple[float, ...]
    """Joint position limits [rad]."""
    velocity: tuple[float, ...]
    """Joint velocity limits [rad/s]."""
    home: tuple[float, ...]
    """Joint positions [rad]: tool pointing down over the middle of the workspace."""
    finger_joints: tuple[str, ...]
    """Finger joints, each [m] from closed."""
    gripper_actuator: str
    """Position actuator of the gripper, in ``gripper_unit``."""
    gripper_unit: str
    """What the gripper is commanded in: ``metres per finger``."""
    gripper_range: tuple[float, float]
    """Command of opening 0 (closed) and of opening 1 (open), in ``gripper_unit``."""
    pad_bodies: tuple[str, str]
    """Bodies of the two finger pads."""
    root_body: str
    """First moving body: the subtree that counts as the robot in contacts."""
    tool_site: str
    """Site between the finger tips: z out of the gripper, y along which the fingers close."""
    workspace_low: tuple[float, float, float]
    """Tool positions that can be reached pointing down, lower corner [m], base frame."""
    workspace_high: tuple[float, float, float]
    """Upper corner [m], base frame."""

    @property
    def joints(self) -> int:
        """Number of arm joints."""
        return len(self.joint_names)

    def gripper_command(self, opening: Array) -> Array:
        """Opening 0 to 1 (clipped) -> ``gripper_unit``."""
        closed, opened = self.gripper_range
        return closed + np.clip(opening, 0.0, 1.0) * (opened - closed)

    def gripper_opening(self, command: Array) -> Array:
        """``gripper_unit`` -> opening 0 to 1 (clipped)."""
        closed, opened = self.gripper_range
        return np.clip((np.asarray(command) - closed) / (opened - closed), 0.0, 1.0)


PANDA = RobotDescription(
    name="panda",
    model_path=MODELS / "panda.xml",
    joint_names=tuple(f"joint{i}" for i in range(1, 8)),
    actuator_names=tuple(f"arm{i}" for i in range(1, 8)),
    lower=(-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973),
    upper=(2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973),
    velocity=(2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61),
    home=(0.0, 0.0, 0.0, -2.2, 0.0, 2.2, 0.7854),
    finger_joints=("finger_joint1", "finger_joint2"),
    gripper_actuator="gripper",
    gripper_unit="metres per finger",
    gripper_range=(0.0, 0.04),
    pad_bodies=("left_pad", "right_pad"),
    root_body="link1",
    tool_site="tool",
    workspace_low=(0.28, -0.45, 0.0),
    workspace_high=(0.75, 0.45, 0.6),
)

ROBOTS = {PANDA.name: PANDA}
"""Every arm, by name."""


def robot(name: str) -> RobotDescription:
    """Return the description of an arm. Raises ConfigError that lists those there are."""
    if name not in ROBOTS:
        raise ConfigError(unknown("robot", name, ROBOTS))
    return ROBOTS[name]
