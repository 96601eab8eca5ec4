"""What all nodes of CoDA share: settings, artifact root, worker threads, reports of progress."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from coda_interfaces.msg import Progress
from rclpy.node import Node

from coda_nodes.ros import names, qos
from coda_nodes.ros.background import Background, Goal, serve, serve_action
from coda_nodes.ros.converters import ProgressNote, progress_to_message
from coda_nodes.ros.parameters import Parameters
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.config import check_settings, setting
from coda_nodes.world.errors import ConfigError

T = TypeVar("T", bound="NodeSettings")


@dataclass(frozen=True)
class NodeSettings:
    """Parameters of every node."""

    artifact_root: str = setting("runs/default", "folder of the run, shared by all its nodes")

    def __post_init__(self) -> None:
        check_settings(self)
        if not self.artifact_root:
            raise ConfigError("artifact_root is empty: expected the folder of the run")


class NodeParts(Generic[T]):
    """Mixin of a node: its settings, its artifact root, and services and actions on its worker threads."""

    def begin(self: Any, kind: type[T], threads: int = 1) -> None:
        """Declare the parameters and start the worker threads. Raises ConfigError for a wrong parameter."""
        self.parameters = Parameters(self, kind)
        self.root = ArtifactRoot(Path(self.settings.artifact_root).expanduser().resolve())
        self.background = Background(self, threads)
        self._progress: Any = None

    @property
    def settings(self: Any) -> T:
        """The settings as they are now."""
        return self.parameters.value

    def close(self: Any) -> bool:
        """End the worker threads; return whether all of them did."""
        return self.background.close()

    def serve(self: Any, kind: Any, name: str, handler: Any, threaded: bool = True) -> Any:
        """Serve a service, by default on a worker thread, see ``background.serve``."""
        return serve(self, kind, name, handler, self.background if threaded else None)

    def serve_action(self: Any, kind: Any, name: str, work: Any) -> Any:
        """Serve an action whose result has ``accepted`` and ``message``, see ``background.serve_action``."""
        return serve_action(self, kind, name, work, self.background, _refused)

    def report(self: Any, note: ProgressNote) -> None:
        """Publish a progress report."""
        if self._progress is None:
            self._progress = qos.publisher(self, Progress, names.PROGRESS, qos.EVENTS)
        now = self.get_clock().now().nanoseconds * 1e-9
        self._progress.publish(progress_to_message(note, now))


class CodaNode(NodeParts[T], Node):
    """A plain node with these parts."""

    def __init__(self, name: str, kind: type[T], threads: int = 1) -> None:
        super().__init__(name, namespace="/coda")
        self.begin(kind, threads)


def _refused(result: Any, message: str) -> Any:
    result.message = message
    return result


__all__ = ["CodaNode", "Goal", "NodeParts", "NodeSettings"]
