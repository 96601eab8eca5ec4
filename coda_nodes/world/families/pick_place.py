"""pick_place: a named object in or on a named receptacle; several objects and receptacles are there to
choose from."""

from __future__ import annotations

import numpy as np

from coda_nodes.world.errors import ValidityError
from coda_nodes.world.families.base import (
    RECEPTACLES,
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
from coda_nodes.world.instructions import clause, sentence
from coda_nodes.world.ranges import AXES, FamilyRanges
from coda_nodes.world.spec import AllOf, Atom, EnvironmentSpec, Goal, Provenance, atoms

STEPS_FIXED = 60
"""Control steps of the time limit that do not depend on the task."""
STEPS_PER_PART = 150
"""Control steps allowed for each object to be moved."""
MOST_MOVABLE = 5
"""Movable things a scene may hold."""
PLACEMENTS = ("inside", "on", "stacked_on")
"""Predicates that ask for one thing to be put in or on another."""
PREDICATE = {"bin": "inside", "plate": "on"}
"""What must hold between an object and each kind of receptacle."""


class PickPlace:
    """Definition of the family; see the module."""

    name = "pick_place"
    axes = AXES

    def sample(self, ranges: FamilyRanges, rng: np.random.Generator) -> EnvironmentSpec:
        """Draw a scene. Raises ValidityError when the ranges leave no room for it."""
        return until_valid(lambda: self._sample(ranges, rng))

    def _sample(self, ranges: FamilyRanges, rng: np.random.Generator) -> EnvironmentSpec:
        steps = int(ranges.draw("composition", "steps", rng))
        count = min(steps + int(ranges.draw("clutter", "distractors", rng)), MOST_MOVABLE)
        items = draw_items(ranges, count, rng)
        places = draw_receptacles(ranges, int(ranges.draw("clutter", "receptacles", rng)), rng)
        parts = choose_parts(items, places, steps, ranges, rng)
        gap = ranges.draw("clutter", "gap", rng)
        layout = Layout(rng)
        fixed = [receptacle(name, layout, gap, ranges, rng, extra=i > 1) for i, name in enumerate(places)]
        loose = place_items(items, [item for item, _ in parts], layout, gap, ranges)
        goals = tuple(
            Atom(predicate=PREDICATE[place.split()[-1]], args=(item.name, place)) for item, place in parts
        )
        phrasing = ranges.draw("instruction", "phrasing", rng)
        return EnvironmentSpec(
            family="pick_place",
            instruction=sentence(
                [clause("pick_place", phrasing, object=i.name, target=place) for i, place in parts]
            ),
            objects=(*loose, *fixed),
            goal=goals[0] if steps == 1 else AllOf(all_of=goals),
            physics=draw_physics(ranges, rng),
            cameras=(draw_camera(ranges, rng),),
            light=draw_light(ranges, rng),
            robot_start=draw_start(ranges, rng),
            horizon=STEPS_FIXED + STEPS_PER_PART * steps,
            seed=int(rng.integers(2**31)),
            provenance=Provenance(task=f"pick_place {steps}"),
        )

    def roles(self, spec: EnvironmentSpec) -> dict[str, str]:
        """``object`` and ``receptacle`` of the first step, ``object 2`` ... of further ones."""
        roles = {}
        for number, atom in enumerate(placements(spec.goal), start=1):
            ending = "" if number == 1 else f" {number}"
            roles[f"object{ending}"], roles[f"receptacle{ending}"] = atom.args
        return roles

    def stages(self, spec: EnvironmentSpec) -> tuple[Stage, ...]:
        """approach, grasp, lift, transport, place, release of each step."""
        return tuple(
            stage for part, goal in enumerate(placements(spec.goal)) for stage in transfer_stages(goal, part)
        )


def placements(goal: Goal) -> list[Atom]:
    """Atoms of a goal that put one thing in or on another; goals that people
    bring may hold others besides."""
    return [atom for atom in atoms(goal) if atom.predicate in PLACEMENTS]


def transfer_stages(goal: Atom, part: int) -> tuple[Stage, ...]:
    """Stages that bring the first argument of ``goal`` to where it holds with the second."""
    subject, target = goal.args
    placed = goal.model_copy(update={"parameters": {**goal.parameters, "release": 0.0}})
    return (
        Stage("approach", Atom(predicate="near", args=(subject,)), part),
        Stage("grasp", Atom(predicate="grasped", args=(subject,)), part),
        Stage("lift", Atom(predicate="lifted", args=(subject,)), part),
        Stage("transport", Atom(predicate="above", args=(subject, target)), part),
        Stage("place", placed, part),
        Stage("release", goal, part),
    )


def draw_receptacles(ranges: FamilyRanges, count: int, rng: np.random.Generator) -> list[str]:
    """Names of ``count`` receptacles (axis objects: receptacle): at most two bins and one plate.

    Receptacles of the general list fill up where the ranges name too few. Raises ValidityError beyond three.
    """
    values = list(ranges.allowed("objects", "receptacle").values)
    order = [values[i] for i in rng.permutation(len(values))] + [
        name for name in RECEPTACLES if name not in values
    ]
    room, chosen = {"bin": 2, "plate": 1}, []
    for name in order:
        if len(chosen) < count and room[name.split()[-1]] > 0:
            room[name.split()[-1]] -= 1
            chosen.append(name)
    if len(chosen) < count:
        raise ValidityError(f"{count} receptacles asked for, a scene holds at most two bins and one plate")
    return chosen


def choose_parts(
    items: list[Item], places: list[str], steps: int, ranges: FamilyRanges, rng: np.random.Generator
) -> list[tuple[Item, str]]:
    """Which object goes where (axis instruction: pairing); a plate takes one, a bin two.

    Raises ValidityError when the allowed pairings do not give enough.
    """
    allowed = ranges.allowed("instruction", "pairing")
    pairs = [
        (item, place) for item in items for place in places if allowed.contains(pairing(item.name, place))
    ]
    room = {place: 1 if place.endswith("plate") else 2 for place in places}
    parts: list[tuple[Item, str]] = []
    for item, place in (pairs[i] for i in rng.permutation(len(pairs))):
        if len(parts) < steps and room[place] > 0 and all(item != other for other, _ in parts):
            room[place] -= 1
            parts.append((item, place))
    if len(parts) < steps:
        raise ValidityError(f"pairings {allowed} give {len(parts)} of {steps} steps in this scene")
    return parts


DEFINITION = PickPlace()
