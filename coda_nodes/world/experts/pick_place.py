"""Expert of pick_place: each asked object into or onto its receptacle, in the order of the goal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coda_nodes.world.experts.base import Array, Command, Mask, View
from coda_nodes.world.experts.tasks import Tasks
from coda_nodes.world.experts.transfer import Destination, free_spot, retreat, transfer
from coda_nodes.world.geometry import BIN_FLOOR, BIN_WALL, yaw_of
from coda_nodes.world.spec import EnvironmentSpec

SPOTS = np.array([[0.0, 0.0], [1, 0], [-1, 0], [0, 1], [0, -1], [1, 1], [1, -1], [-1, 1], [-1, -1]])
"""Places tried in a receptacle, as shares of the free half extents. Shape (S, 2)."""
SIDE, FINGERS = 0.008, 0.016
"""Room between what is let go and a wall, and what the fingers need on top of it where they open [m]."""
DROP = (0.012, 0.003)
"""Height over the floor of a bin, and over a plate, at which the object is let go [m]."""


class PickPlaceExpert:
    """See the module."""

    def __init__(self, specs: Sequence[EnvironmentSpec]) -> None:
        self.tasks = Tasks(specs, ("inside", "on"))
        self.cylinder = self.tasks.cylinder

    def command(self, view: View) -> Command:
        """Serve the first part that is not done; put down what should not be in the
        hand; when done, stay away."""
        self.tasks.fit(view.held.shape[1])
        done = self._placed(view)
        part = self.tasks.first_open(done)
        subject, target = self.tasks.pick(self.tasks.subject, part), self.tasks.pick(self.tasks.target, part)
        wrong = self.tasks.wrongly_held(view, subject, done)
        slot = np.where(wrong >= 0, wrong, subject)
        destination = self._destination(view, subject, target)
        if (wrong >= 0).any():
            destination = free_spot(view, slot).where(wrong < 0, destination)
        command = transfer(view, slot, destination, self.tasks.cylinder, self.tasks.hollow)
        nearest, distance = self.tasks.nearest_done(view, done)
        leave = self.tasks.must_leave(view, nearest, distance, subject, done) & (wrong < 0)
        return command.where(leave, retreat(view, np.maximum(nearest, 0)))

    def _placed(self, view: View) -> Mask:
        """Parts done as far as geometry tells, whether or not the hand has let go. Shape (n, parts)."""
        return np.stack(
            [
                self._fits(view, self.tasks.subject[:, p], self.tasks.target[:, p]) | ~self.tasks.valid[:, p]
                for p in range(self.tasks.parts)
            ],
            axis=1,
        )

    def _fits(self, view: View, subject: np.ndarray, target: np.ndarray) -> Mask:
        local, reach = _in_receptacle(view, subject, target)
        hollow = view.of(self.tasks.hollow, target)
        half = view.of(view.state.entity_half_extents, target)
        room = half[:, :2] - BIN_WALL + 0.002
        inside = (np.abs(local) + reach[:, None] <= room).all(1) | (
            np.abs(local) + 0.7 * reach[:, None] <= room - 0.01
        ).all(1)
        lying = np.linalg.norm(local, axis=1) < half[:, :2].min(1) - 0.45 * view.of(view.extents, subject)[
            :, :2
        ].min(1)
        bottom = view.bottom(subject)
        low = bottom < np.where(hollow, view.top(target) - 0.02, view.top(target) + 0.012)
        return np.where(hollow, inside, lying) & low

    def _destination(self, view: View, subject: np.ndarray, target: np.ndarray) -> Destination:
        hollow = view.of(self.tasks.hollow, target)
        _, reach = _in_receptacle(view, subject, target)
        half = view.of(view.state.entity_half_extents, target)
        yaw = view.yaw - yaw_of(view.of(view.state.entity_quaternion_xyzw, target))
        fingers = SIDE + FINGERS * np.abs(np.stack([np.sin(yaw), np.cos(yaw)], 1))
        free = np.maximum(half[:, :2] - BIN_WALL - reach[:, None] - fingers, 0.0)
        spot = self._emptiest(view, subject, target, free)
        floor = np.where(hollow, view.bottom(target) + BIN_FLOOR, view.top(target))
        height = floor + np.where(hollow, *DROP) + view.of(view.extents, subject)[:, 2]
        tolerance = np.where(hollow, np.clip(free.min(1), 0.005, 0.012), 0.008)
        return Destination(np.concatenate([spot, height[:, None]], 1), np.full(len(spot), np.nan), tolerance)

    def _emptiest(self, view: View, subject: np.ndarray, target: np.ndarray, free: Array) -> Array:
        """The middle of the receptacle (a corner where more is to come), or the place in it farthest from
        what lies there. Shape (n, 2)."""
        rotation = view.of(view.rotation, target)[:, :2, :2]
        spots = np.einsum("nij,nsj->nsi", rotation, SPOTS[None] * free[:, None, :])
        spots = spots + view.of(view.position, target)[:, None, :2]
        apart = np.linalg.norm(spots[:, :, None, :] - view.position[:, None, :, :2], axis=-1)
        needed = (
            view.extents[:, :, :2].max(-1) + view.of(view.extents, subject)[:, :2].max(-1)[:, None] + 0.012
        )
        lacking = np.maximum(needed[:, None, :] - apart, 0.0)
        ignored = ~self.tasks.movable | view.held | (np.arange(apart.shape[2]) == subject[:, None])
        shared = ((self.tasks.target == target[:, None]) & self.tasks.valid).sum(1) > 1
        spread = np.where(shared, -0.002, 0.002)[:, None] * np.linalg.norm(SPOTS, axis=1)
        cost = np.where(ignored[:, None, :], 0.0, lacking).sum(-1) + spread
        return spots[view.rows, cost.argmin(1)]


def _in_receptacle(view: View, subject: np.ndarray, target: np.ndarray) -> tuple[Array, Array]:
    """Horizontal position of the subject in the target's frame (n, 2), and its outline's half width (n,)
    [m]."""
    offset = (view.of(view.position, subject) - view.of(view.position, target))[:, :2]
    local = np.einsum("nji,nj->ni", view.of(view.rotation, target)[:, :2, :2], offset)
    return local, view.of(view.extents, subject)[:, :2].max(1)


EXPERT = PickPlaceExpert
