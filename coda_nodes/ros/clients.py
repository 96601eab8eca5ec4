"""Blocking, typed clients of services and actions, for threads other than the executor's."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
from rclpy.action import ActionClient
from rclpy.node import Node
from rclpy.task import Future
from unique_identifier_msgs.msg import UUID

from coda_nodes.ros.background import FOR_NOW
from coda_nodes.ros.lives import Lives
from coda_nodes.ros.qos import EVENTS
from coda_nodes.world.errors import NodeError, NodeLostError

ACCEPT_TIME = 30.0
"""Time in which a server has to accept a goal [s]."""
_QUIET = 0.1
"""Silence after the result of a goal that is taken for the end of its feedback [s]."""
_SLICE = 0.2
"""How often a wait looks whether the server is still there [s]."""
GONE_AFTER = 3.0
"""A server that is not seen for so long while it owes an answer has ended [s]."""


class ServiceCaller:
    """Calls one service: ``ServiceCaller(node, Generate, names.GENERATE).call(request, timeout=30)``."""

    def __init__(self, node: Node, kind: Any, name: str) -> None:
        self._node, self._name = node, name
        self._client = node.create_client(kind, name)
        self._lives = Lives(node, name)

    def wait(self, timeout: float) -> None:
        """Wait until the service is there.

        Raises NodeError that lists the nodes that are, after ``timeout`` [s].
        """
        _wait_for(self._ready, self._node, f"service {self._name}", timeout)

    def _ready(self) -> bool:
        return self._client.service_is_ready() and self._lives.settled()

    def call(self, request: Any, timeout: float, discovery: float = 10.0) -> Any:
        """Send ``request`` and return the accepted response.

        Raises:
            NodeLostError: the server ended or was started anew, or no answer came within ``timeout`` [s].
            NodeError: no such service within ``discovery`` [s], the request was refused (the message is the
                server's; ``passing`` tells whether it may be granted later), or called from the executor thread.
        """
        _refuse_executor_thread(self._node, self._name)
        self.wait(discovery)
        watch = _Server(f"service {self._name}", self._client.service_is_ready, self._lives)
        future = self._client.call_async(request)
        try:
            response = watch.result(future, timeout)
        finally:
            self._client.remove_pending_request(future)
        if not getattr(response, "accepted", True):
            raise _refusal(self._name, response.message)
        return response


class ActionCaller:
    """Runs goals of one action."""

    def __init__(self, node: Node, kind: Any, name: str) -> None:
        self._node, self._name = node, name
        self._client = ActionClient(node, kind, name)
        self._lives = Lives(node, name)
        # a subscription of our own, because the client forgets feedback that its goal's result has overtaken
        self._listeners: dict[bytes, _Listener] = {}
        node.create_subscription(kind.Impl.FeedbackMessage, f"{name}/_action/feedback", self._hear, EVENTS)

    def wait(self, timeout: float) -> None:
        """Wait until the server is there.

        Raises NodeError that lists the nodes that are, after ``timeout`` [s].
        """
        _wait_for(self._ready, self._node, f"action {self._name}", timeout)

    def _ready(self) -> bool:
        return self._client.server_is_ready() and self._lives.settled()

    def run(
        self,
        goal: Any,
        timeout: float,
        on_feedback: Callable[[Any], None] | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        discovery: float = 10.0,
    ) -> Any:
        """Send ``goal``, wait for its end, return its result.

        ``on_feedback`` is called on the executor thread. Once ``cancelled()`` is true the goal is cancelled,
        and the result tells what was done until then.

        Raises:
            NodeError, NodeLostError: as ``ServiceCaller.call``; a goal that is not done after ``timeout`` [s]
                is cancelled first.
        """
        _refuse_executor_thread(self._node, self._name)
        self.wait(discovery)
        key = uuid.uuid4().bytes
        listener = self._listeners[key] = _Listener(on_feedback)
        try:
            result, stopped = self._run(goal, key, timeout, cancelled)
            listener.settle()
        finally:
            del self._listeners[key]
        if not getattr(result, "accepted", True) and not stopped:
            raise _refusal(self._name, result.message)
        return result

    def _run(self, goal: Any, key: bytes, timeout: float, cancelled: Callable[[], bool]) -> tuple[Any, bool]:
        """Result of a goal, and whether it was cancelled.

        Requests are sent by the executor thread: in another one an answer can overtake the bookkeeping of its
        request, and is lost then.
        """
        executor = self._node.executor
        server = _Server(f"action {self._name}", self._client.server_is_ready, self._lives)
        name = UUID(uuid=np.frombuffer(key, dtype=np.uint8))
        sent = executor.create_task(lambda: self._client.send_goal_async(goal, goal_uuid=name))
        handle = server.result(server.result(sent, ACCEPT_TIME), ACCEPT_TIME)
        if not handle.accepted:
            raise NodeError(f"{self._name} did not accept the goal")
        asked = executor.create_task(handle.get_result_async)
        watch = _Cancel(executor, handle, cancelled)
        try:
            return server.result(server.result(asked, timeout), timeout, watch).result, watch.sent
        except NodeError:
            executor.create_task(handle.cancel_goal_async)
            raise

    def _hear(self, message: Any) -> None:
        listener = self._listeners.get(bytes(message.goal_id.uuid))
        if listener is not None:
            listener.hear(message.feedback)


class _Listener:
    """Hands feedback on, and knows when the last of it has probably come."""

    def __init__(self, on_feedback: Callable[[Any], None] | None) -> None:
        self._on_feedback = on_feedback
        self._heard = threading.Event()

    def hear(self, feedback: Any) -> None:
        self._heard.set()
        if self._on_feedback is not None:
            self._on_feedback(feedback)

    def settle(self) -> None:
        """Wait for feedback that the result has overtaken, until none comes for a while."""
        if self._on_feedback is None:
            return
        self._heard.clear()
        while self._heard.wait(_QUIET):
            self._heard.clear()


class _Cancel:
    """Sends one cancel request once it is wanted."""

    def __init__(self, executor: Any, handle: Any, wanted: Callable[[], bool]) -> None:
        self._executor, self._handle, self._wanted = executor, handle, wanted
        self.sent = False

    def __call__(self) -> None:
        if not self.sent and self._wanted():
            self.sent = True
            self._executor.create_task(self._handle.cancel_goal_async)


def _refuse_executor_thread(node: Node, name: str) -> None:
    if node.executor is None:
        raise NodeError(f"node {node.get_name()} does not spin, so {name} cannot answer it")
    if getattr(node.executor, "spin_thread", None) is threading.current_thread():
        raise NodeError(f"{name} called from a callback of {node.get_name()}: its answer could never arrive")


def _refusal(name: str, message: str) -> NodeError:
    error = NodeError(f"{name} refused: {message.removeprefix(FOR_NOW)}")
    error.passing = message.startswith(FOR_NOW)
    return error


def _wait_for(ready: Callable[[], bool], node: Node, what: str, timeout: float) -> None:
    end = time.monotonic() + timeout
    pause = threading.Event()
    while not ready():
        if time.monotonic() > end:
            running = ", ".join(sorted(set(node.get_node_names()))) or "none"
            raise NodeError(f"{what} not found after {timeout:g} s; nodes that run: {running}")
        pause.wait(0.02)


class _Server:
    """The node that owes an answer from now on."""

    def __init__(self, what: str, ready: Callable[[], bool], lives: Lives) -> None:
        self._what, self._ready, self._lives = what, ready, lives
        self._life = lives.seen()

    def result(self, future: Future[Any], timeout: float, each: Callable[[], None] = lambda: None) -> Any:
        """Wait for its answer. Raises NodeLostError where none will come, or none did in ``timeout`` [s]."""
        done = threading.Event()
        future.add_done_callback(lambda _: done.set())
        end = time.monotonic() + timeout
        there = time.monotonic()
        while not done.wait(_SLICE):
            each()
            now = time.monotonic()
            there = now if self._ready() else there
            if now - there > GONE_AFTER:
                raise NodeLostError(f"{self._what}: its node ended before it answered")
            if self._started_anew():
                raise NodeLostError(f"{self._what}: its node was started anew before it answered")
            if now > end:
                raise NodeLostError(f"{self._what} did not answer within {timeout:g} s")
        return future.result()

    def _started_anew(self) -> bool:
        """Whether the node has another life than when it was asked.

        A killed one is seen for a while longer (20 s with Fast DDS), so that its absence says nothing yet.
        """
        seen = self._lives.seen()
        if not self._life:  # the service was found before the name of its node
            self._life = seen
        return bool(seen - self._life)
