"""Shared parts of the experts: the scene as an expert sees it, and chunks by rolling a step rule forward.

A family expert is a rule that maps the present scene to one command (where the tool should go, how far the
gripper should open). A chunk is made by applying the rule eight times to a scene that is moved along
kinematically in between, so that a chunk may pass from one phase to the next. Nothing is remembered between
chunks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from coda_nodes.world.action import ACTION_SIZE, CHUNK_STEPS, CONTROL_PERIOD
from coda_nodes.world.geometry import (
    quaternion_multiply,
    rotation_matrices,
    rotation_vector,
    tool_down,
    world_extents,
    wrap,
)
from coda_nodes.world.state import SceneState

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Slots = NDArray[np.int_]

MAX_OPENING = 0.08
"""Distance between the finger pads at opening 1 [m]."""
SPEED = 0.5
"""Tool speed in free motion [m/s]."""
CARRY_ACCELERATION = 0.08
"""Gain of speed in one control step with something in the hand [m/s]."""
REACHABLE = ((0.25, 0.75), 0.008)
"""Horizontal distance from the base between which, and height above which, tool targets are kept [m]."""
TURN_SPEED = 1.5
"""[rad/s]"""
GRIPPER_STEP = 0.15
"""Change of opening expected in one control step."""
SETTLE = 0.4
"""Share of the remaining distance covered in one step close to a target: slows down before arriving."""


@dataclass
class View:
    """``n`` scenes of ``K`` entities, moved along while a chunk is rolled out. Units [m], [rad]."""

    tool: Array
    """Shape (n, 3)."""
    quaternion: Array
    """Tool orientation xyzw. Shape (n, 4)."""
    opening: Array
    """Shape (n,)."""
    position: Array
    """Entity positions. Shape (n, K, 3)."""
    held: Mask
    """Shape (n, K)."""
    heading_offset: Array
    """Change of heading since the start of the chunk, of what the hand holds. Shape (n,)."""
    state: SceneState
    """As it was at the start of the chunk."""
    rotation: Array
    """Entity rotations at the start of the chunk. Shape (n, K, 3, 3)."""
    extents: Array
    """Half extents along the world's axes at the start of the chunk. Shape (n, K, 3)."""
    rows: Slots
    """0 .. n - 1."""
    pace: Array
    """Speed that may be reached in the next step [m/s]; infinite with an empty hand. Shape (n,)."""
    cache: dict[str, Any] = field(default_factory=dict)
    """What a rule computed once for the chunk."""

    @property
    def yaw(self) -> Array:
        """Yaw of the tool as in ``geometry.tool_down``. Shape (n,)."""
        x, y, _, _ = np.moveaxis(self.quaternion, -1, 0)
        return 2 * np.arctan2(y, x)

    def of(self, array: NDArray, slot: Slots) -> NDArray:
        """Rows of a per-entity array for one slot per scene. Shape (n, ...)."""
        return array[self.rows, slot]

    def top(self, slot: Slots) -> Array:
        """Height of the highest point of one entity per scene [m]. Shape (n,)."""
        return self.of(self.position, slot)[:, 2] + self.of(self.extents, slot)[:, 2]

    def bottom(self, slot: Slots) -> Array:
        """Height of the lowest point [m]. Shape (n,)."""
        return self.of(self.position, slot)[:, 2] - self.of(self.extents, slot)[:, 2]


@dataclass
class Command:
    """Where the tool should be going: position (n, 3) [m], yaw (n,) [rad], opening (n,), speed (n,) [m/s]."""

    position: Array
    yaw: Array
    opening: Array
    speed: Array

    def where(self, mask: Mask, other: Command) -> Command:
        """``other`` in the scenes of ``mask``, this one elsewhere."""
        return Command(
            np.where(mask[:, None], other.position, self.position),
            np.where(mask, other.yaw, self.yaw),
            np.where(mask, other.opening, self.opening),
            np.where(mask, other.speed, self.speed),
        )


class FamilyExpert(Protocol):
    """A family module offers one as ``EXPERT``; it is built from the specifications of its scenes."""

    cylinder: Mask
    """Which entity slots are round about their z axis. Shape (n, K)."""

    def command(self, view: View) -> Command:
        """What to do now, scene by scene."""
        ...


def view_of(state: SceneState, cylinder: Mask) -> View:
    """The scene at the start of a chunk."""
    rotation = rotation_matrices(state.entity_quaternion_xyzw)
    slots = state.present.shape[1]
    cylinder = np.pad(cylinder[:, :slots], ((0, 0), (0, max(0, slots - cylinder.shape[1]))))
    held = state.grasped & state.present
    speed = np.where(held, np.linalg.norm(state.entity_linear_velocity, axis=-1), 0.0).max(1)
    return View(
        tool=state.tool_position_base.copy(),
        quaternion=state.tool_quaternion_xyzw.copy(),
        opening=state.gripper_opening.copy(),
        position=state.entity_position_base.copy(),
        held=held,
        heading_offset=np.zeros(state.n),
        state=state,
        rotation=rotation,
        extents=world_extents(rotation, state.entity_half_extents, cylinder),
        rows=np.arange(state.n),
        pace=np.where(held.any(1), speed + CARRY_ACCELERATION, np.inf),
    )


def roll_chunks(expert: FamilyExpert, state: SceneState) -> Array:
    """Apply the expert's rule to a kinematically advanced scene, step after step. Shape (n, 8, 7)."""
    view = view_of(state, expert.cylinder)
    chunks = np.empty((state.n, CHUNK_STEPS, ACTION_SIZE))
    conjugate = state.tool_quaternion_xyzw * np.array([-1.0, -1.0, -1.0, 1.0])
    for k in range(CHUNK_STEPS):
        command = expert.command(view)
        advance(view, command)
        chunks[:, k, :3] = view.tool - state.tool_position_base
        chunks[:, k, 3:6] = rotation_vector(quaternion_multiply(view.quaternion, conjugate))
        chunks[:, k, 6] = np.clip(command.opening, 0.0, 1.0)
    return chunks


def advance(view: View, command: Command) -> None:
    """Move the view by one control step: tool at limited speed, what is held along with it, fingers towards
    the command."""
    before, yaw = view.tool.copy(), view.yaw
    difference = within_reach(command.position) - view.tool
    distance = np.linalg.norm(difference, axis=1)
    step = np.minimum(np.minimum(command.speed, view.pace) * CONTROL_PERIOD, SETTLE * distance + 0.001)
    view.pace = np.where(
        view.held.any(1), np.minimum(step, distance) / CONTROL_PERIOD + CARRY_ACCELERATION, np.inf
    )
    view.tool = view.tool + difference * (np.minimum(step, distance) / np.maximum(distance, 1e-9))[:, None]
    view.quaternion = _turn(view.quaternion, tool_down(command.yaw))
    _carry(view, view.tool - before, wrap(view.yaw - yaw))
    _move_fingers(view, command)


def within_reach(position: Array) -> Array:
    """Nearest tool position that the arm can take pointing down. Shape (n, 3)."""
    (near, far), floor = REACHABLE
    distance = np.maximum(np.hypot(position[:, 0], position[:, 1]), 1e-6)
    scale = np.clip(distance, near, far) / distance
    return np.stack(
        [np.maximum(position[:, 0] * scale, 0.2), position[:, 1] * scale, np.maximum(position[:, 2], floor)],
        1,
    )


def _turn(quaternion: Array, target: Array) -> Array:
    vector = rotation_vector(quaternion_multiply(target, quaternion * np.array([-1.0, -1.0, -1.0, 1.0])))
    angle = np.linalg.norm(vector, axis=1)
    share = np.minimum(TURN_SPEED * CONTROL_PERIOD, SETTLE * angle + 0.002) / np.maximum(angle, 1e-9)
    vector = vector * np.minimum(share, 1.0)[:, None]
    half = 0.5 * np.linalg.norm(vector, axis=1, keepdims=True)
    delta = np.concatenate([0.5 * vector * np.sinc(half / np.pi), np.cos(half)], axis=1)
    result = quaternion_multiply(delta, quaternion)
    return result / np.linalg.norm(result, axis=1, keepdims=True)


def _carry(view: View, shift: Array, turn: Array) -> None:
    view.position = view.position + view.held[:, :, None] * shift[:, None, :]
    arm = view.position - view.tool[:, None, :]
    cosine, sine = np.cos(turn)[:, None], np.sin(turn)[:, None]
    x = cosine * arm[:, :, 0] - sine * arm[:, :, 1]
    y = sine * arm[:, :, 0] + cosine * arm[:, :, 1]
    turned = view.tool[:, None, :] + np.stack([x, y, arm[:, :, 2]], -1)
    view.position = np.where(view.held[:, :, None], turned, view.position)
    view.heading_offset = view.heading_offset + np.where(view.held.any(1), turn, 0.0)


def _move_fingers(view: View, command: Command) -> None:
    """Fingers towards the command. What opens lets go; what closes is believed to hold only once the
    simulator says so,
    in the next chunk."""
    view.held = view.held & ~(command.opening > view.opening + 0.03)[:, None]
    view.opening = view.opening + np.clip(command.opening - view.opening, -GRIPPER_STEP, GRIPPER_STEP)


def funnel(
    tool: Array, goal: Array, cruise: Array, slope: float = 5.0, tolerance: float | Array = 0.008
) -> Array:
    """Next waypoint on the way to ``goal`` (n, 3): over at height ``cruise`` (n,) [m], down only inside a
    steep funnel.

    Below the funnel's wall the tool rises before it moves sideways. Shape (n, 3).
    """
    sideways = goal[:, :2] - tool[:, :2]
    distance = np.linalg.norm(sideways, axis=1)
    wall = goal[:, 2] + np.minimum(
        np.maximum(cruise - goal[:, 2], 0.0), slope * np.maximum(distance - tolerance, 0.0)
    )
    freedom = np.clip(1.0 - (wall - tool[:, 2] - 0.01) / 0.03, 0.0, 1.0)
    waypoint = np.empty_like(tool)
    waypoint[:, :2] = tool[:, :2] + sideways * freedom[:, None]
    waypoint[:, 2] = wall
    return waypoint


def azimuth_yaw(yaw: Array, position: Array, current: Array) -> Array:
    """Of the equivalent yaws (the gripper is symmetric under half a turn) the one that the last joint
    reaches best:
    near the direction of ``position`` (n, 3) from the base, and of those near ``current``. Shape (n,)."""
    bearing = np.arctan2(position[:, 1], position[:, 0])
    near = current + wrap(yaw - current, np.pi)
    far = np.abs(wrap(near - bearing)) > 0.6 * np.pi
    return np.where(far, bearing + wrap(yaw - bearing, np.pi), near)
