"""Long work off the executor thread, and services and actions that are served by it."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from rclpy.action import ActionServer, CancelResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.task import Future

from coda_nodes.ros.qos import EVENTS
from coda_nodes.world.errors import CodaError, may_pass

T = TypeVar("T")
_HEARD = 1.0
"""Longest wait for a listener to feedback before work begins without one [s]."""
FOR_NOW = "for now: "
"""Begins the reason of a refusal that may pass; the same request can be made again later."""
_log = logging.getLogger(__name__)


class Background:
    """Worker threads of one node, run in order of arrival; their results reach coroutines of the executor."""

    def __init__(self, node: Node, threads: int = 1) -> None:
        self.closing = threading.Event()
        """Set when the node ends; long work looks at it."""
        self.group = ReentrantCallbackGroup()
        """Callback group in which a waiting coroutine keeps nobody out."""
        self._node = node
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, daemon=True, name=f"work-{i}") for i in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Await ``function(*args)`` executed on a worker thread; its exception is raised here."""
        future: Future[T] = Future()
        self._jobs.put(lambda: self._execute(future, function, args))
        return await future  # type: ignore[return-value]

    def submit(self, function: Callable[[], Any]) -> None:
        """Run ``function`` on a worker thread; nobody waits for it."""
        self._jobs.put(function)

    def close(self, timeout: float = 5.0) -> bool:
        """Ask running work to end and wait up to ``timeout`` [s]; return whether all of it ended."""
        self.closing.set()
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join(timeout)
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self) -> None:
        while not self.closing.is_set():
            job = self._jobs.get()
            if job is not None:
                job()

    def _execute(self, future: Future[Any], function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        try:
            result, deliver = function(*args), future.set_result
        except Exception as error:
            result, deliver = error, future.set_exception
        deliver(result)
        executor = self._node.executor
        if executor is not None:
            executor.wake()  # it resumes waiting coroutines only when something happens


def serve(
    node: Node, kind: Any, name: str, handler: Callable[[Any, Any], Any], background: Background | None = None
) -> Any:
    """Serve ``handler(request, response) -> response``; a CodaError becomes ``accepted=False``.

    With ``background`` the handler runs on a worker thread while the executor goes on.
    """

    async def callback(request: Any, response: Any) -> Any:
        try:
            if background is None:
                return handler(request, response)
            return await background.run(handler, request, response)
        except CodaError as error:
            return refuse(kind.Response(), _words(error))
        except Exception as error:
            return refuse(kind.Response(), _unexpected(name, error))

    group = background.group if background is not None else None
    return node.create_service(kind, name, callback, callback_group=group)


def refuse(answer: Any, message: str) -> Any:
    """Mark a response or result as refused, with the reason."""
    answer.accepted = False
    answer.message = message
    return answer


def _words(error: CodaError) -> str:
    return f"{FOR_NOW if may_pass(error) else ''}{error}"


def _unexpected(name: str, error: Exception) -> str:
    if may_pass(error):
        return f"{FOR_NOW}{error}"
    _log.exception("%s failed", name)
    return f"{name} failed: {type(error).__name__}: {error}"


class Goal:
    """One goal of an action as its worker sees it."""

    def __init__(self, handle: Any, feedback_kind: Any, closing: threading.Event) -> None:
        self.request = handle.request
        self._handle, self._kind, self._closing = handle, feedback_kind, closing

    @property
    def cancelled(self) -> bool:
        """Whether the client asked to stop, or the node is ending."""
        return self._closing.is_set() or self._handle.is_cancel_requested

    def feedback(self, **fields: Any) -> None:
        """Publish feedback."""
        self._handle.publish_feedback(self._kind(**fields))


def serve_action(
    node: Node,
    kind: Any,
    name: str,
    work: Callable[[Goal], Any],
    background: Background,
    failed: Callable[[Any, str], Any],
) -> ActionServer:
    """Serve an action by ``work(goal) -> result`` on a worker thread.

    ``failed(result, message)`` fills the result of a goal whose work raised an error; such a goal is aborted.
    """

    async def execute(handle: Any) -> Any:
        try:
            result = await background.run(
                _begin, node, name, work, Goal(handle, kind.Feedback, background.closing)
            )
        except CodaError as error:
            return _abort(handle, failed(kind.Result(), _words(error)))
        except Exception as error:
            return _abort(handle, failed(kind.Result(), _unexpected(name, error)))
        if handle.is_cancel_requested:
            handle.canceled()
        else:
            handle.succeed()
        return result

    return ActionServer(
        node,
        kind,
        name,
        execute,
        callback_group=background.group,
        cancel_callback=lambda _: CancelResponse.ACCEPT,
        feedback_pub_qos_profile=EVENTS,
    )


def _begin(node: Node, name: str, work: Callable[[Goal], Any], goal: Goal) -> Any:
    """Do the work once somebody hears its feedback: discovery of the client may lag behind its goal."""
    pause, end = threading.Event(), time.monotonic() + _HEARD
    while not node.count_subscribers(f"{name}/_action/feedback") and time.monotonic() < end:
        pause.wait(0.01)
    return work(goal)


def _abort(handle: Any, result: Any) -> Any:
    if handle.is_cancel_requested:
        handle.canceled()
    else:
        handle.abort()
    return result
