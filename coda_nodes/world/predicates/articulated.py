"""Predicates of drawers and knobs: at_handle, opened, closed, turned_on, turned_off, in_drawer ..."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coda_nodes.world.fixtures import HANDLE_STANDOFF, tray_interior
from coda_nodes.world.predicates.base import Array, AtomContext, Term, predicate
from coda_nodes.world.predicates.common import FAR, TALL, free

WALL_SLACK = 0.003
"""How far an outline may overlap a wall before it no longer counts as inside [m]."""


def joint_share(context: AtomContext) -> Array:
    """Joint value of the first argument as a share of its range, 0 closed or off. Shape (m,)."""
    low, high = np.moveaxis(context.entity(context.state.entity_joint_range), -1, 0)
    return (context.entity(context.state.entity_joint_value) - low) / np.maximum(high - low, 1e-9)


def in_tray(context: AtomContext) -> tuple[Array, Array, Array]:
    """First argument in the tray of the second: centre from the tray's, reach, half extents of the room.

    Along the drawer's axes [m]. Shapes (m, 3). The tray follows the handle, a drawer's position in a state.
    """
    half = context.half_extents(1)
    place = context.in_frame(context.position(0), 1)
    place[:, 0] -= half[:, 0] + HANDLE_STANDOFF
    return place, context.extents_in_frame(0, 1), tray_interior(half)[1]


@predicate("at_handle", 1, distance=0.025)
def at_handle(context: AtomContext) -> Sequence[Term]:
    """The tool is within ``distance`` [m] of the centre of a drawer's handle or a knob's grip."""
    apart = np.linalg.norm(context.tool() - context.position(), axis=1)
    return [Term(apart - context.parameters["distance"], FAR)]


@predicate("opened", 1, fraction=0.85)
def opened(context: AtomContext) -> Sequence[Term]:
    """The drawer is pulled out to ``fraction`` of its range or more."""
    return [Term(context.parameters["fraction"] - joint_share(context), 1.0)]


@predicate("closed", 1, fraction=0.06)
def closed(context: AtomContext) -> Sequence[Term]:
    """The drawer is out by ``fraction`` of its range or less."""
    return [Term(joint_share(context) - context.parameters["fraction"], 1.0)]


@predicate("turned_on", 1, fraction=0.85)
def turned_on(context: AtomContext) -> Sequence[Term]:
    """The knob is turned to ``fraction`` of its range or more."""
    return [Term(context.parameters["fraction"] - joint_share(context), 1.0)]


@predicate("turned_off", 1, fraction=0.15)
def turned_off(context: AtomContext) -> Sequence[Term]:
    """The knob is turned to ``fraction`` of its range or less."""
    return [Term(joint_share(context) - context.parameters["fraction"], 1.0)]


@predicate("over_drawer", 2, height=0.0)
def over_drawer(context: AtomContext) -> Sequence[Term]:
    """The first is held over the pulled-out part of the second's tray, ``height`` [m] above its floor."""
    place, reach, room = in_tray(context)
    out = context.entity(context.state.entity_joint_value, 1)
    back = place[:, 0] - (out - room[:, 0])
    sideways = np.abs(place[:, 1]) - room[:, 1]
    front = -room[:, 0] - place[:, 0]
    apart = np.hypot(np.maximum(np.maximum(back, front), 0.0), np.maximum(sideways, 0.0))
    low = context.parameters["height"] - (place[:, 2] - reach[:, 2] + room[:, 2])
    return [Term(apart, FAR), Term(low, TALL, 0.3), Term.flag(context.entity(context.state.grasped))]


@predicate("in_drawer", 2)
def in_drawer(context: AtomContext) -> Sequence[Term]:
    """The whole outline of the first lies between the walls of the second's tray, near its floor, let go."""
    place, reach, room = in_tray(context)
    outside = np.maximum(np.abs(place) + reach - room - WALL_SLACK, 0.0)
    bottom = place[:, 2] - reach[:, 2] + room[:, 2]
    height = np.maximum.reduce([bottom - room[:, 2], -bottom - 2 * WALL_SLACK, outside[:, 2]])
    return [Term(np.hypot(outside[:, 0], outside[:, 1]), FAR), Term(height, TALL, 0.5), free(context)]
