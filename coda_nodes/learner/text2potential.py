"""From a diagnosis in words to the stages of its task, grounded against the scene (``docs/potentials.md``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from coda_nodes.learner.wording import Similarity, Statement, check_things, statements, things
from coda_nodes.world.diagnosis import SCENE, Diagnosis, check_diagnosis
from coda_nodes.world.errors import DiagnosisError, unknown
from coda_nodes.world.potentials import (
    MEASURES,
    PotentialSpec,
    PotentialStage,
    TaskPotential,
    merge,
    potential_of,
    task_potential,
)
from coda_nodes.world.potentials.library import PLACEMENTS
from coda_nodes.world.potentials.merge import ORDER
from coda_nodes.world.potentials.spec import SUBJECT, TARGET
from coda_nodes.world.potentials.tasks import wanted_atoms
from coda_nodes.world.spec import Atom, EnvironmentSpec

HEAVIER = 2.0
"""Weight of the failed stage relative to its default; its sub-stages share it evenly."""
CLOSEST, FARTHEST = 0.01, 0.3
"""Bounds of the smoothing that an observed error sets."""
SUBSTAGES: dict[str, tuple[tuple[str, dict[str, float]], ...]] = {
    "approach": (("over_object", {}),),
    "grasp": (("over_object", {}), ("reach", {"distance": 0.005})),
    "lift": (("lift", {"clearance": 0.02}),),
    "transport": (("lift", {"clearance": 0.03}),),
    "place": (("level", {}),),
    "align": (("lift", {"clearance": 0.01}), ("level", {"tilt": 0.1})),
    "insert": (("level", {"tilt": 0.1}),),
    "push": (("reach_behind", {"distance": 0.03}),),
}
"""Failed stage -> what is asked for before its own measure."""
CAREFUL = ("collision", "knocked_over")
"""Failure modes after which things are passed higher up."""
CLEAR = 0.05
"""How much higher [m]."""


class Text2Potential:
    """Compiles diagnoses; ``similarity`` of sentences is asked only for words that are not names of the scene."""

    def __init__(self, similarity: Similarity) -> None:
        self._similarity = similarity

    def task(self, diagnosis: Diagnosis, spec: EnvironmentSpec) -> TaskPotential:
        """The stages of the failed part's kind of goal, the failed stage refined and heavier.

        Raises:
            DiagnosisError: it names a stage, thing, unit or frame that does not exist here; the message quotes the words.
        """
        check_diagnosis(diagnosis, spec)
        words = diagnosis.text.replace(diagnosis.cause.sentence, "") if diagnosis.cause else diagnosis.text
        mentioned = things(words, spec, self._similarity)
        check_things(words, spec, self._similarity)
        goal = _failed_part(diagnosis, spec, mentioned)
        said = statements(words, spec, self._similarity)
        stages = _refined(diagnosis, goal, said)
        return TaskPotential(predicate=goal.predicate, stages=stages, diagnoses=(diagnosis.diagnosis_id,))

    def potential(self, diagnosis: Diagnosis, spec: EnvironmentSpec) -> PotentialSpec:
        """The potential of the scene with the failed stage refined. Raises DiagnosisError as ``task`` does."""
        made = potential_of(spec, [self.task(diagnosis, spec)])
        assert made is not None  # the failed part is one
        return made

    def merged(self, diagnosed: Iterable[tuple[Diagnosis, EnvironmentSpec]]) -> list[TaskPotential]:
        """One potential per kind of goal from diagnoses and their scenes. Raises DiagnosisError, and ProgramError for none."""
        return merge([self.task(diagnosis, spec) for diagnosis, spec in diagnosed])


def _failed_part(diagnosis: Diagnosis, spec: EnvironmentSpec, mentioned: Sequence[str]) -> Atom:
    """The first part that has the stage, of those the one most of whose things are named."""
    goals = wanted_atoms(spec.goal)
    able = [goal for goal in goals if diagnosis.stage in (s.stage for s in task_potential(goal.predicate).stages)]
    if not able:
        known = dict.fromkeys(s.stage for goal in goals for s in task_potential(goal.predicate).stages)
        raise DiagnosisError(f"{unknown('stage of this task', diagnosis.stage, known)} (diagnosis {diagnosis.text[:80]!r})")
    named = {*mentioned, *([diagnosis.cause.object] if diagnosis.cause and diagnosis.cause.object != SCENE else [])}
    return max(able, key=lambda goal: len(named & set(goal.args)))


def _refined(diagnosis: Diagnosis, goal: Atom, said: Sequence[Statement]) -> tuple[PotentialStage, ...]:
    stages = []
    for stage in task_potential(goal.predicate).stages:
        if stage.stage != diagnosis.stage:
            stages.append(stage)
            continue
        group = [*_substages(diagnosis, goal, stage), *_aims(said, goal, stage), stage]
        distinct = {(s.measure, tuple(s.parameters.items())): s for s in group}.values()
        ordered = sorted(distinct, key=lambda s: ORDER.index(s.measure))
        share = HEAVIER * stage.weight / len(ordered)
        stages += [s.model_copy(update={"weight": share, **_smoothing(s, said)}) for s in ordered]
    return tuple(stages)


def _substages(diagnosis: Diagnosis, goal: Atom, stage: PotentialStage) -> list[PotentialStage]:
    if stage.measure in ("reach_handle", "reach_behind", "settle"):
        return []
    if stage.measure == "joint":
        start = 0.0 if stage.parameters["rising"] > 0 else 1.0
        half = {**stage.parameters, "fraction": (start + stage.parameters["fraction"]) / 2}
        return [stage.model_copy(update={"parameters": half})]
    wanted = list(SUBSTAGES.get(stage.stage, ()))
    if goal.predicate not in PLACEMENTS and stage.stage == "grasp":
        wanted = []
    made = [_sub(stage, measure, parameters) for measure, parameters in wanted]
    if diagnosis.failure_mode in CAREFUL and goal.predicate in PLACEMENTS:
        key, measure = ("height", "over_object") if stage.stage in ("approach", "grasp") else ("clearance", "lift")
        made = [s for s in made if s.measure != measure] + [_sub(stage, measure, {key: CLEAR})]
    return made


def _sub(stage: PotentialStage, measure: str, parameters: dict[str, float]) -> PotentialStage:
    args = (SUBJECT, TARGET)[: MEASURES[measure].arity]
    scale, close = {"share": (1.0, 1.0), "rad": (1.5, 0.3), "flag": (1.0, 1.0)}.get(MEASURES[measure].unit, (1.2, 0.1))
    return PotentialStage(stage=stage.stage, measure=measure, args=args, parameters=parameters, scale=scale, close=close)


def _aims(said: Sequence[Statement], goal: Atom, stage: PotentialStage) -> list[PotentialStage]:
    """Sub-stages for what the text says should be: a height over a thing, a place beside it, a tilt."""
    made = []
    for item in (item for item in said if item.aim):
        if item.unit == "rad":
            made.append(_sub(stage, "level", {"tilt": item.value}))
        elif item.axis == "z" and item.reference == goal.args[0]:
            made.append(_sub(stage, "over_object", {"height": item.value}))
        elif goal.predicate in PLACEMENTS and item.reference == goal.args[1] and item.axis == "z":
            made.append(_sub(stage, "lift", {"clearance": item.value}))
        elif goal.predicate in PLACEMENTS and item.reference == goal.args[1] and item.axis:
            made.append(_sub(stage, "offset", {item.axis: item.value, "distance": 0.03}))
        else:
            things = " and ".join(goal.args)
            raise DiagnosisError(f"{item.words!r}: cannot tell what to reach; expected a height over {things} or a side of "
                                 "the second, such as '3 cm above the ...' or '10 cm left of the ...'")
    return made


def _smoothing(stage: PotentialStage, said: Sequence[Statement]) -> dict[str, float]:
    """An error that the text measured is the width over which the stage is smoothed."""
    sizes = [abs(item.value) for item in said if not item.aim and item.unit == MEASURES[stage.measure].unit]
    return {"close": min(max(max(sizes), CLOSEST), FARTHEST)} if sizes else {}
