"""Predicates of pushing and inserting: behind, at, over_hole, inserted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coda_nodes.world.fixtures import slot_hole
from coda_nodes.world.predicates.base import Array, AtomContext, Term, predicate
from coda_nodes.world.predicates.common import FAR, TALL, free, highest, horizontal, lowest

STILL = 0.03
"""Speed below which a pushed object counts as at rest [m/s]."""


def lower_end(context: AtomContext) -> Array:
    """Centre of the lower face of the first argument, across its own z axis [m]. Shape (m, 3)."""
    axis = context.rotation()[:, :, 2]
    down = np.where(axis[:, 2:] > 0, -axis, axis)
    return context.position() + down * context.half_extents()[:, 2:]


@predicate("behind", 2, distance=0.05)
def behind(context: AtomContext) -> Sequence[Term]:
    """The tool is low, beyond the first as seen from the second, within ``distance`` [m] of its outline."""
    away = (context.position(0) - context.position(1))[:, :2]
    away = away / np.maximum(np.linalg.norm(away, axis=1, keepdims=True), 1e-9)
    offset = context.tool() - context.position()
    along = (offset[:, :2] * away).sum(1)
    across = np.abs(offset[:, 0] * away[:, 1] - offset[:, 1] * away[:, 0])
    radius = context.half_extents()[:, :2].max(1)
    return [
        Term(np.maximum(0.5 * radius - along, along - radius - context.parameters["distance"]), FAR),
        Term(across - radius, FAR),
        Term(offset[:, 2] - context.half_extents()[:, 2] - 0.02, TALL, 0.3),
    ]


@predicate("at", 2, slack=0.0)
def at(context: AtomContext) -> Sequence[Term]:
    """The outline of the first (a circle of its larger half width) lies on the marked disc, at most ``slack``
    [m] over its rim; the object stands on the table and is at rest."""
    apart = horizontal(context.position(0) - context.position(1))
    rim = context.half_extents(1)[:, 0] + context.parameters["slack"] - context.half_extents()[:, :2].max(1)
    speed = np.linalg.norm(context.entity(context.state.entity_linear_velocity), axis=1)
    return [Term(apart - rim, FAR), Term(lowest(context) - 0.01, TALL, 0.2), Term(speed - STILL, 1.0, 0.1)]


@predicate("over_hole", 2, distance=0.012)
def over_hole(context: AtomContext) -> Sequence[Term]:
    """The first is held with its lower end over the second's hole, within ``distance`` [m] of the middle."""
    apart = horizontal(lower_end(context) - context.position(1))
    return [
        Term(apart - context.parameters["distance"], FAR),
        Term(highest(context, 1) - lower_end(context)[:, 2] - 0.005, TALL, 0.3),
        Term.flag(context.entity(context.state.grasped)),
    ]


@predicate("inserted", 2, depth=0.6, tilt=0.15)
def inserted(context: AtomContext) -> Sequence[Term]:
    """The lower end of the first is in the hole of the second to ``depth`` of the hole or more, its axis
    within ``tilt`` [rad] of the hole's, let go."""
    end = lower_end(context)
    _, hole = slot_hole(context.half_extents(1))
    sideways = np.maximum(np.abs(context.in_frame(end, 1))[:, :2] - hole[:, :2], 0.0)
    missing = end[:, 2] - highest(context, 1) + context.parameters["depth"] * 2 * hole[:, 2]
    cosine = np.abs(np.einsum("mi,mi->m", context.rotation(0)[:, :, 2], context.rotation(1)[:, :, 2]))
    tilt = np.arccos(np.clip(cosine, 0.0, 1.0))
    return [
        Term(np.hypot(sideways[:, 0], sideways[:, 1]), FAR),
        Term(missing, TALL, 0.5),
        Term(tilt - context.parameters["tilt"], 1.5, 0.2),
        free(context),
    ]
