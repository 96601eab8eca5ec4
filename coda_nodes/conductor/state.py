"""What the loop carries from one round to the next, as plain data."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from coda_nodes.conductor.lessons import Lesson
from coda_nodes.conductor.ports import DatasetItem
from coda_nodes.world.programs import GenerationProgram
from coda_nodes.world.progress import Measurement
from coda_nodes.world.records import Count, DiagnosisCounts


class Level(BaseModel):
    """A scene kept for replay or mutation, and what is known of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    environment: str
    """Content hash."""
    family: str
    episode: str
    """The policy's last episode there; it holds the scene."""
    solved: bool
    """How that episode ended."""
    solvable: bool
    """Whether the expert solves it, or the policy did."""
    score: float
    """Learning potential, by the last episode."""
    round: int
    """When it was last played."""


class LoopState(BaseModel):
    """State after a finished round."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    checkpoint: str
    first_checkpoint: str
    programs: list[GenerationProgram] = []
    """Compiled from validated diagnoses; retired ones stay listed."""
    dataset: list[Lesson] = []
    """Episodes to learn from."""
    dev: dict[str, Count]
    train: dict[str, Count]
    diagnoses: DiagnosisCounts = DiagnosisCounts()
    measurements: list[Measurement] = []
    """Success per program and round, oldest first."""
    levels: list[Level] = []
    """Of strategies that replay or edit scenes."""
    scenes: dict[str, str]
    """``dev`` and ``train`` -> hash of the fixed scenes measured on."""
    train_outcomes: list[str]
    """Outcome of the checkpoint in each of the train scenes, in order."""

    def items(self) -> list[DatasetItem]:
        """The data set as the learner wants it."""
        return [DatasetItem(lesson.episode, lesson.weight) for lesson in self.dataset]

    def active(self, family: str) -> list[GenerationProgram]:
        """Programs of a family that still generate: validated ones, and solved ones in rehearsal."""
        return [item for item in self.programs if item.family == family and item.state in ("validated", "rehearsal")]

    def history(self, program_id: str) -> list[Measurement]:
        """Measurements of one program, oldest first."""
        return [item for item in self.measurements if item.program_id == program_id]
