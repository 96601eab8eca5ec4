"""Watches the nodes of a graph and starts those anew that die or hang, a bounded number of times."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from coda_nodes.ros.processes import NodeGroup
from coda_nodes.world.config import check_settings, setting
from coda_nodes.world.errors import NodeError

POLL = 0.1
"""Between two looks at the nodes [s]."""
LONGEST = 1.0
"""Most that one look counts as silence [s]: while all of the machine stood still, nobody was silent."""
ON_PURPOSE = 2
"""Status of a node that refuses to run, for a reason that a new start does not change."""


@dataclass(frozen=True)
class SupervisionConfig:
    """What is done about nodes that die or hang."""

    node_restarts: int = setting(3, "times a node that died or hangs is started anew within the window", low=0, high=1000)
    restart_window: float = setting(600.0, "time after which a restart counts no more", "s", 1.0, 1e6)
    silence: float = setting(30.0, "a node without a sign of life for so long hangs", "s", 3.0, 1e5)
    silence_at_start: float = setting(180.0, "the same while a node starts", "s", 5.0, 1e5)

    def __post_init__(self) -> None:
        check_settings(self)


class Allowance:
    """So many times within a window of time."""

    def __init__(self, count: int, window: float) -> None:
        """`window` in seconds."""
        self.count, self.window = count, window
        self._taken: deque[float] = deque()

    def take(self, now: float) -> int:
        """Take one at a time [s]; return how many are taken within the window, 0 where none was left."""
        while self._taken and now - self._taken[0] > self.window:
            self._taken.popleft()
        if len(self._taken) >= self.count:
            return 0
        self._taken.append(now)
        return len(self._taken)


class Supervisor:
    """Watches a group on a thread of its own; a context manager."""

    def __init__(self, group: NodeGroup, config: SupervisionConfig, tell: Callable[[str], None]) -> None:
        """`tell` receives a sentence about everything that is done; it is called on the thread."""
        self._group, self._config, self._tell = group, config, tell
        self._left = {name: Allowance(config.node_restarts, config.restart_window) for name in group.pids}
        self._end = threading.Event()
        self._failure = ""
        self._thread = threading.Thread(target=self._watch, daemon=True, name="supervisor")

    @property
    def failed(self) -> bool:
        """Whether a node stays down."""
        return bool(self._failure)

    def check(self) -> None:
        """Raise NodeError with the reason where a node stays down."""
        if self._failure:
            raise NodeError(self._failure)

    def _watch(self) -> None:
        before = time.monotonic()
        while not self._failure and not self._end.wait(POLL):
            now = time.monotonic()
            passed, before = min(now - before, LONGEST), now
            try:
                self._look(passed)
            except NodeError as error:
                self._failure = str(error)

    def _look(self, passed: float) -> None:
        config = self._config
        for end in self._group.ended():
            if end.status == ON_PURPOSE:
                raise NodeError(str(end))
            self._start_anew(end.name, end.how, str(end))
        for name in self._group.silent(passed, config.silence, config.silence_at_start):
            self._start_anew(name, "shows no sign of life", f"node {name} shows no sign of life")

    def _start_anew(self, name: str, how: str, reason: str) -> None:
        allowance = self._left[name]
        number = allowance.take(time.monotonic())
        if not number:
            raise NodeError(f"after {allowance.count} restarts within {allowance.window:g} s: {reason}")
        self._group.restart(name)
        self._tell(f"node {name} {how}; it is started anew ({number} of {allowance.count})")

    def __enter__(self) -> Supervisor:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()
