"""Search by meaning, and programs that cured failures like a new one, in any family."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select
from sqlalchemy.dialects.sqlite import insert

from coda_nodes.memory.records import Record
from coda_nodes.memory.schema import vectors
from coda_nodes.memory.store import AT_ONCE, LIMIT, MemoryStore
from coda_nodes.world.diagnosis import Diagnosis, read_diagnosis
from coda_nodes.world.errors import NotAvailableError
from coda_nodes.world.programs import GenerationProgram, read_program
from coda_nodes.world.progress import Measurement
from coda_nodes.world.statistics import BetaPosterior

log = logging.getLogger(__name__)
Encode = Callable[[Sequence[str]], NDArray[np.float32]]
"""Texts -> unit vectors. Shape (n, d), float32."""

MEANING = 0.4
"""Weight of the sentences' similarity; the rest is shared out over the parts of the diagnosis that agree."""
PARTS = {"axis": 0.2, "parameter": 0.2, "failure_mode": 0.1, "stage": 0.1}
"""Weight of each part of two diagnoses that agrees."""


@dataclass(frozen=True)
class Match:
    """A record with its similarity to what was asked, 0 to 1."""

    similarity: float
    record: Record


@dataclass(frozen=True)
class Cure:
    """A program after whose training a similar failure became rarer."""

    program: GenerationProgram
    diagnosis: Diagnosis
    similarity: float
    gain: float
    """Rise of the expected success rate from the first to the last measurement."""

    @property
    def sentence(self) -> str:
        """What it cured, in words."""
        failure = f"{self.diagnosis.failure_mode.replace('_', ' ')} during {self.diagnosis.stage}"
        return (
            f"{self.program.program_id} ({self.program.family}) cured {failure}, "
            f"similarity {self.similarity:.2f}, success +{100 * self.gain:.0f} points"
        )


class Retrieval:
    """Search in a store; ``encode`` turns sentences into unit vectors, which are kept in the store.

    Without an encoder, or where its model is not installed, sentences are compared by the words they share.
    """

    def __init__(
        self, store: MemoryStore, encode: Encode | None = None, encoder: str = "all-MiniLM-L6-v2"
    ) -> None:
        self.store, self._encode, self.encoder = store, encode, encoder

    def similar(
        self, text: str, kind: str, where: Mapping[str, Any] | None = None, limit: int = 10
    ) -> list[Match]:
        """Records of a kind whose sentences are nearest in meaning, best first. Raises StoreError as ``find``
        does."""
        found = self.store.find(kind, where)
        scores = self.similarities(text, found)
        order = np.argsort(-scores, kind="stable")[: max(0, int(limit))]
        return [Match(float(scores[index]), found[index]) for index in order]

    def similarities(self, text: str, found: Sequence[Record]) -> NDArray[np.float64]:
        """Similarity of a sentence to each record's, 0 to 1. Shape (n,)."""
        if not found:
            return np.zeros(0)
        if self._encode is not None:
            try:
                query = np.asarray(self._encode([text]), dtype=np.float32)[0]
                return np.clip(self._vectors(found) @ query, 0.0, 1.0).astype(float)
            except NotAvailableError as error:
                log.warning("sentences are compared by shared words: %s", error)
                self._encode = None
        return np.array([_shared_words(text, record.text) for record in found])

    def _vectors(self, found: Sequence[Record]) -> NDArray[np.float32]:
        """Stored vectors of the records; those that are missing are computed and stored. Shape (n, d)."""
        assert self._encode is not None
        known = self._stored([record.id for record in found])
        missing = {record.id: record.text for record in found if record.id not in known}
        if missing:
            fresh = np.asarray(self._encode(list(missing.values())), dtype=np.float32)
            new = dict(zip(missing, fresh, strict=True))
            rows = [{"id": key, "encoder": self.encoder, "vector": row.tobytes()} for key, row in new.items()]
            with self.store.transaction(write=True) as connection:
                connection.execute(insert(vectors).on_conflict_do_nothing(), rows)
            known.update(new)
        return np.stack([known[record.id] for record in found])

    def _stored(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        known: dict[str, NDArray[np.float32]] = {}
        with self.store.transaction() as connection:
            for begin in range(0, len(ids), AT_ONCE):
                chosen = vectors.c.id.in_(ids[begin : begin + AT_ONCE]) & (vectors.c.encoder == self.encoder)
                for row in connection.execute(select(vectors.c.id, vectors.c.vector).where(chosen)):
                    known[row.id] = np.frombuffer(row.vector, dtype=np.float32)
        return known

    def cures(self, diagnosis: Diagnosis, limit: int = 3) -> list[Cure]:
        """Programs that cured failures similar to a new one, across families, best first.

        A program has cured its diagnosis when that was validated, never refuted, and the expected success
        rate rose while it was trained on (or it was solved). Ordered by similarity of the two diagnoses times
        the gain's evidence; nothing is left out for being dissimilar: the caller sees the similarity.
        """
        programs = [read_program(item.data) for item in self.store.find("program", limit=LIMIT)]
        cured = [(program, self._gain(program)) for program in programs if program.diagnosis_id]
        cured = [(program, gain) for program, gain in cured if gain > 0 and self._confirmed(program)]
        known = {
            item.id: item for item in self.store.find("diagnosis", ids=[p.diagnosis_id for p, _ in cured])
        }
        pairs = [
            (program, gain, known[program.diagnosis_id])
            for program, gain in cured
            if program.diagnosis_id in known
        ]
        meaning = self.similarities(diagnosis.sentence, [record for _, _, record in pairs])
        found = []
        for (program, gain, record), near in zip(pairs, meaning, strict=True):
            old = read_diagnosis(record.data)
            found.append(Cure(program, old, MEANING * float(near) + agreement(diagnosis, old), gain))
        return sorted(found, key=lambda cure: (-cure.similarity, -cure.gain, cure.program.program_id))[:limit]

    def _confirmed(self, program: GenerationProgram) -> bool:
        """Whether validation confirmed the program's diagnosis (of this program or its parents) and never
        refuted it."""
        verdicts = {item.fields.get("verdict") for item in self._validations(program.diagnosis_id)}
        return "validated" in verdicts and "refuted" not in verdicts

    def _validations(self, diagnosis_id: str) -> list[Record]:
        return self.store.find("validation", {"diagnosis_id": diagnosis_id})

    def _gain(self, program: GenerationProgram) -> float:
        """Rise of the expected success rate over the program's measurements, oldest to newest; solved counts
        as well."""
        rows = self.store.find("progress", {"program_id": program.program_id})
        history = sorted(
            (Measurement.model_validate(item.data) for item in rows), key=lambda item: item.round
        )
        if not history:
            return 0.0
        last = _rate(history[-1])
        # Solved at its first measurement: it began with failures, near zero.
        first = _rate(history[0]) if len(history) > 1 else 0.0 if program.state == "rehearsal" else last
        return last - first


def _rate(item: Measurement) -> float:
    return BetaPosterior().updated(item.successes, item.episodes - item.successes).mean


def agreement(first: Diagnosis, second: Diagnosis) -> float:
    """Summed weight of the parts on which two diagnoses agree; parameters agree in their last word
    (``object_x``)."""
    total = sum(
        PARTS[name] for name in ("failure_mode", "stage") if getattr(first, name) == getattr(second, name)
    )
    if first.cause is None or second.cause is None:
        return total
    total += PARTS["axis"] * (first.cause.axis == second.cause.axis)
    same = first.cause.parameter.rsplit("_", 1)[-1] == second.cause.parameter.rsplit("_", 1)[-1]
    return total + PARTS["parameter"] * (same and first.cause.axis == second.cause.axis)


def _shared_words(first: str, second: str) -> float:
    """Jaccard similarity of the sets of words."""
    a, b = (set(re.findall(r"[a-z0-9]+", text.lower())) for text in (first, second))
    return len(a & b) / len(a | b) if a | b else 0.0
