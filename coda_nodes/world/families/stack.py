"""stack: two to four objects on one another in an asked order, on the table or on a plate."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np

from coda_nodes.world.errors import ValidityError
from coda_nodes.world.families.base import (
    Item,
    Layout,
    Stage,
    draw_camera,
    draw_items,
    draw_light,
    draw_physics,
    draw_start,
    pairing,
    place_items,
    receptacle,
    until_valid,
)
from coda_nodes.world.families.pick_place import placements, transfer_stages
from coda_nodes.world.instructions import clause, sentence
from coda_nodes.world.ranges import AXES, FamilyRanges
from coda_nodes.world.spec import AllOf, Atom, EnvironmentSpec, Provenance

STEPS_FIXED = 60
"""Control steps of the time limit that do not depend on the task."""
STEPS_PER_LEVEL = 160
"""Control steps allowed for each object to be moved."""
MOST_MOVABLE = 5
"""Movable things a scene may hold."""


class Stack:
    """Definition of the family; see the module."""

    name = "stack"
    axes = AXES

    def sample(self, ranges: FamilyRanges, rng: np.random.Generator) -> EnvironmentSpec:
        """Draw a scene. Raises ValidityError when the ranges leave no room for it."""
        return until_valid(lambda: self._sample(ranges, rng))

    def _sample(self, ranges: FamilyRanges, rng: np.random.Generator) -> EnvironmentSpec:
        height = int(ranges.draw("composition", "height", rng))
        on_plate = ranges.draw("composition", "base", rng) == "plate"
        count = min(height + int(ranges.draw("clutter", "distractors", rng)), MOST_MOVABLE)
        items = draw_items(ranges, count, rng)
        tower = choose_order(items, height, ranges, rng)
        gap = ranges.draw("clutter", "gap", rng)
        layout = Layout(rng)
        plate = (
            [receptacle(ranges.draw("objects", "plate", rng), layout, gap, ranges, rng)] if on_plate else []
        )
        loose = place_items(items, tower, layout, gap, ranges)
        goals = tuple(Atom(predicate="stacked_on", args=(b.name, a.name)) for a, b in pairwise(tower))
        if plate:
            goals = (Atom(predicate="on", args=(tower[0].name, plate[0].name)), *goals)
        phrasing = ranges.draw("instruction", "phrasing", rng)
        return EnvironmentSpec(
            family="stack",
            instruction=sentence(
                [clause("stack", phrasing, object=g.args[0], target=g.args[1]) for g in goals]
            ),
            objects=(*loose, *plate),
            goal=goals[0] if len(goals) == 1 else AllOf(all_of=goals),
            physics=draw_physics(ranges, rng),
            cameras=(draw_camera(ranges, rng),),
            light=draw_light(ranges, rng),
            robot_start=draw_start(ranges, rng),
            horizon=STEPS_FIXED + STEPS_PER_LEVEL * len(goals),
            seed=int(rng.integers(2**31)),
            provenance=Provenance(task=f"stack {height} on {'plate' if plate else 'table'}"),
        )

    def roles(self, spec: EnvironmentSpec) -> dict[str, str]:
        """``object`` and ``base`` of the lowest step, ``object 2`` and ``base 2`` of the next one up."""
        roles = {}
        for number, atom in enumerate(placements(spec.goal), start=1):
            ending = "" if number == 1 else f" {number}"
            roles[f"object{ending}"], roles[f"base{ending}"] = atom.args
        return roles

    def stages(self, spec: EnvironmentSpec) -> tuple[Stage, ...]:
        """approach, grasp, lift, transport, place, release of each level, from the bottom up."""
        return tuple(
            stage for part, goal in enumerate(placements(spec.goal)) for stage in transfer_stages(goal, part)
        )


def choose_order(
    items: list[Item], height: int, ranges: FamilyRanges, rng: np.random.Generator
) -> tuple[Item, ...]:
    """Objects of the tower from the bottom up; every neighbouring pair is of an allowed pairing (axis
    instruction),
    and none is much wider than the one below. Raises ValidityError when no order qualifies."""
    allowed = ranges.allowed("instruction", "pairing")
    orders = [
        order
        for order in permutations(items, height)
        if all(allowed.contains(pairing(b.name, a.name)) and _stable(a, b) for a, b in pairwise(order))
    ]
    if not orders:
        raise ValidityError(f"pairings {allowed} give no tower of {height} in this scene")
    return orders[int(rng.integers(len(orders)))]


def _stable(below: Item, above: Item) -> bool:
    return min(below.half_extents[:2]) > 0.6 * max(above.half_extents[:2])


DEFINITION = Stack()
