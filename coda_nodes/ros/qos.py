"""Quality of service, named in one place, and reports of profiles that do not fit.

Publishers offer as much as they can (reliable), subscribers of streams ask for little (best effort): such a
pair is always compatible, with other people's drivers as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from coda_nodes.world.errors import CodaError

STREAM_OFFERED = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
"""Joint states, objects: what a publisher offers."""
STREAM_ASKED = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Joint states, objects: what a subscriber asks for."""
COMMAND = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
"""Trajectories to a controller: the newest one counts, none may be lost."""
LATCHED = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
"""State that changes rarely (instruction): whoever comes late gets the last one."""
EVENTS = QoSProfile(depth=100, reliability=ReliabilityPolicy.RELIABLE)
"""Episode events, progress: every one counts."""
CLOCK = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
"""Simulated time; rclpy's own subscription asks for best effort."""
IMAGE = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Camera images: a lost one is not sent again."""

Report = Callable[[str], None]


def describe(profile: QoSProfile) -> str:
    """The policies that decide whether two profiles fit: ``reliable, volatile``."""
    parts = (profile.reliability.name, profile.durability.name)
    deadline = profile.deadline.nanoseconds
    words = [part.lower().replace("_", " ") for part in parts]
    return ", ".join(words + ([f"deadline {deadline / 1e9:g} s"] if 0 < deadline < 2**62 else []))


def fits(offered: QoSProfile, asked: QoSProfile) -> bool:
    """Whether a subscriber with ``asked`` hears a publisher with ``offered`` (reliability and durability)."""
    reliable = (
        asked.reliability != ReliabilityPolicy.RELIABLE or offered.reliability == ReliabilityPolicy.RELIABLE
    )
    late = (
        asked.durability != DurabilityPolicy.TRANSIENT_LOCAL
        or offered.durability == DurabilityPolicy.TRANSIENT_LOCAL
    )
    return reliable and late


def publisher(node: Node, kind: Any, topic: str, profile: QoSProfile, report: Report | None = None) -> Any:
    """Create a publisher that reports subscribers that cannot hear it, with both profiles."""
    tell = report or node.get_logger().error
    events = PublisherEventCallbacks(
        incompatible_qos=lambda _: tell(_mismatch(node, topic, profile, offers=True))
    )
    return node.create_publisher(kind, topic, profile, event_callbacks=events)


def subscription(
    node: Node,
    kind: Any,
    topic: str,
    callback: Callable[[Any], None],
    profile: QoSProfile,
    report: Report | None = None,
) -> Any:
    """Create a subscription that reports publishers that it cannot hear, with both profiles.

    A message that the callback refuses (CodaError) is reported as well; the node goes on.
    """
    tell = report or node.get_logger().error

    def receive(message: Any) -> None:
        try:
            callback(message)
        except CodaError as error:
            tell(f"message on {topic} refused: {error}")

    events = SubscriptionEventCallbacks(
        incompatible_qos=lambda _: tell(_mismatch(node, topic, profile, offers=False))
    )
    return node.create_subscription(kind, topic, receive, profile, event_callbacks=events)


def _mismatch(node: Node, topic: str, own: QoSProfile, offers: bool) -> str:
    others = (
        node.get_subscriptions_info_by_topic(topic) if offers else node.get_publishers_info_by_topic(topic)
    )
    wrong = [o for o in others if not (fits(own, o.qos_profile) if offers else fits(o.qos_profile, own))]
    theirs = (
        "; ".join(f"/{other.node_name}: {describe(other.qos_profile)}" for other in wrong) or "another policy"
    )
    verb, side = ("offers", "subscriber asks for") if offers else ("asks for", "publisher offers")
    return f"no message passes on {topic}: {node.get_name()} {verb} {describe(own)}; {side} {theirs}"
