"""``coda critic``: the vision-language critic's data, training and evaluation."""

from __future__ import annotations

from collections.abc import Sequence

from coda_nodes.world.errors import NotAvailableError


def run(words: Sequence[str]) -> int:
    """Say that this part is not there. Raises NotAvailableError."""
    raise NotAvailableError("coda critic: the vision-language critic is not part of this version; use --critic state")
