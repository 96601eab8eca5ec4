"""Records a run leaves for people and for later analysis: rounds, programs, failures, summary."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Record(BaseModel):
    """Immutable record that rejects unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Count(Record):
    """Successes of episodes; invalid episodes are in neither number."""

    successes: int = Field(ge=0)
    episodes: int = Field(ge=0)

    @property
    def rate(self) -> float:
        """Share of successes, NaN without episodes."""
        return self.successes / self.episodes if self.episodes else float("nan")

    def plus(self, other: Count) -> Count:
        """Pooled counts."""
        return Count(successes=self.successes + other.successes, episodes=self.episodes + other.episodes)


class BudgetRecord(Record):
    """Spent so far: resets to a specification, and simulated control steps (branches included)."""

    environments: int = 0
    control_steps: int = 0
    by_purpose: dict[str, tuple[int, int]] = {}
    """Purpose -> (environments, control steps)."""


class DiagnosisCounts(Record):
    """How many diagnoses were made and what validation said."""

    made: int = 0
    validated: int = 0
    refuted: int = 0
    inconclusive: int = 0


class ProgramRecord(Record):
    """A generation program as a round saw it."""

    program_id: str
    family: str
    text: str
    """What it generates, in words."""
    state: Literal["exploration", "draft", "validated", "rehearsal", "retired"]
    parent: str = ""
    diagnosis_id: str = ""
    environments: int = 0
    before: Count = Count(successes=0, episodes=0)
    after: Count = Count(successes=0, episodes=0)
    reason: str = ""
    """Why it was retired, refined or kept, in words."""


class FailureRecord(Record):
    """A failure shown in the gallery."""

    episode: str
    family: str
    instruction: str
    diagnosis_id: str
    diagnosis: str
    """The diagnosis in the grammar."""
    verdict: str = ""
    """What validation said, in words; empty when it was not validated."""
    program_id: str = ""
    solved_episode: str = ""
    """An episode of the same environment that a later checkpoint solved."""


class FamilyRecord(Record):
    """One family in one round."""

    family: str
    dev_before: Count
    dev_after: Count
    train_before: Count
    train_after: Count
    rollouts: Count
    diagnoses: DiagnosisCounts
    generated: int = 0
    rejected: int = 0
    rejections: dict[str, int] = {}
    supervision: int = 0
    """Demonstrations or corrections added."""
    text: str = ""
    """What was diagnosed, validated and generated, in one line."""


class RoundRecord(Record):
    """Everything a round leaves. Round 0 is imitation on the train split."""

    round: int
    families: dict[str, FamilyRecord]
    programs: list[ProgramRecord] = []
    failures: list[FailureRecord] = []
    checkpoint: str
    candidate: str = ""
    accepted: bool = True
    gate: str = ""
    """The gate's decision in a sentence."""
    budget: BudgetRecord = BudgetRecord()
    seconds: dict[str, float] = {}
    """Wall time by phase [s]."""


class FamilySummary(Record):
    """Success of one family before and after the run."""

    held_out_before: Count | None = None
    held_out_after: Count | None = None
    dev_before: Count
    dev_after: Count


class Summary(Record):
    """``summary.json`` of a run."""

    regime: str
    critic: str
    seed: int
    families: dict[str, FamilySummary]
    budget: BudgetRecord
    diagnoses: DiagnosisCounts
    programs: int
    rounds: int
    seconds: float
    checkpoints: dict[str, str]
    """``before`` and ``after`` -> checkpoint hash."""
    versions: dict[str, str] = {}
    held_out_halves: dict[str, dict[str, Count]] = {}
    """``before`` / ``after`` -> half (near, far) -> counts."""
    held_out_difference: tuple[float, float, float] | None = None
    """Pooled held-out success after minus before: mean, low, high (95 %, paired bootstrap over specifications)."""
