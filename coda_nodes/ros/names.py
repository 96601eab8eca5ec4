"""Names of topics, services and actions: every node takes them from here, so that none is spelt twice."""

from __future__ import annotations

from coda_nodes.world.topics import ACTION_CHUNK as ACTION_CHUNK
from coda_nodes.world.topics import ARM_TRAJECTORY as ARM_TRAJECTORY
from coda_nodes.world.topics import BASE_FRAME as BASE_FRAME
from coda_nodes.world.topics import CLOCK as CLOCK
from coda_nodes.world.topics import ENVIRONMENT as ENVIRONMENT
from coda_nodes.world.topics import EPISODE_EVENT as EPISODE_EVENT
from coda_nodes.world.topics import GRIPPER_TRAJECTORY as GRIPPER_TRAJECTORY
from coda_nodes.world.topics import INSTRUCTION as INSTRUCTION
from coda_nodes.world.topics import JOINT_STATES as JOINT_STATES
from coda_nodes.world.topics import OBJECTS as OBJECTS
from coda_nodes.world.topics import PROGRESS as PROGRESS
from coda_nodes.world.topics import TRUTH as TRUTH
from coda_nodes.world.topics import camera_image as camera_image
from coda_nodes.world.topics import camera_info as camera_info

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
