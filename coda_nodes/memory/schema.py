"""Tables of the memory on SQLite, and the steps by which an older file is brought up to date."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sqlalchemy import (
    JSON,
    Column,
    Connection,
    Engine,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    create_engine,
    event,
    text,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.schema import CreateIndex, CreateTable

from coda_nodes.memory.records import FIELDS
from coda_nodes.world.errors import NotAvailableError, StoreError

BUSY_TIMEOUT = 30_000
"""How long a process waits for another one's write to end [ms]."""

metadata = MetaData()
records = Table(
    "records",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("id", String, nullable=False, unique=True),
    Column("kind", String, nullable=False),
    *(Column(name, Integer if name == "round" else String) for name in FIELDS),
    Column("text", String, nullable=False),
    Column("data", JSON, nullable=False),
    Column("software", String, nullable=False),
    Column("simulator", String, nullable=False),
    Column("model", String, nullable=False),
    Column("created", Float, nullable=False),
)
vectors = Table(
    "vectors",
    metadata,
    Column("id", String, primary_key=True),
    Column("encoder", String, primary_key=True),
    Column("vector", LargeBinary, nullable=False),
)
INDEXES = (
    Index("by_kind", records.c.kind, records.c.family, records.c.axis),
    Index("by_diagnosis", records.c.diagnosis_id, records.c.kind),
    Index("by_program", records.c.program_id, records.c.kind),
)


def _first(connection: Connection) -> None:
    """Records, without search by meaning."""
    connection.execute(CreateTable(records))
    for index in INDEXES[:2]:
        connection.execute(CreateIndex(index))


def _second(connection: Connection) -> None:
    """Sentence vectors, and programs found by their measurements."""
    connection.execute(CreateTable(vectors))
    connection.execute(CreateIndex(INDEXES[2]))


STEPS: tuple[Callable[[Connection], None], ...] = (_first, _second)
"""Step i brings schema version i to i + 1; a new file takes all of them."""
SCHEMA_VERSION = len(STEPS)


def open_engine(url: str) -> Engine:
    """Engine on a SQLite file, created or brought up to date as needed.

    Raises:
        NotAvailableError: a URL of another database.
        StoreError: the file cannot be opened, is no memory, or was made by a newer version.
    """
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise StoreError(f"memory URL {url!r}: expected sqlite:///PATH") from error
    if parsed.get_backend_name() != "sqlite":
        raise NotAvailableError(f"memory on {parsed.get_backend_name()} is not available; use sqlite:///PATH")
    engine = create_engine(parsed)
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    try:
        if parsed.database and parsed.database != ":memory:":
            Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
        migrate(engine)
    except (SQLAlchemyError, OSError) as error:
        engine.dispose()
        raise StoreError(
            f"cannot open the memory {parsed.database}: {getattr(error, 'orig', error)}"
        ) from error
    except StoreError:
        engine.dispose()
        raise
    return engine


def _on_connect(connection, _record) -> None:  # type: ignore[no-untyped-def]
    connection.isolation_level = None  # transactions begin where _on_begin says, not where sqlite3 guesses
    connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT}")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


def _on_begin(connection: Connection) -> None:
    # A writer takes its lock at once: a read lock that grows into one fails instead of waiting.
    write = connection.get_execution_options().get("write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def migrate(engine: Engine, target: int = SCHEMA_VERSION) -> None:
    """Run the steps from the file's ``schema_version`` to ``target`` in one transaction.

    Raises:
        StoreError: the file is of a newer version, or holds other tables.
    """
    with engine.connect().execution_options(write=True) as connection, connection.begin():
        found = _schema_version(connection, str(engine.url.database))
        if found > target:
            raise StoreError(
                f"memory {engine.url.database} has schema_version {found}; this version reads up to {target}"
            )
        for step in STEPS[found:target]:
            step(connection)
        connection.execute(text("UPDATE schema SET schema_version = :version"), {"version": target})


def _schema_version(connection: Connection, path: str) -> int:
    names = set(connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'table'")).scalars())
    if "schema" in names:
        return int(connection.execute(text("SELECT schema_version FROM schema")).scalar_one())
    if names - {"sqlite_sequence"}:
        raise StoreError(f"{path} is no memory: it holds the tables {', '.join(sorted(names))}")
    connection.execute(text("CREATE TABLE schema (schema_version INTEGER NOT NULL)"))
    connection.execute(text("INSERT INTO schema VALUES (0)"))
    return 0
