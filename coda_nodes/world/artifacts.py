"""The artifact root of a run: content-addressed files written by atomic rename, so nothing half-written is listed."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from coda_nodes.world.errors import ArtifactError


def content_hash(data: bytes) -> str:
    """First 16 hex digits of the SHA-256 of ``data``."""
    return hashlib.sha256(data).hexdigest()[:16]


def write_atomic(path: Path, data: bytes) -> None:
    """Write ``data`` beside ``path``, flush it to disk, then rename. Raises ArtifactError when the disk refuses."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(partial, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise ArtifactError(f"cannot write {path}: {error.strerror or error}") from error


def sweep(folder: Path) -> int:
    """Delete what killed processes have left half written below a folder; return how many files and folders.

    Call it only where nobody else writes there.
    """
    found = list(folder.rglob(".*.part"))
    for path in found:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                path.unlink()
    return len(found)


def pack_arrays(arrays: Mapping[str, np.ndarray], document: Any) -> bytes:
    """Pack arrays and one JSON document (under the key ``json``) as a compressed npz without pickle."""
    text = np.frombuffer(json.dumps(document, sort_keys=True).encode(), dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, json=text, **arrays)
    return buffer.getvalue()


def unpack_arrays(path: Path) -> tuple[dict[str, np.ndarray], Any]:
    """Read what ``pack_arrays`` packed. Raises ArtifactError when the file is missing, damaged or needs pickle."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files if key != "json"}
            return arrays, json.loads(bytes(archive["json"]).decode())
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise ArtifactError(f"cannot read {path}: {error}") from error
    except Exception as error:  # zipfile raises its own kinds for damaged archives
        raise ArtifactError(f"cannot read {path}: {type(error).__name__}: {error}") from error


class ArtifactRoot:
    """Folder layout of one run.

    ``environments/<hash>.jsonl``, ``episodes/<hash>.npz``, ``checkpoints/<hash>/``, ``bags/<hash>/``, ``plans/<hash>.json``,
    ``memory.sqlite``, ``summary.json``, ``report.html``, ``logs/``.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def environments(self, key: str) -> Path:
        """File of a set of environment specifications."""
        return self.path / "environments" / f"{key}.jsonl"

    def episode(self, key: str) -> Path:
        """File of one episode."""
        return self.path / "episodes" / f"{key}.npz"

    def checkpoint(self, key: str) -> Path:
        """Folder of one checkpoint."""
        return self.path / "checkpoints" / key

    def bag(self, key: str) -> Path:
        """Folder of the rosbag2 of one episode."""
        return self.path / "bags" / key

    @property
    def memory_url(self) -> str:
        """SQLAlchemy URL of the shared memory."""
        return f"sqlite:///{self.path / 'memory.sqlite'}"

    def episode_keys(self) -> Iterator[str]:
        """Hashes of all finished episodes."""
        for path in sorted((self.path / "episodes").glob("*.npz")):
            if not path.name.startswith("."):
                yield path.stem
