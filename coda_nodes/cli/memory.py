"""``coda memory``: what a run's memory holds, as tables and as files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from coda_nodes.cli.options import parse
from coda_nodes.memory.records import KINDS, Record
from coda_nodes.memory.retrieval import Retrieval
from coda_nodes.memory.store import MemoryStore
from coda_nodes.memory.transfer import export_memory, import_memory
from coda_nodes.policy.language import SentenceEncoder
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.errors import StoreError, unknown


@dataclass(frozen=True)
class ShowOptions:
    """Show how much the memory holds, or the records of one kind."""

    run: tyro.conf.Positional[Path]
    """Folder of the run."""
    kind: str | None = None
    """environment, program, diagnosis, validation or progress; without it, the number of each."""
    family: str | None = None
    """Only records of this family."""
    n: int = 20
    """Records shown at most."""


@dataclass(frozen=True)
class SearchOptions:
    """Find records by meaning."""

    run: tyro.conf.Positional[Path]
    """Folder of the run."""
    text: tyro.conf.Positional[str]
    """What to look for, in words."""
    kind: str = "diagnosis"
    """Kind of records."""
    n: int = 10
    """Records shown at most."""


@dataclass(frozen=True)
class TransferOptions:
    """Write the memory to a file, or merge a file into it."""

    run: tyro.conf.Positional[Path]
    """Folder of the run."""
    file: tyro.conf.Positional[Path]
    """File of records, one JSON object per line."""


def run(words: Sequence[str]) -> int:
    """Run the verb."""
    if not words or words[0] in ("-h", "--help"):
        Console().print("coda memory show|search|export|import RUN ...   (coda memory show --help lists options)", markup=False)
        return 0
    if words[0] not in _ACTIONS:
        raise StoreError(unknown("action of coda memory", words[0], _ACTIONS))
    _ACTIONS[words[0]](words[1:])
    return 0


def _open(folder: Path) -> MemoryStore:
    root = ArtifactRoot(folder)
    if not (root.path / "memory.sqlite").exists():
        raise StoreError(f"{folder} holds no memory.sqlite: expected the folder of a run")
    return MemoryStore(root.memory_url)


def _show(words: Sequence[str]) -> None:
    options = parse(ShowOptions, words, "memory show", __doc__ or "")
    with _open(options.run) as store:
        if options.kind is None:
            _counts(store)
            return
        where = {"family": options.family} if options.family else {}
        found = store.find(options.kind, where, limit=options.n)
        _table(f"{options.kind}: {len(found)} of {store.count(options.kind, where)}", [("", record) for record in found])


def _counts(store: MemoryStore) -> None:
    table = Table(title="Records")
    table.add_column("kind")
    table.add_column("number", justify="right")
    for kind, number in store.counts().items():
        table.add_row(kind, str(number))
    Console().print(table)


def _table(title: str, rows: Sequence[tuple[str, Record]]) -> None:
    table = Table(title=escape(title))
    for column in ("similarity", "id", "family", "what it says"):
        table.add_column(column)
    for similarity, record in rows:
        table.add_row(similarity, record.id[:10], str(record.fields.get("family") or ""), escape(record.text))
    Console().print(table)


def _search(words: Sequence[str]) -> None:
    options = parse(SearchOptions, words, "memory search", __doc__ or "")
    if options.kind not in KINDS:
        raise StoreError(unknown("kind of record", options.kind, KINDS))
    with _open(options.run) as store:
        matches = Retrieval(store, SentenceEncoder().encode).similar(options.text, options.kind, {}, options.n)
        _table(f"nearest to {options.text!r}", [(f"{match.similarity:.2f}", match.record) for match in matches])


def _export(words: Sequence[str]) -> None:
    options = parse(TransferOptions, words, "memory export", __doc__ or "")
    with _open(options.run) as store:
        number = export_memory(store, options.file)
    Console().print(f"wrote {number} records to {options.file}", highlight=False)


def _import(words: Sequence[str]) -> None:
    options = parse(TransferOptions, words, "memory import", __doc__ or "")
    options.run.mkdir(parents=True, exist_ok=True)
    with MemoryStore(ArtifactRoot(options.run).memory_url) as store:
        done = import_memory(store, options.file)
    text = f"{done.added} added, {done.replaced} replaced by a newer state, {done.known} known already"
    Console().print(text, highlight=False)


_ACTIONS: dict[str, Callable[[Sequence[str]], None]] = {
    "show": _show, "search": _search, "export": _export, "import": _import,
}
