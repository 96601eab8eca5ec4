"""What happened in an episode, as arrays: distances, heights, grips and their losses at each chunk boundary.

Boundary ``j`` is the scene before chunk ``j``; the last one is the end. Frames: robot base. Units: [m],
[rad], [s].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from coda_nodes.world.action import CONTROL_PERIOD
from coda_nodes.world.episode import Episode
from coda_nodes.world.fixtures import HANDLE_STANDOFF, tray_interior
from coda_nodes.world.geometry import rotation_matrices
from coda_nodes.world.predicates import atom_text
from coda_nodes.world.robots import robot
from coda_nodes.world.spec import Atom, FixtureSpec

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

BETWEEN = 0.7
"""Least distance of the finger pads from each other, in widths of what they hold."""
OPEN = 0.5
"""Commanded gripper opening from which the hand lets go."""
MOVED = 0.03
"""Displacement from which a thing counts as moved [m]."""
RISING = 0.25
"""Rise of the commanded opening within that time that tells of letting go by and by."""
RELEASE_LAG = 3
"""Control steps between the command to open and the loss of contact."""


@dataclass(frozen=True)
class Loss:
    """A grip that ended: last boundary at which it held, whether the hand was told to open, hand position
    then [m]."""

    boundary: int
    commanded: bool
    tool: Array


class Trace:
    """Read-only view of one episode with everything the rules ask for; entities are addressed by name."""

    def __init__(self, episode: Episode) -> None:
        self.episode, self.spec, self.states = episode, episode.spec, episode.states
        self.names = self.spec.entity_names
        self.last = self.states.n - 1

    def slot(self, name: str) -> int:
        """Entity slot."""
        return self.names.index(name)

    @cached_property
    def boundary_step(self) -> NDArray[np.int_]:
        """Control steps done before each boundary. Shape (T + 1,)."""
        return np.concatenate([[0], np.cumsum(self.episode.executed)]).astype(int)

    def time(self, boundary: int) -> float:
        """Time of a boundary since reset [s]."""
        return float(self.boundary_step[boundary] * CONTROL_PERIOD)

    def boundary_of(self, step: int) -> int:
        """The boundary next after a control step (counted from 0)."""
        return int(min(np.searchsorted(self.boundary_step, step + 1), self.last))

    @cached_property
    def opening(self) -> Array:
        """Commanded gripper opening at each control step. Shape (steps,)."""
        parts = [
            chunk[:count, 6] for chunk, count in zip(self.episode.chunks, self.episode.executed, strict=True)
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    @cached_property
    def tool(self) -> Array:
        """Shape (T + 1, 3)."""
        return self.states.tool_position_base

    def position(self, name: str) -> Array:
        """Shape (T + 1, 3)."""
        return self.states.entity_position_base[:, self.slot(name)]

    def joint(self, name: str) -> Array:
        """Joint value of a fixture. Shape (T + 1,)."""
        return self.states.entity_joint_value[:, self.slot(name)]

    def distance(self, name: str) -> Array:
        """From the tool to the entity. Shape (T + 1,)."""
        return np.linalg.norm(self.tool - self.position(name), axis=1)

    def displacement(self, name: str) -> Array:
        """From its first position. Shape (T + 1,)."""
        position = self.position(name)
        return np.linalg.norm(position - position[0], axis=1)

    def rise(self, name: str) -> Array:
        """Height above its first one. Shape (T + 1,)."""
        height = self.position(name)[:, 2]
        return height - height[0]

    def tilt(self, name: str) -> Array:
        """Angle between the entity's z axis now and at first. Shape (T + 1,)."""
        axis = rotation_matrices(self.states.entity_quaternion_xyzw[:, self.slot(name)])[:, :, 2]
        return np.arccos(np.clip(axis @ axis[0], -1.0, 1.0))

    @cached_property
    def finger_gap(self) -> Array:
        """Distance between the finger pads [m]. Shape (T + 1,)."""
        arm = robot(self.spec.robot)
        return np.asarray(2 * arm.gripper_command(self.states.gripper_opening))

    def grasped(self, name: str) -> Mask:
        """Whether it is between the fingers: pads on it and about as far apart as it is wide. Closed fingers
        that press on a thing from above touch it with both pads too. Shape (T + 1,)."""
        flags = self.states.grasped[:, self.slot(name)]
        entity = self.spec.entity(name)
        if isinstance(entity, FixtureSpec):
            return flags
        return np.asarray(flags & (self.finger_gap > BETWEEN * 2 * min(entity.half_extents)))

    def touched(self, name: str) -> Mask:
        """Shape (T + 1,)."""
        return self.states.touched[:, self.slot(name)]

    def atom(self, atom: Atom) -> Mask:
        """Truth of a recorded atom after every control step; all False when it was not recorded. Shape
        (steps,)."""
        name = atom_text(atom)
        if name not in self.episode.predicate_names:
            return np.zeros(len(self.episode.predicates), dtype=bool)
        return self.episode.predicates[:, self.episode.predicate_names.index(name)]

    def held(self, name: str) -> Mask:
        """Whether the entity was held at each boundary, or at any step on the way to it. Shape (T + 1,)."""
        held = self.grasped(name).copy()
        steps = self.held_steps(name)
        for boundary in range(1, self.last + 1):
            held[boundary] |= bool(
                steps[self.boundary_step[boundary - 1] : self.boundary_step[boundary]].any()
            )
        return held

    def held_steps(self, name: str) -> Mask:
        """Whether the entity was held after each control step, as far as its grasp was recorded. Shape
        (steps,)."""
        steps = self.atom(Atom(predicate="grasped", args=(name,))).copy()
        between = self.grasped(name)
        for boundary in range(1, self.last + 1):
            if not between[boundary - 1 : boundary + 1].any():
                steps[self.boundary_step[boundary - 1] : self.boundary_step[boundary]] = False
        return steps

    def closings(self) -> list[int]:
        """Boundaries next after each command to close a hand that was open."""
        closed = self.opening < OPEN
        begins = np.flatnonzero(closed & ~np.concatenate([[self._starts_closed], closed[:-1]]))
        return [self.boundary_of(int(step)) for step in begins]

    @property
    def _starts_closed(self) -> bool:
        return bool(self.states.gripper_opening[0] < OPEN)

    def losses(self, name: str) -> list[Loss]:
        """Every time the entity was held and then no longer, in order."""
        held = self.held(name)
        ends = np.flatnonzero(held[:-1] & ~held[1:])
        return [Loss(int(j), self._told_to_open(name, int(j)), self.tool[j]) for j in ends]

    def _told_to_open(self, name: str, boundary: int) -> bool:
        """Whether the hand was commanded open shortly before the grip that is last seen at ``boundary``
        ended.

        The end is known to the control step where grasps of the entity were recorded, else to the chunk.
        """
        begin, end = self.boundary_step[boundary] - RELEASE_LAG, self.boundary_step[boundary + 1]
        steps = np.flatnonzero(self.held_steps(name)[:end])
        if len(steps):
            begin, end = steps[-1] - RELEASE_LAG, steps[-1] + 2
        commands = self.opening[max(begin, 0) : end]
        return bool((commands >= OPEN).any() or (len(commands) > 0 and commands[-1] - commands[0] >= RISING))

    def over(self, name: str, other: str, margin: float = 0.0) -> Mask:
        """Whether the entity's centre is within the outline of another, widened by ``margin`` [m]. Shape (T +
        1,)."""
        slot = self.slot(other)
        rotation = rotation_matrices(self.states.entity_quaternion_xyzw[:, slot])
        local = np.einsum("tji,tj->ti", rotation, self.position(name) - self.position(other))
        half = self.states.entity_half_extents[:, slot].copy()
        entity = self.spec.entity(other)
        if isinstance(entity, FixtureSpec) and entity.kind == "drawer":  # stands where its handle is
            local[:, 0] -= half[:, 0] + HANDLE_STANDOFF
            half = tray_interior(half)[1]
        return np.asarray((np.abs(local[:, :2]) <= half[:, :2] + margin).all(axis=1))

    def speed(self, boundary: int) -> float:
        """Horizontal speed of the hand over the chunk after a boundary [m/s]."""
        after = min(boundary + 1, self.last)
        span = self.time(after) - self.time(boundary)
        return float(np.linalg.norm(self.tool[after, :2] - self.tool[boundary, :2]) / span) if span else 0.0
