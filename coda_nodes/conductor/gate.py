"""The improvement gate: a candidate replaces the current policy only where it is not worse beyond a
tolerance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coda_nodes.world.config import check_settings, setting
from coda_nodes.world.errors import CodaError
from coda_nodes.world.statistics import probability_not_worse


@dataclass(frozen=True)
class GateConfig:
    """What the gate lets pass."""

    tolerance: float = setting(0.08, "loss of success rate that is tolerated", low=0.0, high=0.99)
    confidence: float = setting(
        0.6, "probability of losing less than that, needed on every set", low=0.5, high=0.999
    )

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class PairedCounts:
    """Current and candidate policy in the same scenes with the same seeds."""

    gained: int
    """Failed before, succeeds now."""
    lost: int
    """Succeeded before, fails now."""
    both: int
    """Succeeds both times."""
    neither: int

    @property
    def total(self) -> int:
        """Pairs."""
        return self.gained + self.lost + self.both + self.neither

    @property
    def before(self) -> int:
        """Successes of the current policy."""
        return self.both + self.lost

    @property
    def after(self) -> int:
        """Successes of the candidate."""
        return self.both + self.gained

    @staticmethod
    def count(before: Sequence[str], after: Sequence[str]) -> PairedCounts:
        """Count episode outcomes of equal scenes; a pair with an invalid episode counts nowhere.

        Raises:
            CodaError: different numbers of outcomes.
        """
        if len(before) != len(after):
            raise CodaError(f"{len(before)} outcomes before and {len(after)} after: expected pairs")
        valid = [pair for pair in zip(before, after, strict=True) if "invalid" not in pair]
        pairs = [(a == "success", b == "success") for a, b in valid]
        return PairedCounts(
            gained=pairs.count((False, True)), lost=pairs.count((True, False)),
            both=pairs.count((True, True)), neither=pairs.count((False, False)),
        )


@dataclass(frozen=True)
class GateDecision:
    """Whether the candidate is accepted, and why in one sentence."""

    accepted: bool
    sentence: str
    probabilities: dict[str, float]
    """Probability of not being worse beyond the tolerance, per set of scenes."""


def by_family(
    name: str, families: Sequence[str], before: Sequence[str], after: Sequence[str]
) -> dict[str, PairedCounts]:
    """One set a family, ``name family`` -> pairs: what a family loses is not made up for by what another gains.

    Raises:
        CodaError: different numbers of families and outcomes.
    """
    if not len(families) == len(before) == len(after):
        raise CodaError(f"{len(families)} families, {len(before)} outcomes before and {len(after)} after: expected pairs")
    sets = {}
    for family in dict.fromkeys(families):
        mine = [i for i, other in enumerate(families) if other == family]
        sets[f"{name} {family}"] = PairedCounts.count([before[i] for i in mine], [after[i] for i in mine])
    return sets


def gate(sets: Mapping[str, PairedCounts], config: GateConfig = GateConfig()) -> GateDecision:
    """Decide on a candidate from paired results on each set of scenes (``train stack``, ``rehearsal stack``, ...).

    On every set that has pairs, the probability of having lost less than the tolerance must reach the
    confidence. A candidate that was compared on nothing is not accepted.
    """
    probabilities = {
        name: probability_not_worse(item.gained, item.lost, item.both + item.neither, config.tolerance)
        for name, item in sets.items()
        if item.total
    }
    failing = [name for name, probability in probabilities.items() if probability < config.confidence]
    accepted = bool(probabilities) and not failing
    counts = ", ".join(_counts(name, sets[name], probabilities[name]) for name in probabilities)
    if not probabilities:
        return GateDecision(False, "rejected: the candidate was compared on no scene", {})
    verdict = "accepted: " if accepted else f"rejected, worse on {' and '.join(failing)}: "
    rule = f"tolerance {config.tolerance:.0%}, probability of keeping it at least {config.confidence:.0%}"
    return GateDecision(accepted, f"{verdict}{counts} ({rule})", probabilities)


def _counts(name: str, item: PairedCounts, probability: float) -> str:
    return f"{name} {item.before} to {item.after} of {item.total} ({probability:.0%})"
