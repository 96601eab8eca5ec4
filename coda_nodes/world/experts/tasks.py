"""The parts of a goal as arrays: which entity has to go where, what is done, what is in the way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coda_nodes.world.errors import SpecError
from coda_nodes.world.experts.base import Array, Mask, Slots, View
from coda_nodes.world.spec import EnvironmentSpec, atoms

NEARBY = 0.07
"""Tool distance [m] within which something just placed must first be left before the next part begins."""


class Tasks:
    """Parts (subject slot, target slot) of every scene, from the two-place atoms ``predicates`` of its goal.

    Raises SpecError for a goal that holds none of them.
    Arrays: ``subject``, ``target``, ``valid`` (n, parts); ``cylinder``, ``hollow``, ``movable`` (n, K).
    """

    def __init__(self, specs: Sequence[EnvironmentSpec], predicates: tuple[str, ...]) -> None:
        rows = [[atom for atom in atoms(spec.goal) if atom.predicate in predicates] for spec in specs]
        for spec, row in zip(specs, rows, strict=True):
            if not row:
                raise SpecError(
                    f"the expert of {spec.family} serves {', '.join(predicates)}; the goal asks for none"
                )
        self.parts = max(len(row) for row in rows)
        shape = (len(specs), self.parts)
        self.subject, self.target = np.zeros(shape, dtype=int), np.zeros(shape, dtype=int)
        self.valid = np.zeros(shape, dtype=bool)
        for i, (spec, row) in enumerate(zip(specs, rows, strict=True)):
            for p, atom in enumerate(row):
                self.subject[i, p], self.target[i, p] = (spec.entity_names.index(arg) for arg in atom.args)
                self.valid[i, p] = True
        self._specs = specs
        width = max(len(spec.entities) for spec in specs)
        self.cylinder = self._mask(width, "shape", ("cylinder", "plate"))
        self.hollow = self._mask(width, "shape", ("bin", "slot"))
        self.movable = self._mask(width, "role", ("object", "distractor"))

    def _mask(self, width: int, field: str, values: tuple[str, ...]) -> Mask:
        mask = np.zeros((len(self._specs), width), dtype=bool)
        for i, spec in enumerate(self._specs):
            for k, entity in enumerate(spec.entities):
                mask[i, k] = getattr(entity, field, "") in values
        return mask

    def fit(self, slots: int) -> None:
        """Widen the per-entity masks to the number of entity slots of a state."""
        missing = slots - self.movable.shape[1]
        if missing > 0:
            pad = ((0, 0), (0, missing))
            self.cylinder, self.hollow = np.pad(self.cylinder, pad), np.pad(self.hollow, pad)
            self.movable = np.pad(self.movable, pad)

    @staticmethod
    def pick(array: np.ndarray, part: Slots) -> np.ndarray:
        """One column per row. Shape (n,)."""
        return array[np.arange(len(array)), part]

    def first_open(self, done: Mask) -> Slots:
        """First part not done; the last one where all are. Shape (n,)."""
        last = np.maximum(self.valid.sum(1) - 1, 0)
        return np.where(done.all(1), last, np.argmin(done, axis=1))

    def wrongly_held(self, view: View, subject: Slots, done: Mask) -> Slots:
        """Slot of a movable thing in the hand that is neither the subject nor already in
        its place; -1 if none."""
        wrong = view.held & self.movable
        wrong[view.rows, subject] = False
        for p in range(self.parts):
            placed = done[:, p] & self.valid[:, p]
            wrong[view.rows[placed], self.subject[placed, p]] = False
        return np.where(wrong.any(1), wrong.argmax(1), -1)

    def nearest_done(self, view: View, done: Mask) -> tuple[Slots, Array]:
        """Placed subject nearest to the tool, and its distance [m]; -1 and infinity where none. Shapes
        (n,)."""
        best, distance = np.full(len(done), -1), np.full(len(done), np.inf)
        for p in range(self.parts):
            apart = np.linalg.norm(view.of(view.position, self.subject[:, p]) - view.tool, axis=1)
            closer = done[:, p] & self.valid[:, p] & (apart < distance)
            best, distance = np.where(closer, self.subject[:, p], best), np.where(closer, apart, distance)
        return best, distance

    def must_leave(self, view: View, nearest: Slots, distance: Array, subject: Slots, done: Mask) -> Mask:
        """Whether the hand should retreat: all is done, or it is still about something already placed.
        Shape (n,)."""
        holding = view.of(view.held, subject) & ~done.all(1)
        return (nearest >= 0) & ~holding & (done.all(1) | (distance < NEARBY))

    def on_top_of(self, view: View, base: Slots, spare: Slots) -> Slots:
        """Slot of a movable thing that rests on ``base`` and is not ``spare``; -1 if none. Shape (n,)."""
        offset = view.position[:, :, :2] - view.of(view.position, base)[:, None, :2]
        width = 0.5 * (view.extents[:, :, :2].min(-1) + view.of(view.extents, base)[:, :2].min(-1)[:, None])
        gap = view.position[:, :, 2] - view.extents[:, :, 2] - view.top(base)[:, None]
        resting = (
            (np.linalg.norm(offset, axis=-1) < 1.6 * width)
            & (np.abs(gap) < 0.015)
            & self.movable
            & ~view.held
        )
        resting &= view.state.present
        resting[view.rows, base] = False
        resting[view.rows, spare] = False
        return np.where(resting.any(1), resting.argmax(1), -1)
