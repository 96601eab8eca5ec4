"""Pick something up and put it somewhere: the motion that most tasks are made of, as one stateless rule."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coda_nodes.world.experts.base import (
    MAX_OPENING,
    SPEED,
    Array,
    Command,
    Mask,
    Slots,
    View,
    azimuth_yaw,
    funnel,
)
from coda_nodes.world.experts.grasp import Grasp, choose_grasp
from coda_nodes.world.geometry import wrap

HOVER = 0.06
"""Height above the grasp from which the hand comes straight down [m]."""
CLEARANCE = 0.04
"""Kept between what moves and the tops of what stands around [m]."""
ALIGNED = 0.10
"""Yaw error up to which the hand may go down [rad]."""
AT_GRASP = (0.009, 0.009)
"""Horizontal and vertical error up to which the fingers close [m]."""
STILL, STALLED = 0.01, 0.02
"""What hangs slower than this [m/s] this near its place [m] has met something: it is let go there."""
OPENING_RATE = 0.12
"""Gain of opening per control step when letting go: what is squeezed off its middle would jump from between
the pads."""
CARRY_SPEED = 0.4
"""Tool speed with something in the hand [m/s]."""
SLOW = 0.15
"""Speed of the last centimetres down [m/s]."""


@dataclass(frozen=True)
class Destination:
    """Where the centre of the carried object should end up, scene by scene."""

    point: Array
    """[m]. Shape (n, 3)."""
    heading: Array
    """Heading the object's x axis should have there [rad], up to a quarter turn; NaN where it does not
    matter. Shape (n,)."""
    tolerance: Array
    """Horizontal error up to which it may be let go [m]. Shape (n,)."""

    def where(self, mask: Mask, other: Destination) -> Destination:
        """``other`` in the scenes of ``mask``, this one elsewhere."""
        return Destination(
            np.where(mask[:, None], other.point, self.point),
            np.where(mask, other.heading, self.heading),
            np.where(mask, other.tolerance, self.tolerance),
        )


def transfer(view: View, slot: Slots, destination: Destination, cylinder: Mask, hollow: Mask) -> Command:
    """Take entity ``slot`` (n,) to its destination: approach above, descend,
    close, lift, carry, lower, open."""
    known = view.cache.get("grasp")
    if known is None or not np.array_equal(known[0], slot):
        known = view.cache["grasp"] = slot.copy(), choose_grasp(view, slot, cylinder, hollow)
    grasp = known[1]
    holding = view.of(view.held, slot)
    return fetch(view, slot, grasp).where(holding, deliver(view, slot, destination))


def fetch(view: View, slot: Slots, grasp: Grasp, height: float | Array = 0.0) -> Command:
    """Go to the grasp with open fingers and close them; after an empty closing, rise and try again.

    On the way the tool stays at ``height`` [m] or higher.
    """
    error = grasp.point - view.tool
    sideways = np.hypot(error[:, 0], error[:, 1])
    turned = np.abs(wrap(grasp.yaw - view.yaw)) < ALIGNED
    there = (sideways < AT_GRASP[0]) & (np.abs(error[:, 2]) < AT_GRASP[1]) & turned
    missed = view.state.gripper_opening * MAX_OPENING < 0.7 * grasp.width
    open_enough = view.opening * MAX_OPENING > np.minimum(grasp.width + 0.012, MAX_OPENING - 0.002)
    goal = grasp.point.copy()
    wait = ~there & ~(turned & open_enough)
    goal[:, 2] += np.where(wait | missed, HOVER, 0.0)
    cruise = np.maximum.reduce(
        [skyline(view, slot) + CLEARANCE, grasp.point[:, 2] + HOVER, height + 0.0 * goal[:, 2]]
    )
    position = funnel(view.tool, goal, cruise)
    close = there & ~missed
    position = np.where(close[:, None], grasp.point, position)
    low = (sideways < 0.02) & (error[:, 2] > -0.04)
    return Command(position, grasp.yaw, np.where(close, 0.0, grasp.opening), np.where(low, SLOW, SPEED))


def deliver(view: View, slot: Slots, destination: Destination) -> Command:
    """Lift what is held, carry it over what stands around, lower it and open."""
    centre = view.of(view.position, slot)
    offset = view.tool - centre
    goal = destination.point + offset
    error = goal - view.tool
    sideways = np.hypot(error[:, 0], error[:, 1])
    yaw = _release_yaw(view, slot, destination, goal)
    turned = np.abs(wrap(yaw - view.yaw)) < ALIGNED
    hanging = offset[:, 2] + view.of(view.extents, slot)[:, 2]
    cruise = np.maximum(skyline(view, slot) + CLEARANCE + hanging, goal[:, 2] + HOVER)
    goal[:, 2] += np.where(turned, 0.0, HOVER)
    position = funnel(view.tool, goal, cruise, tolerance=destination.tolerance)
    still = np.linalg.norm(view.of(view.state.entity_linear_velocity, slot), axis=1) < STILL
    slack = np.where(still, STALLED, 0.0)
    arrived = (sideways < destination.tolerance + 0.3 * slack) & (error[:, 2] > -0.006 - slack) & turned
    position = np.where(arrived[:, None], view.tool, position)
    low = (sideways < 0.03) & (error[:, 2] > -0.04)
    opening = np.minimum(view.opening + OPENING_RATE, 1.0)
    return Command(position, yaw, np.where(arrived, opening, 0.0), np.where(low, SLOW, CARRY_SPEED))


def retreat(view: View, slot: Slots) -> Command:
    """Open around entity ``slot``, then rise straight up and stay there."""
    away = np.linalg.norm(view.tool - view.of(view.position, slot), axis=1) > 0.07
    touched = view.of(view.state.touched, slot)
    target = view.tool.copy()
    height = np.maximum(skyline(view, slot), view.top(slot)) + 0.10
    opened = ~view.of(view.held, slot) & (~touched | (view.opening > 0.9))
    target[:, 2] = np.where(opened, height, view.tool[:, 2])
    opening = np.where(away, 1.0, np.minimum(view.opening + OPENING_RATE, 1.0))
    return Command(target, view.yaw, opening, np.where(away, SPEED, SLOW))


def _release_yaw(view: View, slot: Slots, destination: Destination, goal: Array) -> Array:
    """Tool yaw that brings the object to the asked heading (nearest quarter turn), or the present one."""
    rotation = view.of(view.rotation, slot)
    vertical = np.abs(rotation[:, 2, :]).argmax(1)
    side = rotation[view.rows, :, (vertical + 1) % 3]
    heading = np.arctan2(side[:, 1], side[:, 0]) + view.heading_offset
    turn = wrap(np.nan_to_num(destination.heading) - heading, np.pi / 2)
    turn = np.where(np.isnan(destination.heading), 0.0, turn)
    return azimuth_yaw(view.yaw + turn, goal, view.yaw)


def skyline(view: View, slot: Slots) -> Array:
    """Height of the highest thing around, entity ``slot`` apart [m]. Shape (n,)."""
    tops = view.position[:, :, 2] + view.extents[:, :, 2]
    ignored = ~view.state.present | view.held | (np.arange(tops.shape[1]) == slot[:, None])
    return np.where(ignored, 0.0, tops).max(1)


FREE_SPOTS = np.stack(
    np.meshgrid(np.linspace(0.36, 0.60, 6), np.linspace(-0.32, 0.32, 9), indexing="ij"), -1
).reshape(-1, 2)
"""Places on the table where something in the way may be put down [m]. Shape (S, 2)."""


def free_spot(view: View, slot: Slots) -> Destination:
    """The nearest clear place on the table for entity ``slot`` (n,), at rest height."""
    centre = view.of(view.position, slot)
    gaps = np.linalg.norm(FREE_SPOTS[None, :, None, :] - view.position[:, None, :, :2], axis=-1)
    gaps = gaps - np.hypot(view.extents[:, :, 0], view.extents[:, :, 1])[:, None, :]
    ignored = ~view.state.present | (np.arange(gaps.shape[2]) == slot[:, None])
    room = np.where(ignored[:, None, :], 1.0, gaps).min(-1)
    cost = np.linalg.norm(FREE_SPOTS[None] - centre[:, None, :2], axis=-1) + 20 * np.maximum(0.07 - room, 0.0)
    spot = FREE_SPOTS[cost.argmin(1)]
    height = view.of(view.extents, slot)[:, 2] + 0.004
    point = np.concatenate([spot, height[:, None]], axis=1)
    return Destination(point, np.full(len(point), np.nan), np.full(len(point), 0.02))
