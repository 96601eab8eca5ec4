"""What an arm and the objects before it report on their topics, put together as one observation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
from coda_interfaces.msg import ObjectStateArray
from numpy.typing import NDArray
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from coda_nodes.ros import names, qos
from coda_nodes.ros.arm_messages import joint_positions_from_message
from coda_nodes.ros.converters import entities_from_message
from coda_nodes.world.errors import NodeError
from coda_nodes.world.robots import RobotDescription
from coda_nodes.world.state import ObservationBatch

Array = NDArray[np.float64]
Forward = Callable[[Array], tuple[Array, Array]]
"""Joint positions (1, J) -> tool position (1, 3) and quaternion xyzw (1, 4)."""


class StateListener:
    """Keeps the newest joint state, objects and instruction; complains about what is missing or stale."""

    def __init__(self, node: Node, robot: RobotDescription, forward: Forward) -> None:
        self._node, self._robot, self._forward = node, robot, forward
        self._lock = threading.Lock()
        self._joints: tuple[float, JointState] | None = None
        self._objects: tuple[float, ObjectStateArray] | None = None
        self._instruction = ""
        qos.subscription(node, JointState, names.JOINT_STATES, self._on_joints, qos.STREAM_ASKED)
        qos.subscription(node, ObjectStateArray, names.OBJECTS, self._on_objects, qos.STREAM_ASKED)
        qos.subscription(node, String, names.INSTRUCTION, self._on_instruction, qos.LATCHED)

    def _on_joints(self, message: JointState) -> None:
        with self._lock:
            self._joints = (time.monotonic(), message)

    def _on_objects(self, message: ObjectStateArray) -> None:
        with self._lock:
            self._objects = (time.monotonic(), message)

    def _on_instruction(self, message: String) -> None:
        self._instruction = message.data

    def wait_fresh(self, timeout: float, instruction: str) -> None:
        """Wait for time, for a joint state and objects that arrive after this call, and for an instruction
        where ``instruction`` is empty.

        Raises:
            NodeError: after ``timeout`` [s]; names what is missing: a clock that stands at 0, a topic.
        """
        begun = time.monotonic()
        while missing := self._missing(begun) or self._speechless(instruction):
            if time.monotonic() > begun + timeout:
                raise NodeError(f"after {timeout:g} s: {missing}")
            time.sleep(0.01)

    def _speechless(self, instruction: str) -> str:
        known = instruction or self._instruction
        return "" if known else f"no instruction: none with the task, none on {names.INSTRUCTION}"

    def _missing(self, since: float) -> str:
        if clock_stuck(self._node):
            return CLOCK_STUCK
        if self._joints is None or self._joints[0] < since:
            return f"no message on {names.JOINT_STATES}"
        if self._objects is None or self._objects[0] < since:
            return f"no message on {names.OBJECTS}"
        return ""

    def observe(self, instruction: str, stale_after: float) -> tuple[ObservationBatch, float]:
        """The newest observation (n = 1) and when its joint state arrived on ``time.monotonic`` [s].

        An empty ``instruction`` means the one that was published last.

        Raises:
            NodeError: no message yet, or the last joint state is older than ``stale_after`` [s].
            MessageError: a joint or number in the messages is wrong.
        """
        with self._lock:
            joints, objects = self._joints, self._objects
        if joints is None or objects is None:
            raise NodeError(self._missing(0.0))
        if time.monotonic() - joints[0] > stale_after:
            late = time.monotonic() - joints[0]
            raise NodeError(
                f"{names.JOINT_STATES} is silent for {late:.2f} s: expected one every {stale_after:g} s"
            )
        q = joint_positions_from_message(joints[1], self._robot.joint_names)[None]
        position, quaternion = self._forward(q)
        return ObservationBatch(
            joint_positions=q,
            gripper_opening=self._opening(joints[1]),
            tool_position_base=position,
            tool_quaternion_xyzw=quaternion,
            instructions=(instruction or self._instruction,),
            **entities_from_message(objects[1]),
        ), joints[0]

    def _opening(self, message: JointState) -> Array:
        fingers = joint_positions_from_message(message, self._robot.finger_joints)
        return np.atleast_1d(self._robot.gripper_opening(fingers.mean()))

    def joints(self, names_wanted: Sequence[str]) -> Array:
        """Newest positions of these joints. Raises NodeError before the first message."""
        if self._joints is None:
            raise NodeError(f"no message on {names.JOINT_STATES}")
        return joint_positions_from_message(self._joints[1], names_wanted)


CLOCK_STUCK = f"the clock stands at 0: use_sim_time is true, but nobody publishes {names.CLOCK}"


def clock_stuck(node: Node) -> bool:
    """Whether the node waits for a simulated time that has not begun."""
    return bool(node.get_parameter("use_sim_time").value) and node.get_clock().now().nanoseconds == 0
