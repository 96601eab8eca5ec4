"""The memory of one run as its node offers it: store, query, compile, with plain data in and out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from coda_nodes.memory.compile import compile_program
from coda_nodes.memory.records import installed_versions, make_record
from coda_nodes.memory.retrieval import Cure, Encode, Retrieval
from coda_nodes.memory.store import LIMIT, MemoryStore
from coda_nodes.policy.language import SentenceEncoder
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.diagnosis import Diagnosis
from coda_nodes.world.episode import Episode
from coda_nodes.world.errors import ArtifactError, StoreError
from coda_nodes.world.programs import GenerationProgram
from coda_nodes.world.spec import EnvironmentSpec, parse_spec
from coda_nodes.world.splits import Splits, load_splits


class MemoryService:
    """Opens the memory below an artifact root.

    Args:
        root: artifacts of the run; episodes are read from it when a diagnosis is compiled.
        encode: sentence encoder; the shipped one where left out.
        retrieval: whether cures of similar failures take part in compilation.
        splits: ranges; those of the package where left out.

    Raises:
        StoreError: the memory cannot be opened.
    """

    def __init__(
        self,
        root: ArtifactRoot,
        encode: Encode | None = None,
        retrieval: bool = True,
        splits: Splits | None = None,
    ) -> None:
        self.root, self._retrieves, self._splits = root, retrieval, splits or load_splits()
        self.records = MemoryStore(root.memory_url)
        self.retrieval = Retrieval(self.records, encode or SentenceEncoder().encode)

    def close(self) -> None:
        """Close the database."""
        self.records.close()

    def store(self, kind: str, records: Sequence[Mapping[str, Any]]) -> list[str]:
        """Store records of a kind, all or none; return their identities. Raises StoreError."""
        now = time.time()
        rows = [
            make_record(kind, record, installed_versions(_model(kind, record)), now) for record in records
        ]
        self.records.put_records(rows)
        return [row.id for row in rows]

    def query(self, kind: str, query: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Records of a kind: by ``ids``, by field values, nearest to the text ``similar_to``; at most
        ``limit``.

        Raises:
            StoreError: unknown kind or field (the message lists those there are).
        """
        where = {name: value for name, value in query.items() if name not in ("ids", "similar_to", "limit")}
        limit = query.get("limit", LIMIT)
        if not isinstance(limit, int) or limit < 0:
            raise StoreError(f"limit {limit!r}: expected a whole number of at least 0")
        if query.get("similar_to"):
            return [
                match.record.data
                for match in self.retrieval.similar(str(query["similar_to"]), kind, where, limit)
            ]
        return [record.data for record in self.records.find(kind, where, query.get("ids"), limit)]

    def compile(self, diagnosis: Diagnosis) -> GenerationProgram | None:
        """Draft program of a diagnosis; None where its cause cannot be recreated within the probe bounds."""
        cures: list[Cure] = self.retrieval.cures(diagnosis) if self._retrieves else []
        return compile_program(diagnosis, self._scene(diagnosis), self._splits, cures)

    def _scene(self, diagnosis: Diagnosis) -> EnvironmentSpec | None:
        """The failed scene: from its episode, else from the memory; None for a failure of a real arm."""
        if diagnosis.episode:
            try:
                return Episode.load(self.root.episode(diagnosis.episode)).spec
            except ArtifactError:
                pass
        found = self.records.find("environment", ids=[diagnosis.environment]) if diagnosis.environment else []
        return parse_spec(found[0].data) if found else None


def _model(kind: str, record: Mapping[str, Any]) -> str:
    """What made a record: the critic of a diagnosis, the checkpoint of a measurement."""
    if kind == "diagnosis" and isinstance(record.get("critic"), Mapping):
        return f"{record['critic'].get('name', '')} {record['critic'].get('version', '')}".strip()
    return str(record.get("checkpoint", "")) if kind == "progress" else ""
