"""Episodes the policy learns from."""

from __future__ import annotations

from typing import NamedTuple


class Lesson(NamedTuple):
    """An episode to learn from."""

    episode: str
    """Content hash."""
    weight: float
    family: str
    program_id: str
    """Program whose environment it is in; ``train`` for demonstrations of the train split."""
