"""Names of topics: what nodes publish and bags hold, spelt once."""

from __future__ import annotations

CLOCK = "/clock"
JOINT_STATES = "/joint_states"
ARM_TRAJECTORY = "/joint_trajectory_controller/joint_trajectory"
GRIPPER_TRAJECTORY = "/gripper_controller/joint_trajectory"
OBJECTS = "/coda/objects"
INSTRUCTION = "/coda/instruction"
EPISODE_EVENT = "/coda/episode_event"
PROGRESS = "/coda/progress"
ENVIRONMENT = "/coda/environment"
"""Specification of the scene as JSON (std_msgs/String)."""
TRUTH = "/coda/truth"
"""Simulator truth at each chunk boundary as JSON (std_msgs/String), see ``episode_texts``."""
ACTION_CHUNK = "/coda/action_chunk"
"""Chunks as decided, stamped with the observation that each answers."""

BASE_FRAME = "base_link"
"""frame_id of the robot base frame, which is the world frame."""


def camera_image(camera: str) -> str:
    """Topic of the colour images of a camera."""
    return f"/camera/{camera}/image_raw"


def camera_info(camera: str) -> str:
    """Topic of the calibration of a camera."""
    return f"/camera/{camera}/camera_info"


def camera_frame(camera: str) -> str:
    """frame_id of a camera: z along the view, x right, y down."""
    return f"{camera}_optical_frame"
