"""Potentials as data: ordered stages, each one measure of the library with its weight and smoothing."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from coda_nodes.world.diagnosis import STAGES
from coda_nodes.world.errors import ProgramError, unknown
from coda_nodes.world.plain import data_hash, read_model
from coda_nodes.world.potentials.library import check_measure
from coda_nodes.world.spec import Atom, Data, Finite, Name, Positive

POTENTIAL_VERSION = 1
SUBJECT, TARGET = "subject", "target"
"""Stand in a task's potential for the first and second argument of its goal."""


class PotentialStage(Data):
    """One stage: what ``measure`` says is missing, in the measure's unit.

    ``args``: entities of the scene. ``weight``: relative to the other stages of the part. ``scale``: what is missing where
    nothing is done. ``close``: what is missing where the stages after this one begin to count.
    """

    stage: Name
    measure: Name
    args: tuple[Name, ...]
    parameters: dict[str, Finite] = {}
    weight: Positive = 1.0
    scale: Positive = 1.2
    close: Positive = 0.1
    gated: bool = True
    """Whether it counts only as far as the stages before it are done; not so what stays done when the hand lets go."""

    @field_validator("stage")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in STAGES:
            raise ValueError(unknown("stage", value, STAGES))
        return value

    def model_post_init(self, context: Any, /) -> None:
        """Refuse measures, parameters and numbers of arguments that do not exist. Raises ValueError."""
        check_measure(self.measure, len(self.args), self.parameters)

    @property
    def words(self) -> str:
        """``grasp: grasp(red cube)``."""
        values = ", ".join(f"{key}={value:g}" for key, value in sorted(self.parameters.items()))
        return f"{self.stage}: {self.measure}({', '.join(self.args)}{'; ' + values if values else ''})"


Stages = Annotated[tuple[PotentialStage, ...], Field(min_length=1, max_length=20)]


class PotentialPart(Data):
    """One part of a goal and the stages on the way to it; entities by name."""

    goal: Atom
    stages: Stages


class PotentialSpec(Data):
    """The potential of one scene: parts in order, worth the same each. ``diagnoses``: ids of what it was refined by."""

    schema_version: Literal[1] = POTENTIAL_VERSION
    parts: Annotated[tuple[PotentialPart, ...], Field(min_length=1, max_length=10)]
    diagnoses: tuple[str, ...] = ()

    @property
    def content_hash(self) -> str:
        """16 hex digits."""
        return data_hash(self.model_dump(mode="json"))

    @property
    def stages(self) -> tuple[PotentialStage, ...]:
        """Stages of all parts in order."""
        return tuple(stage for part in self.parts for stage in part.stages)


class TaskPotential(Data):
    """The stages of every part whose goal is ``predicate``; arguments are ``subject`` and ``target``, so that it holds for
    all scenes of the task, whatever its things are called."""

    schema_version: Literal[1] = POTENTIAL_VERSION
    predicate: Name
    stages: Stages
    diagnoses: tuple[str, ...] = ()

    @field_validator("stages")
    @classmethod
    def _placeholders(cls, value: tuple[PotentialStage, ...]) -> tuple[PotentialStage, ...]:
        for stage in value:
            for arg in stage.args:
                if arg not in (SUBJECT, TARGET):
                    raise ValueError(unknown("argument of a task's stage", arg, (SUBJECT, TARGET)))
        return value

    def ground(self, goal: Atom) -> PotentialPart:
        """The stages of a part with ``goal``, its entities in place of subject and target."""
        names = dict(zip((SUBJECT, TARGET), goal.args, strict=False))
        return PotentialPart(goal=goal, stages=tuple(
            stage.model_copy(update={"args": tuple(names[arg] for arg in stage.args)}) for stage in self.stages
        ))


def read_potential(data: Any) -> PotentialSpec:
    """Validate a mapping or JSON text. Raises ProgramError naming the first wrong field."""
    return read_model(PotentialSpec, data, ProgramError, "potential")


def read_task_potential(data: Any) -> TaskPotential:
    """Validate a mapping or JSON text. Raises ProgramError naming the first wrong field."""
    return read_model(TaskPotential, data, ProgramError, "potential of a task")
