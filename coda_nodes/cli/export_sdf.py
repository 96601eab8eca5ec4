"""``coda export-sdf``: an environment as an SDF world for Gazebo."""

from __future__ import annotations

from collections.abc import Sequence

from coda_nodes.world.errors import NotAvailableError


def run(words: Sequence[str]) -> int:
    """Say that this part is not there. Raises NotAvailableError."""
    raise NotAvailableError("coda export-sdf: the Gazebo path is not part of this version; use --simulator mujoco")
