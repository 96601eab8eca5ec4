"""Expert of articulated: pinch the handle and slide the drawer, turn the knob, put a thing into the tray."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coda_nodes.world.experts.base import MAX_OPENING, Array, Command, Mask, Slots, View, azimuth_yaw
from coda_nodes.world.experts.grasp import Grasp, choose_grasp
from coda_nodes.world.experts.lowering import Parts, let_go, lower, widen
from coda_nodes.world.experts.transfer import deliver, fetch, free_spot, retreat
from coda_nodes.world.families.articulated import PREDICATE_PARTS
from coda_nodes.world.fixtures import (
    HANDLE_HALF_EXTENTS,
    HANDLE_STANDOFF,
    KNOB_GRIP_HALF_EXTENTS,
    tray_interior,
)
from coda_nodes.world.geometry import wrap, yaw_of
from coda_nodes.world.spec import EnvironmentSpec

GRIP_HEIGHT = 0.012
"""Height over the handle's centre at which it is pinched: the palm stays off the cabinet's top [m]."""
PULL_SPEED = 0.20
"""[m/s]"""
OVER_TOP = 0.04
"""Tool height over the cabinet's top on the way to the handle [m]."""
OVERDRIVE = 0.01
"""How far beyond the end of the travel a drawer is pushed or pulled [m]."""
WIDE_ENOUGH = 0.80
"""Share of its travel a drawer must be out before a hand fits in."""
BARELY_OPEN = 0.55
"""Share of its travel below which something in the hand is put down first."""
DROP = 0.012
"""Height over the tray's floor at which a thing is let go [m]."""
YAW_MIDDLE, YAW_ROOM = 0.5, 2.45
"""Tool yaws relative to the bearing of the hand that the last joint reaches: middle and half range [rad]."""
ENCLOSING, ABOUT = 0.010, 0.022
"""Difference between gap and handle, and distance of the hand, up to which it counts as enclosed [m]."""
GOAL_SHARE = {"open": 1.0, "close": 0.0, "turn_on": 1.0, "turn_off": 0.0}
DONE_SHARE = {
    "open": (0.88, 9.0), "close": (-9.0, 0.05), "turn_on": (0.88, 9.0), "turn_off": (-9.0, 0.12),
}
"""Shares of the travel between which a part counts as done: a little more than its predicate asks."""


class ArticulatedExpert:
    """See the module."""

    def __init__(self, specs: Sequence[EnvironmentSpec]) -> None:
        self.parts = Parts(specs, PREDICATE_PARTS)
        self.cylinder = self.parts.cylinder
        self.drawer, self.knob = _slots(specs, "drawer"), _slots(specs, "knob")

    def command(self, view: View) -> Command:
        """Serve the first part that is not done; let go of what the part does not need."""
        self._enclose(view, self.drawer, 2 * HANDLE_HALF_EXTENTS[1])
        self._enclose(view, self.knob, 2 * KNOB_GRIP_HALF_EXTENTS[1])
        done = np.stack([self._done(view, p) for p in range(self.parts.count)], axis=1)
        part = self.parts.current(done)
        kind, subject = self.parts.pick(self.parts.kind, part), self.parts.pick(self.parts.subject, part)
        share = self._start_share(view, self.drawer)
        held_thing = view.of(view.held, subject)
        put_in = kind == "put_in"
        widening = put_in & ~held_thing & (share < WIDE_ENOUGH)
        sliding = np.isin(kind, ("open", "close")) | widening
        goal = np.where(widening, 1.0, [GOAL_SHARE.get(name, 0.0) for name in kind])
        slot = np.where(sliding, self.drawer, np.where(put_in, subject, self.knob))
        command = self._slide(view, goal).where(put_in & ~widening, self._put_in(view, subject, share))
        command = command.where(~sliding & ~put_in, self._turn(view, goal))
        command = self._put_down(view, slot, command)
        fixture = self.parts.others_held(view, slot, movable=False)
        command = command.where(fixture >= 0, let_go(view))
        finished = (done | (self.parts.kind == "")).all(1)
        return command.where(finished, retreat(view, slot))

    def _enclose(self, view: View, slot: Slots, width: float) -> None:
        """Take a handle between closed fingers as held, also where a tilted hand has one pad on it only."""
        gap = np.abs(view.state.gripper_opening * MAX_OPENING - width)
        apart = view.state.tool_position_base - view.of(view.state.entity_position_base, slot)
        about = view.of(view.state.touched, slot) & (gap < ENCLOSING)
        about &= np.linalg.norm(apart, axis=1) < ABOUT
        about &= view.opening * MAX_OPENING < width + ENCLOSING
        view.held[view.rows, slot] |= about

    def _put_down(self, view: View, slot: Slots, command: Command) -> Command:
        wrong = self.parts.others_held(view, slot, movable=True)
        if not (wrong >= 0).any():
            return command
        slot = np.maximum(wrong, 0)
        return command.where(wrong >= 0, deliver(view, slot, free_spot(view, slot)))

    def _done(self, view: View, p: int) -> Mask:
        kind, subject = self.parts.kind[:, p], self.parts.subject[:, p]
        low, high = np.array([DONE_SHARE.get(name, (0.0, 0.0)) for name in kind]).T
        slot = np.where(np.isin(kind, ("open", "close")), self.drawer, self.knob)
        # as it was, not as foreseen: else a part would be left before the joint has followed the hand
        share = self._start_share(view, slot)
        place, reach, room = self._in_tray(view, subject)
        inside = (np.abs(place) + reach <= room + 0.002)[:, :2].all(1)
        inside &= place[:, 2] - reach[:, 2] + room[:, 2] < room[:, 2] - 0.005
        let_go_inside = inside & ~view.of(view.held, subject)
        return np.where(kind == "put_in", let_go_inside, (share > low) & (share < high))

    def _start_share(self, view: View, slot: Slots) -> Array:
        """Share of the joint's travel at the start of the chunk. Shape (n,)."""
        low, high = np.moveaxis(view.of(view.state.entity_joint_range, slot), -1, 0)
        return (view.of(view.state.entity_joint_value, slot) - low) / np.maximum(high - low, 1e-9)

    def _share(self, view: View, slot: Slots) -> Array:
        """The same, moved along with the hand that holds it. Shape (n,)."""
        low, high = np.moveaxis(view.of(view.state.entity_joint_range, slot), -1, 0)
        value = view.of(view.state.entity_joint_value, slot)
        moved = view.of(view.position, slot) - view.of(view.state.entity_position_base, slot)
        along = -(moved * view.of(view.rotation, slot)[:, :, 0]).sum(1)
        turned = np.where(view.of(view.held, slot), view.heading_offset, 0.0)
        value = value + np.where(slot == self.drawer, along, turned)
        return (value - low) / np.maximum(high - low, 1e-9)

    def _slide(self, view: View, goal: Array) -> Command:
        """Pinch the handle's post across and slide the drawer to share ``goal`` of its travel."""
        slot, handle = self.drawer, view.of(view.position, self.drawer)
        rotation = view.of(view.rotation, slot)
        yaw = np.arctan2(rotation[:, 1, 0], rotation[:, 0, 0])
        grasp = Grasp(
            handle + np.array([0.0, 0.0, GRIP_HEIGHT]), azimuth_yaw(yaw, handle, view.yaw),
            np.full(len(yaw), 2 * HANDLE_HALF_EXTENTS[1]),
        )
        travel = view.of(view.state.entity_joint_range, slot)[:, 1]
        way = (goal - self._share(view, slot)) * travel
        way = way + np.sign(way) * OVERDRIVE
        lateral = rotation[:, :, 1] * ((grasp.point - view.tool) * rotation[:, :, 1]).sum(1)[:, None]
        target = view.tool - rotation[:, :, 0] * way[:, None] + 0.3 * lateral
        target[:, 2] = grasp.point[:, 2]
        n = len(yaw)
        slide = Command(target, grasp.yaw, np.zeros(n), np.full(n, PULL_SPEED))
        over = view.top(slot) + OVER_TOP
        return fetch(view, slot, grasp, over).where(view.of(view.held, slot), slide)

    def _turn(self, view: View, goal: Array) -> Command:
        """Pinch the bar across and turn with it; the side is chosen so that the wrist can go all the way."""
        slot, grip = self.knob, view.of(view.position, self.knob)
        travel = view.of(view.state.entity_joint_range, slot)[:, 1]
        held = view.of(view.held, slot)
        left = (goal - self._share(view, slot)) * travel
        bar = yaw_of(view.of(view.state.entity_quaternion_xyzw, slot))
        middle = np.arctan2(grip[:, 1], grip[:, 0]) + YAW_MIDDLE
        start = middle - 0.5 * left + wrap(bar + 0.5 * left - middle, np.pi)
        grasp = Grasp(grip, start, np.full(len(start), 2 * KNOB_GRIP_HALF_EXTENTS[1]))
        end = view.yaw + left
        relative = middle + wrap(view.yaw - middle) + left
        reachable = np.abs(relative - middle) < YAW_ROOM
        n = len(start)
        turn = Command(grip.copy(), end, np.zeros(n), np.full(n, PULL_SPEED))
        turn = turn.where(~reachable, let_go(view))
        return fetch(view, slot, grasp).where(held, turn)

    def _put_in(self, view: View, subject: Slots, share: Array) -> Command:
        """Take the thing over the pulled-out tray, hand across the drawer; let it go near the floor."""
        hollow = widen(self.parts.hollow, view.held.shape[1])
        cylinder = widen(self.parts.cylinder, view.held.shape[1])
        slot = self.drawer
        handle, rotation = view.of(view.position, slot), view.of(view.rotation, slot)
        half = view.of(view.state.entity_half_extents, slot)
        out = share * view.of(view.state.entity_joint_range, slot)[:, 1]
        floor = handle[:, 2] - tray_interior(half)[1][:, 2]
        spot = handle + rotation[:, :, 0] * (HANDLE_STANDOFF + 0.5 * out)[:, None]
        spot[:, 2] = floor + view.of(view.extents, subject)[:, 2] + DROP
        yaw = azimuth_yaw(np.arctan2(rotation[:, 1, 0], rotation[:, 0, 0]), spot, view.yaw)
        place = lower(view, subject, spot, yaw, tolerance=0.008, slope=5.0)
        place = place.where(share < BARELY_OPEN, deliver(view, subject, free_spot(view, subject)))
        grasp = choose_grasp(view, subject, cylinder, hollow)
        return fetch(view, subject, grasp).where(view.of(view.held, subject), place)

    def _in_tray(self, view: View, subject: Slots) -> tuple[Array, Array, Array]:
        """Subject in the tray: centre from the tray's, reach along the world's axes, half room [m]."""
        half = view.of(view.state.entity_half_extents, self.drawer)
        offset = view.of(view.position, subject) - view.of(view.position, self.drawer)
        place = np.einsum("nji,nj->ni", view.of(view.rotation, self.drawer), offset)
        place[:, 0] -= half[:, 0] + HANDLE_STANDOFF
        return place, view.of(view.extents, subject), tray_interior(half)[1]


def _slots(specs: Sequence[EnvironmentSpec], kind: str) -> Slots:
    """Slot of the fixture of ``kind`` in each scene, 0 where there is none. Shape (n,)."""
    names = [[entity.name for entity in spec.fixtures if entity.kind == kind] for spec in specs]
    return np.array([spec.entity_names.index(n[0]) if n else 0 for spec, n in zip(specs, names, strict=True)])


EXPERT = ArticulatedExpert
