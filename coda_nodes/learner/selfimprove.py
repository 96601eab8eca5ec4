"""Regime ``no_expert``: learning from the policy's own rollouts, by potentials and chunk values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from coda_nodes.world.errors import NotAvailableError


def self_improve(episodes: Sequence[str]) -> NoReturn:
    """Learn from recorded rollouts (by hash) without an expert.

    Raises:
        NotAvailableError: always; this version trains in regime ``expert`` only.
    """
    raise NotAvailableError(
        f"regime 'no_expert' cannot learn from {len(episodes)} rollouts yet: there are no chunk values; "
        "use regime 'expert'"
    )
