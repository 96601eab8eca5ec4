"""What went wrong at a stage, from simulator truth: one rule per kind of stage, each a short list of questions.

Thresholds are lengths in [m] and angles in [rad]; they are wide against contact noise and narrow against the size of
a graspable object (2 to 5 cm).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from coda_nodes.critic.stages import Stall, order_broken
from coda_nodes.critic.trace import MOVED, Loss, Trace
from coda_nodes.world.diagnosis import Evidence

GRASP_RANGE = 0.10
"""A hand that closes nearer than this to a thing tries to grasp it [m]."""
TOPPLED = 0.6
"""Tilt from which a thing counts as toppled [rad]."""
PUSHED = 0.05
"""Displacement from which a thing that was not held counts as pushed away [m]."""
NEAR_MISS = 0.05
"""Widening of a destination's outline within which a release by a resting hand counts as aimed at it [m]."""
RIM = 0.015
"""The same for a release on the way [m]."""
TRAVELLING = 0.06
"""Horizontal speed of the hand from which a release happens on the way [m/s]."""
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


def happening(stall: Stall) -> Happening:
    """What happened at the stalled stage."""
    broken = order_broken(stall.trace)
    if broken is not None:
        return Happening("wrong_order", f"the {broken[1]} was done before its turn", stall.trace.boundary_of(broken[0]), 0.9)
    return _RULES[stall.stage.name](stall)


def _reaching(stall: Stall) -> Happening:
    """Stages approach and grasp: the target was not held."""
    return (
        _other_held(stall) or _attempt(stall) or _struck(stall) or _stuck(stall) or _came_short(stall)
    )


def _struck(stall: Stall) -> Happening | None:
    """The hand pushed the target or something else away; whichever came first."""
    found = [item for item in (_pushed_away(stall.trace, stall.target), _other_moved(stall)) if item is not None]
    return min(found, key=lambda item: item.boundary, default=None)


def _other_held(stall: Stall) -> Happening | None:
    trace = stall.trace
    times = {name: int(np.argmax(held)) for name in stall.others if (held := trace.held(name)[stall.since :]).any()}
    if not times:
        return None
    name = min(times, key=times.__getitem__)
    return _confused(stall, name, times[name] + stall.since, "was grasped")


def _confused(stall: Stall, name: str, boundary: int, what: str) -> Happening:
    mode = "wrong_order" if name in stall.later_targets else "wrong_object"
    return Happening(mode, f"the {name} {what}, asked for was the {stall.target}", boundary, 0.9)


def _attempt(stall: Stall) -> Happening | None:
    """The first time the hand closed at something, unless the target had been pushed away before."""
    trace, target = stall.trace, stall.target
    pushed = _pushed_away(trace, target)
    for boundary in trace.closings():
        if boundary < stall.since or (pushed is not None and pushed.boundary < boundary):
            continue
        distances = {name: _reach(trace, name, boundary) for name in (target, *stall.others)}
        nearest = min(distances, key=distances.__getitem__)
        if distances[target] > GRASP_RANGE and distances[nearest] < 0.5 * GRASP_RANGE:
            return _confused(stall, nearest, boundary, "was what the hand closed at")
        if distances[target] <= GRASP_RANGE:
            apart = 1000 * distances[target]
            return Happening("missed_grasp", f"the hand closed {apart:.0f} mm from the {target}, not holding it", boundary, 0.9)
    return None


def _reach(trace: Trace, name: str, boundary: int) -> float:
    """Least distance of the hand around a boundary: it may close on the way between two."""
    return float(trace.distance(name)[max(boundary - 1, 0) : boundary + 1].min())


def _pushed_away(trace: Trace, name: str) -> Happening | None:
    """The thing was toppled or pushed while it was not held."""
    free = ~np.logical_or.accumulate(trace.held(name))
    toppled = np.flatnonzero(free & (trace.tilt(name) > TOPPLED))
    pushed = np.flatnonzero(free & (trace.displacement(name) > PUSHED))
    if len(toppled):
        degrees = np.degrees(trace.tilt(name)[toppled[0]])
        return Happening("knocked_over", f"the {name} was tilted by {degrees:.0f} degrees", int(toppled[0]), 0.85)
    if len(pushed):
        moved = 1000 * trace.displacement(name)[pushed[0]]
        return Happening("knocked_over", f"the {name} was pushed {moved:.0f} mm without being held", int(pushed[0]), 0.75)
    return None


def _other_moved(stall: Stall) -> Happening | None:
    """Something else was struck; where pushing is the task, it was taken for the target."""
    trace, pushing = stall.trace, any(stage.name == "push" and stage.part == stall.stage.part for stage in stall.stages)
    for name in stall.others:
        moved = np.flatnonzero(trace.displacement(name) > MOVED)
        if pushing and trace.displacement(name).max() > PUSHED:
            return _confused(stall, name, int(moved[0]), "was pushed")
        if len(moved):
            millimetres = 1000 * trace.displacement(name)[moved[0]]
            return Happening("collision", f"the {name} was struck and moved by {millimetres:.0f} mm", int(moved[0]), 0.7)
    return None


def _stuck(stall: Stall) -> Happening | None:
    """The arm, or what it holds, rests against something and no longer moves."""
    trace = stall.trace
    if trace.last < STUCK or np.linalg.norm(trace.tool[-1] - trace.tool[-1 - STUCK]) > 0.01:
        return None
    for entity in trace.spec.entities:
        if entity.name == stall.target:
            continue
        slot, held = trace.slot(entity.name), trace.slot(stall.target)
        against = trace.touched(entity.name) | (trace.states.contact[:, slot, held] & trace.grasped(stall.target))
        if against[-STUCK:].all() and not trace.grasped(entity.name).any():
            begin = int(np.flatnonzero(~against)[-1]) + 1 if not against.all() else 0
            return Happening("collision", f"the arm or what it held rested against the {entity.name}", begin, 0.7)
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
    return Happening("stopped_short" if approaching else "no_approach", note, nearest, 0.6 if approaching else 0.85)


def _lifting(stall: Stall) -> Happening:
    """Stage lift: it was held and did not come up."""
    return _lost(stall) or _slid(stall) or _stuck(stall) or _held_at_end(stall)


def _slid(stall: Stall) -> Happening | None:
    """The hand rose and the thing between its fingers did not."""
    trace, held = stall.trace, np.flatnonzero(stall.trace.held(stall.target))
    if not len(held):
        return None
    rise = trace.tool[held[0] :, 2] - trace.tool[held[0], 2] - trace.rise(stall.target)[held[0] :]
    if rise.max() < MOVED:
        return None
    boundary = int(held[0] + np.argmax(rise >= MOVED))
    return Happening("slip", f"the hand rose {1000 * rise.max():.0f} mm more than the {stall.target}", boundary, 0.8)


def _lost(stall: Stall) -> Happening | None:
    """The last grip ended; None when the target is still held."""
    trace, target = stall.trace, stall.target
    losses = trace.losses(target)
    if not losses or trace.held(target)[-1]:
        return None
    loss = losses[0] if stall.stage.name == "lift" else losses[-1]
    if not loss.commanded and not _set_down(stall, loss):
        height = 1000 * trace.rise(target)[loss.boundary]
        return Happening("slip", f"the {target} slid out of the closed hand {height:.0f} mm up", loss.boundary, 0.85)
    return _let_go(stall, loss)


def _set_down(stall: Stall, loss: Loss) -> bool:
    """Whether the grip ended against a place to put things: pushed out of the hand there, not slid out in the air."""
    trace = stall.trace
    places = [*_places(stall), *([stall.destination] if stall.destination else [])]
    slots = [trace.slot(name) for name in places]
    around = slice(loss.boundary, loss.boundary + 2)
    return bool(trace.states.contact[around, trace.slot(stall.target)][:, slots].any())


def _let_go(stall: Stall, loss: Loss) -> Happening:
    """The hand opened: at the destination, at another one, or on the way."""
    trace, target, goal = stall.trace, stall.target, stall.destination
    after = min(loss.boundary + 1, trace.last)
    apart = _horizontal(trace, target, goal)[-1] if goal else float("nan")
    beside = f"the {target} was let go and lies {1000 * apart:.0f} mm from the {goal}" if goal else f"the {target} was let go"
    speed = trace.speed(loss.boundary)
    margin = NEAR_MISS if speed < TRAVELLING else RIM
    if goal and trace.over(target, goal, margin)[loss.boundary : after + 1].any():
        return _fell_off(stall) or Happening("misaligned", beside, after, 0.8)
    for other in _places(stall):
        if trace.over(target, other)[after:].any():
            return Happening("wrong_place", f"the {target} was let go at the {other}, not the {goal}", after, 0.9)
    if goal is None or speed > TRAVELLING or stall.stage.name == "lift":
        return Happening("dropped", beside + f", hand moving at {speed:.2f} m/s", loss.boundary, 0.8)
    return Happening("wrong_place", beside, after, 0.7)


def _horizontal(trace: Trace, name: str, other: str) -> np.ndarray:
    return np.linalg.norm((trace.position(name) - trace.position(other))[:, :2], axis=1)


def _places(stall: Stall) -> list[str]:
    """Other places it could have been meant for: things, where it goes onto a thing, else receptacles, marks, drawers."""
    skip, onto_thing = (stall.target, stall.destination), stall.destination in stall.others
    names = [e.name for e in stall.trace.spec.objects if onto_thing or e.role in ("receptacle", "marker")]
    names += [e.name for e in stall.trace.spec.fixtures if e.kind == "drawer"]
    return [name for name in names if name not in skip]


def _fell_off(stall: Stall) -> Happening | None:
    """The support itself was pushed away or toppled."""
    goal = stall.destination
    if goal is None or goal not in stall.others or goal in {entity.name for entity in stall.trace.spec.fixtures}:
        return None
    return _pushed_away(stall.trace, goal)


def _held_at_end(stall: Stall) -> Happening:
    trace, target = stall.trace, stall.target
    held = "is still held" if trace.held(target)[-1] else "was not brought further"
    return Happening("stopped_short", f"the {target} {held} at the end of {trace.time(trace.last):.1f} s", trace.last, 0.75)


def _carrying(stall: Stall) -> Happening:
    """Stages transport, place, align and insert: it was up and did not arrive."""
    trace, target = stall.trace, stall.target
    lost = _lost(stall)
    if lost is not None:
        return lost
    if stall.destination and trace.held(target)[-1]:
        for other in _places(stall):
            if trace.over(target, other)[-STUCK:].all():
                return Happening("wrong_place", f"the {target} is held over the {other}, not the {stall.destination}", trace.last)
    if stall.stage.name in ("align", "insert") and stall.destination and _resting(stall):
        apart = 1000 * _horizontal(trace, target, stall.destination)[-1]
        return Happening("misaligned", f"the {target} rests on the {stall.destination}, {apart:.0f} mm off", trace.last, 0.8)
    return _fell_off(stall) or _stuck(stall) or _held_at_end(stall)


def _resting(stall: Stall) -> bool:
    trace = stall.trace
    contact = trace.states.contact[:, trace.slot(stall.target), trace.slot(str(stall.destination))]
    return bool(contact[-1] or contact.sum() >= STUCK)


def _releasing(stall: Stall) -> Happening:
    """Stage release: it arrived and was not let go, or did not stay."""
    if not stall.trace.touched(stall.target)[-1]:
        return _fell_off(stall) or Happening("misaligned", f"the {stall.target} did not stay where it was put", stall.trace.last, 0.6)
    return _held_at_end(stall)


def _moving_joint(stall: Stall) -> Happening:
    """Stages open, close and turn."""
    trace, target = stall.trace, stall.target
    joint = trace.joint(target)
    low, high = trace.states.entity_joint_range[0, trace.slot(target)]
    span = max(high - low, 1e-9)
    share = (joint[-1] - joint[0]) / span
    for loss in trace.losses(target):
        travelled = np.linalg.norm(trace.tool[-1] - loss.tool)
        if not loss.commanded and travelled > PUSHED:
            note = f"the hand slid off the {target} at {100 * (joint[loss.boundary] - low) / span:.0f} % of its range"
            return Happening("slip", note, loss.boundary, 0.75)
    note = f"the {target} moved by {100 * share:.0f} % of its range"
    return Happening("not_opened", note, int(np.abs(joint - joint[0]).argmax()), 0.85)


def _pushing(stall: Stall) -> Happening:
    """Stage push: it was to be pushed to a mark."""
    trace, target, goal = stall.trace, stall.target, stall.destination
    moved = trace.displacement(target)
    others = {name: float(trace.displacement(name).max()) for name in stall.others}
    farthest = max(others, key=others.__getitem__, default=None)
    if moved.max() < MOVED and farthest is not None and others[farthest] > PUSHED:
        return _confused(stall, farthest, int(trace.displacement(farthest).argmax()), "was pushed")
    toppled = np.flatnonzero(trace.tilt(target) > TOPPLED)
    if len(toppled):
        return Happening("knocked_over", f"the {target} was toppled while pushed", int(toppled[0]), 0.85)
    return _pushed_to(stall, str(goal)) if goal else _held_at_end(stall)


def _pushed_to(stall: Stall, goal: str) -> Happening:
    """Compare where it was pushed with where it should have gone."""
    trace, target = stall.trace, stall.target
    path = (trace.position(target) - trace.position(target)[0])[:, :2]
    way = (trace.position(goal)[0] - trace.position(target)[0])[:2]
    length = float(np.linalg.norm(way))
    along = float(path[-1] @ way) / max(length, 1e-9)
    across = float(np.linalg.norm(path[-1] - along * way / max(length, 1e-9)))
    note = f"the {target} was pushed {1000 * along:.0f} of {1000 * length:.0f} mm, {1000 * across:.0f} mm aside"
    if np.linalg.norm(path[-1]) > PUSHED and along < across:
        return Happening("wrong_place", note, trace.last, 0.75)
    if along > length or across > MOVED:
        return Happening("misaligned", note, trace.last, 0.75)
    return Happening("stopped_short", note, trace.last, 0.75)


_RULES: dict[str, Callable[[Stall], Happening]] = {
    "approach": _reaching, "grasp": _reaching, "lift": _lifting, "transport": _carrying, "place": _carrying,
    "align": _carrying, "insert": _carrying, "release": _releasing, "open": _moving_joint, "close": _moving_joint,
    "turn": _moving_joint, "push": _pushing,
}
