"""Where and how to take hold of an object from above: closing direction,
width, height; vectorised over scenes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coda_nodes.world.experts.base import MAX_OPENING, Array, Mask, Slots, View, azimuth_yaw
from coda_nodes.world.geometry import BIN_WALL, wrap

FINGER_REACH = 0.035
"""How far down from the top of a tall object the tool may go before the palm meets it [m]."""
LOWEST_TOOL = 0.010
"""Lowest tool height over the surface below [m]."""
PALM_POINTS = np.array([0.06, 0.10])
"""Points of the palm, which is 20 cm wide along the closing direction [m]."""
ROOM = np.array([0.013, 0.035, 0.035] * 2)
"""Room needed around each finger and each point of the palm [m]."""
LEVELS = np.array([-0.012, 0.043, 0.043] * 2)
"""Height over the tool from which fingers and palm reach up: lower things do not matter [m]."""
MARGIN = 0.016
"""Opening beyond the object's width, per finger [m]."""
COMFORTABLE, WIDEST = 0.05, 0.066
"""Width up to which a grasp costs nothing, and beyond which another is taken if there is one [m]."""
ROUND_ANGLES = np.arange(6) * (np.pi / 6)
"""Closing directions tried on an upright round object [rad]."""


@dataclass(frozen=True)
class Grasp:
    """One grasp per scene."""

    point: Array
    """Tool position [m]. Shape (n, 3)."""
    yaw: Array
    """Tool yaw [rad]. Shape (n,)."""
    width: Array
    """Of the object between the pads [m]. Shape (n,)."""

    @property
    def opening(self) -> Array:
        """Opening to come with, 0 to 1. Shape (n,)."""
        return np.minimum((self.width + 2 * MARGIN) / MAX_OPENING, 1.0)


def choose_grasp(view: View, slot: Slots, cylinder: Mask, hollow: Mask) -> Grasp:
    """The grasp of entity ``slot`` (n,) that turns little, keeps clear of neighbours and
    walls and fits the fingers.

    ``cylinder`` and ``hollow`` (bins) (n, K) tell the shapes of the slots.
    """
    centre = view.of(view.position, slot)
    point = centre.copy()
    floor = view.bottom(slot) + LOWEST_TOOL
    point[:, 2] = np.maximum(np.maximum(centre[:, 2], view.top(slot) - FINGER_REACH), floor)
    angles, widths = _closing_directions(view, slot, cylinder)
    yaws = wrap(angles - np.pi / 2, np.pi)
    current = view.yaw[:, None]
    cost = 0.3 * np.abs(wrap(yaws - current, np.pi))
    cost += 10.0 * np.maximum(widths - COMFORTABLE, 0.0) + 1000.0 * np.maximum(widths - WIDEST, 0.0)
    cost += 40.0 * np.maximum(-_room(view, slot, point, angles, widths, hollow), 0.0)
    best = np.argmin(cost, axis=1)
    yaw = azimuth_yaw(yaws[view.rows, best], centre, view.yaw)
    return Grasp(point, yaw, widths[view.rows, best])


def _closing_directions(view: View, slot: Slots, cylinder: Mask) -> tuple[Array, Array]:
    """Candidate angles [rad] and object widths along them [m]. Shapes (n, C)."""
    rotation, half = view.of(view.rotation, slot), view.of(view.state.entity_half_extents, slot)
    vertical = np.abs(rotation[:, 2, :]).argmax(1)
    first, second = (vertical + 1) % 3, (vertical + 2) % 3
    columns = np.stack([rotation[view.rows, :, first], rotation[view.rows, :, second]], 1)
    angles = np.arctan2(columns[:, :, 1], columns[:, :, 0])
    widths = 2 * np.stack([half[view.rows, first], half[view.rows, second]], 1)
    repeat = len(ROUND_ANGLES) // 2
    angles, widths = np.tile(angles, (1, repeat)), np.tile(widths, (1, repeat))
    is_round = view.of(cylinder, slot)
    standing = is_round & (vertical == 2)
    bearing = np.arctan2(*view.of(view.position, slot)[:, 1::-1].T)
    across = np.arctan2(rotation[:, 1, 2], rotation[:, 0, 2]) + np.pi / 2
    diameter = 2 * half[:, :1]
    angles = np.where(standing[:, None], bearing[:, None] + ROUND_ANGLES, angles)
    angles = np.where((is_round & ~standing)[:, None], across[:, None], angles)
    return angles, np.where(is_round[:, None], diameter, widths)


def _room(view: View, slot: Slots, point: Array, angles: Array, widths: Array, hollow: Mask) -> Array:
    """Smallest distance [m] from open fingers and palm to what stands around, beyond the room each needs.
    Shape (n, C)."""
    direction = np.stack([np.cos(angles), np.sin(angles)], -1)[:, :, None, :]
    reach = np.concatenate(
        [(0.5 * widths + MARGIN + 0.006)[..., None], np.broadcast_to(PALM_POINTS, (*widths.shape, 2))], -1
    )
    reach = np.concatenate([reach, -reach], -1)
    probes = point[:, None, None, :2] + direction * reach[..., None]
    offset = probes[:, :, :, None, :] - view.position[:, None, None, :, :2]
    local = np.abs(np.einsum("nkji,ncfkj->ncfki", view.rotation[:, :, :2, :2], offset))
    half = view.state.entity_half_extents[:, None, None, :, :2]
    beyond = local - half
    outside = np.linalg.norm(np.maximum(beyond, 0.0), axis=-1) + np.minimum(beyond.max(-1), 0.0)
    within_bin = _centre_within(view, point) & hollow
    inner = (half - BIN_WALL - local).min(-1)
    distance = np.where(within_bin[:, None, None, :], inner, outside) - ROOM[None, None, :, None]
    tops = view.position[:, :, 2] + view.extents[:, :, 2]
    ignored = (tops[:, None, :] < (point[:, 2:] + LEVELS)[:, :, None]) | ~view.state.present[:, None, :]
    ignored |= (np.arange(tops.shape[1]) == slot[:, None])[:, None, :]
    return np.where(ignored[:, None], 1.0, distance).min((2, 3))


def _centre_within(view: View, centre: Array) -> Mask:
    offset = centre[:, None, :] - view.position
    local = np.einsum("nkji,nkj->nki", view.rotation, offset)
    return (np.abs(local[..., :2]) < view.state.entity_half_extents[..., :2]).all(-1)
