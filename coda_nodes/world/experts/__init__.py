"""Scripted experts: from what a scene is like now to the next chunk of actions, without memory."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import numpy as np
from numpy.typing import NDArray

from coda_nodes.world.action import ACTION_SIZE, CHUNK_STEPS
from coda_nodes.world.experts.base import FamilyExpert, roll_chunks
from coda_nodes.world.spec import EnvironmentSpec
from coda_nodes.world.state import SceneState

__all__ = ["ExpertActor", "FamilyExpert"]


class ExpertActor:
    """The expert of every family, over scenes of any mixture of families."""

    def __init__(self, specs: Sequence[EnvironmentSpec]) -> None:
        self.count = len(specs)
        self._parts: list[tuple[NDArray[np.int_], FamilyExpert]] = []
        for name in sorted({spec.family for spec in specs}):
            rows = [i for i, spec in enumerate(specs) if spec.family == name]
            module = import_module(f"{__name__}.{name}")
            self._parts.append((np.array(rows), module.EXPERT([specs[i] for i in rows])))

    def act(self, state: SceneState) -> NDArray[np.float64]:
        """Next chunks. ``state`` holds the scenes in the order of the specifications. Shape (n, 8, 7)."""
        if len(self._parts) == 1:
            return roll_chunks(self._parts[0][1], state)
        chunks = np.zeros((self.count, CHUNK_STEPS, ACTION_SIZE))
        for rows, expert in self._parts:
            chunks[rows] = roll_chunks(expert, state.select(rows))
        return chunks
