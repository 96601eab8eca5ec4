"""What the experts of drawers, knobs, pegs and pushed objects share: ordered parts, lowering, letting go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from coda_nodes.world.experts.base import SPEED, Array, Command, Mask, Slots, View, funnel
from coda_nodes.world.experts.transfer import ALIGNED, CLEARANCE, HOVER, SLOW, skyline
from coda_nodes.world.geometry import wrap
from coda_nodes.world.spec import EnvironmentSpec, atoms

REST = 0.006
"""Height over its place at which a held thing is let go [m]."""
NEAR = 0.02
"""Horizontal distance within which the hand moves straight to where it waits or lowers [m]."""
HOVER_BAND = 0.014
"""How far below the waiting height it still counts as waiting [m]."""


class Parts:
    """The atoms of each goal that an expert knows, in order.

    Arrays: ``kind`` (n, P), names as given by ``kinds`` (predicate -> name), "" where there is none;
    ``subject`` and ``target`` (n, P) entity slots; ``cylinder``, ``hollow``, ``movable`` (n, K).
    """

    def __init__(self, specs: Sequence[EnvironmentSpec], kinds: Mapping[str, str]) -> None:
        rows = [[atom for atom in atoms(spec.goal) if atom.predicate in kinds] for spec in specs]
        self.count = max(1, *(len(row) for row in rows))
        shape = (len(specs), self.count)
        self.kind = np.full(shape, "", dtype=object)
        self.subject, self.target = np.zeros(shape, dtype=int), np.zeros(shape, dtype=int)
        for i, (spec, row) in enumerate(zip(specs, rows, strict=True)):
            for p, atom in enumerate(row):
                slots = [spec.entity_names.index(arg) for arg in atom.args]
                self.kind[i, p] = kinds[atom.predicate]
                self.subject[i, p], self.target[i, p] = slots[0], slots[-1]
        width = max(len(spec.entities) for spec in specs)
        self.cylinder = entity_mask(specs, width, "shape", ("cylinder", "plate"))
        self.hollow = entity_mask(specs, width, "shape", ("bin", "slot"))
        self.movable = entity_mask(specs, width, "role", ("object", "distractor"))

    def pick(self, array: np.ndarray, part: Slots) -> np.ndarray:
        """One column per row. Shape (n,)."""
        return array[np.arange(len(array)), part]

    def current(self, done: Mask) -> Slots:
        """First part not done; the last one where all are. Shape (n,)."""
        last = np.maximum((self.kind != "").sum(1) - 1, 0)
        finished = done | (self.kind == "")
        return np.where(finished.all(1), last, np.argmin(finished, axis=1))

    def others_held(self, view: View, slot: Slots, movable: bool) -> Slots:
        """Slot of what the hand holds instead of ``slot``, of movable things or of all others; -1 if none."""
        known = np.zeros_like(view.held)
        known[:, : self.movable.shape[1]] = self.movable
        held = view.held & (known if movable else ~known)
        held[view.rows, slot] = False
        return np.where(held.any(1), held.argmax(1), -1)


def entity_mask(specs: Sequence[EnvironmentSpec], width: int, field: str, values: tuple[str, ...]) -> Mask:
    """Which entities have one of ``values`` in ``field``. Shape (n, width)."""
    mask = np.zeros((len(specs), width), dtype=bool)
    for i, spec in enumerate(specs):
        for k, entity in enumerate(spec.entities):
            mask[i, k] = getattr(entity, field, "") in values
    return mask


def widen(mask: Mask, slots: int) -> Mask:
    """``mask`` (n, K) with columns of False up to ``slots``."""
    return np.pad(mask, ((0, 0), (0, max(0, slots - mask.shape[1]))))


def lower(
    view: View, slot: Slots, point: Array, yaw: Array, tolerance: float, slope: float,
    hover: Array | None = None, room: Array | None = None,
) -> Command:
    """Bring the centre of the held entity ``slot`` to ``point`` (n, 3) [m], tool at ``yaw`` (n,), then open.

    It is carried at cruising height, comes down inside a funnel of ``slope`` about the point, and is let go
    within twice ``tolerance`` [m] sideways and REST above. With ``hover`` (n,) [m] it waits that high over
    the point, unless at the start of the chunk it was over it within ``room`` (n,) [m], or below ``hover``
    already; and it is let go only if it was in its place then.
    """
    offset = view.tool - view.of(view.position, slot)
    goal = point + offset
    error = goal - view.tool
    sideways = np.hypot(error[:, 0], error[:, 1])
    turned = np.abs(wrap(yaw - view.yaw)) < ALIGNED
    hanging = offset[:, 2] + view.of(view.extents, slot)[:, 2]
    cruise = np.maximum(skyline(view, slot) + CLEARANCE + hanging, goal[:, 2] + HOVER)
    aim = goal.copy()
    aim[:, 2] = np.where(turned, goal[:, 2], cruise)
    if hover is not None:
        missing = point - view.of(view.state.entity_position_base, slot)
        off = np.hypot(missing[:, 0], missing[:, 1])
        astray = (off > room) & (-missing[:, 2] > hover - HOVER_BAND)
        aim[:, 2] += np.where(turned & astray, hover, 0.0)
    position = funnel(view.tool, aim, cruise, slope=slope, tolerance=tolerance)
    if hover is not None:
        position = np.where(((sideways < NEAR) & turned)[:, None], aim, position)
    arrived = (sideways < 2 * tolerance) & (error[:, 2] > -REST) & turned
    if hover is not None:
        arrived = (off < room + REST) & (missing[:, 2] > -REST)
    position = np.where(arrived[:, None], view.tool, position)
    low = (sideways < 0.03) & (error[:, 2] > -0.06)
    opening = np.where(arrived, np.minimum(view.state.gripper_opening + 0.35, 1.0), 0.0)
    return Command(position, yaw, opening, np.where(low, SLOW, SPEED))


def let_go(view: View) -> Command:
    """Open where the hand is."""
    n = len(view.tool)
    return Command(view.tool.copy(), view.yaw, np.ones(n), np.full(n, SLOW))


def stay(view: View) -> Command:
    """Keep the hand as it is."""
    n = len(view.tool)
    return Command(view.tool.copy(), view.yaw, view.state.gripper_opening.copy(), np.full(n, SLOW))
