"""Parts of drawers, knobs, slot blocks and bins that their half extents imply.

Simulators and exporters build exactly these parts; predicates, validity checks and experts compute with the
same numbers. Local frame of a drawer: cabinet centre, opening along -x. Of a knob: centre of its bounding
box, joint about +z, grip bar along x when off. Of a slot block: centre of its bounding box, hole at the top.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coda_nodes.world.geometry import BIN_FLOOR, BIN_WALL

Array = NDArray[np.float64]

WALL = 0.006
"""Thickness of cabinet and tray walls [m]."""
TRAY_GAP = 0.002
"""Play between tray and cabinet on each side [m]."""
HANDLE_STANDOFF = 0.045
"""Distance of the handle post from the closed drawer front [m]: room for a hand 6.4 cm thick."""
HANDLE_HALF_EXTENTS = (0.008, 0.012, 0.028)
"""Vertical post, pinched by fingers that close along the drawer's y axis [m]."""
KNOB_GRIP_HALF_EXTENTS = (0.032, 0.009, 0.020)
"""Bar on top of the knob's base, along local x when off [m]."""
SLOT_WALL = 0.03
"""Width of the rim around the hole of a slot block [m]."""
SLOT_FLOOR = 0.005
"""Thickness of the floor under the hole [m]."""


@dataclass(frozen=True)
class Part:
    """A box, or a cylinder of half extents (radius, radius, half height), in its owner's frame [m]."""

    name: str
    centre: tuple[float, float, float]
    half_extents: tuple[float, float, float]
    shape: str = "box"


def handle_offset(half_extents: Array) -> Array:
    """Handle of a closed drawer from the cabinet centre, local axes [m]. Shapes (..., 3) to (..., 3)."""
    half = np.asarray(half_extents, dtype=float)
    offset = np.zeros_like(half)
    offset[..., 0] = -half[..., 0] - HANDLE_STANDOFF
    return offset


def tray_interior(half_extents: Array) -> tuple[Array, Array]:
    """Space inside the tray of a closed drawer: centre from the cabinet's (local axes), half extents [m].

    Shapes (..., 3) to (..., 3) twice.
    """
    half = np.asarray(half_extents, dtype=float)
    inner = half - np.array([2 * WALL, 2 * WALL + TRAY_GAP, 2 * WALL + TRAY_GAP])
    return np.zeros_like(half), inner


def drawer_parts(half_extents: tuple[float, float, float]) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """Fixed parts of the cabinet, and parts of the tray (handle included) that slide along local -x."""
    hx, hy, hz = half_extents
    w = WALL / 2
    cabinet = (
        Part("top", (w, 0.0, hz - w), (hx - w, hy, w)),
        Part("bottom", (w, 0.0, -hz + w), (hx - w, hy, w)),
        Part("left", (w, hy - w, 0.0), (hx - w, w, hz - WALL)),
        Part("right", (w, -hy + w, 0.0), (hx - w, w, hz - WALL)),
        Part("back", (hx - w, 0.0, 0.0), (w, hy - WALL, hz - WALL)),
    )
    (_, (ix, iy, iz)) = tray_interior(np.array(half_extents))
    floor = -hz + WALL + TRAY_GAP + w
    side_half = 0.6 * iz
    side_z = floor + w + side_half
    tray = (
        Part("front", (-hx + w, 0.0, 0.0), (w, hy - TRAY_GAP, hz - TRAY_GAP)),
        Part("floor", (0.0, 0.0, floor), (ix + w, iy + WALL, w)),
        Part("side_left", (0.0, iy + w, side_z), (ix + w, w, side_half)),
        Part("side_right", (0.0, -iy - w, side_z), (ix + w, w, side_half)),
        Part("side_back", (ix + w - TRAY_GAP, 0.0, side_z), (w, iy, side_half)),
        Part("stem", (-hx - HANDLE_STANDOFF / 2, 0.0, 0.0), (HANDLE_STANDOFF / 2, 0.004, 0.004)),
        Part("handle", (-hx - HANDLE_STANDOFF, 0.0, 0.0), HANDLE_HALF_EXTENTS),
    )
    return cabinet, tray


def grip_offset(half_extents: Array) -> Array:
    """Centre of a knob's grip from the knob's centre [m]. Shapes (..., 3) -> (..., 3)."""
    half = np.asarray(half_extents, dtype=float)
    offset = np.zeros_like(half)
    offset[..., 2] = half[..., 2] - KNOB_GRIP_HALF_EXTENTS[2]
    return offset


def knob_parts(half_extents: tuple[float, float, float]) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """Fixed base, and the grip bar that turns about local z."""
    radius, _, hz = half_extents
    base_half = hz - KNOB_GRIP_HALF_EXTENTS[2]
    base = Part("base", (0.0, 0.0, -hz + base_half), (radius, radius, base_half), "cylinder")
    grip = Part("grip", (0.0, 0.0, hz - KNOB_GRIP_HALF_EXTENTS[2]), KNOB_GRIP_HALF_EXTENTS)
    return (base,), (grip,)


def slot_hole(half_extents: Array) -> tuple[Array, Array]:
    """Hole of a slot block, open at the top: centre from the block's, half extents [m].

    Shapes (..., 3) to (..., 3) twice.
    """
    half = np.asarray(half_extents, dtype=float)
    centre, hole = np.zeros_like(half), half - SLOT_WALL
    centre[..., 2] = SLOT_FLOOR / 2
    hole[..., 2] = half[..., 2] - SLOT_FLOOR / 2
    return centre, hole


def slot_parts(half_extents: tuple[float, float, float]) -> tuple[Part, ...]:
    """Floor and four walls around the hole."""
    hx, hy, hz = half_extents
    centre, (ax, ay, az) = slot_hole(np.array(half_extents))
    cz = float(centre[2])
    return (
        Part("floor", (0.0, 0.0, -hz + SLOT_FLOOR / 2), (hx, hy, SLOT_FLOOR / 2)),
        Part("wall_front", (-(hx + ax) / 2, 0.0, cz), ((hx - ax) / 2, hy, az)),
        Part("wall_back", ((hx + ax) / 2, 0.0, cz), ((hx - ax) / 2, hy, az)),
        Part("wall_left", (0.0, (hy + ay) / 2, cz), (ax, (hy - ay) / 2, az)),
        Part("wall_right", (0.0, -(hy + ay) / 2, cz), (ax, (hy - ay) / 2, az)),
    )


def bin_parts(half_extents: tuple[float, float, float]) -> tuple[Part, ...]:
    """Floor and four walls of a bin open at the top, centred on its bounding box."""
    hx, hy, hz = half_extents
    w, lift = BIN_WALL / 2, BIN_FLOOR / 2
    return (
        Part("floor", (0.0, 0.0, -hz + lift), (hx, hy, lift)),
        Part("wall_front", (-hx + w, 0.0, lift), (w, hy, hz - lift)),
        Part("wall_back", (hx - w, 0.0, lift), (w, hy, hz - lift)),
        Part("wall_left", (0.0, hy - w, lift), (hx - BIN_WALL, w, hz - lift)),
        Part("wall_right", (0.0, -hy + w, lift), (hx - BIN_WALL, w, hz - lift)),
    )
