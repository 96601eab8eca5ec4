"""Expert of push_insert: push from behind along the line to the goal; take a peg, lower it into the hole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coda_nodes.world.experts.base import Array, Command, Mask, Slots, View, azimuth_yaw, funnel
from coda_nodes.world.experts.grasp import Grasp, choose_grasp
from coda_nodes.world.experts.lowering import Parts, let_go, lower, stay, widen
from coda_nodes.world.experts.transfer import CLEARANCE, deliver, fetch, free_spot, retreat, skyline
from coda_nodes.world.families.push_insert import PREDICATE_PARTS
from coda_nodes.world.fixtures import slot_hole
from coda_nodes.world.geometry import wrap, yaw_of
from coda_nodes.world.spec import EnvironmentSpec

FINGER = 0.0105
"""Half thickness of the fingers along the tool's x axis, with which the hand pushes [m]."""
STAGE = 0.025
"""Gap behind the object at which the hand comes down [m]."""
LANE = 0.017
"""Sideways error of the hand up to which it pushes; beyond it goes around [m]."""
APPROACH_SPEED, PUSH_SPEED = 0.45, 0.15
"""[m/s]"""
PUSH_LOW, PUSH_HIGH = 0.012, 0.035
"""Heights of the tool over the table while pushing [m]."""
SINK = 0.0005
"""How much lower the hand goes in each step of a push [m]."""
BEYOND = 0.02
"""How far past the marker's middle a push aims while the object is farther than that away [m]."""
ENOUGH = 0.6
"""Share of the room on the marker within which a push is finished."""
SQUARE = 0.12
"""Yaw error up to which the hand goes down behind the object [rad]."""
PEG_GRIP = 0.006
"""How far above its middle a peg is taken: higher up it swings in the fingers [m]."""
PALM = 0.032
"""How far below its upper end a peg may be taken without the palm meeting it [m]."""
FINGER_TIP = 0.012
"""From the tool down to the end of the fingers [m]."""
CARRY_SPEED, ALIGN_SPEED = 0.25, 0.06
"""Speeds at which a peg is carried, and brought over the hole: it may swing in the fingers [m/s]."""
SWING = 0.25
"""Angle of the peg from the vertical up to which it is lowered [rad]."""
NEAR_HOLE = 0.025
"""Distance of the hand from the hole within which the peg's lower end is steered [m]."""
LEAST_PLAY = 0.002
"""How far beside the middle of the tightest hole a peg is still lowered [m]."""
OVER_RIM = 0.012
"""Height of the peg's end over the slot's rim at which the hand waits until it is over the hole [m]."""
DEEP = 0.75
"""Share of the hole's depth at which a peg counts as inserted."""
INSERT_SLOPE = 30.0
"""Slope of the funnel down to the hole: the peg is over the hole before it is at the rim."""


@dataclass(frozen=True)
class Line:
    """The push of an object to a marker, seen from the object. Horizontal, [m]."""

    way: Array
    """Unit direction to the marker. Shape (n, 2)."""
    distance: Array
    """To the marker's middle. Shape (n,)."""
    reach: Array
    """From the object's centre to its outline against ``way``. Shape (n,)."""
    along: Array
    """Where the tool is: how far behind the object's centre. Shape (n,)."""
    across: Array
    """And how far to the left of the line. Shape (n,)."""

    @property
    def left(self) -> Array:
        """Unit vector to the left of ``way``. Shape (n, 2)."""
        return np.stack([-self.way[:, 1], self.way[:, 0]], axis=1)


class PushInsertExpert:
    """See the module."""

    def __init__(self, specs: Sequence[EnvironmentSpec]) -> None:
        self.parts = Parts(specs, PREDICATE_PARTS)
        self.cylinder = self.parts.cylinder

    def command(self, view: View) -> Command:
        """Serve the first part that is not done; put down what it does not need; at the end stay away."""
        self._shove(view)
        done = np.stack([self._done(view, p) for p in range(self.parts.count)], axis=1)
        part = self.parts.current(done)
        kind, subject, target = (
            self.parts.pick(table, part) for table in (self.parts.kind, self.parts.subject, self.parts.target)
        )
        insert = self._insert(view, subject, target)
        command = self._push(view, subject, target).where(kind == "insert", insert)
        wrong = self.parts.others_held(view, subject, movable=True)
        if (wrong >= 0).any():
            slot = np.maximum(wrong, 0)
            command = command.where(wrong >= 0, deliver(view, slot, free_spot(view, slot)))
        finished = (done | (self.parts.kind == "")).all(1)
        command = command.where(finished, stay(view))
        command = self._clear(view, kind, subject, command)
        for p in range(self.parts.count):
            peg = self.parts.subject[:, p]
            about = (self.parts.kind[:, p] == "insert") & done[:, p] & _around(view, peg)
            command = command.where(about, retreat(view, peg))
        return command

    def _clear(self, view: View, kind: np.ndarray, subject: Slots, command: Command) -> Command:
        """Rise from other things before the fingers close for a push: they would take them along."""
        apart = np.linalg.norm(view.position[:, :, :2] - view.tool[:, None, :2], axis=-1)
        tops = view.position[:, :, 2] + view.extents[:, :, 2]
        between = (apart < 0.05) & (view.tool[:, 2:] < tops + 0.02)
        between &= widen(self.parts.movable, apart.shape[1])
        between[view.rows, subject] = False
        between &= ((kind == "push") & (view.state.gripper_opening > 0.2))[:, None] & ~view.held
        return command.where(between.any(1), retreat(view, between.argmax(1)))

    def _done(self, view: View, p: int) -> Mask:
        subject, target = self.parts.subject[:, p], self.parts.target[:, p]
        offset = view.of(view.position, subject) - view.of(view.position, target)
        half = view.of(view.state.entity_half_extents, subject)[:, :2].max(1)
        room = np.maximum(view.of(view.state.entity_half_extents, target)[:, 0] - half, 0.004)
        pushed = np.hypot(offset[:, 0], offset[:, 1]) < ENOUGH * room
        return np.where(self.parts.kind[:, p] == "insert", self._inserted(view, subject, target), pushed)

    def _inserted(self, view: View, peg: Slots, slot: Slots) -> Mask:
        """Whether the peg is in the hole, as deep as it was at the start of the chunk. Shape (n,)."""
        end = _lower_end(view, peg)
        hole = slot_hole(view.of(view.state.entity_half_extents, slot))[1]
        sideways = np.linalg.norm((end - view.of(view.position, slot))[:, :2], axis=1)
        foreseen = (view.of(view.position, peg) - view.of(view.state.entity_position_base, peg))[:, 2]
        depth = view.top(slot) - (end[:, 2] - foreseen)
        return (sideways < hole[:, :2].max(1)) & (depth > DEEP * 2 * hole[:, 2])

    def _line(self, view: View, subject: Slots, target: Slots) -> Line:
        way = (view.of(view.position, target) - view.of(view.position, subject))[:, :2]
        distance = np.linalg.norm(way, axis=1)
        way = way / np.maximum(distance, 1e-6)[:, None]
        offset = (view.tool - view.of(view.position, subject))[:, :2]
        half = view.of(view.state.entity_half_extents, subject)
        local = np.abs(np.einsum("nji,nj->ni", view.of(view.rotation, subject)[:, :2, :2], way))
        is_round = view.of(widen(self.cylinder, view.held.shape[1]), subject)
        reach = np.where(is_round, half[:, 0], (local * half[:, :2]).sum(1))
        across = way[:, 0] * offset[:, 1] - way[:, 1] * offset[:, 0]
        return Line(way, distance, reach, -(offset * way).sum(1), across)

    def _shove(self, view: View) -> None:
        """Foresee the push: what the hand has run into is in front of it."""
        for p in range(self.parts.count):
            subject = self.parts.subject[:, p]
            line = self._line(view, subject, self.parts.target[:, p])
            depth = line.reach + FINGER - line.along
            moved = (self.parts.kind[:, p] == "push") & _behind(view, subject, line) & (depth > 0)
            moved &= ~view.of(view.held, subject)
            view.position[view.rows, subject, :2] += np.where(moved, depth, 0.0)[:, None] * line.way

    def _push(self, view: View, subject: Slots, target: Slots) -> Command:
        """Come down behind the object with closed fingers, broad side on, and go forward."""
        line, centre = self._line(view, subject, target), view.of(view.position, subject)
        yaw = azimuth_yaw(np.arctan2(line.way[:, 1], line.way[:, 0]), centre, view.yaw)
        turned = np.abs(wrap(yaw - view.yaw)) < SQUARE
        n, height, back = len(yaw), _push_height(view, subject), line.reach + FINGER
        cruise = np.maximum(skyline(view, np.full(n, -1)) + CLEARANCE, height + 0.06)
        stage = centre[:, :2] - line.way * (back + STAGE)[:, None]
        low = np.where(turned & (view.opening < 0.3), height, cruise)
        position = funnel(view.tool, np.column_stack([stage, low]), cruise, slope=8.0)
        approach = Command(position, yaw, np.zeros(n), np.full(n, APPROACH_SPEED))
        ahead = line.distance + np.where(line.distance < BEYOND, 0.0, BEYOND) - back
        forward = centre[:, :2] + line.way * ahead[:, None] + line.left * line.across[:, None]
        # never upwards: a finger that rises along the object tips it over its far edge
        level = np.maximum(np.minimum(view.tool[:, 2] - SINK, height), PUSH_LOW)
        push = Command(np.column_stack([forward, level]), yaw, np.zeros(n), np.full(n, PUSH_SPEED))
        command = approach.where(_behind(view, subject, line) & turned, push)
        return command.where(view.of(view.held, subject) & (view.opening > 0.3), let_go(view))

    def _insert(self, view: View, subject: Slots, target: Slots) -> Command:
        """Take the peg above its middle, bring its lower end over the hole, turn it, lower it, let go."""
        centre, end = view.of(view.position, subject), _lower_end(view, subject)
        hole, room = slot_hole(view.of(view.state.entity_half_extents, target))
        middle = view.of(view.position, target) + hole
        # from afar steer by where the axis passes the fingers, so that a peg that swings is not run after
        axis = view.of(view.rotation, subject)[:, :, 2]
        level = (view.tool - centre)[:, 2] / np.where(np.abs(axis[:, 2]) < 0.3, 1.0, axis[:, 2])
        hanging = np.abs(axis[:, 2]) > np.cos(SWING)
        near = hanging & (np.linalg.norm((view.tool - middle)[:, :2], axis=1) < NEAR_HOLE)
        spot = middle + np.where(near[:, None], centre - end, -axis * level[:, None])
        fingers = view.top(target) + FINGER_TIP - (view.tool - end)[:, 2]
        spot[:, 2] = np.maximum(middle[:, 2] - room[:, 2] + 0.002, fingers) + (centre - end)[:, 2]
        hover = np.maximum(view.top(target) + OVER_RIM - spot[:, 2] + (centre - end)[:, 2], 0.0)
        yaw = self._hole_yaw(view, subject, target, spot)
        play = 0.8 * (room[:, :2] - view.of(view.state.entity_half_extents, subject)[:, :2]).min(1)
        play = np.where(hanging, np.maximum(play, LEAST_PLAY), 0.0)
        place = lower(view, subject, spot, yaw, 0.001, INSERT_SLOPE, hover, play)
        aligning = near & (np.hypot(*(spot - centre)[:, :2].T) > play) & (end[:, 2] > view.top(target))
        place.speed = np.minimum(place.speed, np.where(aligning, ALIGN_SPEED, CARRY_SPEED))
        grasp = self._peg_grasp(view, subject)
        return fetch(view, subject, grasp).where(view.of(view.held, subject), place)

    def _peg_grasp(self, view: View, subject: Slots) -> Grasp:
        slots = view.held.shape[1]
        cylinder, hollow = widen(self.parts.cylinder, slots), widen(self.parts.hollow, slots)
        grasp = choose_grasp(view, subject, cylinder, hollow)
        upright = np.abs(view.of(view.rotation, subject)[:, 2, 2]) > 0.9
        height = np.maximum(view.of(view.position, subject)[:, 2] + PEG_GRIP, view.top(subject) - PALM)
        point = grasp.point.copy()
        point[:, 2] = np.where(upright, height, point[:, 2])
        return Grasp(point, grasp.yaw, grasp.width)

    def _hole_yaw(self, view: View, subject: Slots, target: Slots, spot: Array) -> Array:
        """Tool yaw at which the peg's sides are along the hole's. Shape (n,)."""
        heading = yaw_of(view.of(view.state.entity_quaternion_xyzw, subject)) + view.heading_offset
        wanted = yaw_of(view.of(view.state.entity_quaternion_xyzw, target))
        is_round = view.of(widen(self.cylinder, view.held.shape[1]), subject)
        turn = np.where(is_round, 0.0, wrap(wanted - heading, np.pi / 2))
        return azimuth_yaw(view.yaw + turn, spot, view.yaw)


def _push_height(view: View, subject: Slots) -> Array:
    return np.clip(view.of(view.extents, subject)[:, 2], PUSH_LOW + 0.006, PUSH_HIGH)


def _behind(view: View, subject: Slots, line: Line) -> Mask:
    """Whether the hand is low and behind the object, so that going forward pushes it. Shape (n,)."""
    low = view.tool[:, 2] < _push_height(view, subject) + 0.012
    near = (line.along > 0.5 * line.reach) & (line.along < line.reach + FINGER + 2 * STAGE)
    return low & near & (np.abs(line.across) < LANE)


def _around(view: View, peg: Slots) -> Mask:
    """Whether the fingers are still about a peg that has been inserted. Shape (n,)."""
    apart = np.hypot(*(view.tool - view.of(view.position, peg))[:, :2].T)
    return (apart < 0.06) & (view.tool[:, 2] < view.top(peg) + 0.02)


def _lower_end(view: View, peg: Slots) -> Array:
    """Centre of the peg's lower face [m]. Shape (n, 3)."""
    axis = view.of(view.rotation, peg)[:, :, 2]
    down = np.where(axis[:, 2:] > 0, -axis, axis)
    return view.of(view.position, peg) + down * view.of(view.state.entity_half_extents, peg)[:, 2:]


EXPERT = PushInsertExpert
