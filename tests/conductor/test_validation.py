"""Validation of diagnoses: error rate, power, verdicts, pooling and budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.stats import fisher_exact

from coda_nodes.conductor.counterfactual import repeats
from coda_nodes.conductor.sequential import Design, conditional_power, rejection_probability
from coda_nodes.conductor.validation import Subject, Validation, ValidationConfig, validate
from coda_nodes.world.errors import BudgetError, ConfigError, SimulationError
from coda_nodes.world.spec import Atom, EnvironmentSpec, ObjectSpec, Pose, RobotStart

RECREATION_ONLY = ValidationConfig(counterfactual_repeats=0, factual_repeats=0)


def scene(seed: int) -> EnvironmentSpec:
    """A small scene; its seed says which arm it belongs to."""
    cube = ObjectSpec(
        name="red cube",
        shape="box",
        role="object",
        half_extents=(0.02, 0.02, 0.02),
        color="red",
        pose=Pose.planar(0.5, 0.0, 0.02),
    )
    return EnvironmentSpec(
        family="pick_place",
        instruction="lift the red cube",
        objects=(cube,),
        seed=seed,
        goal=Atom(predicate="lifted", args=("red cube",)),
        robot_start=RobotStart(joint_positions=(0.0,) * 7),
    )


NOMINAL, FACTUAL, PROGRAM, MATCHED = (scene(seed) for seed in range(4))


@dataclass(frozen=True)
class End:
    outcome: str
    hash: str = "0123456789abcdef"


class Bernoulli:
    """Stands for a simulator: a scene fails with the probability of its arm; some episodes are invalid."""

    def __init__(self, rates: Sequence[float], seed: int = 0, invalid: float = 0.0) -> None:
        self.rates, self.rng, self.invalid = rates, np.random.default_rng(seed), invalid
        self.calls: list[tuple[str, int]] = []

    def __call__(self, specs: Sequence[EnvironmentSpec], purpose: str) -> list[End]:
        self.calls.append((purpose, len(specs)))
        return [self._end(spec) for spec in specs]

    def _end(self, spec: EnvironmentSpec) -> End:
        if self.rng.random() < self.invalid:
            return End("invalid")
        return End("failure" if self.rng.random() < self.rates[spec.seed] else "success")


def subject(number: int = 0, scenes: int = 24) -> Subject:
    left = [scenes]

    def draw(count: int) -> tuple[list[EnvironmentSpec], list[EnvironmentSpec]]:
        count = min(count, left[0])
        left[0] -= count
        return [PROGRAM] * count, [MATCHED] * count

    return Subject(f"diagnosis-{number}", f"program-{number}", FACTUAL, NOMINAL, draw)


def verdicts(run: Bernoulli, count: int, config: ValidationConfig = RECREATION_ONLY) -> Counter[str]:
    records = validate([subject(i) for i in range(count)], run, np.random.default_rng(1), config)
    assert all(r.program.total <= 24 and r.matched.total <= 24 for r in records)
    return Counter(record.verdict for record in records)


def test_the_default_boundaries_keep_the_error_rate_below_alpha_for_every_common_failure_rate() -> None:
    rates = np.linspace(0.005, 0.995, 199)
    assert max(rejection_probability(Design(), rate, rate) for rate in rates) <= 0.05


@pytest.mark.parametrize(("rate", "other"), [(0.5, 0.5), (0.7, 0.2), (0.9, 0.6)])
def test_exact_rejection_probability_agrees_with_simulated_sequential_tests(
    rate: float, other: float
) -> None:
    design, rng, trials = Design(), np.random.default_rng(0), 1500
    rejected = 0
    for _ in range(trials):
        one, two = rng.random(24) < rate, rng.random(24) < other
        for look, boundary in zip(design.looks, design.boundaries, strict=True):
            a, b = int(one[:look].sum()), int(two[:look].sum())
            if fisher_exact([[a, look - a], [b, look - b]], alternative="greater").pvalue <= boundary:
                rejected += 1
                break
    expected = rejection_probability(design, rate, other)
    assert rejected / trials == pytest.approx(expected, abs=4 * np.sqrt(max(expected, 0.02) / trials))


def test_conditional_power_grows_with_the_difference_seen() -> None:
    powers = [conditional_power(Design(), 8, failures, 2) for failures in (2, 4, 6)]
    assert powers == sorted(powers) and powers[0] < 0.1 < powers[2]


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("invalid", [0.0, 0.2])
def test_false_validation_without_effect_stays_below_alpha(rate: float, invalid: float) -> None:
    count = 700
    validated = verdicts(Bernoulli([0, 0, rate, rate], seed=7, invalid=invalid), count)["validated"]
    # 0.05 plus two standard errors of a proportion of 0.05.
    assert validated / count <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / count)


def test_a_strong_cause_is_validated_and_saves_episodes() -> None:
    run = Bernoulli([0.2, 0.9, 0.85, 0.2], seed=3)
    records = validate([subject(i) for i in range(200)], run, np.random.default_rng(0))
    assert sum(record.verdict == "validated" for record in records) >= 180
    assert np.mean([record.environments for record in records]) < 32


def test_a_cause_without_effect_is_refuted_for_few_episodes() -> None:
    records = validate(
        [subject(i) for i in range(200)], Bernoulli([0.9, 0.9, 0.2, 0.2], seed=3), np.random.default_rng(0)
    )
    counts = Counter(record.verdict for record in records)
    assert counts["refuted"] > 150 and counts["validated"] <= 10
    assert np.mean([record.environments for record in records]) < 20


def test_matched_scenes_that_nearly_always_fail_leave_it_open_in_words() -> None:
    (record,) = validate([subject()], Bernoulli([0.0, 1.0, 1.0, 1.0]), np.random.default_rng(0))
    assert record.verdict == "inconclusive"
    assert (
        record.words
        == f"inconclusive: matched scenes already fail {record.matched.failures} of {record.matched.valid}"
    )
    assert record.matched.failures >= 8


def test_a_failure_that_does_not_repeat_costs_only_the_counterfactual() -> None:
    (record,) = validate([subject()], Bernoulli([0.0, 0.0, 1.0, 0.0]), np.random.default_rng(0))
    assert record.verdict == "inconclusive" and "does not repeat, 3 of 3" in record.words
    assert record.environments == 6 and record.p_value is None


def test_a_scene_that_still_fails_with_the_cause_nominal_refutes_it() -> None:
    (record,) = validate([subject()], Bernoulli([1.0, 1.0, 1.0, 0.0]), np.random.default_rng(0))
    assert record.verdict == "refuted" and "still fails 3 of 3" in record.words and record.environments == 6


def test_where_other_values_are_unusual_too_the_recreation_decides() -> None:
    both = replace(subject(), alone=False)
    (record,) = validate([both], Bernoulli([1.0, 1.0, 1.0, 0.0]), np.random.default_rng(0))
    assert record.counterfactual.failures == 3 and record.verdict == "validated"


def test_certain_cause_is_validated_at_the_first_look() -> None:
    (record,) = validate([subject()], Bernoulli([0.0, 1.0, 1.0, 0.0]), np.random.default_rng(0))
    assert record.verdict == "validated" and record.looks == 1
    assert (record.program.failures, record.matched.successes) == (4, 4)
    assert record.p_value == pytest.approx(1 / 70)
    assert len(record.program.episodes) == 4


def test_invalid_episodes_are_neither_failures_nor_successes() -> None:
    (record,) = validate([subject()], Bernoulli([0.0, 1.0, 1.0, 0.0], invalid=1.0), np.random.default_rng(0))
    assert record.verdict == "inconclusive" and record.factual.invalid == 3 and record.factual.valid == 0
    (record,) = validate(
        [subject()], Bernoulli([0, 1, 1, 0], invalid=1.0), np.random.default_rng(0), RECREATION_ONLY
    )
    assert record.verdict == "inconclusive" and record.program.invalid == 24 and record.program.valid == 0


def test_waves_pool_the_episodes_of_all_diagnoses() -> None:
    run = Bernoulli([0.0, 1.0, 1.0, 0.0])
    validate([subject(i) for i in range(5)], run, np.random.default_rng(0))
    assert run.calls == [("counterfactual", 30), ("recreation", 40)]


def test_a_spent_budget_ends_as_inconclusive_and_runs_nothing_more() -> None:
    left = [35]

    def spend(purpose: str, environments: int) -> None:
        if environments > left[0]:
            raise BudgetError(f"{environments} environments asked for {purpose}, {left[0]} left")
        left[0] -= environments

    run = Bernoulli([0.0, 1.0, 1.0, 0.0])
    records = validate([subject(i) for i in range(5)], run, np.random.default_rng(0), spend=spend)
    assert run.calls == [("counterfactual", 30)]
    assert all(
        r.verdict == "inconclusive" and "budget is spent" in r.words and r.environments == 6 for r in records
    )


def test_too_few_scenes_end_the_recreation_with_what_there_is() -> None:
    (record,) = validate(
        [subject(scenes=2)], Bernoulli([0, 1, 1, 0]), np.random.default_rng(0), RECREATION_ONLY
    )
    assert record.verdict == "inconclusive" and record.program.total == 2
    (record,) = validate(
        [subject(scenes=0)], Bernoulli([0, 1, 1, 0]), np.random.default_rng(0), RECREATION_ONLY
    )
    assert record.verdict == "inconclusive" and "only 0 scenes" in record.words


def test_no_subject_gives_no_record() -> None:
    assert validate([], Bernoulli([0, 0, 0, 0]), np.random.default_rng(0)) == []


def test_episodes_that_do_not_come_back_are_an_error() -> None:
    validation = Validation(subject(), ValidationConfig(), np.random.default_rng(0))
    wishes = validation.wanted()
    with pytest.raises(SimulationError, match="6 episodes were asked for, 5 came back"):
        validation.tell(wishes, [End("success")] * 5)


def test_repeats_differ_only_in_the_start_and_are_reproducible() -> None:
    first, second = (repeats(FACTUAL, 3, 0.005, np.random.default_rng(4)) for _ in range(2))
    assert first == second and len({spec.content_hash for spec in first}) == 3
    for spec in first:
        assert spec.revise(robot_start=FACTUAL.robot_start) == FACTUAL
        assert np.abs(spec.robot_start.joint_positions).max() < 0.03


@pytest.mark.parametrize(
    ("looks", "boundaries"), [((), ()), ((4, 4), (0.01, 0.02)), ((4,), (0.01, 0.02)), ((4,), (1.5,))]
)
def test_a_design_that_is_none_is_rejected(looks: tuple[int, ...], boundaries: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError):
        Design(looks, boundaries)
