"""Predicates that every family uses: near, grasped, lifted, above,
inside, on, stacked_on, released, upright."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coda_nodes.world.geometry import BIN_FLOOR, BIN_WALL
from coda_nodes.world.predicates.base import Array, AtomContext, Term, predicate

FAR = 1.0
"""Distance at which progress of a distance term is 0: wider than the table [m]."""
TALL = 0.5
"""The same for heights [m]."""


def lowest(context: AtomContext, argument: int = 0) -> Array:
    """Height of the lowest point of an argument [m]. Shape (m,)."""
    return context.position(argument)[:, 2] - context.extents(argument)[:, 2]


def highest(context: AtomContext, argument: int = 0) -> Array:
    """Height of the highest point of an argument [m]. Shape (m,)."""
    return context.position(argument)[:, 2] + context.extents(argument)[:, 2]


def horizontal(difference: Array) -> Array:
    """Length of the horizontal part. Shape (m, 3) to (m,)."""
    return np.hypot(difference[:, 0], difference[:, 1])


def tilt(context: AtomContext, argument: int = 0) -> Array:
    """Angle between the vertical and the argument's axis nearest to it [rad]. Shape (m,)."""
    return np.arccos(np.clip(np.abs(context.rotation(argument)[:, 2, :]).max(-1), -1.0, 1.0))


def free(context: AtomContext) -> Term:
    """The robot does not touch the first argument: what is still held has not been placed.

    Where the atom's parameter ``release`` is 0 this is not asked for.
    """
    asked = context.parameters.get("release", np.ones(1)) > 0
    return Term.flag(~(context.entity(context.state.touched) & asked))


@predicate("near", 1, distance=0.02)
def near(context: AtomContext) -> Sequence[Term]:
    """The tool is within ``distance`` [m] of the entity's bounding box."""
    gap = np.abs(context.in_frame(context.tool(), 0)) - 0.5 * context.half_extents()
    return [Term(np.linalg.norm(np.maximum(gap, 0.0), axis=1) - context.parameters["distance"], FAR)]


@predicate("grasped", 1)
def grasped(context: AtomContext) -> Sequence[Term]:
    """Both finger pads touch the entity."""
    distance = np.linalg.norm(context.tool() - context.position(), axis=1) - context.half_extents().max(1)
    return [
        Term.flag(context.entity(context.state.grasped), 1.0),
        Term(np.where(context.entity(context.state.grasped), 0.0, distance), FAR, 0.5),
    ]


@predicate("lifted", 1, height=0.05)
def lifted(context: AtomContext) -> Sequence[Term]:
    """Held, with its lowest point ``height`` [m] or more above the table."""
    rise = context.parameters["height"] - lowest(context)
    return [Term.flag(context.entity(context.state.grasped), 0.5), Term(rise, 0.2, 1.0)]


@predicate("above", 2, distance=0.04)
def above(context: AtomContext) -> Sequence[Term]:
    """The first is held over the second: horizontally within ``distance`` [m] of its centre, lowest point
    over its top."""
    apart = horizontal(context.position(0) - context.position(1)) - context.parameters["distance"]
    below = highest(context, 1) - lowest(context, 0)
    return [Term(apart, FAR), Term(below, TALL, 0.3), Term.flag(context.entity(context.state.grasped))]


@predicate("inside", 2, release=1.0)
def inside(context: AtomContext) -> Sequence[Term]:
    """The whole outline of the first lies within the inner walls of the second, its lowest point below the
    rim, let go."""
    place = context.in_frame(context.position(0), 1)
    room = context.half_extents(1) - BIN_WALL
    reach = context.extents_in_frame(0, 1)
    outside = np.maximum(np.abs(place) + reach - room - 0.003, 0.0)[:, :2]
    rim = highest(context, 1) - 0.15 * (2 * context.half_extents(1)[:, 2] - BIN_FLOOR)
    bottom = lowest(context, 0)
    under = lowest(context, 1) - bottom
    return [
        Term(np.hypot(outside[:, 0], outside[:, 1]), FAR),
        Term(np.maximum(bottom - rim, under), TALL, 0.5),
        free(context),
    ]


@predicate("on", 2, tilt=0.2, release=1.0)
def on(context: AtomContext) -> Sequence[Term]:
    """The first rests on the top of the second, not on the table: centre well over it, level within
    ``tilt`` [rad], let go."""
    offset = context.position(0) - context.position(1)
    half = context.half_extents(1)[:, :2].min(1) - 0.3 * context.half_extents(0).min(1)
    gap = np.abs(lowest(context, 0) - highest(context, 1)) - 0.006
    return [
        Term(horizontal(offset) - half, FAR),
        Term(gap, TALL, 0.5),
        Term(tilt(context) - context.parameters["tilt"], 1.0, 0.1),
        Term.flag(context.touching() & ~context.entity(context.state.on_table)),
        free(context),
    ]


@predicate("stacked_on", 2, tilt=0.2, release=1.0)
def stacked_on(context: AtomContext) -> Sequence[Term]:
    """The first stands on the second and on nothing else: centre within 0.8 of the second's half width,
    level, let go."""
    offset = context.position(0) - context.position(1)
    half = 0.8 * context.half_extents(1).min(1)
    gap = np.abs(lowest(context, 0) - highest(context, 1)) - 0.006
    return [
        Term(horizontal(offset) - half, FAR),
        Term(gap, TALL, 0.5),
        Term(np.maximum(tilt(context, 0), tilt(context, 1)) - context.parameters["tilt"], 1.0, 0.1),
        Term.flag(context.touching() & ~context.entity(context.state.on_table)),
        free(context),
    ]


@predicate("released", 1)
def released(context: AtomContext) -> Sequence[Term]:
    """No part of the robot touches the entity."""
    return [free(context)]


@predicate("clear_of_gripper", 1, distance=0.06)
def clear_of_gripper(context: AtomContext) -> Sequence[Term]:
    """Let go, and the tool more than ``distance`` [m] from the entity's centre."""
    apart = np.linalg.norm(context.tool() - context.position(), axis=1)
    return [free(context), Term(context.parameters["distance"] - apart, 0.1)]


@predicate("upright", 1, tilt=0.2)
def upright(context: AtomContext) -> Sequence[Term]:
    """The entity's own z axis is within ``tilt`` [rad] of the vertical."""
    angle = np.arccos(np.clip(context.rotation()[:, 2, 2], -1.0, 1.0))
    return [Term(angle - context.parameters["tilt"], np.pi)]
