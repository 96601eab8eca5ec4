"""Start and end of a node process: one executor in its own thread, errors caught once, orderly shutdown."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import rclpy
from rclpy.clock import Clock, ClockType
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from coda_nodes.ros import heartbeat
from coda_nodes.ros.lifetime import follow_parent
from coda_nodes.world.errors import CodaError, may_pass

FOR_NOW = 75
"""Status of a node that cannot run for now (EX_TEMPFAIL); a new start may succeed."""
_PATIENCE = 3.0
"""A second signal this long after the first one ends the process at once [s]."""
_LAST_TURNS = 20
"""Callbacks still run after the stop: answers of work that has just ended are sent."""
_log = logging.getLogger(__name__)
# one line each: a ROS logger refuses two severities from one place in the code
_EMIT: dict[int, Callable[[Any, str], Any]] = {
    logging.DEBUG: lambda logger, text: logger.debug(text),
    logging.INFO: lambda logger, text: logger.info(text),
    logging.WARNING: lambda logger, text: logger.warning(text),
    logging.ERROR: lambda logger, text: logger.error(text),
    logging.CRITICAL: lambda logger, text: logger.fatal(text),
}


class Spinner:
    """Spins nodes on one SingleThreadedExecutor in a thread of its own; a context manager."""

    def __init__(self, *nodes: Node) -> None:
        self._executor = SingleThreadedExecutor(context=nodes[0].context)
        for node in nodes:
            self._executor.add_node(node)
        self.ended = threading.Event()
        """Set when spinning ends, also by an error."""
        self.error: BaseException | None = None
        """What ended it, if not ``stop``."""
        self._stopping = False
        self._thread = threading.Thread(target=self._spin, daemon=True, name="executor")
        # clients refuse to block this thread, see clients.py
        self._executor.spin_thread = self._thread  # type: ignore[attr-defined]

    def start(self) -> Spinner:
        """Begin to spin."""
        self._thread.start()
        return self

    def stop(self, timeout: float = 5.0) -> None:
        """End spinning and wait for the thread."""
        self._stopping = True
        self._executor.create_task(lambda: None)  # work, because a mere wake-up waits on
        self._thread.join(timeout)
        self._executor.shutdown(timeout_sec=0)

    def _spin(self) -> None:
        try:
            while not self._stopping and self._executor.context.ok():
                self._executor.spin_once()
            for _ in range(_LAST_TURNS):
                self._executor.spin_once(timeout_sec=0)
        except BaseException as error:
            if not self._stopping:
                self.error = error
        self.ended.set()

    def __enter__(self) -> Spinner:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class RosHandler(logging.Handler):
    """Sends Python log records to the logger of a node, so that they reach the console and /rosout."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self._logger = node.get_logger()

    def emit(self, record: logging.LogRecord) -> None:
        """Log one record under the severity nearest to its level."""
        level = max(logging.DEBUG, min(logging.CRITICAL, record.levelno // 10 * 10))
        _EMIT[level](self._logger, self.format(record))


def run_node(make: Callable[[], Node], args: Sequence[str] | None = None) -> int:
    """Run the node that ``make`` builds until SIGINT, SIGTERM or the end of the parent; return the status.

    A node may have ``close()``, called while the graph still works, so that an arm can be told to hold, and
    ``finished``, an event that ends it with its ``status``.
    0: ended on request; 1: unexpected error (traceback logged); 2: an error CoDA raises on purpose (one
    line); 75: the same where it may pass.
    """
    stop = threading.Event()
    _handle_signals(stop)
    follow_parent()
    rclpy.init(
        args=list(args) if args is not None else sys.argv, signal_handler_options=SignalHandlerOptions.NO
    )
    try:
        return _run(make, stop)
    except CodaError as error:
        sys.stderr.write(f"error: {error}\n")
        return FOR_NOW if may_pass(error) else 2
    except Exception:
        _log.exception("node ended by an unexpected error")
        return 1
    finally:
        rclpy.try_shutdown()


def _run(make: Callable[[], Node], stop: threading.Event) -> int:
    node = make()
    handler = RosHandler(node)
    logging.getLogger("coda_nodes").addHandler(handler)
    logging.getLogger("coda_nodes").setLevel(logging.INFO)
    _beat(node)
    spinner = Spinner(node).start()
    node.get_logger().info("ready")
    try:
        status = _wait(stop, spinner, node)
    finally:
        finished = _close(node)
        spinner.stop()
        logging.getLogger("coda_nodes").removeHandler(handler)
        if finished:
            node.destroy_node()
    if spinner.error is not None:
        raise spinner.error
    if not finished:  # a worker thread still computes: leaving by the interpreter's end would wait for it
        _leave(status)
    return status


def _beat(node: Node) -> None:
    """Show signs of life as long as the node's executor turns."""
    pipe = heartbeat.take_pipe()
    if pipe is not None:
        clock = Clock(clock_type=ClockType.STEADY_TIME)
        node.create_timer(heartbeat.PERIOD, lambda: heartbeat.write(pipe), clock=clock)


def _wait(stop: threading.Event, spinner: Spinner, node: Any) -> int:
    """Wait until the node is to end; return its status."""
    finished = getattr(node, "finished", spinner.ended)
    while not stop.wait(0.2):
        if spinner.ended.is_set() or finished.is_set():
            break
    return int(getattr(node, "status", 0))


def _close(node: Any) -> bool:
    """Close the node; return whether all its threads ended."""
    close = getattr(node, "close", None)
    return close() is not False if close is not None else True


def _handle_signals(stop: threading.Event) -> None:
    first: list[float] = []

    def handle(number: int, frame: Any) -> None:
        first.append(time.monotonic())
        if first[-1] - first[0] > _PATIENCE:  # several watchers may signal at once; that is not impatience
            _leave(128 + number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)


def _leave(status: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
