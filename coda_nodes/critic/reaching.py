"""Stages approach and grasp: why the target was not held."""

from __future__ import annotations

import numpy as np

from coda_nodes.critic.happenings import PUSHED, Happening, confused, pushed_away, stuck
from coda_nodes.critic.stages import Stall
from coda_nodes.critic.trace import MOVED, Trace

GRASP_RANGE = 0.10
"""A hand that closes nearer than this to a thing tries to grasp it [m]."""


def reaching(stall: Stall) -> Happening:
    """Stages approach and grasp: the target was not held."""
    return _other_held(stall) or _attempt(stall) or _struck(stall) or stuck(stall) or _came_short(stall)


def _struck(stall: Stall) -> Happening | None:
    """The hand pushed the target or something else away; whichever came first."""
    found = [
        item for item in (pushed_away(stall.trace, stall.target), _other_moved(stall)) if item is not None
    ]
    return min(found, key=lambda item: item.boundary, default=None)


def _other_held(stall: Stall) -> Happening | None:
    trace = stall.trace
    times = {
        name: int(np.argmax(held)) for name in stall.others if (held := trace.held(name)[stall.since :]).any()
    }
    if not times:
        return None
    name = min(times, key=times.__getitem__)
    return confused(stall, name, times[name] + stall.since, "was grasped")


def _attempt(stall: Stall) -> Happening | None:
    """The first time the hand closed at something, unless the target had been pushed away before."""
    trace, target = stall.trace, stall.target
    pushed = pushed_away(trace, target)
    for boundary in trace.closings():
        if boundary < stall.since or (pushed is not None and pushed.boundary < boundary):
            continue
        distances = {name: _reach(trace, name, boundary) for name in (target, *stall.others)}
        nearest = min(distances, key=distances.__getitem__)
        if distances[target] > GRASP_RANGE and distances[nearest] < 0.5 * GRASP_RANGE:
            return confused(stall, nearest, boundary, "was what the hand closed at")
        if distances[target] <= GRASP_RANGE:
            apart = 1000 * distances[target]
            return Happening(
                "missed_grasp",
                f"the hand closed {apart:.0f} mm from the {target}, not holding it",
                boundary,
                0.9,
            )
    return None


def _reach(trace: Trace, name: str, boundary: int) -> float:
    """Least distance of the hand around a boundary: it may close on the way between two."""
    return float(trace.distance(name)[max(boundary - 1, 0) : boundary + 1].min())


def _other_moved(stall: Stall) -> Happening | None:
    """Something else was struck; where pushing is the task, it was taken for the target."""
    trace, pushing = (
        stall.trace,
        any(stage.name == "push" and stage.part == stall.stage.part for stage in stall.stages),
    )
    for name in stall.others:
        moved = np.flatnonzero(trace.displacement(name) > MOVED)
        if pushing and trace.displacement(name).max() > PUSHED:
            return confused(stall, name, int(moved[0]), "was pushed")
        if len(moved):
            millimetres = 1000 * trace.displacement(name)[moved[0]]
            return Happening(
                "collision", f"the {name} was struck and moved by {millimetres:.0f} mm", int(moved[0]), 0.7
            )
    return None


def _came_short(stall: Stall) -> Happening:
    """The hand did not come near, or came near and did nothing."""
    trace, target = stall.trace, stall.target
    distance = trace.distance(target)
    nearest = int(distance.argmin())
    note = f"the hand came no nearer than {1000 * distance[nearest]:.0f} mm to the {target}"
    if distance[nearest] < GRASP_RANGE and any(boundary <= nearest for boundary in trace.closings()):
        return Happening("missed_grasp", note + ", closed already", nearest, 0.75)
    if stall.stage.name != "approach":
        return Happening("stopped_short", note + " and did not close", nearest, 0.8)
    approaching = trace.last >= 4 and distance[-1] < distance[-5] - 0.03 and distance[-1] < 0.7 * distance[0]
    return Happening(
        "stopped_short" if approaching else "no_approach", note, nearest, 0.6 if approaching else 0.85
    )
