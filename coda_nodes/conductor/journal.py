"""A journal of finished steps: what makes a round resume where it was killed."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coda_nodes.world.artifacts import write_atomic
from coda_nodes.world.errors import ArtifactError

log = logging.getLogger(__name__)


class Journal:
    """Stores the JSON result of each named step below a folder, written by atomic rename.

    A step that finished is not run again: its stored result is returned. A step killed half way leaves nothing behind
    and runs again from its start.
    """

    def __init__(self, folder: Path, write: Callable[[Path, bytes], None] = write_atomic) -> None:
        self.folder, self._write = folder, write
        self.resumed: list[str] = []

    def step(self, name: str, run: Callable[[], Any]) -> Any:
        """Return the stored result of ``name``, or run it, store its JSON result and return that.

        Raises:
            ArtifactError: the stored result is not JSON, or the disk refuses the write.
        """
        path = self.folder / f"{name}.json"
        if path.exists():
            self.resumed.append(name)
            log.info("resumed: step %s of %s was finished before", name, self.folder.name)
            return self._read(path)
        text = json.dumps(run(), sort_keys=True)
        self._write(path, text.encode())
        return json.loads(text)

    def done(self, name: str) -> bool:
        """Whether the step has finished."""
        return (self.folder / f"{name}.json").exists()

    @staticmethod
    def _read(path: Path) -> Any:
        try:
            return json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise ArtifactError(f"cannot resume from {path}: {error}; delete it to run that step again") from error
