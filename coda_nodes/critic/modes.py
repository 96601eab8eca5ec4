"""What went wrong at a stage, from simulator truth: one rule per kind of stage, each a few questions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coda_nodes.critic.carrying import carrying, lifting, releasing
from coda_nodes.critic.happenings import PUSHED, TOPPLED, Happening, confused, held_at_end
from coda_nodes.critic.reaching import reaching
from coda_nodes.critic.stages import Stall, order_broken
from coda_nodes.critic.trace import MOVED


def happening(stall: Stall) -> Happening:
    """What happened at the stalled stage."""
    broken = order_broken(stall.trace)
    if broken is not None:
        return Happening(
            "wrong_order",
            f"the {broken[1]} was done before its turn",
            stall.trace.boundary_of(broken[0]),
            0.9,
        )
    return _RULES[stall.stage.name](stall)


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
            share = (joint[loss.boundary] - low) / span
            note = f"the hand slid off the {target} at {100 * share:.0f} % of its range"
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
        return confused(stall, farthest, int(trace.displacement(farthest).argmax()), "was pushed")
    toppled = np.flatnonzero(trace.tilt(target) > TOPPLED)
    if len(toppled):
        return Happening("knocked_over", f"the {target} was toppled while pushed", int(toppled[0]), 0.85)
    return _pushed_to(stall, str(goal)) if goal else held_at_end(stall)


def _pushed_to(stall: Stall, goal: str) -> Happening:
    """Compare where it was pushed with where it should have gone."""
    trace, target = stall.trace, stall.target
    path = (trace.position(target) - trace.position(target)[0])[:, :2]
    way = (trace.position(goal)[0] - trace.position(target)[0])[:2]
    length = float(np.linalg.norm(way))
    along = float(path[-1] @ way) / max(length, 1e-9)
    across = float(np.linalg.norm(path[-1] - along * way / max(length, 1e-9)))
    note = (
        f"the {target} was pushed {1000 * along:.0f} of {1000 * length:.0f} mm, {1000 * across:.0f} mm aside"
    )
    if np.linalg.norm(path[-1]) > PUSHED and along < across:
        return Happening("wrong_place", note, trace.last, 0.75)
    if along > length or across > MOVED:
        return Happening("misaligned", note, trace.last, 0.75)
    return Happening("stopped_short", note, trace.last, 0.75)


_RULES: dict[str, Callable[[Stall], Happening]] = {
    "approach": reaching,
    "grasp": reaching,
    "lift": lifting,
    "transport": carrying,
    "place": carrying,
    "align": carrying,
    "insert": carrying,
    "release": releasing,
    "open": _moving_joint,
    "close": _moving_joint,
    "turn": _moving_joint,
    "push": _pushing,
}
