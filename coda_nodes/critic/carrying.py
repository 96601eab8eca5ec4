"""Stages lift, transport, place, align, insert and release: why what was held did not arrive."""

from __future__ import annotations

import numpy as np

from coda_nodes.critic.happenings import STUCK, Happening, fell_off, held_at_end, horizontal, places, stuck
from coda_nodes.critic.stages import Stall
from coda_nodes.critic.trace import MOVED, Loss

NEAR_MISS = 0.05
"""Widening of a destination's outline within which a release by a resting hand counts as aimed at it [m]."""
RIM = 0.015
"""The same for a release on the way [m]; twice that for a grip that ended unasked."""
TRAVELLING = 0.06
"""Horizontal speed of the hand from which a release happens on the way [m/s]."""


def lifting(stall: Stall) -> Happening:
    """Stage lift: it was held and did not come up."""
    return _lost(stall) or _slid(stall) or stuck(stall) or held_at_end(stall)


def _slid(stall: Stall) -> Happening | None:
    """The hand rose and the thing between its fingers did not."""
    trace, held = stall.trace, np.flatnonzero(stall.trace.held(stall.target))
    if not len(held):
        return None
    rise = trace.tool[held[0] :, 2] - trace.tool[held[0], 2] - trace.rise(stall.target)[held[0] :]
    if rise.max() < MOVED:
        return None
    boundary = int(held[0] + np.argmax(rise >= MOVED))
    return Happening(
        "slip", f"the hand rose {1000 * rise.max():.0f} mm more than the {stall.target}", boundary, 0.8
    )


def _lost(stall: Stall) -> Happening | None:
    """The last grip ended; None when the target is still held."""
    trace, target = stall.trace, stall.target
    losses = trace.losses(target)
    if not losses or trace.held(target)[-1]:
        return None
    loss = losses[0] if stall.stage.name == "lift" else losses[-1]
    if not loss.commanded and not _set_down(stall, loss):
        height = 1000 * trace.rise(target)[loss.boundary]
        return Happening(
            "slip", f"the {target} slid out of the closed hand {height:.0f} mm up", loss.boundary, 0.85
        )
    return _let_go(stall, loss)


def _set_down(stall: Stall, loss: Loss) -> bool:
    """Whether the grip ended at the destination or against another place: pushed out there, not slid out in
    the air."""
    trace = stall.trace
    if (
        stall.destination
        and trace.over(stall.target, stall.destination, 2 * RIM)[loss.boundary : loss.boundary + 2].any()
    ):
        return True
    around_it = [*places(stall), *([stall.destination] if stall.destination else [])]
    slots = [trace.slot(name) for name in around_it]
    around = slice(loss.boundary, loss.boundary + 2)
    return bool(trace.states.contact[around, trace.slot(stall.target)][:, slots].any())


def _let_go(stall: Stall, loss: Loss) -> Happening:
    """The hand opened: at the destination, at another one, or on the way."""
    trace, target, goal = stall.trace, stall.target, stall.destination
    after = min(loss.boundary + 1, trace.last)
    apart = horizontal(trace, target, goal)[-1] if goal else float("nan")
    beside = (
        f"the {target} was let go and lies {1000 * apart:.0f} mm from the {goal}"
        if goal
        else f"the {target} was let go"
    )
    speed = trace.speed(loss.boundary)
    margin = NEAR_MISS if speed < TRAVELLING else RIM
    if goal and trace.over(target, goal, margin)[loss.boundary : after + 1].any():
        return fell_off(stall) or Happening("misaligned", beside, after, 0.8)
    for other in places(stall):
        if trace.over(target, other)[after:].any():
            return Happening(
                "wrong_place", f"the {target} was let go at the {other}, not the {goal}", after, 0.9
            )
    if goal is None or speed > TRAVELLING or stall.stage.name == "lift":
        return Happening("dropped", beside + f", hand moving at {speed:.2f} m/s", loss.boundary, 0.8)
    return Happening("wrong_place", beside, after, 0.7)


def carrying(stall: Stall) -> Happening:
    """Stages transport, place, align and insert: it was up and did not arrive."""
    trace, target = stall.trace, stall.target
    lost = _lost(stall)
    if lost is not None:
        return lost
    if stall.destination and trace.held(target)[-1]:
        for other in places(stall):
            if trace.over(target, other)[-STUCK:].all():
                return Happening(
                    "wrong_place",
                    f"the {target} is held over the {other}, not the {stall.destination}",
                    trace.last,
                )
    if stall.stage.name in ("align", "insert") and stall.destination and _resting(stall):
        apart = 1000 * horizontal(trace, target, stall.destination)[-1]
        return Happening(
            "misaligned",
            f"the {target} rests on the {stall.destination}, {apart:.0f} mm off",
            trace.last,
            0.8,
        )
    return fell_off(stall) or stuck(stall) or held_at_end(stall)


def _resting(stall: Stall) -> bool:
    trace = stall.trace
    contact = trace.states.contact[:, trace.slot(stall.target), trace.slot(str(stall.destination))]
    return bool(contact[-1] or contact.sum() >= STUCK)


def releasing(stall: Stall) -> Happening:
    """Stage release: it arrived and was not let go, or did not stay."""
    if not stall.trace.touched(stall.target)[-1]:
        return fell_off(stall) or Happening(
            "misaligned", f"the {stall.target} did not stay where it was put", stall.trace.last, 0.6
        )
    return held_at_end(stall)
