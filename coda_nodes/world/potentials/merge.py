"""Several potentials of one task into one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from coda_nodes.world.diagnosis import STAGES
from coda_nodes.world.errors import ProgramError
from coda_nodes.world.plain import canonical_json
from coda_nodes.world.potentials.spec import PotentialStage, TaskPotential
from coda_nodes.world.potentials.tasks import task_potential


def merge(potentials: Sequence[TaskPotential]) -> list[TaskPotential]:
    """One potential per kind of goal, whatever the order they come in.

    Of each stage all differing measures are kept once, in ORDER; of equal ones (measure, arguments, parameters) the heaviest,
    with the largest scale and smoothing; stages in the order of the task's default.

    Raises:
        ProgramError: nothing to merge.
    """
    if not potentials:
        raise ProgramError("no potentials to merge: expected at least one")
    groups: dict[str, list[TaskPotential]] = defaultdict(list)
    for potential in potentials:
        groups[potential.predicate].append(potential)
    return [_merged(predicate, groups[predicate]) for predicate in sorted(groups)]


ORDER = (
    "hand_open", "over_object", "reach", "reach_handle", "reach_behind", "grasp", "lift", "offset", "transport", "level", "lower",
    "joint", "push", "settle",
)
"""Order of measures within a stage."""


def _merged(predicate: str, group: list[TaskPotential]) -> TaskPotential:
    order = list(dict.fromkeys([s.stage for s in task_potential(predicate).stages] + list(STAGES)))
    best: dict[str, PotentialStage] = {}
    for stage in (stage for task in group for stage in task.stages):
        key = canonical_json([stage.stage, stage.measure, stage.args, stage.parameters])
        old = best.get(key, stage)
        best[key] = stage.model_copy(
            update={name: max(getattr(old, name), getattr(stage, name)) for name in ("weight", "scale", "close")}
        )
    keys = sorted(best, key=lambda k: (order.index(best[k].stage), ORDER.index(best[k].measure), k))
    diagnoses = sorted({key for task in group for key in task.diagnoses})
    return TaskPotential(predicate=predicate, stages=tuple(best[key] for key in keys), diagnoses=tuple(diagnoses))
