"""Validation of diagnoses by counterfactual and recreation, many at a time.

Each diagnosis is a ``Validation``: it asks for a few episodes (``wanted``), is told how they ended
(``tell``), and stops as soon as the answer is clear. ``validate`` pools the wishes of all of them into waves,
so that workers are busy. First the counterfactual, with the failed scene repeated beside it, can rule a cause
out for a few episodes; then the recreation compares scenes of the draft program with matched ones by a
group-sequential Fisher test.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from coda_nodes.conductor.counterfactual import judge, repeats
from coda_nodes.conductor.sequential import Design, conditional_power
from coda_nodes.world.config import check_settings, setting
from coda_nodes.world.errors import BudgetError, SimulationError
from coda_nodes.world.spec import EnvironmentSpec
from coda_nodes.world.statistics import fisher_one_sided, newcombe_difference
from coda_nodes.world.validation import ArmCount, ValidationRecord, Verdict

log = logging.getLogger(__name__)

_FEW = 8
"""Episodes per arm below which the recreation neither stops for futility nor refutes."""
Arm = Literal["counterfactual", "factual", "program", "matched"]
COUNTERFACTUAL, RECREATION = "counterfactual", "recreation"
"""Budget purposes."""


class Ended(Protocol):
    """What is read of a finished episode (an EpisodeSummary has it)."""

    @property
    def outcome(self) -> str:
        """``success``, ``failure`` or ``invalid``."""

    @property
    def hash(self) -> str:
        """Content hash of the episode."""


Run = Callable[[Sequence[EnvironmentSpec], str], Sequence[Ended]]
"""Runs one episode per specification for a budget purpose; answers in the same order."""
Spend = Callable[[str, int], None]
"""Books environments for a purpose before they are run; raises BudgetError when they cannot be afforded."""
Draw = Callable[[int], tuple[Sequence[EnvironmentSpec], Sequence[EnvironmentSpec]]]
"""Draws at most that many new scenes of a draft program, and as many matched ones without its operator."""


@dataclass(frozen=True)
class ValidationConfig:
    """How much is spent on one diagnosis, and when it stops."""

    counterfactual_repeats: int = setting(3, "episodes with the cause at its nominal value", low=0, high=24)
    factual_repeats: int = setting(3, "repeats of the failed scene", low=0, high=24)
    start_noise: float = setting(
        0.005, "normal offset of the arm's start joints between repeats", "rad", 0.0, 0.1
    )
    futility: float = setting(
        0.1, "chance of still validating below which the recreation stops", low=0.0, high=1.0
    )
    minimum_effect: float = setting(
        0.3,
        "rise of the failure rate that matters; a cause whose rise is surely smaller is refuted",
        low=0.0,
        high=1.0,
    )
    saturation: float = setting(
        0.75, "failure rate of matched scenes that leaves no room for a rise", low=0.0, high=1.0
    )
    design: Design = field(default=Design())

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class Subject:
    """One diagnosis to validate."""

    diagnosis_id: str
    program_id: str
    factual: EnvironmentSpec
    """The specification of the failed episode."""
    nominal: EnvironmentSpec
    """The same with only the cause at its nominal value."""
    draw: Draw
    """Scenes for the recreation."""
    alone: bool = True
    """Whether the cause is the only value outside train. If not, a scene that still fails with it nominal
    refutes nothing (another value may suffice too), and the recreation decides."""


@dataclass(frozen=True)
class Wish:
    """An episode that a validation wants."""

    arm: Arm
    spec: EnvironmentSpec

    @property
    def purpose(self) -> str:
        """Budget purpose."""
        return COUNTERFACTUAL if self.arm in ("counterfactual", "factual") else RECREATION


class Validation:
    """State of one diagnosis under validation: alternate ``wanted`` and ``tell`` until ``record`` is
    there."""

    def __init__(self, subject: Subject, config: ValidationConfig, rng: np.random.Generator) -> None:
        self.subject, self.config, self._rng = subject, config, rng
        self.record: ValidationRecord | None = None
        self._arms: dict[Arm, ArmCount] = {
            arm: ArmCount() for arm in ("counterfactual", "factual", "program", "matched")
        }
        self._begun = False
        self._looks = 0
        self._p_value: float | None = None
        self._short = False

    def wanted(self) -> list[Wish]:
        """Episodes to run next; empty when the verdict is there."""
        if self.record is not None:
            return []
        if not self._begun:
            self._begun = True
            wishes = self._counterfactual()
            if wishes:
                return wishes
        return self._recreation()

    def tell(self, wishes: Sequence[Wish], ended: Sequence[Ended]) -> None:
        """Count how the wanted episodes ended and decide. Raises SimulationError when some did not come
        back."""
        if len(wishes) != len(ended):
            raise SimulationError(f"{len(wishes)} episodes were asked for, {len(ended)} came back")
        for wish, end in zip(wishes, ended, strict=True):
            self._arms[wish.arm] = _counted(self._arms[wish.arm], end)
        if wishes and wishes[0].purpose == COUNTERFACTUAL:
            self._close(judge(self._arms["counterfactual"], self._arms["factual"], self.subject.alone))
        else:
            self._looks += 1
            self._close(self._judge_recreation())

    def stop(self, reason: str) -> None:
        """End without a verdict, for instance because the budget is spent."""
        self._close(("inconclusive", f"inconclusive: {reason}"))

    def _counterfactual(self) -> list[Wish]:
        config, subject = self.config, self.subject
        nominal = repeats(subject.nominal, config.counterfactual_repeats, config.start_noise, self._rng)
        factual = repeats(subject.factual, config.factual_repeats, config.start_noise, self._rng)
        return [Wish("counterfactual", spec) for spec in nominal] + [
            Wish("factual", spec) for spec in factual
        ]

    def _recreation(self) -> list[Wish]:
        seen = self._arms["program"].total
        count = self.config.design.looks[self._looks] - seen
        program, matched = self.subject.draw(count)
        drawn = min(len(program), len(matched), count)
        self._short = drawn < count
        if not drawn:
            self.stop(f"only {seen} scenes of the program and as many matched ones could be made")
        wishes: list[Wish] = []
        for with_cause, without in zip(program[:drawn], matched[:drawn], strict=True):
            wishes += [Wish("program", with_cause), Wish("matched", without)]
        return wishes

    def _judge_recreation(self) -> tuple[Verdict, str] | None:
        one, two, design = self._arms["program"], self._arms["matched"], self.config.design
        final = self._short or self._looks == len(design.looks)
        if not one.valid or not two.valid:
            return (
                ("inconclusive", "inconclusive: no valid episode of the program's scenes") if final else None
            )
        self._p_value = fisher_one_sided(one.failures, one.valid, two.failures, two.valid)
        counts = _compared(one, two)
        if self._p_value <= design.boundaries[self._looks - 1]:
            return "validated", f"validated: {counts} (p = {self._p_value:.3g})"
        if final or self._futile(one, two):
            return _not_shown(one, two, self.config, counts)
        return None

    def _futile(self, one: ArmCount, two: ArmCount) -> bool:
        """Whether the recreation has little chance left. Stopping early for it cannot raise the error
        rate."""
        n = self.config.design.looks[self._looks - 1]
        if n < _FEW:
            return False
        scaled = (round(one.failure_rate * n), round(two.failure_rate * n))
        return conditional_power(self.config.design, n, *scaled) < self.config.futility

    def _close(self, verdict: tuple[Verdict, str] | None) -> None:
        if verdict is None:
            return
        self.record = ValidationRecord(
            diagnosis_id=self.subject.diagnosis_id,
            program_id=self.subject.program_id,
            verdict=verdict[0],
            words=verdict[1],
            p_value=self._p_value,
            looks=self._looks,
            **self._arms,
        )


def _counted(arm: ArmCount, end: Ended) -> ArmCount:
    key = {"failure": "failures", "success": "successes"}.get(end.outcome, "invalid")
    return arm.model_copy(update={key: getattr(arm, key) + 1, "episodes": (*arm.episodes, end.hash)})


def _compared(one: ArmCount, two: ArmCount) -> str:
    return (
        f"scenes of the program fail {one.failures} of {one.valid}, "
        f"matched scenes without its operator {two.failures} of {two.valid}"
    )


def _not_shown(one: ArmCount, two: ArmCount, config: ValidationConfig, counts: str) -> tuple[Verdict, str]:
    """Why a recreation without significance ended: no room, no effect, or too few episodes to tell."""
    if two.failure_rate >= config.saturation:
        return "inconclusive", f"inconclusive: matched scenes already fail {two.failures} of {two.valid}"
    upper = newcombe_difference(one.failures, one.valid, two.failures, two.valid, confidence=0.8).high
    enough = min(one.valid, two.valid) >= _FEW
    if enough and (upper < config.minimum_effect or one.failure_rate <= two.failure_rate):
        return "refuted", f"refuted: {counts}"
    return "inconclusive", f"inconclusive: {counts}, too close to tell"


def validate(
    subjects: Sequence[Subject],
    run: Run,
    rng: np.random.Generator,
    config: ValidationConfig | None = None,
    spend: Spend | None = None,
) -> list[ValidationRecord]:
    """Validate all subjects in shared waves of episodes; one record each, in order.

    ``spend`` is called before every wave; when it or ``run`` raises BudgetError, what is undecided ends as
    inconclusive.
    """
    parts = rng.spawn(len(subjects)) if subjects else []
    plans = [
        Validation(subject, config or ValidationConfig(), part)
        for subject, part in zip(subjects, parts, strict=True)
    ]
    while waiting := [(plan, wanted) for plan in plans if (wanted := plan.wanted())]:
        _wave(waiting, run, spend)
    return [plan.record for plan in plans if plan.record is not None]


def _wave(waiting: Sequence[tuple[Validation, list[Wish]]], run: Run, spend: Spend | None) -> None:
    """Run what all validations wait for, one call of ``run`` per purpose."""
    for purpose in (COUNTERFACTUAL, RECREATION):
        group = [(plan, wanted) for plan, wanted in waiting if wanted[0].purpose == purpose]
        specs = [wish.spec for _, wanted in group for wish in wanted]
        if not specs:
            continue
        try:
            if spend is not None:
                spend(purpose, len(specs))
            ended = list(run(specs, purpose))
        except BudgetError as error:
            for plan, _ in group:
                plan.stop(f"the budget is spent ({error})")
            continue
        log.info("%s: %d episodes for %d diagnoses", purpose, len(specs), len(group))
        for plan, wanted in group:
            plan.tell(wanted, ended[: len(wanted)])
            ended = ended[len(wanted) :]
