"""Message definitions with which bags are written and read where no ROS is installed."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from pathlib import Path

from rosbags.interfaces.typing import Typesdict
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from coda_nodes.world import topics
from coda_nodes.world.errors import NotAvailableError

INTERFACES = "coda_interfaces"
TYPES: dict[str, str] = {
    topics.CLOCK: "rosgraph_msgs/msg/Clock",
    topics.JOINT_STATES: "sensor_msgs/msg/JointState",
    topics.ARM_TRAJECTORY: "trajectory_msgs/msg/JointTrajectory",
    topics.GRIPPER_TRAJECTORY: "trajectory_msgs/msg/JointTrajectory",
    topics.OBJECTS: "coda_interfaces/msg/ObjectStateArray",
    topics.INSTRUCTION: "std_msgs/msg/String",
    topics.EPISODE_EVENT: "coda_interfaces/msg/EpisodeEvent",
    topics.ENVIRONMENT: "std_msgs/msg/String",
    topics.TRUTH: "std_msgs/msg/String",
    topics.ACTION_CHUNK: "coda_interfaces/msg/ActionChunk",
}
"""Topic of a bag -> its type; cameras besides."""
IMAGE, CAMERA_INFO = "sensor_msgs/msg/Image", "sensor_msgs/msg/CameraInfo"


def interface_folders() -> list[Path]:
    """Where the text of our own messages may lie: the source tree, a sourced ROS 2, the virtual environment."""
    source = Path(__file__).resolve().parents[2] / "ros2_ws" / "src" / INTERFACES
    prefixes = [Path(part) for part in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if part]
    return [folder / "msg" for folder in (source, *(p / "share" / INTERFACES for p in (*prefixes, Path(sys.prefix))))]


@lru_cache(maxsize=1)
def own_types() -> Typesdict:
    """Definitions of coda_interfaces. Raises NotAvailableError that names the folders that were looked into."""
    for folder in interface_folders():
        found: Typesdict = {}
        for file in sorted(folder.glob("*.msg")):
            found.update(get_types_from_msg(file.read_text(encoding="utf-8"), f"{INTERFACES}/msg/{file.stem}"))
        if found:
            return found
    places = ", ".join(str(folder) for folder in interface_folders())
    raise NotAvailableError(f"no message definitions of {INTERFACES} in {places}; build ros2_ws/src or source the workspace")


@lru_cache(maxsize=1)
def _own_store() -> Typestore:
    store = get_typestore(Stores.ROS2_KILTED)
    store.register(own_types())
    return store


def typestore(theirs: Typesdict | None = None) -> Typestore:
    """Standard messages of ROS 2 and ours; definitions that come with a bag (``theirs``) go before both."""
    own = _own_store()
    if not theirs or all(own.fielddefs.get(name) == definition for name, definition in theirs.items()):
        return own
    store = get_typestore(Stores.EMPTY)
    store.register({**own.fielddefs, **theirs})
    return store
