"""Which diagnoses of a round are worth validating: one representative of each frequent cause."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from coda_nodes.world.diagnosis import Diagnosis

CauseKey = tuple[str, str, str]
"""(family, axis, parameter): causes that one program can recreate."""


@dataclass(frozen=True)
class Cluster:
    """Diagnoses that name the same cause; ``members`` in order of falling confidence."""

    key: CauseKey
    members: tuple[Diagnosis, ...]

    @property
    def weight(self) -> float:
        """How much of the round's failure this cause explains: summed confidence."""
        return sum(diagnosis.confidence for diagnosis in self.members)

    @property
    def representative(self) -> Diagnosis:
        """The member the critic is surest of."""
        return self.members[0]


def cause_key(diagnosis: Diagnosis) -> CauseKey | None:
    """Key of the cause, None where the critic names none or the scene is as in training."""
    if diagnosis.cause is None or diagnosis.family is None:
        return None
    return diagnosis.family, diagnosis.cause.axis, diagnosis.cause.parameter


def cluster(diagnoses: Sequence[Diagnosis]) -> list[Cluster]:
    """Group diagnoses by cause; heaviest cluster first, ties in alphabetical order of the key."""
    groups: dict[CauseKey, list[Diagnosis]] = {}
    for diagnosis in diagnoses:
        key = cause_key(diagnosis)
        if key is not None:
            groups.setdefault(key, []).append(diagnosis)
    clusters = [
        Cluster(key, tuple(sorted(group, key=lambda item: (-item.confidence, item.diagnosis_id))))
        for key, group in groups.items()
    ]
    return sorted(clusters, key=lambda item: (-item.weight, item.key))


def select(diagnoses: Sequence[Diagnosis], per_family: int, covered: Collection[CauseKey]) -> list[Cluster]:
    """The heaviest clusters, at most ``per_family`` of each family, leaving out causes already ``covered``."""
    taken: dict[str, int] = {}
    chosen = []
    for candidate in cluster(diagnoses):
        family = candidate.key[0]
        if candidate.key not in covered and taken.get(family, 0) < per_family:
            taken[family] = taken.get(family, 0) + 1
            chosen.append(candidate)
    return chosen
