"""Reads rosbag2 recordings of both storages: folders, single files, without metadata, cut off, of other recorders."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rosbags.interfaces import MessageDefinitionFormat
from rosbags.interfaces.typing import Typesdict
from rosbags.rosbag2 import Reader
from rosbags.typesys import get_types_from_idl, get_types_from_msg
from rosbags.typesys.store import Typestore

from coda_nodes.critic.bag_salvage import MAGIC, RawBag, salvage_mcap, salvage_sqlite
from coda_nodes.world.bag_types import TYPES, typestore
from coda_nodes.world.errors import ArtifactError, MessageError, unknown

SQLITE_MAGIC = b"SQLite format 3\x00"
ENDINGS = (".mcap", ".db3")
"""Files that are looked at in a folder."""


@dataclass(frozen=True)
class BagMessage:
    """One message, under the name of the topic that CoDA gives it."""

    topic: str
    time: int
    """When it was recorded [ns]."""
    message: Any
    """Fields as in its definition, arrays as numpy."""


@dataclass(frozen=True)
class Bag:
    """The messages asked for in order of recording, and what the bag holds at all."""

    path: Path
    messages: list[BagMessage]
    types: dict[str, str]
    """Topic as recorded -> type."""
    counts: dict[str, int]
    """Topic as recorded -> number of messages."""
    notes: list[str]
    """What is missing or was repaired, a sentence each."""

    @property
    def contents(self) -> str:
        """What the bag holds, for people."""
        rows = [f"{topic} ({self.types.get(topic, 'unknown type')}, {count})" for topic, count in sorted(self.counts.items())]
        return ", ".join(rows) or "no message"


def is_bag(path: Path) -> bool:
    """Whether a path is a folder, or a file of one of both storages, by its name or first bytes."""
    return path.is_dir() or path.suffix in ENDINGS or _storage(path) != ""


def parse_topic_map(pairs: Collection[str]) -> dict[str, str]:
    """``OURS=THEIRS`` pairs as a mapping. Raises MessageError that lists our topics."""
    renamed = {}
    for pair in pairs:
        ours, equals, theirs = pair.partition("=")
        if not equals or not theirs.startswith("/"):
            raise MessageError(f"topic map {pair!r}: expected OURS=THEIRS, as in /joint_states=/arm/joint_states")
        if ours not in TYPES:
            raise MessageError(unknown("topic of ours", ours, TYPES))
        renamed[ours] = theirs
    return renamed


def read_bag(path: Path, renamed: Mapping[str, str] | None = None, extra: Mapping[str, str] | None = None) -> Bag:
    """Read the topics that a critic listens to.

    Args:
        path: a bag's folder, or one of its files.
        renamed: our topic -> its name in the bag, where that differs.
        extra: further topics in the bag -> their types, as of cameras.

    Raises:
        ArtifactError: there is no bag, or nothing of it can be read.
        MessageError: a topic is of another type than agreed, or a topic that was named is not in the bag.
    """
    ours = {(renamed or {}).get(topic, topic): topic for topic in TYPES} | {topic: topic for topic in extra or {}}
    raw = _read_raw(path, ours)
    for topic in (renamed or {}).values():
        if topic not in raw.types:
            raise MessageError(f"{path}: {unknown('topic', topic, sorted(raw.types))}")
    expected = {**TYPES, **(extra or {})}
    for theirs, topic in ours.items():
        kind = raw.types.get(theirs)
        if kind is not None and kind != expected[topic]:
            raise MessageError(f"{path}: topic {theirs} is {kind}, expected {expected[topic]}")
    store = typestore(_definitions(raw, ours))
    messages, broken = _decoded(raw, ours, store)
    notes = [*raw.notes, *(f"{count} messages on {topic} cannot be decoded and are left out" for topic, count in broken.items())]
    return Bag(path, messages, raw.types, raw.counts, notes)


def _decoded(raw: RawBag, ours: Mapping[str, str], store: Typestore) -> tuple[list[BagMessage], dict[str, int]]:
    messages, broken = [], {}
    for theirs, time, data in raw.messages:
        try:
            message = store.deserialize_cdr(data, raw.types[theirs])
        except Exception:  # bytes of any kind: the library raises many kinds of errors for them
            broken[theirs] = broken.get(theirs, 0) + 1
        else:
            messages.append(BagMessage(ours[theirs], time, message))
    return messages, broken


def _definitions(raw: RawBag, topics: Collection[str]) -> Typesdict:
    """Types as the bag itself defines them; where it cannot be understood, ours are used."""
    found: Typesdict = {}
    for topic in topics:
        kind = raw.types.get(topic, "")
        definition = raw.definitions.get(kind)
        if definition is not None and definition.format == MessageDefinitionFormat.MSG:
            found.update(get_types_from_msg(definition.data, kind))
        elif definition is not None and definition.format == MessageDefinitionFormat.IDL:
            for part in definition.data.split("=" * 80 + "\n"):
                found.update(get_types_from_idl(part.partition("\n")[2] if part.startswith("IDL: ") else part) if part else {})
    return found


def _read_raw(path: Path, topics: Collection[str]) -> RawBag:
    if not path.exists():
        raise ArtifactError(f"no such file or folder: {path}")
    if not path.is_dir():
        return _read_file(path, topics)
    described = (path / "metadata.yaml").exists()
    if described:
        try:
            return _read_by_library(path, topics)
        except Exception as error:  # damaged files raise errors of many kinds
            why = f"metadata.yaml does not fit its files ({error})"
    files = sorted(file for file in path.iterdir() if file.suffix in ENDINGS)
    if not files:
        inside = sorted(file.parent.name for file in path.glob("*/metadata.yaml"))
        if inside:
            raise ArtifactError(f"{path} holds {len(inside)} bags, name one of them: {', '.join(inside[:8])}")
        what = "metadata.yaml names files that cannot be read" if described else "no metadata.yaml"
        raise ArtifactError(f"{path} is no rosbag2: {what}, and no file that ends in {' or '.join(ENDINGS)}")
    bag = RawBag(notes=[why if described else f"metadata.yaml is missing; its content was taken from {len(files)} file(s)"])
    lost: list[str] = []
    for file in files:
        try:
            _extend(bag, _read_file(file, topics))
        except ArtifactError as error:
            lost.append(str(error))
    if len(lost) == len(files):
        raise ArtifactError("; ".join(lost))
    bag.notes += lost
    return bag


def _extend(bag: RawBag, more: RawBag) -> None:
    bag.types.update(more.types)
    bag.definitions.update(more.definitions)
    bag.messages += more.messages
    bag.notes += more.notes
    for topic, count in more.counts.items():
        bag.counts[topic] = bag.counts.get(topic, 0) + count


def _storage(path: Path) -> str:
    """Ending that fits what is in a file, whatever its name says; empty for neither storage."""
    with open(path, "rb") as file:
        begin = file.read(len(SQLITE_MAGIC))
    if begin.startswith(MAGIC):
        return ".mcap"
    return ".db3" if begin == SQLITE_MAGIC else ""


def _read_file(path: Path, topics: Collection[str]) -> RawBag:
    storage = _storage(path)
    if not storage:
        size = path.stat().st_size
        raise ArtifactError(f"{path} ({size} bytes) is neither an MCAP nor an sqlite3 bag: its first bytes are of another format")
    try:
        bag = _read_by_library(path, topics, storage)
    except Exception:  # damaged files raise errors of many kinds
        bag = salvage_mcap(path, topics) if storage == ".mcap" else salvage_sqlite(path, topics)
        if not bag.notes:
            bag.note_loss(path, "is damaged")
    if path.suffix != storage:
        bag.notes.append(f"{path.name} holds {'MCAP' if storage == '.mcap' else 'sqlite3'}, another format than its name says")
    return bag


def _read_by_library(path: Path, topics: Collection[str], storage: str = "") -> RawBag:
    """A whole bag. Raises errors of many kinds for damaged files."""
    reader = Reader.STORAGE_PLUGINS[storage or "dir"](path)
    reader.open()
    try:
        connections = list(reader.connections)
        bag = RawBag({c.topic: c.msgtype for c in connections}, {c.msgtype: c.msgdef for c in connections})
        for connection in connections:
            bag.counts[connection.topic] = bag.counts.get(connection.topic, 0) + connection.msgcount
        chosen = [connection for connection in connections if connection.topic in topics]
        if chosen:
            bag.messages = [(c.topic, time, bytes(data)) for c, time, data in reader.messages(chosen)]
        return bag
    finally:
        reader.close()
