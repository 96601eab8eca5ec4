"""Blocking, typed clients of services and actions, for threads other than the executor's."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from rclpy.action import ActionClient
from rclpy.node import Node
from rclpy.task import Future

from coda_nodes.ros.qos import EVENTS
from coda_nodes.world.errors import NodeError

_SLICE = 0.2
"""How often a wait looks whether the server is still there [s]."""
GONE_AFTER = 3.0
"""A server that is not seen for so long while it owes an answer has ended [s]."""


class ServiceCaller:
    """Calls one service: ``ServiceCaller(node, Generate, names.GENERATE).call(request, timeout=30)``."""

    def __init__(self, node: Node, kind: Any, name: str) -> None:
        self._node, self._name = node, name
        self._client = node.create_client(kind, name)

    def wait(self, timeout: float) -> None:
        """Wait until the service is there.

        Raises NodeError that lists the nodes that are, after ``timeout`` [s].
        """
        _wait_for(self._client.service_is_ready, self._node, f"service {self._name}", timeout)

    def call(self, request: Any, timeout: float, discovery: float = 10.0) -> Any:
        """Send ``request`` and return the accepted response.

        Raises:
            NodeError: no such service within ``discovery`` [s], no answer within ``timeout`` [s], the server
                ended, the request was refused (the message is the server's), or called from the executor
                thread.
        """
        _refuse_executor_thread(self._node, self._name)
        self.wait(discovery)
        future = self._client.call_async(request)
        try:
            response = _result(future, self._client.service_is_ready, f"service {self._name}", timeout)
        finally:
            self._client.remove_pending_request(future)
        if not getattr(response, "accepted", True):
            raise NodeError(f"{self._name} refused: {response.message}")
        return response


class ActionCaller:
    """Runs goals of one action."""

    def __init__(self, node: Node, kind: Any, name: str) -> None:
        self._node, self._name = node, name
        self._client = ActionClient(node, kind, name, feedback_sub_qos_profile=EVENTS)

    def wait(self, timeout: float) -> None:
        """Wait until the server is there.

        Raises NodeError that lists the nodes that are, after ``timeout`` [s].
        """
        _wait_for(self._client.server_is_ready, self._node, f"action {self._name}", timeout)

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
            NodeError: as ``ServiceCaller.call``; a goal that is not done after ``timeout`` [s] is cancelled
                first.
        """
        _refuse_executor_thread(self._node, self._name)
        self.wait(discovery)
        listen = None if on_feedback is None else lambda message: on_feedback(message.feedback)
        what = f"action {self._name}"
        ready = self._client.server_is_ready
        handle = _result(self._client.send_goal_async(goal, feedback_callback=listen), ready, what, 10.0)
        if not handle.accepted:
            raise NodeError(f"{self._name} did not accept the goal")
        future = handle.get_result_async()
        watch = _Cancel(handle, cancelled)
        try:
            result = _result(future, ready, what, timeout, watch).result
        except NodeError:
            handle.cancel_goal_async()
            raise
        if not getattr(result, "accepted", True) and not watch.sent:
            raise NodeError(f"{self._name} refused: {result.message}")
        return result


class _Cancel:
    """Sends one cancel request once it is wanted."""

    def __init__(self, handle: Any, wanted: Callable[[], bool]) -> None:
        self._handle, self._wanted = handle, wanted
        self.sent = False

    def __call__(self) -> None:
        if not self.sent and self._wanted():
            self.sent = True
            self._handle.cancel_goal_async()


def _refuse_executor_thread(node: Node, name: str) -> None:
    if node.executor is None:
        raise NodeError(f"node {node.get_name()} does not spin, so {name} cannot answer it")
    if getattr(node.executor, "spin_thread", None) is threading.current_thread():
        raise NodeError(f"{name} called from a callback of {node.get_name()}: its answer could never arrive")


def _wait_for(ready: Callable[[], bool], node: Node, what: str, timeout: float) -> None:
    end = time.monotonic() + timeout
    pause = threading.Event()
    while not ready():
        if time.monotonic() > end:
            running = ", ".join(sorted(set(node.get_node_names()))) or "none"
            raise NodeError(f"{what} not found after {timeout:g} s; nodes that run: {running}")
        pause.wait(0.02)


def _result(
    future: Future[Any],
    ready: Callable[[], bool],
    what: str,
    timeout: float,
    each: Callable[[], None] = lambda: None,
) -> Any:
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    end = time.monotonic() + timeout
    seen = time.monotonic()
    while not done.wait(_SLICE):
        each()
        now = time.monotonic()
        seen = now if ready() else seen
        if now - seen > GONE_AFTER:
            raise NodeError(f"{what}: its node ended before it answered")
        if now > end:
            raise NodeError(f"{what} did not answer within {timeout:g} s")
    return future.result()
