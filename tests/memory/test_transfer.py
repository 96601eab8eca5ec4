"""Export and import: the same memory again, merged by content, and refusal of what does not fit."""

from __future__ import annotations

import json

import pytest

from coda_nodes.memory.store import MemoryStore
from coda_nodes.memory.transfer import export_memory, import_memory
from coda_nodes.world.errors import StoreError

from .histories import diagnosis, program, remember


@pytest.fixture
def other(tmp_path):
    with MemoryStore(f"sqlite:///{tmp_path / 'other.sqlite'}") as opened:
        yield opened


def everything(store):
    kinds = store.counts()
    return {kind: sorted(store.find(kind), key=lambda item: item.id) for kind in kinds}


def test_out_and_in_is_the_same_memory(store, other, tmp_path):
    remember(store, diagnosis(), program())
    assert export_memory(store, tmp_path / "memory.jsonl") == 5
    done = import_memory(other, tmp_path / "memory.jsonl")
    assert (done.added, done.replaced, done.known) == (5, 0, 0)
    assert everything(other) == everything(store)
    again = import_memory(other, tmp_path / "memory.jsonl")
    assert (again.added, again.replaced, again.known) == (0, 0, 5)
    assert everything(other) == everything(store)


def test_two_memories_merge_without_duplicates_and_keep_the_newer_state(store, other, tmp_path):
    made = remember(store, diagnosis(), program())
    remember(other, diagnosis(), program())
    remember(other, diagnosis("Another one."), program("stack"))
    other.put("program", [made.in_state("retired", "47 of 50").model_dump(mode="json")])
    export_memory(other, tmp_path / "memory.jsonl")
    done = import_memory(store, tmp_path / "memory.jsonl")
    assert (done.added, done.replaced) == (5, 1) and store.counts() == other.counts()
    assert store.get(made.program_id).data["state"] == "retired"


def test_only_some_kinds(store, tmp_path):
    remember(store, diagnosis(), program())
    assert export_memory(store, tmp_path / "some.jsonl", kinds=("program",)) == 1
    with pytest.raises(StoreError, match="no kind of record 'dream'"):
        export_memory(store, tmp_path / "some.jsonl", kinds=("dream",))


def _lines(store, path):
    remember(store, diagnosis(), program())
    export_memory(store, path)
    return path.read_text().splitlines()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda line: line | {"data": line["data"] | {"family": "cooking"}}, "line 3: .*cooking"),
        (lambda line: line | {"data": line["data"] | {"explanation": 3}}, "line 3: .*explanation"),
        (lambda line: line | {"kind": "dream"}, "line 3: no kind of record 'dream'"),
        (lambda line: line | {"id": "0" * 16}, "line 3: content has the hash .*, the line says '0000"),
        (lambda line: {key: value for key, value in line.items() if key != "versions"}, "line 3: 'versions'"),
        (lambda line: [], "line 3: "),
    ],
)
def test_one_line_that_does_not_fit_refuses_all(store, other, tmp_path, damage, message):
    path = tmp_path / "memory.jsonl"
    lines = _lines(store, path)
    lines[2] = json.dumps(damage(json.loads(lines[2])))
    path.write_text("\n".join(lines))
    with pytest.raises(StoreError, match=message):
        import_memory(other, path)
    assert sum(other.counts().values()) == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is no exported memory"),
        ("hello\n", "is no exported memory: its first line is 'hello'"),
        ('{"format": "coda-memory", "schema_version": 99}\n', "is coda-memory 99; this version reads"),
        ('{"format": "cookbook", "schema_version": 1}\n', "is cookbook 1; this version reads coda-memory"),
    ],
)
def test_files_that_are_no_export(other, tmp_path, content, message):
    path = tmp_path / "memory.jsonl"
    path.write_text(content)
    with pytest.raises(StoreError, match=message):
        import_memory(other, path)


def test_a_truncated_or_missing_file_is_refused(store, other, tmp_path):
    path = tmp_path / "memory.jsonl"
    lines = _lines(store, path)
    path.write_text("\n".join(lines)[:-20])
    with pytest.raises(StoreError, match=f"line {len(lines)}"):
        import_memory(other, path)
    with pytest.raises(StoreError, match=r"cannot read .*nowhere"):
        import_memory(other, tmp_path / "nowhere.jsonl")
