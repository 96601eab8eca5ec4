"""What may be seen at any stage: things pushed away, confused, struck, still held.

Thresholds are lengths in [m] and angles in [rad]; they are wide against contact noise and narrow against the
size of a graspable object (2 to 5 cm).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coda_nodes.critic.stages import Stall
from coda_nodes.critic.trace import Trace
from coda_nodes.world.diagnosis import Evidence

TOPPLED = 0.6
"""Tilt from which a thing counts as toppled [rad]."""
PUSHED = 0.05
"""Displacement from which a thing that was not held counts as pushed away [m]."""
STUCK = 2
"""Last chunk boundaries with contact and no motion that make a collision."""


@dataclass(frozen=True)
class Happening:
    """A failure mode, where it shows, and how sure the rule is."""

    mode: str
    note: str
    boundary: int
    confidence: float = 0.8

    def evidence(self, trace: Trace) -> Evidence:
        """The note with its time and frame."""
        return Evidence(time=trace.time(self.boundary), frame=self.boundary, note=self.note)


def confused(stall: Stall, name: str, boundary: int, what: str) -> Happening:
    mode = "wrong_order" if name in stall.later_targets else "wrong_object"
    return Happening(mode, f"the {name} {what}, asked for was the {stall.target}", boundary, 0.9)


def pushed_away(trace: Trace, name: str) -> Happening | None:
    """The thing was toppled or pushed while it was not held."""
    free = ~np.logical_or.accumulate(trace.held(name))
    toppled = np.flatnonzero(free & (trace.tilt(name) > TOPPLED))
    pushed = np.flatnonzero(free & (trace.displacement(name) > PUSHED))
    if len(toppled):
        degrees = np.degrees(trace.tilt(name)[toppled[0]])
        return Happening(
            "knocked_over", f"the {name} was tilted by {degrees:.0f} degrees", int(toppled[0]), 0.85
        )
    if len(pushed):
        moved = 1000 * trace.displacement(name)[pushed[0]]
        return Happening(
            "knocked_over", f"the {name} was pushed {moved:.0f} mm without being held", int(pushed[0]), 0.75
        )
    return None


def stuck(stall: Stall) -> Happening | None:
    """The arm, or what it holds, rests against something and no longer moves."""
    trace = stall.trace
    if trace.last < STUCK or np.linalg.norm(trace.tool[-1] - trace.tool[-1 - STUCK]) > 0.01:
        return None
    for entity in trace.spec.entities:
        if entity.name == stall.target:
            continue
        slot, held = trace.slot(entity.name), trace.slot(stall.target)
        against = trace.touched(entity.name) | (
            trace.states.contact[:, slot, held] & trace.grasped(stall.target)
        )
        if against[-STUCK:].all() and not trace.grasped(entity.name).any():
            begin = int(np.flatnonzero(~against)[-1]) + 1 if not against.all() else 0
            return Happening(
                "collision", f"the arm or what it held rested against the {entity.name}", begin, 0.7
            )
    return None


def places(stall: Stall) -> list[str]:
    """Other places it could have been meant for: things, where it goes onto a thing, else receptacles, marks,
    drawers."""
    skip, onto_thing = (stall.target, stall.destination), stall.destination in stall.others
    names = [e.name for e in stall.trace.spec.objects if onto_thing or e.role in ("receptacle", "marker")]
    names += [e.name for e in stall.trace.spec.fixtures if e.kind == "drawer"]
    return [name for name in names if name not in skip]


def fell_off(stall: Stall) -> Happening | None:
    """The support itself was pushed away or toppled."""
    goal = stall.destination
    if (
        goal is None
        or goal not in stall.others
        or goal in {entity.name for entity in stall.trace.spec.fixtures}
    ):
        return None
    return pushed_away(stall.trace, goal)


def horizontal(trace: Trace, name: str, other: str) -> np.ndarray:
    return np.linalg.norm((trace.position(name) - trace.position(other))[:, :2], axis=1)


def held_at_end(stall: Stall) -> Happening:
    trace, target = stall.trace, stall.target
    held = "is still held" if trace.held(target)[-1] else "was not brought further"
    return Happening(
        "stopped_short", f"the {target} {held} at the end of {trace.time(trace.last):.1f} s", trace.last, 0.75
    )
