"""Names of topics, services and actions: every node takes them from here, so that none is spelt twice."""

from __future__ import annotations

CLOCK = "/clock"
JOINT_STATES = "/joint_states"
ARM_TRAJECTORY = "/joint_trajectory_controller/joint_trajectory"
GRIPPER_TRAJECTORY = "/gripper_controller/joint_trajectory"
OBJECTS = "/coda/objects"
INSTRUCTION = "/coda/instruction"
EPISODE_EVENT = "/coda/episode_event"
PROGRESS = "/coda/progress"
EMERGENCY_STOP = "/coda/executor/emergency_stop"

RESET_ENVIRONMENT = "/coda/simulator/reset_environment"
STEP_CHUNK = "/coda/simulator/step_chunk"
GENERATE = "/coda/generator/generate"
DIAGNOSE = "/coda/critic/diagnose"
STORE = "/coda/memory/store"
QUERY = "/coda/memory/query"
COMPILE = "/coda/memory/compile"

RUN_EPISODES = "/coda/simulator/run_episodes"
TRAIN = "/coda/learner/train"
EXECUTE_TASK = "/coda/executor/execute_task"
RUN_ROUNDS = "/coda/conductor/run_rounds"

BASE_FRAME = "base_link"
"""frame_id of the robot base frame, which is the world frame."""


def camera_image(camera: str) -> str:
    """Topic of the colour images of a camera."""
    return f"/camera/{camera}/image_raw"


def camera_info(camera: str) -> str:
    """Topic of the calibration of a camera."""
    return f"/camera/{camera}/camera_info"
