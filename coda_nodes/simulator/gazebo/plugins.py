"""Names of Gazebo's systems and message types, which changed with its rename from Ignition."""

from __future__ import annotations

from coda_nodes.world.errors import ConfigError, unknown

RELEASES = ("harmonic", "fortress")
"""``harmonic`` stands for Harmonic and later, ``fortress`` for Fortress."""
SYSTEMS = {
    "physics": "Physics",
    "user-commands": "UserCommands",
    "scene-broadcaster": "SceneBroadcaster",
    "sensors": "Sensors",
    "joint-state-publisher": "JointStatePublisher",
    "joint-trajectory-controller": "JointTrajectoryController",
}


def check_release(release: str) -> None:
    """Raise ConfigError that lists the releases for one that is not known."""
    if release not in RELEASES:
        raise ConfigError(unknown("Gazebo release", release, RELEASES))


def system(name: str, release: str) -> tuple[str, str]:
    """File name and class name of a system plugin."""
    if release == "fortress":
        return f"ignition-gazebo-{name}-system", f"ignition::gazebo::systems::{SYSTEMS[name]}"
    return f"gz-sim-{name}-system", f"gz::sim::systems::{SYSTEMS[name]}"


def message(name: str, release: str) -> str:
    """Full name of a Gazebo message type: ``gz.msgs.Clock``."""
    return f"{'ignition' if release == 'fortress' else 'gz'}.msgs.{name}"
