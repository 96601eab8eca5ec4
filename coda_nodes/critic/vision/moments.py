"""Key moments that can be told without simulator truth: from the commands to the gripper and where the tool went."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from coda_nodes.critic.keyframes import Keyframe
from coda_nodes.critic.trace import OPEN, Trace

LIFTED = 0.02
"""Rise of the tool over its lowest point since the close that counts as a lift [m]."""
MOMENTS = 6
"""Key moments shown of an episode."""
REASONS = ("start", "close", "lift", "release", "end", "between")


def moments(trace: Trace, limit: int) -> list[Keyframe]:
    """At most ``limit`` (2 or more) moments in order of time: start and end, the first close, the lift after it, the last
    release, the last close; free places are filled evenly between them."""
    chosen = {0: "start", trace.last: "end"}
    for reason, boundary in _events(trace):
        if len(chosen) < limit:
            chosen.setdefault(boundary, reason)
    while len(chosen) < min(limit, trace.last + 1):
        chosen[_middle_of_longest(sorted(chosen))] = "between"
    return [Keyframe(boundary, trace.time(boundary), chosen[boundary]) for boundary in sorted(chosen)]


def _middle_of_longest(known: list[int]) -> int:
    """Half way between the two neighbours that lie farthest apart."""
    gaps = np.diff(known)
    place = int(np.argmax(gaps))
    return known[place] + int(gaps[place]) // 2


def _events(trace: Trace) -> Iterator[tuple[str, int]]:
    closes, releases = trace.closings(), _openings(trace)
    if closes:
        yield "close", closes[0]
        rise = trace.tool[closes[0] :, 2] - np.minimum.accumulate(trace.tool[closes[0] :, 2])
        up = np.flatnonzero(rise > LIFTED)
        if len(up):
            yield "lift", closes[0] + int(up[0])
    if releases:
        yield "release", releases[-1]
    if len(closes) > 1:
        yield "close", closes[-1]


def _openings(trace: Trace) -> list[int]:
    """Boundaries next after each command to open a hand that was closed."""
    opened = trace.opening >= OPEN
    begins = np.flatnonzero(opened[1:] & ~opened[:-1]) + 1
    return [trace.boundary_of(int(step)) for step in begins]
