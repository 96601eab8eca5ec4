"""The environment in which nodes run: discovery, domain, middleware, libraries."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from coda_nodes.ros.lifetime import PARENT
from coda_nodes.world.errors import ConfigError, NodeError

DOMAINS = range(1, 102)
"""Domain ids for runs. Above 101 the ports of DDS fall among those that Linux hands out at random."""
MARK_PORT = 21000
"""Port of the loopback that marks domain 0 as taken; the ids follow."""

_GUARD = "_ROS_WHEELS_BOOTSTRAP_COMPLETE"
_SEGMENT = 16 * 1024**2  # shared memory of one participant in config/fastdds.xml [byte]


class Domain:
    """A ROS domain id, kept from other runs on this machine as long as it is open; a context manager."""

    def __init__(self, number: int, mark: socket.socket | None = None) -> None:
        self.number = number
        self._mark = mark

    def close(self) -> None:
        """Give the id back. The end of the process, however it comes, does so too."""
        if self._mark is not None:
            self._mark.close()

    def __enter__(self) -> Domain:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def take_domain(asked: int | None = None, env: Mapping[str, str] | None = None) -> Domain:
    """Return the domain asked for, or that of ROS_DOMAIN_ID, or one that no other run on this machine holds.

    Raises:
        ConfigError: the domain is no whole number from 0 to 232.
        NodeError: all domains are taken.
    """
    given = (os.environ if env is None else env).get("ROS_DOMAIN_ID", "")
    if asked is not None or given:
        return Domain(_valid(given if asked is None else asked))
    for number in DOMAINS:
        mark = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            mark.bind(("127.0.0.1", MARK_PORT + number))
            mark.listen(1)
        except OSError:
            mark.close()
            continue
        return Domain(number, mark)
    raise NodeError(
        f"no free ROS domain: {DOMAINS.start} to {DOMAINS.stop - 1} are taken; name one by ROS_DOMAIN_ID"
    )


def _valid(given: int | str) -> int:
    text = str(given)
    if not text.isdigit() or int(text) > 232:
        raise ConfigError(f"ROS domain id {text!r}: expected a whole number from 0 to 232")
    return int(text)


def node_environment(
    run: Path, domain: int, nodes: int = 8, base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment of node processes that are started by this one.

    What the person has set stays; the rest is: discovery on this host only, Fast DDS with room for images
    (where shared memory holds that much for so many nodes), logs below the run's folder, one thread per
    numeric library.
    """
    env = dict(os.environ if base is None else base)
    env.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    env.setdefault("RMW_IMPLEMENTATION", "rmw_fastrtps_cpp")
    env.setdefault("OMP_NUM_THREADS", "1")
    env.setdefault("RCUTILS_COLORIZED_OUTPUT", "0")
    env.setdefault("PYTHONUNBUFFERED", "1")
    if _shared_memory_free() >= nodes * _SEGMENT:
        env.setdefault("FASTDDS_DEFAULT_PROFILES_FILE", str(profiles_file()))
    env["ROS_DOMAIN_ID"] = str(_valid(domain))
    env["ROS_LOG_DIR"] = str(run / "logs" / "ros")
    env[PARENT] = str(os.getpid())
    _libraries(env)
    return env


def launch_environment(root: str, domain: str = "") -> dict[str, str]:
    """Return what a launch file has to set for its nodes, as `node_environment` does.

    An empty domain leaves the one of the shell, which other ROS 2 programs there use too.
    """
    number = _valid(domain or os.environ.get("ROS_DOMAIN_ID", "") or 0)
    wanted = node_environment(Path(root), number)
    return {name: text for name, text in wanted.items() if os.environ.get(name) != text}


def _libraries(env: dict[str, str]) -> None:
    """Let the child find the packages and libraries of this Python's environment."""
    if (Path(sys.prefix) / "share" / "ament_index").is_dir():
        others = [
            part for part in env.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if part and part != sys.prefix
        ]
        env["AMENT_PREFIX_PATH"] = os.pathsep.join([sys.prefix, *others])
    # the wheels set LD_LIBRARY_PATH once and mark that; a mark inherited from another environment would keep
    # the child from setting up this one
    if str(Path(sys.prefix) / "lib") not in env.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        env.pop(_GUARD, None)


def _shared_memory_free() -> int:
    """Free shared memory [byte]; 0 where there is none."""
    try:
        return shutil.disk_usage("/dev/shm").free
    except OSError:
        return 0


def profiles_file() -> Path:
    """Find the Fast DDS profile: beside the sources or where the package is installed. Raises NodeError."""
    places = [Path(__file__).resolve().parents[2] / "config" / "fastdds.xml"]
    for prefix in (*os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep), sys.prefix):
        places.append(Path(prefix) / "share" / "coda_nodes" / "config" / "fastdds.xml")
    for place in places:
        if place.is_file():
            return place
    raise NodeError(f"config/fastdds.xml is missing; looked at {', '.join(map(str, places))}")
