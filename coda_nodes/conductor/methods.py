"""Methods by name: what the benchmark compares."""

from __future__ import annotations

from dataclasses import dataclass, replace

from coda_nodes.conductor.baselines import DomainRandomization, Sft
from coda_nodes.conductor.curricula import LevelReplay, Mutation
from coda_nodes.conductor.strategy import CODA, Strategy
from coda_nodes.world.errors import ConfigError, unknown


@dataclass(frozen=True)
class Method:
    """A strategy, and what is said of it in tables."""

    strategy: Strategy
    words: str
    control: bool = False
    """Not held to equal gradient steps, and no competitor."""


METHODS = {
    "sft": Method(Sft(), "imitation of the train split for as many gradient steps"),
    "sft_more_steps": Method(Sft(more=2.0), "the same with twice the gradient steps in all", control=True),
    "domain_randomization": Method(DomainRandomization(), "scenes at random within the probe bounds"),
    "failure_curriculum": Method(LevelReplay(), "prioritized level replay"),
    "mutation_curriculum": Method(Mutation(), "edits of levels of high regret, as ACCEL"),
    "critic_no_memory": Method(
        replace(CODA, validates=False, tracks=False, retrieves=False, remembers=False),
        "diagnoses become environments of the next round, untested and without memory",
    ),
    "coda": Method(CODA, "diagnoses, validated, remembered, by learning progress"),
    "no_validation": Method(replace(CODA, validates=False), "coda that trusts every diagnosis"),
    "no_text2potential": Method(replace(CODA, grounds=False), "coda with the default potentials"),
    "no_progress": Method(replace(CODA, tracks=False), "coda that shares environments out evenly"),
    "no_retrieval": Method(replace(CODA, retrieves=False), "coda that compiles without cures of similar failures"),
}
EXPERT = ("sft", "domain_randomization", "failure_curriculum", "coda")
"""Methods of the regime ``expert``."""
ABLATIONS = ("no_validation", "no_text2potential", "no_progress", "no_retrieval")
CLOSED_LOOPS = ("failure_curriculum", "mutation_curriculum", "critic_no_memory")
"""Closed loops other than coda."""


def method(name: str, regime: str = "no_expert") -> Method:
    """A method of a regime. Raises ConfigError that lists those there are."""
    known = EXPERT if regime == "expert" else METHODS
    if name not in known:
        raise ConfigError(unknown(f"method of regime {regime}", name, known))
    return METHODS[name]
