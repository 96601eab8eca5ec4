"""The stored outcome of testing a diagnosis in the simulator."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from coda_nodes.world.spec import Data

Verdict = Literal["validated", "refuted", "inconclusive"]
Count = Annotated[int, Field(ge=0)]
Probability = Annotated[float, Field(ge=0, le=1)]


class ArmCount(Data):
    """Episodes of one kind of scene; invalid ones are neither failures nor successes."""

    failures: Count = 0
    successes: Count = 0
    invalid: Count = 0
    episodes: tuple[str, ...] = ()
    """Hashes of the episodes, invalid ones included, in the order they were run."""

    @property
    def valid(self) -> int:
        """Episodes that ended as success or failure."""
        return self.failures + self.successes

    @property
    def total(self) -> int:
        """All episodes, invalid ones included."""
        return self.valid + self.invalid

    @property
    def failure_rate(self) -> float:
        """Failures among valid episodes; NaN when there are none."""
        return self.failures / self.valid if self.valid else float("nan")


class ValidationRecord(Data):
    """Verdict on one diagnosis and the evidence for it.

    ``counterfactual``: the failed scene with only the cause set to its nominal value. ``factual``: the failed
    scene repeated. ``program`` and ``matched``: scenes of the draft program, and the same scenes without its
    operator.
    """

    diagnosis_id: str
    program_id: str = ""
    verdict: Verdict
    words: Annotated[str, Field(min_length=1)]
    """Why, in one sentence with the counts."""
    counterfactual: ArmCount = ArmCount()
    factual: ArmCount = ArmCount()
    program: ArmCount = ArmCount()
    matched: ArmCount = ArmCount()
    p_value: Probability | None = None
    """One-sided Fisher p-value at the last look, None when no recreation was run."""
    looks: Count = 0
    """How often the recreation was tested."""
    alpha: Probability = 0.05
    """Bound on the probability of validating a cause without effect."""

    @property
    def environments(self) -> int:
        """Environments spent."""
        return self.counterfactual.total + self.factual.total + self.program.total + self.matched.total
