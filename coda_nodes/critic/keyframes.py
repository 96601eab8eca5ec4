"""Key moments of an episode: start, close, lift, release, end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coda_nodes.critic.trace import OPEN, Trace
from coda_nodes.world.episode import Episode

LIFTED = 0.02
"""Rise from which a thing counts as lifted [m]."""


@dataclass(frozen=True)
class Keyframe:
    """A chunk boundary (0: the start; the number of chunks: the end), its time since reset [s] and why it is
    key."""

    boundary: int
    time: float
    reason: str


def keyframes(episode: Episode, limit: int = 6) -> list[Keyframe]:
    """Key moments in order of time, at most ``limit`` (at least 2): start and end, then the first close, lift
    and release; free places are filled with moments evenly between them."""
    trace = Trace(episode)
    chosen = {0: "start", trace.last: "end"}
    for reason, boundary in _events(trace):
        if len(chosen) < max(limit, 2):
            chosen.setdefault(boundary, reason)
    for boundary in np.linspace(0, trace.last, max(limit, 2)).round().astype(int):
        if len(chosen) < limit:
            chosen.setdefault(int(boundary), "between")
    return [Keyframe(boundary, trace.time(boundary), chosen[boundary]) for boundary in sorted(chosen)]


def _events(trace: Trace) -> list[tuple[str, int]]:
    """Close, lift and release where they happened, each at its first time, then later ones."""
    closes = [("close", boundary) for boundary in trace.closings()]
    lifts = [("lift", boundary) for boundary in [_first_lift(trace)] if boundary is not None]
    releases = [("release", boundary) for boundary in _openings(trace)]
    first = [event for events in (closes, lifts, releases) for event in events[:1]]
    return first + closes[1:] + releases[1:]


def _first_lift(trace: Trace) -> int | None:
    held = trace.states.grasped.any(axis=1)
    risen = (trace.states.entity_position_base[:, :, 2] - trace.states.entity_position_base[0, :, 2]) > LIFTED
    up = np.flatnonzero(held & (risen & trace.states.grasped).any(axis=1))
    return int(up[0]) if len(up) else None


def _openings(trace: Trace) -> list[int]:
    """Boundaries next after each command to open a hand that was closed."""
    opened = trace.opening >= OPEN
    begins = np.flatnonzero(opened[1:] & ~opened[:-1]) + 1
    return [trace.boundary_of(int(step)) for step in begins]
