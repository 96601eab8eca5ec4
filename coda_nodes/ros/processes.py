"""Starting, watching and ending the processes of a graph where no launch system does it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType

from coda_nodes.ros import reaper
from coda_nodes.ros.graph import NodeProcess
from coda_nodes.ros.heartbeat import HEARTBEAT, Pulse
from coda_nodes.ros.lifetime import REAPER, parent_alive
from coda_nodes.world.errors import NodeError

__all__ = ["NodeEnd", "NodeGroup", "parent_alive", "termination_as_interrupt"]

_TAIL = 15  # log lines shown of a node that died
_POLL = 0.02  # [s]


@dataclass(frozen=True)
class NodeEnd:
    """A node that ended by itself."""

    name: str
    status: int
    """Exit status; negative: the signal that ended it."""
    log: Path
    last_lines: tuple[str, ...]

    @property
    def how(self) -> str:
        """How it ended, in words."""
        if self.status < 0:
            return f"was ended by {_signal_name(-self.status)}"
        return f"ended with status {self.status}"

    def __str__(self) -> str:
        lines = "".join(f"\n    {line}" for line in self.last_lines)
        return f"node {self.name} {self.how}; its log ({self.log}) ends with:{lines or ' nothing'}"


class NodeGroup:
    """The processes of a graph; a context manager that ends all of them, with their workers.

    Each node leads a process group of its own, so that the processes it starts can be ended with it. Should
    this process die, by whatever signal, the reaper ends the groups. The log of a node is RUN/logs/NAME.log.
    """

    def __init__(
        self, nodes: Sequence[NodeProcess], run: Path, env: Mapping[str, str], grace: float = 6.0
    ) -> None:
        """`env` comes from `node_environment`; `grace` is the time for an orderly end [s]."""
        self._nodes = list(nodes)
        self._logs = Path(run) / "logs"
        self._env = dict(env)
        self._grace = grace
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._pulses: dict[str, Pulse] = {}
        self._reaper: subprocess.Popen[bytes] | None = None

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of the started nodes by name."""
        return {name: child.pid for name, child in self._children.items()}

    def start(self) -> NodeGroup:
        """Start all nodes. Raises NodeError where logs cannot be written; nothing is left running then."""
        try:
            self._logs.mkdir(parents=True, exist_ok=True)
            self._reaper = _start_reaper()
            self._env[REAPER] = str(self._reaper.pid)
            for node in self._nodes:
                self._start_node(node)
        except OSError as error:
            self.stop()
            raise NodeError(f"nodes cannot be started: {error}") from error
        except BaseException:
            self.stop()
            raise
        return self

    def _start_node(self, node: NodeProcess) -> None:
        pulse = self._pulses[node.name] = Pulse()
        with self.log_of(node.name).open("ab") as log:
            child = subprocess.Popen(
                node.command(),
                env={**self._env, HEARTBEAT: str(pulse.pipe)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(pulse.pipe,),
            )
        pulse.handed()
        self._children[node.name] = child
        self._tell_reaper("+", child.pid)

    def restart(self, name: str) -> None:
        """End a node at once, with its workers, and start it anew. Raises NodeError where it cannot be."""
        self._end(self._children.pop(name))
        self._pulses.pop(name).close()
        try:
            self._start_node(next(node for node in self._nodes if node.name == name))
        except OSError as error:
            raise NodeError(f"node {name} cannot be started anew: {error}") from error

    def log_of(self, name: str) -> Path:
        """Return the log file of a node."""
        return self._logs / f"{name}.log"

    def ended(self) -> list[NodeEnd]:
        """Return the nodes that ended although nobody stopped them; does not wait."""
        return [
            NodeEnd(name, child.returncode, self.log_of(name), _last_lines(self.log_of(name)))
            for name, child in self._children.items()
            if child.poll() is not None
        ]

    def silent(self, passed: float, limit: float, at_start: float) -> list[str]:
        """Return the nodes without a sign of life for too long.

        Args:
            passed: time since the last call [s].
            limit: silence that is too long [s].
            at_start: the same before the first sign of life [s].
        """
        for pulse in self._pulses.values():
            pulse.look(passed)
        return [
            name
            for name, pulse in self._pulses.items()
            if pulse.silent > (limit if pulse.begun else at_start)
        ]

    def check(self) -> None:
        """Raise NodeError with the last log lines of each node that ended by itself."""
        ends = self.ended()
        if ends:
            raise NodeError("; ".join(map(str, ends)))

    def stop(self) -> None:
        """End all nodes: SIGINT, then SIGTERM, then SIGKILL, each after its time; then their workers.

        A second interrupt by the person skips the waiting.
        """
        try:
            for number, patience in ((signal.SIGINT, self._grace), (signal.SIGTERM, self._grace / 2)):
                self._signal(number)
                if self._wait(patience):
                    break
        finally:
            for child in self._children.values():
                self._end(child)
            self._children.clear()
            for pulse in self._pulses.values():
                pulse.close()
            self._pulses.clear()
            self._stop_reaper()

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        """Kill the group of a node, which outlives its leader while workers live."""
        reaper.send(child.pid, signal.SIGKILL)
        child.wait()
        self._tell_reaper("-", child.pid)

    def _signal(self, number: int) -> None:
        for child in self._children.values():
            if child.poll() is None:
                child.send_signal(number)

    def _wait(self, patience: float) -> bool:
        """Wait until all nodes have ended; return whether they did in time."""
        deadline = time.monotonic() + patience
        while any(child.poll() is None for child in self._children.values()):
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL)
        return True

    def _tell_reaper(self, sign: str, group: int) -> None:
        if self._reaper is not None and self._reaper.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # somebody ended it; nodes still follow their parent
                self._reaper.stdin.write(f"{sign}{group}\n".encode())
                self._reaper.stdin.flush()

    def _stop_reaper(self) -> None:
        if self._reaper is not None and self._reaper.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._reaper.stdin.close()
            self._reaper.wait()
            self._reaper = None

    def __enter__(self) -> NodeGroup:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _start_reaper() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-S", reaper.__file__, str(os.getpid())]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)


def _last_lines(log: Path) -> tuple[str, ...]:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 16384))
            return tuple(file.read().decode(errors="replace").splitlines()[-_TAIL:])
    except OSError:
        return ()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@contextlib.contextmanager
def termination_as_interrupt() -> Iterator[None]:
    """Within the block SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does. Main thread only."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = (signal.SIGTERM, signal.SIGHUP)
    former = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, former, strict=True):
            signal.signal(number, handler)
