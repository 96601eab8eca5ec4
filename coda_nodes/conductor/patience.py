"""What the loop bears: nodes that are lost, and causes outside of it that may pass."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from coda_nodes.world.artifacts import ArtifactRoot, write_atomic
from coda_nodes.world.config import check_settings, setting
from coda_nodes.world.errors import ArtifactError, ClockError, CodaError, NodeError, NodeLostError, may_pass

T = TypeVar("T")
FIRST_LOOK, LONGEST_LOOK = 1.0, 60.0
"""Time to the first look whether a cause has passed; each next one takes twice as long, up to the second [s]."""
SLICE = 0.1
"""How often a pause looks whether the run is to stop [s]."""
PROBE = 256 * 1024
"""Written into every folder of the run to see whether that is possible again [bytes]."""
CLOCK_TOLERANCE = 2.0
"""Steps back of the clock that time services make in ordinary work [s]."""


@dataclass(frozen=True)
class PatienceConfig:
    """What the loop does about what goes wrong outside of it."""

    step_repeats: int = setting(10, "times a step is done again in which a node was lost", low=0, high=1000)
    pause: float = setting(
        43200.0, "longest pause while the disk is full, permission lost, the memory locked or the clock behind", "s", 0.0, 1e7
    )

    def __post_init__(self) -> None:
        check_settings(self)


class Patience:
    """Does things again that were stopped from outside; `tell` receives a sentence about each pause."""

    def __init__(
        self, root: ArtifactRoot, config: PatienceConfig | None = None,
        tell: Callable[[str], None] = lambda text: None, stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.config, self.tell, self._root, self._stopped = config or PatienceConfig(), tell, root, stopped
        self._latest = _last_written(root.path / "journal")

    def insist(self, what: str, run: Callable[[], T]) -> T:
        """Return ``run()``; do it again when a node was lost meanwhile, and as ``bear`` does.

        Raises:
            NodeLostError: for the last of the repeats.
            CodaError: as ``bear``.
        """
        for left in range(self.config.step_repeats, 0, -1):
            try:
                return self.bear(run)
            except NodeLostError as error:
                self.tell(f"{error}; {what} is done again ({left} more times at most)")
        return self.bear(run)

    def bear(self, run: Callable[[], T]) -> T:
        """Return ``run()``; wait and do it again as long as something outside refuses that may pass.

        Raises:
            ArtifactError: it has not passed within the longest pause.
            NodeError: the run was cancelled meanwhile.
            CodaError, OSError: anything else that ``run`` raises.
        """
        begun: float | None = None
        look = FIRST_LOOK
        while True:
            try:
                self._check_clock()
                result = run()
                self._check_clock()
            except (CodaError, OSError) as error:
                if not may_pass(error):
                    raise
                if begun is None:
                    begun = time.monotonic()
                    self.tell(f"paused: {error}; goes on by itself when that has passed, stops after {self._limit}")
                look = self._wait(error, begun + self.config.pause, look)
                continue
            if begun is not None:
                self.tell(f"goes on after a pause of {time.monotonic() - begun:.0f} s")
            return result

    @property
    def _limit(self) -> str:
        pause = self.config.pause
        return f"{pause / 3600:g} h" if pause >= 3600 else f"{pause:g} s"

    def _wait(self, error: Exception, end: float, look: float) -> float:
        """Return the time to the next look once nothing stands in the way. Raises ArtifactError at the end."""
        idle = threading.Event()
        while True:
            until = min(end, time.monotonic() + look)
            while time.monotonic() < until:
                if self._stopped():
                    raise NodeError(f"the run was cancelled in a pause ({error}); what is finished stays")
                idle.wait(SLICE)
            look = min(2 * look, LONGEST_LOOK)
            if time.monotonic() >= end:
                final = ArtifactError(f"stopped after a pause of {self._limit}: {error}; the same command continues the run")
                final.passing = False
                raise final from error
            if not self._obstructed():
                return look

    def _obstructed(self) -> bool:
        """Whether the clock is behind, a folder of the run refuses to be written, or the memory to be locked."""
        try:
            self._check_clock()
            for folder in (self._root.path, *self._root.path.glob("*/"), *self._root.path.glob("journal/*/")):
                _probe(folder)
            _probe_memory(self._root.path / "memory.sqlite")
        except (CodaError, OSError, sqlite3.Error):
            return True
        return False

    def _check_clock(self) -> None:
        """Raise ClockError when the clock shows less than it did before, in this process or in the journal."""
        now = time.time()
        if now < self._latest - CLOCK_TOLERANCE:
            shown, seen = (time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(t)) for t in (now, self._latest))
            raise ClockError(f"the clock shows {shown}, but it was {seen} already when this run was last at work")
        self._latest = max(self._latest, now)


def _last_written(journal: Path) -> float:
    """Time of the last finished step [s]; 0 for a new run."""
    return max((path.stat().st_mtime for path in journal.glob("*/*.json")), default=0.0)


def _probe(folder: Path) -> None:
    if folder.is_dir():
        path = folder / ".probe"
        write_atomic(path, bytes(PROBE))
        path.unlink()


def _probe_memory(path: Path) -> None:
    if path.exists():
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=0)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
