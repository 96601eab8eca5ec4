"""What can still be read of storage files that a crash cut off or damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import lz4.frame
import zstandard
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Channel, Message, Schema
from rosbags.interfaces import MessageDefinition, MessageDefinitionFormat

MAGIC = b"\x89MCAP0\r\n"
_HEAD = 9
"""Bytes before the body of an MCAP record: its kind and its length."""
_FORMATS = {"ros2msg": MessageDefinitionFormat.MSG, "ros2idl": MessageDefinitionFormat.IDL}


@dataclass
class RawBag:
    """Messages as bytes, in the order of the file."""

    types: dict[str, str] = field(default_factory=dict)
    """Topic -> type."""
    definitions: dict[str, MessageDefinition] = field(default_factory=dict)
    """Type -> its definition, where the bag holds it."""
    messages: list[tuple[str, int, bytes]] = field(default_factory=list)
    """Topic, time of recording [ns], CDR."""
    counts: dict[str, int] = field(default_factory=dict)
    """Topic -> messages in the bag, also of topics that were not asked for."""
    notes: list[str] = field(default_factory=list)
    """What is missing or was repaired, a sentence each."""

    def note_loss(self, path: Path, why: str) -> None:
        """Say that a file was read in part only."""
        last = max((time for _, time, _ in self.messages), default=0)
        count = sum(self.counts.values())
        self.notes.append(f"{path.name} {why}: {count} messages up to {last / 1e9:.2f} s could be read, what follows is missing")


def salvage_mcap(path: Path, topics: Collection[str]) -> RawBag:
    """Messages of a cut-off MCAP file, those of a cut-off chunk included; a chunk that is damaged is left out."""
    bag = RawBag()
    data = path.read_bytes()
    reader = _McapRecords(bag, topics)
    whole = reader.take(data[len(MAGIC) :], top=True)
    if reader.damaged:
        bag.notes.append(f"{path.name}: {reader.damaged} damaged chunks are left out")
    if not whole:
        bag.note_loss(path, "is cut off")
    return bag


class _McapRecords:
    """Goes through MCAP records and keeps the messages of some topics."""

    def __init__(self, bag: RawBag, topics: Collection[str]) -> None:
        self._bag, self._topics = bag, topics
        self._schemas: dict[int, Schema] = {}
        self._channels: dict[int, Channel] = {}
        self.damaged = 0
        self._ended = False

    def take(self, data: bytes, top: bool = False) -> bool:
        """Read records one after the other; return whether the last one is whole (and, on top, that data ended in
        order)."""
        for kind, body, whole in _split(data):
            if kind == Opcode.CHUNK:
                self._chunk(body, whole)
            elif not whole:
                return False
            elif kind in (Opcode.DATA_END, Opcode.FOOTER):
                self._ended = True
                return True
            else:
                self._record(kind, body)
            if not whole:
                return False
        return not top

    def _record(self, kind: int, body: bytes) -> None:
        stream = ReadDataStream(BytesIO(body))
        if kind == Opcode.SCHEMA:
            schema = Schema.read(stream)
            self._schemas[schema.id] = schema
        elif kind == Opcode.CHANNEL:
            self._channel(Channel.read(stream))
        elif kind == Opcode.MESSAGE:
            message = Message.read(stream, len(body))
            channel = self._channels.get(message.channel_id)
            if channel is not None:
                self._bag.counts[channel.topic] = self._bag.counts.get(channel.topic, 0) + 1
                if channel.topic in self._topics:
                    self._bag.messages.append((channel.topic, message.log_time, message.data))

    def _channel(self, channel: Channel) -> None:
        self._channels[channel.id] = channel
        schema = self._schemas.get(channel.schema_id)
        if schema is not None:
            self._bag.types[channel.topic] = schema.name
            text = MessageDefinition(_FORMATS.get(schema.encoding, MessageDefinitionFormat.NONE), schema.data.decode())
            self._bag.definitions[schema.name] = text

    def _chunk(self, body: bytes, whole: bool) -> None:
        """Records of a chunk: start, end, size (8 bytes each), checksum (4), compression, length of what follows."""
        if len(body) < 32:
            return
        name_length = int.from_bytes(body[28:32], "little")
        compression, begin = body[32 : 32 + name_length].decode(errors="replace"), 32 + name_length + 8
        try:
            records = _decompressed(body[begin:], compression, int.from_bytes(body[16:24], "little"), whole)
            self.take(records)
        except (McapError, ValueError, RuntimeError, zstandard.ZstdError):
            self.damaged += whole


def _split(data: bytes) -> Iterator[tuple[int, bytes, bool]]:
    """Kind and body of each record, and whether the body is whole."""
    place = 0
    while place + _HEAD <= len(data):
        length = int.from_bytes(data[place + 1 : place + _HEAD], "little")
        body = data[place + _HEAD : place + _HEAD + length]
        yield data[place], body, len(body) == length
        place += _HEAD + length


def _decompressed(data: bytes, compression: str, size: int, whole: bool) -> bytes:
    """Records of a chunk, as many as its bytes hold."""
    if compression == "zstd":
        return zstandard.decompress(data, size) if whole else zstandard.ZstdDecompressor().decompressobj().decompress(data)
    if compression == "lz4":
        return lz4.frame.LZ4FrameDecompressor().decompress(data)
    return data


def salvage_sqlite(path: Path, topics: Collection[str]) -> RawBag:
    """Messages of a damaged sqlite3 storage, up to the first row that cannot be read."""
    bag = RawBag()
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    connection.execute("PRAGMA writable_schema=ON")  # else a file shorter than its header says is refused altogether
    try:
        names = {key: (name, kind) for key, name, kind in _rows(connection, "SELECT id, name, type FROM topics")}
        bag.types = dict(names.values())
        for key, time, data in _rows(connection, "SELECT topic_id, timestamp, data FROM messages ORDER BY rowid"):
            name = names.get(key, ("", ""))[0]
            bag.counts[name] = bag.counts.get(name, 0) + 1
            if name in topics:
                bag.messages.append((name, time, data))
    except sqlite3.DatabaseError as error:
        bag.note_loss(path, f"is damaged ({error})")
    finally:
        connection.close()
    return bag


def _rows(connection: sqlite3.Connection, query: str) -> Iterator[Any]:
    yield from connection.execute(query)
