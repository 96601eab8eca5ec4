"""The memory as a node: serves /coda/memory/store, query and compile."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

from coda_interfaces.srv import Compile, Query, Store

from coda_nodes.memory.service import MemoryService
from coda_nodes.ros import names
from coda_nodes.ros.base import CodaNode, NodeSettings
from coda_nodes.ros.node_main import run_node
from coda_nodes.world.diagnosis import read_diagnosis
from coda_nodes.world.errors import StoreError, may_pass


@dataclass(frozen=True)
class MemorySettings(NodeSettings):
    """Parameters of the memory."""


class MemoryNode(CodaNode[MemorySettings]):
    """Keeps the store; requests are served one after the other on one thread, which owns the database."""

    def __init__(self) -> None:
        super().__init__("memory", MemorySettings)
        self._service: MemoryService | None = None
        try:
            _ = self._memory
        except StoreError as error:
            if not may_pass(error):
                raise
            self.get_logger().warning(f"{error}; tried again with each request")
        self.serve(Store, names.STORE, self._store)
        self.serve(Query, names.QUERY, self._query)
        self.serve(Compile, names.COMPILE, self._compile)

    @property
    def _memory(self) -> MemoryService:
        """The store, opened as soon as it can be: another process may hold it, or the disk be full."""
        if self._service is None:
            self._service = MemoryService(self.root)
        return self._service

    def _store(self, request: Store.Request, response: Store.Response) -> Any:
        records = [_object(text, f"record {i}") for i, text in enumerate(request.records_json)]
        response.ids = self._memory.store(request.kind, records)
        response.accepted = True
        return response

    def _query(self, request: Query.Request, response: Query.Response) -> Any:
        found = self._memory.query(request.kind, _object(request.query_json or "{}", "query"))
        response.records_json = [json.dumps(record) for record in found]
        response.accepted = True
        return response

    def _compile(self, request: Compile.Request, response: Compile.Response) -> Any:
        programs = [self._memory.compile(self._diagnosis(key)) for key in request.diagnosis_ids]
        response.programs_json = ["" if program is None else program.to_json() for program in programs]
        response.accepted = True
        return response

    def _diagnosis(self, key: str) -> Any:
        found = self._memory.query("diagnosis", {"ids": [key]})
        if not found:
            raise StoreError(f"no diagnosis {key!r} in the memory: store it before it is compiled")
        return read_diagnosis(found[0])


def _object(text: str, what: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise StoreError(f"{what} is not JSON: {error} (got {text[:80]!r})") from error
    if not isinstance(data, dict):
        raise StoreError(f"{what} is a JSON {type(data).__name__}: expected an object")
    return data


def main() -> int:
    """Run the memory."""
    return run_node(MemoryNode)


if __name__ == "__main__":
    sys.exit(main())
