"""Expert of push_insert: push from behind along the line to the goal; take a peg, lower it into the hole."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coda_nodes.world.experts.base import Array, Command, Mask, Slots, View, azimuth_yaw, funnel
from coda_nodes.world.experts.grasp import Grasp, choose_grasp
from coda_nodes.world.experts.lowering import Parts, let_go, lower, widen
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
PUSH_SPEED = 0.15
"""[m/s]"""
PUSH_LOW, PUSH_HIGH = 0.012, 0.035
"""Heights of the tool over the table while pushing [m]."""
ENOUGH = 0.6
"""Share of the room on the marker within which a push is finished."""
SINK = 0.0005
"""How much lower the hand goes in each step of a push [m]."""
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
OVER_RIM = 0.012
"""Height of the peg's end over the slot's rim at which the hand waits until it is over the hole [m]."""
DEEP = 0.75
"""Share of the hole's depth at which a peg counts as inserted."""
INSERT_SLOPE = 30.0
"""Slope of the funnel down to the hole: the peg is over the hole before it is at the rim."""


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
        kind, subject = self.parts.pick(self.parts.kind, part), self.parts.pick(self.parts.subject, part)
        target = self.parts.pick(self.parts.target, part)
        command = self._push(view, subject, target).where(kind == "insert", self._insert(view, subject, target))
        wrong = self.parts.others_held(view, subject, movable=True)
        if (wrong >= 0).any():
            slot = np.maximum(wrong, 0)
            command = command.where(wrong >= 0, deliver(view, slot, free_spot(view, slot)))
        finished = (done | (self.parts.kind == "")).all(1)
        command = command.where(finished, self._stay(view))
        for p in range(self.parts.count):
            peg = self.parts.subject[:, p]
            about = (self.parts.kind[:, p] == "insert") & done[:, p] & self._around(view, peg)
            command = command.where(about, retreat(view, peg))
        return command

    def _stay(self, view: View) -> Command:
        n = len(view.tool)
        return Command(view.tool.copy(), view.yaw, np.ones(n) * view.state.gripper_opening, np.full(n, PUSH_SPEED))

    def _around(self, view: View, peg: Slots) -> Mask:
        """Whether the fingers are still about a peg that has been inserted. Shape (n,)."""
        apart = np.hypot(*(view.tool - view.of(view.position, peg))[:, :2].T)
        return (apart < 0.06) & (view.tool[:, 2] < view.top(peg) + 0.02)

    def _done(self, view: View, p: int) -> Mask:
        kind, subject, target = self.parts.kind[:, p], self.parts.subject[:, p], self.parts.target[:, p]
        offset = view.of(view.position, subject) - view.of(view.position, target)
        room = self._room(view, subject, target)
        pushed = np.hypot(offset[:, 0], offset[:, 1]) < ENOUGH * room
        end = self._lower_end(view, subject)
        hole = slot_hole(view.of(view.state.entity_half_extents, target))[1]
        sideways = np.linalg.norm((end - view.of(view.position, target))[:, :2], axis=1)
        start = view.of(view.state.entity_position_base, subject)[:, 2] - view.of(view.position, subject)[:, 2]
        deep = view.top(target) - end[:, 2] - start > DEEP * 2 * hole[:, 2]
        inserted = (sideways < hole[:, :2].max(1)) & deep
        return np.where(kind == "insert", inserted, pushed)

    def _room(self, view: View, subject: Slots, target: Slots) -> Array:
        """How far the object's centre may be from the marker's [m]. Shape (n,)."""
        half = view.of(view.state.entity_half_extents, subject)[:, :2].max(1)
        return np.maximum(view.of(view.state.entity_half_extents, target)[:, 0] - half, 0.004)

    def _line(self, view: View, subject: Slots, target: Slots) -> tuple[Array, Array, Array, Array]:
        """Direction (n, 2) from object to marker, distance to the marker, reach of the object against it, the tool's
        place along and across relative to the object (n, 2) [m]."""
        way = (view.of(view.position, target) - view.of(view.position, subject))[:, :2]
        distance = np.linalg.norm(way, axis=1)
        way = way / np.maximum(distance, 1e-6)[:, None]
        offset = (view.tool - view.of(view.position, subject))[:, :2]
        place = np.stack([(offset * way).sum(1), way[:, 0] * offset[:, 1] - way[:, 1] * offset[:, 0]], axis=1)
        half = view.of(view.state.entity_half_extents, subject)
        rotation = view.of(view.rotation, subject)[:, :2, :2]
        local = np.abs(np.einsum("nji,nj->ni", rotation, way))
        is_round = view.of(widen(self.cylinder, view.held.shape[1]), subject)
        reach = np.where(is_round, half[:, 0], (local * half[:, :2]).sum(1))
        return way, distance, reach, place

    def _height(self, view: View, subject: Slots) -> Array:
        return np.clip(view.of(view.extents, subject)[:, 2], PUSH_LOW + 0.006, PUSH_HIGH)

    def _behind(self, view: View, subject: Slots, reach: Array, place: Array) -> Mask:
        """Whether the hand is low and behind the object, so that going forward pushes it. Shape (n,)."""
        low = view.tool[:, 2] < self._height(view, subject) + 0.012
        along = -place[:, 0]
        return low & (np.abs(place[:, 1]) < LANE) & (along > 0.5 * reach) & (along < reach + FINGER + 2 * STAGE)

    def _shove(self, view: View) -> None:
        """Foresee the push: what the hand has run into is in front of it."""
        for p in range(self.parts.count):
            subject, target = self.parts.subject[:, p], self.parts.target[:, p]
            way, _, reach, place = self._line(view, subject, target)
            depth = reach + FINGER + place[:, 0]
            moved = (self.parts.kind[:, p] == "push") & self._behind(view, subject, reach, place) & (depth > 0)
            moved &= ~view.of(view.held, subject)
            shift = np.where(moved, depth, 0.0)[:, None] * way
            view.position[view.rows, subject, :2] += shift

    def _push(self, view: View, subject: Slots, target: Slots) -> Command:
        """Come down behind the object with closed fingers, broad side on, and go forward; steer against drift."""
        way, distance, reach, place = self._line(view, subject, target)
        centre = view.of(view.position, subject)
        yaw = azimuth_yaw(np.arctan2(way[:, 1], way[:, 0]), centre, view.yaw)
        height = self._height(view, subject)
        back = reach + FINGER
        stage = np.concatenate([centre[:, :2] - way * (back + STAGE)[:, None], height[:, None]], axis=1)
        cruise = np.maximum(skyline(view, np.full(len(yaw), -1)) + CLEARANCE, height + 0.06)
        turned = np.abs(wrap(yaw - view.yaw)) < 0.12
        aim = stage.copy()
        aim[:, 2] = np.where(turned & (view.opening < 0.3), height, cruise)
        n = len(yaw)
        approach = Command(funnel(view.tool, aim, cruise, slope=8.0), yaw, np.zeros(n), np.full(n, 0.45))
        ahead = np.maximum(distance + 0.02, 0.0)
        forward = centre[:, :2] + way * (ahead - back)[:, None]
        side = np.stack([-way[:, 1], way[:, 0]], axis=1)
        forward = np.where((distance < 0.02)[:, None], centre[:, :2] - way * (back - distance)[:, None], forward)
        forward = forward + side * place[:, 1:]
        # never upwards: a finger that rises along the object tips it over its far edge
        level = np.maximum(np.minimum(view.tool[:, 2] - SINK, height), PUSH_LOW)
        push = Command(np.concatenate([forward, level[:, None]], axis=1), yaw, np.zeros(n), np.full(n, PUSH_SPEED))
        behind = self._behind(view, subject, reach, place) & turned
        command = approach.where(behind, push)
        return command.where(view.of(view.held, subject), let_go(view))

    def _insert(self, view: View, subject: Slots, target: Slots) -> Command:
        """Take the peg above its middle, bring its lower end over the hole, turn it to the hole, lower, let go."""
        cylinder, hollow = (widen(mask, view.held.shape[1]) for mask in (self.parts.cylinder, self.parts.hollow))
        chosen = choose_grasp(view, subject, cylinder, hollow)
        point = chosen.point.copy()
        upright = np.abs(view.of(view.rotation, subject)[:, 2, 2]) > 0.9
        height = np.maximum(view.of(view.position, subject)[:, 2] + PEG_GRIP, view.top(subject) - PALM)
        point[:, 2] = np.where(upright, height, point[:, 2])
        grasp = Grasp(point, chosen.yaw, chosen.width)
        centre, end = view.of(view.position, subject), self._lower_end(view, subject)
        half = view.of(view.state.entity_half_extents, target)
        hole, room = slot_hole(half)
        middle = view.of(view.position, target) + hole
        # from afar steer by where the axis passes the fingers, so that a peg that swings is not run after
        axis = view.of(view.rotation, subject)[:, :, 2]
        level = (view.tool - centre)[:, 2] / np.where(np.abs(axis[:, 2]) < 0.3, 1.0, axis[:, 2])
        hanging = np.abs(axis[:, 2]) > np.cos(SWING)
        apart = np.linalg.norm((view.tool - middle)[:, :2], axis=1)
        near = (apart < NEAR_HOLE) & hanging
        spot = middle + np.where(near[:, None], centre - end, -axis * level[:, None])
        bottom = middle[:, 2] - room[:, 2] + 0.002
        free = view.top(target) + FINGER_TIP - (view.tool - end)[:, 2]
        spot[:, 2] = np.maximum(bottom, free) + (centre - end)[:, 2]
        heading = yaw_of(view.of(view.state.entity_quaternion_xyzw, subject)) + view.heading_offset
        is_round = view.of(cylinder, subject)
        slot_heading = yaw_of(view.of(view.state.entity_quaternion_xyzw, target))
        turn = np.where(is_round, 0.0, wrap(slot_heading - heading, np.pi / 2))
        yaw = azimuth_yaw(view.yaw + turn, spot, view.yaw)
        hover = np.maximum(view.top(target) + OVER_RIM - spot[:, 2] + (centre - end)[:, 2], 0.0)
        place = lower(view, subject, spot, yaw, tolerance=0.001, slope=INSERT_SLOPE, hover=hover, ready=hanging)
        above = end[:, 2] > view.top(target) - 0.004
        place.speed = np.minimum(place.speed, np.where(near & above, ALIGN_SPEED, CARRY_SPEED))
        return fetch(view, subject, grasp).where(view.of(view.held, subject), place)

    def _lower_end(self, view: View, subject: Slots) -> Array:
        """Centre of the peg's lower face [m]. Shape (n, 3)."""
        axis = view.of(view.rotation, subject)[:, :, 2]
        down = np.where(axis[:, 2:] > 0, -axis, axis)
        return view.of(view.position, subject) + down * view.of(view.state.entity_half_extents, subject)[:, 2:]


EXPERT = PushInsertExpert
