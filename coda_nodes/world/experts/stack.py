"""Expert of stack: from the bottom up, each object onto the one below; what stands in the
way is put aside first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coda_nodes.world.experts.base import Command, Mask, View
from coda_nodes.world.experts.tasks import Tasks
from coda_nodes.world.experts.transfer import Destination, free_spot, retreat, transfer
from coda_nodes.world.geometry import yaw_of
from coda_nodes.world.spec import EnvironmentSpec

CENTRED = 0.55
"""Offset from the middle of the one below, as a share of its half width, up to which
an object counts as placed."""
LEVEL = 0.010
"""Gap to the one below up to which an object counts as placed [m]."""
DROP = 0.003
"""Height over the one below at which an object is let go [m]."""
TOLERANCE = 0.004
"""Horizontal error up to which an object is let go [m]."""


class StackExpert:
    """See the module."""

    def __init__(self, specs: Sequence[EnvironmentSpec]) -> None:
        self.tasks = Tasks(specs, ("stacked_on", "on"))
        self.cylinder = self.tasks.cylinder

    def command(self, view: View) -> Command:
        """Serve the lowest level that is not done, after clearing what lies on its object or on its place."""
        self.tasks.fit(view.held.shape[1])
        done = self._placed(view)
        part = self.tasks.first_open(done)
        subject, target = self.tasks.pick(self.tasks.subject, part), self.tasks.pick(self.tasks.target, part)
        aside = self._aside(view, subject, target, done)
        slot = np.where(aside >= 0, aside, subject)
        destination = self._destination(view, subject, target)
        if (aside >= 0).any():
            destination = free_spot(view, slot).where(aside < 0, destination)
        command = transfer(view, slot, destination, self.tasks.cylinder, self.tasks.hollow)
        nearest, distance = self.tasks.nearest_done(view, done)
        leave = self.tasks.must_leave(view, nearest, distance, subject, done) & (aside < 0)
        return command.where(leave, retreat(view, np.maximum(nearest, 0)))

    def _aside(self, view: View, subject: np.ndarray, target: np.ndarray, done: Mask) -> np.ndarray:
        """Slot of what must be put aside: wrongly in the hand, on the subject, or on
        its place; -1 if nothing."""
        wrong = self.tasks.wrongly_held(view, subject, done)
        holding = view.of(view.held, subject)
        over = np.where(holding, -1, self.tasks.on_top_of(view, subject, target))
        higher = np.where(over >= 0, self.tasks.on_top_of(view, np.maximum(over, 0), subject), -1)
        blocked = self.tasks.on_top_of(view, target, subject)
        aside = np.where(wrong >= 0, wrong, np.where(higher >= 0, higher, np.where(over >= 0, over, blocked)))
        return np.where(done.all(1) | (holding & (wrong < 0) & (over < 0) & (blocked < 0)), -1, aside)

    def _placed(self, view: View) -> Mask:
        """Levels done as far as geometry tells, each only if those below are. Shape (n, parts)."""
        levels = []
        for p in range(self.tasks.parts):
            subject, target = self.tasks.subject[:, p], self.tasks.target[:, p]
            offset = view.of(view.position, subject) - view.of(view.position, target)
            width = view.of(view.state.entity_half_extents, target).min(1)
            width = np.where(
                self.tasks.movable[view.rows, target], width, view.of(view.extents, target)[:, :2].min(1)
            )
            centred = np.hypot(offset[:, 0], offset[:, 1]) < CENTRED * width
            level = np.abs(view.bottom(subject) - view.top(target)) < LEVEL
            levels.append((centred & level) | ~self.tasks.valid[:, p])
        return np.logical_and.accumulate(np.stack(levels, axis=1), axis=1)

    def _destination(self, view: View, subject: np.ndarray, target: np.ndarray) -> Destination:
        point = view.of(view.position, target).copy()
        point[:, 2] = view.top(target) + view.of(view.extents, subject)[:, 2] + DROP
        heading = yaw_of(view.of(view.state.entity_quaternion_xyzw, target))
        heading = np.where(
            view.of(self.tasks.cylinder, target) | view.of(self.tasks.cylinder, subject), np.nan, heading
        )
        return Destination(point, heading, np.full(len(point), TOLERANCE))


EXPERT = StackExpert
