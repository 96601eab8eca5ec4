"""``coda deploy``: a checkpoint on an arm."""

from __future__ import annotations

from collections.abc import Sequence

from coda_nodes.world.errors import NotAvailableError


def run(words: Sequence[str]) -> int:
    """Say where deployment starts. Raises NotAvailableError."""
    raise NotAvailableError(
        "coda deploy: driving a physical arm is not part of this version; the executor node runs a checkpoint against "
        "the simulator node in real time (docs/nodes.md)"
    )
