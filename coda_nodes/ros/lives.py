"""Tells the lives of a node apart: one that was killed and started anew has the same name, but other endpoints."""

from __future__ import annotations

import time

from rclpy.node import Node

TOPIC = "/parameter_events"
"""Every node publishes it, so that its publisher stands for the node."""
SETTLE = 1.0
"""After a new life is first seen, its services are given so long to find their clients [s]."""


class Lives:
    """Lives of the node behind a service or action, which is named ``/NAMESPACE/NODE/SERVICE``."""

    def __init__(self, node: Node, service: str) -> None:
        self._node = node
        namespace, _, name = service.rpartition("/")[0].rpartition("/")
        self._name = (namespace or "/", name)
        self._known: dict[bytes, float] = {}

    def seen(self) -> frozenset[bytes]:
        """Identities of the lives that the graph shows now; a killed one stays for a while."""
        found = self._node.get_publishers_info_by_topic(TOPIC)
        return frozenset(
            bytes(end.endpoint_gid) for end in found if (end.node_namespace, end.node_name) == self._name
        )

    def settled(self) -> bool:
        """Whether no life is so new that its services may not have found their clients yet."""
        now = time.monotonic()
        for life in self.seen():
            self._known.setdefault(life, now if self._known else now - SETTLE)
        return all(now - since >= SETTLE for since in self._known.values())
