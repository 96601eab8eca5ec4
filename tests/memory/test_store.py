"""The store: each record once, all kinds, several processes, older and foreign files."""

from __future__ import annotations

import multiprocessing
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import create_engine, event, inspect, text

from coda_nodes.memory.records import FIELDS, GROUPS, KINDS
from coda_nodes.memory.schema import SCHEMA_VERSION, _on_begin, _on_connect, migrate
from coda_nodes.memory.store import MemoryStore
from coda_nodes.world.errors import NotAvailableError, StoreError
from coda_nodes.world.progress import Measurement
from coda_nodes.world.records import FailureRecord
from coda_nodes.world.splits import sample_split
from coda_nodes.world.validation import ValidationRecord

from .histories import diagnosis, program

FOUND = diagnosis()


def one_of_each() -> dict[str, dict]:
    """One valid record of every kind."""
    made = program(diagnosis_id=FOUND.diagnosis_id)
    items = {
        "environment": sample_split("stack", "train", np.random.default_rng(0)),
        "program": made,
        "failure": FailureRecord(
            episode="ab" * 8,
            family="stack",
            instruction="stack it",
            diagnosis_id=FOUND.diagnosis_id,
            diagnosis="fell",
        ),
        "diagnosis": FOUND,
        "validation": ValidationRecord(diagnosis_id=FOUND.diagnosis_id, verdict="refuted", words="it is not"),
        "progress": Measurement(program_id=made.program_id, family="stack", round=2, successes=1, episodes=3),
    }
    return {kind: item.model_dump(mode="json") for kind, item in items.items()}


def test_every_kind_is_stored_once_and_comes_back_as_it_was(store):
    items = one_of_each()
    assert set(items) == set(KINDS) == {kind for group in GROUPS.values() for kind in group}
    for kind, item in items.items():
        ids = store.put(kind, [item, item])
        assert store.put(kind, [item]) == ids[:1] == ids[1:]
        (record,) = store.find(kind)
        assert record.data == item and record.id == ids[0] and store.get(ids[0]) == record
        assert record.versions["software"] and record.versions["simulator"].startswith("mujoco ")
    assert store.counts() == dict.fromkeys(KINDS, 1)


def test_identities_are_those_of_the_nouns(store):
    assert store.put("diagnosis", [FOUND.model_dump(mode="json")]) == [FOUND.diagnosis_id]
    assert store.put("program", [program().model_dump(mode="json")]) == [program().program_id]


def test_found_by_fields(store):
    other = diagnosis(
        family="stack", stage="lift", failure_mode="slip", cause={"axis": "dynamics", "parameter": "mass"}
    )
    store.put("diagnosis", [FOUND.model_dump(mode="json"), other.model_dump(mode="json")])
    assert [item.id for item in store.find("diagnosis", {"axis": "dynamics"})] == [other.diagnosis_id]
    assert [item.id for item in store.find("diagnosis", {"family": "pick_place", "stage": "grasp"})] == [
        FOUND.diagnosis_id
    ]
    assert len(store.find("diagnosis", {"family": ["stack", "pick_place"]})) == 2
    assert [item.id for item in store.find("diagnosis")] == [other.diagnosis_id, FOUND.diagnosis_id]
    assert len(store.find("diagnosis", limit=1)) == 1
    assert store.count("diagnosis", {"critic": "state"}) == 2
    assert [item.id for item in store.find("diagnosis", ids=[FOUND.diagnosis_id, "0" * 16])] == [
        FOUND.diagnosis_id
    ]


def test_many_identities_at_once(store):
    rows = [
        Measurement(program_id="ab" * 8, family="stack", round=i, successes=0, episodes=1)
        for i in range(1200)
    ]
    ids = store.put("progress", [row.model_dump(mode="json") for row in rows])
    assert {item.id for item in store.find("progress", ids=ids)} == set(ids)


def test_a_program_in_another_state_replaces_its_row(store):
    made = program()
    store.put("program", [made.model_dump(mode="json")], created=10.0)
    store.put("program", [made.in_state("retired", "47 of 50").model_dump(mode="json")], created=20.0)
    store.put("program", [made.in_state("validated", "too late").model_dump(mode="json")], created=15.0)
    (record,) = store.find("program")
    assert (record.data["state"], record.data["reason"], record.created) == ("retired", "47 of 50", 20.0)
    assert store.find("program", {"state": "retired"}) and not store.find("program", {"state": "draft"})
    store.put("program", [made.in_state("retired", "48 of 50").model_dump(mode="json")], created=30.0)
    assert store.find("program")[0].data["reason"] == "48 of 50"


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (
            lambda store: store.put("dream", []) or store.find("dream"),
            ["no kind of record 'dream'", "diagnosis"],
        ),
        (lambda store: store.put("diagnosis", [{"text": "x"}]), ["not a diagnosis", "stage"]),
        (
            lambda store: store.put("program", [{"family": "stack", "operators": [{"kind": "x"}]}]),
            ["no operator 'x'"],
        ),
        (lambda store: store.put("progress", [{"program_id": "ab" * 8}]), ["progress: family"]),
        (lambda store: store.put("environment", ["{}"]), ["not a environment", "family"]),
        (lambda store: store.find("program", {"smell": 1}), ["no field of the memory 'smell'", *FIELDS]),
        (lambda store: store.get("f" * 16), ["no record 'ffffffffffffffff'"]),
    ],
)
def test_refusals(store, call, parts):
    with pytest.raises(StoreError) as caught:
        call(store)
    for part in parts:
        assert part in str(caught.value)


def test_all_or_none(store):
    with pytest.raises(StoreError):
        store.put("diagnosis", [FOUND.model_dump(mode="json"), {"text": "broken"}])
    assert store.counts()["diagnosis"] == 0


def _write(url: str, first: int, count: int) -> None:
    with MemoryStore(url) as opened:
        for number in range(first, first + count):
            row = Measurement(program_id="cd" * 8, family="stack", round=number, successes=0, episodes=1)
            opened.put("progress", [row.model_dump(mode="json")])


def test_two_processes_write_at_once(url):
    """Both open a memory that does not exist yet, and write overlapping records one by one."""
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(url, first, 60)) for first in (0, 30)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    assert [writer.exitcode for writer in writers] == [0, 0]
    with MemoryStore(url) as opened:
        rounds = sorted(item.data["round"] for item in opened.find("progress"))
        assert rounds == list(range(90))


def test_a_writer_waits_for_another_one(url, store):
    """A write lock held elsewhere is waited for, not an error."""
    blocker = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, check_same_thread=False)
    blocker.execute("BEGIN IMMEDIATE")
    context = multiprocessing.get_context("spawn")
    writer = context.Process(target=_write, args=(url, 0, 1))
    writer.start()
    writer.join(3.0)
    assert writer.is_alive()
    blocker.execute("COMMIT")
    writer.join(60)
    assert writer.exitcode == 0 and store.counts()["progress"] == 1


def test_an_older_file_is_brought_up_to_date(tmp_path):
    path = tmp_path / "old.sqlite"
    engine = create_engine(f"sqlite:///{path}")
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    migrate(engine, target=1)
    assert "vectors" not in inspect(engine).get_table_names()
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO records (id, kind, text, data, software, simulator, model, created)"
                " VALUES ('ab', 'progress', '', '{}', '0.0.1', '', '', 1.0)"
            )
        )
    engine.dispose()
    with MemoryStore(f"sqlite:///{path}") as opened:
        assert opened.get("ab").versions["software"] == "0.0.1"
        assert "vectors" in inspect(opened.engine).get_table_names()
        with opened.transaction() as connection:
            assert (
                connection.execute(text("SELECT schema_version FROM schema")).scalar_one() == SCHEMA_VERSION
            )


def test_a_newer_file_is_refused(url, store):
    with store.transaction(write=True) as connection:
        connection.execute(text("UPDATE schema SET schema_version = 99"))
    with pytest.raises(StoreError, match=f"schema_version 99; this version reads up to {SCHEMA_VERSION}"):
        MemoryStore(url)


def test_files_that_are_no_memory(tmp_path: Path):
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreError, match=r"cannot open the memory .*damaged.sqlite: file is not a database"):
        MemoryStore(f"sqlite:///{damaged}")
    assert damaged.read_bytes().startswith(b"no database")
    foreign = tmp_path / "foreign.sqlite"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE cats (name TEXT)")
    with pytest.raises(StoreError, match="is no memory: it holds the tables cats"):
        MemoryStore(f"sqlite:///{foreign}")
    with pytest.raises(StoreError, match="cannot open the memory"):
        MemoryStore(f"sqlite:///{damaged}/below/memory.sqlite")
    with pytest.raises(StoreError, match="expected sqlite:///PATH"):
        MemoryStore("nonsense")
    with pytest.raises(NotAvailableError, match="memory on postgresql is not available"):
        MemoryStore("postgresql://host/memory")
