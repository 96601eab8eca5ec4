"""The memory: records of all kinds on SQLite, shared by several processes, each record stored once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Row, Select, func, select
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import SQLAlchemyError

from coda_nodes.memory.records import FIELDS, KINDS, Record, installed_versions, kind_of, make_record
from coda_nodes.memory.schema import open_engine, records
from coda_nodes.world.errors import StoreError, unknown

LIMIT = 1000
"""Most records a search returns unless it asks for another number."""
AT_ONCE = 500
"""Identities looked up in one statement; SQLite bounds the number of parameters."""


class MemoryStore:
    """Opens (or creates) the memory at a SQLAlchemy URL, ``sqlite:///PATH``.

    Raises:
        StoreError: the file cannot be opened, is no memory, or is of a newer version.
        NotAvailableError: a URL of another database than SQLite.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine = open_engine(url)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def __enter__(self) -> MemoryStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def transaction(self, write: bool = False) -> Iterator[Connection]:
        """A connection within one transaction. Raises StoreError when the database refuses."""
        try:
            with self.engine.connect().execution_options(write=write) as connection, connection.begin():
                yield connection
        except SQLAlchemyError as error:
            raise StoreError(f"memory {self.engine.url.database}: {getattr(error, 'orig', error)}") from error

    def put(
        self,
        kind: str,
        items: Sequence[Any],
        versions: Mapping[str, str] | None = None,
        created: float | None = None,
    ) -> list[str]:
        """Store data of one kind, all or none; what is there already is left as it is.

        A program that comes again in another state replaces its older row.

        Args:
            kind: name of the kind.
            items: data, one mapping (or JSON text) each.
            versions: ``software``, ``simulator``, ``model``; what is installed where left out.
            created: time stamp [s]; now where left out.

        Returns:
            Identities in the order given.

        Raises:
            StoreError: unknown kind, data that is not of that kind, or a database that refuses.
        """
        stamp = time.time() if created is None else created
        made = {**installed_versions(), **(versions or {})}
        rows = [make_record(kind, item, made, stamp) for item in items]
        self.put_records(rows)
        return [row.id for row in rows]

    def put_records(self, rows: Sequence[Record]) -> tuple[int, int]:
        """Store validated records in one transaction; return how many were new and how many replaced an older
        one."""
        with self.transaction(write=True) as connection:
            before = self._stamps(connection, [row.id for row in rows])
            for row in rows:
                self._write(connection, row)
            after = self._stamps(connection, [row.id for row in rows])
        return len(after) - len(before), sum(after[key] != stamp for key, stamp in before.items())

    @staticmethod
    def _stamps(connection: Connection, ids: Sequence[str]) -> dict[str, tuple[float, str]]:
        """State and time of the records that exist."""
        found: dict[str, tuple[float, str]] = {}
        for begin in range(0, len(ids), AT_ONCE):
            chosen = records.c.id.in_(ids[begin : begin + AT_ONCE])
            query = select(records.c.id, records.c.created, records.c.state).where(chosen)
            found.update({row.id: (row.created, row.state) for row in connection.execute(query)})
        return found

    @staticmethod
    def _write(connection: Connection, row: Record) -> None:
        values = {"id": row.id, "kind": row.kind, "text": row.text, "data": row.data, "created": row.created}
        made = {name: row.versions.get(name, "") for name in ("software", "simulator", "model")}
        statement = insert(records).values(**values, **made, **row.fields)
        if not kind_of(row.kind).changes:
            connection.execute(statement.on_conflict_do_nothing(index_elements=["id"]))
            return
        changed = {name: statement.excluded[name] for name in ("data", "created", "state", *made)}
        newer = (statement.excluded.data != records.c.data) & (
            statement.excluded.created >= records.c.created
        )
        connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_=changed, where=newer))

    def get(self, key: str) -> Record:
        """The record of an identity. Raises StoreError when there is none."""
        with self.transaction() as connection:
            row = connection.execute(select(records).where(records.c.id == key)).one_or_none()
        if row is None:
            raise StoreError(f"no record {key!r} in the memory {self.engine.url.database}")
        return _record(row)

    def find(
        self,
        kind: str,
        where: Mapping[str, Any] | None = None,
        ids: Sequence[str] | None = None,
        limit: int = LIMIT,
    ) -> list[Record]:
        """Records of a kind, newest first.

        Args:
            kind: name of the kind.
            where: field -> value, or list of values of which one must match (see ``records.FIELDS``).
            ids: only these identities, all of them whatever ``limit`` says.
            limit: at most so many.

        Raises:
            StoreError: unknown kind or field (the message lists those there are).
        """
        query = _filtered(select(records), kind, where or {}).order_by(records.c.number.desc())
        with self.transaction() as connection:
            if ids is None:
                return [_record(row) for row in connection.execute(query.limit(max(0, int(limit))))]
            found: list[Record] = []
            for begin in range(0, len(ids), AT_ONCE):
                chosen = query.where(records.c.id.in_(ids[begin : begin + AT_ONCE]))
                found += [_record(row) for row in connection.execute(chosen)]
            return found

    def count(self, kind: str, where: Mapping[str, Any] | None = None) -> int:
        """Number of records of a kind. Raises StoreError as ``find`` does."""
        query = _filtered(select(func.count()).select_from(records), kind, where or {})
        with self.transaction() as connection:
            return int(connection.execute(query).scalar_one())

    def counts(self) -> dict[str, int]:
        """Number of records of every kind."""
        query = select(records.c.kind, func.count()).group_by(records.c.kind)
        with self.transaction() as connection:
            found = {kind: int(number) for kind, number in connection.execute(query)}
        return {kind: found.get(kind, 0) for kind in KINDS}


def _filtered(query: Select[Any], kind: str, where: Mapping[str, Any]) -> Select[Any]:
    kind_of(kind)
    query = query.where(records.c.kind == kind)
    for name, value in where.items():
        if name not in FIELDS:
            raise StoreError(unknown("field of the memory", name, FIELDS))
        column = records.c[name]
        query = query.where(column.in_(value) if isinstance(value, (list, tuple)) else column == value)
    return query


def _record(row: Row[Any]) -> Record:
    values = row._mapping
    found = {name: values[name] for name in FIELDS if values[name] is not None}
    versions = {name: values[name] for name in ("software", "simulator", "model")}
    return Record(row.id, row.kind, row.data, found, row.text, versions, row.created)
