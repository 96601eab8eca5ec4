"""Stages of each kind of goal, and the potential of any scene."""

from __future__ import annotations

from collections.abc import Sequence

from coda_nodes.world.potentials.spec import SUBJECT, TARGET, PotentialSpec, PotentialStage, TaskPotential
from coda_nodes.world.spec import AllOf, AnyOf, Atom, EnvironmentSpec, Goal, Not


def _stage(
    stage: str, measure: str, weight: float, scale: float, close: float, two: bool = False, **parameters: float
) -> PotentialStage:
    return PotentialStage(
        stage=stage, measure=measure, args=(SUBJECT, TARGET) if two else (SUBJECT,), parameters=parameters, weight=weight,
        scale=scale, close=close, gated=measure != "joint",
    )


def _carry(carry: str, place: str) -> tuple[PotentialStage, ...]:
    return (
        _stage("approach", "reach", 0.25, 1.2, 0.1),
        _stage("grasp", "grasp", 0.15, 1.0, 1.0),
        _stage("lift", "lift", 0.1, 0.3, 0.05, True),
        _stage(carry, "transport", 0.3, 1.2, 0.1, True),
        _stage(place, "lower", 0.15, 0.3, 0.05, True),
        _stage("release", "settle", 0.05, 1.0, 1.0),
    )


def _turn(stage: str, held: bool, fraction: float, rising: float) -> tuple[PotentialStage, ...]:
    hold = (_stage("grasp", "grasp", 0.1, 1.0, 1.0),) if held else ()
    distance = 0.02 if held else 0.06
    return (
        _stage("approach", "reach_handle", 0.25, 1.2, 0.1, distance=distance), *hold,
        _stage(stage, "joint", 0.65, 1.0, 0.3, fraction=fraction, rising=rising),
    )


TASKS: dict[str, TaskPotential] = {
    predicate: TaskPotential(predicate=predicate, stages=stages)
    for predicate, stages in {
        "inside": _carry("transport", "place"),
        "on": _carry("transport", "place"),
        "stacked_on": _carry("transport", "place"),
        "in_drawer": _carry("transport", "place"),
        "inserted": _carry("align", "insert"),
        "opened": _turn("open", True, 0.85, 1.0),
        "closed": _turn("close", False, 0.06, -1.0),
        "turned_on": _turn("turn", True, 0.85, 1.0),
        "turned_off": _turn("turn", True, 0.15, -1.0),
        "at": (
            _stage("approach", "reach_behind", 0.3, 1.2, 0.1, True),
            _stage("push", "push", 0.65, 1.2, 0.1, True),
            _stage("release", "settle", 0.05, 1.0, 1.0),
        ),
    }.items()
}
"""Predicate of a goal -> its stages where no diagnosis has refined them."""


def task_potential(predicate: str) -> TaskPotential:
    """Stages of a kind of goal; for one that no family asks for, the progress of the predicate itself."""
    if predicate in TASKS:
        return TASKS[predicate]
    return TaskPotential(predicate=predicate, stages=(_stage("place", "settle", 1.0, 1.0, 1.0),))


def wanted_atoms(goal: Goal) -> list[Atom]:
    """Atoms that must become true, in order; of alternatives the first, of negations none."""
    if isinstance(goal, Atom):
        return [goal]
    if isinstance(goal, Not):
        return []
    parts = goal.all_of if isinstance(goal, AllOf) else goal.any_of[:1] if isinstance(goal, AnyOf) else ()
    return [atom for part in parts for atom in wanted_atoms(part)]


def potential_of(spec: EnvironmentSpec, tasks: Sequence[TaskPotential] = ()) -> PotentialSpec | None:
    """The potential of a scene; ``tasks`` take the place of the default stages of their goals.

    None where the goal asks for nothing to become true (negations alone).
    """
    refined = {task.predicate: task for task in tasks}
    chosen = [(refined.get(atom.predicate) or task_potential(atom.predicate), atom) for atom in wanted_atoms(spec.goal)]
    if not chosen:
        return None
    diagnoses = sorted({key for task, _ in chosen for key in task.diagnoses})
    return PotentialSpec(parts=tuple(task.ground(atom) for task, atom in chosen), diagnoses=tuple(diagnoses))
