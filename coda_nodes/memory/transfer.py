"""Moving a memory: JSONL out, and in by content hash, all or nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import select

from coda_nodes.memory.records import KINDS, Record, make_record
from coda_nodes.memory.schema import SCHEMA_VERSION, records
from coda_nodes.memory.store import MemoryStore
from coda_nodes.world.artifacts import write_atomic
from coda_nodes.world.errors import StoreError, unknown

FORMAT = "coda-memory"


@dataclass(frozen=True)
class Imported:
    """What an import did."""

    added: int
    replaced: int
    """Programs that came in a newer state."""
    known: int
    """Records that were there already."""


def export_memory(store: MemoryStore, path: Path | str, kinds: Sequence[str] = tuple(KINDS)) -> int:
    """Write records of ``kinds``, oldest first, one per line after a header line; return their number.

    Raises:
        StoreError: an unknown kind, or a store that cannot be read.
        ArtifactError: the file cannot be written; an older one of its name is left as it was.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise StoreError(unknown("kind of record", kind, KINDS))
    header = json.dumps({"format": FORMAT, "schema_version": SCHEMA_VERSION})
    query = select(records).where(records.c.kind.in_(kinds)).order_by(records.c.number)
    with store.transaction() as connection:
        lines = [json.dumps(_line(row), sort_keys=True) for row in connection.execute(query)]
    write_atomic(Path(path), "".join(f"{line}\n" for line in (header, *lines)).encode())
    return len(lines)


def _line(row: Any) -> dict[str, Any]:
    versions = {name: row._mapping[name] for name in ("software", "simulator", "model")}
    return {"id": row.id, "kind": row.kind, "data": row.data, "versions": versions, "created": row.created}


def import_memory(store: MemoryStore, path: Path | str) -> Imported:
    """Merge an exported file by content hash; nothing is stored twice, and nothing at all if a line does not
    fit.

    Raises:
        StoreError: a file that is no export, or is of a newer version; a line that is not a record of its
        kind, or
            whose content does not match its identity (the message gives its number).
    """
    rows = list(_read(Path(path)))
    added, replaced = store.put_records(rows)
    return Imported(added, replaced, len(rows) - added - replaced)


def _read(path: Path) -> Iterator[Record]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"cannot read {path}: {error}") from error
    _check_header(path, lines[0] if lines else "")
    for number, line in enumerate(lines[1:], start=2):
        if line.strip():
            try:
                yield _record(json.loads(line))
            except (StoreError, ValueError, KeyError, TypeError, AttributeError) as error:
                raise StoreError(f"{path}, line {number}: {error}") from error


def _check_header(path: Path, line: str) -> None:
    try:
        header = json.loads(line)
        found = header["format"], int(header["schema_version"])
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} is no exported memory: its first line is {line[:80]!r}") from error
    if found[0] != FORMAT or found[1] > SCHEMA_VERSION:
        raise StoreError(
            f"{path} is {found[0]} {found[1]}; this version reads {FORMAT} up to {SCHEMA_VERSION}"
        )


def _record(line: dict[str, Any]) -> Record:
    row = make_record(str(line["kind"]), line["data"], line["versions"], float(line["created"]))
    if row.id != line["id"]:
        raise StoreError(f"content has the hash {row.id}, the line says {line['id']!r}")
    return row
