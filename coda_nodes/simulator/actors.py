"""Who acts in a rollout: a policy, the scripted expert, or nobody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from coda_nodes.policy.protocol import ChunkPolicy
from coda_nodes.world.action import ACTION_SIZE, CHUNK_STEPS
from coda_nodes.world.experts import ExpertActor
from coda_nodes.world.spec import EnvironmentSpec
from coda_nodes.world.state import SceneState

Array = NDArray[np.float64]
Ids = NDArray[np.int_]


class RolloutActor(Protocol):
    """Chooses chunks for a batch of environments."""

    name: str
    """Checkpoint hash, ``expert`` or ``hold``; part of an episode's identity."""

    def begin(self, specs: Sequence[EnvironmentSpec]) -> None:
        """New episodes start, one per specification."""
        ...

    def act(self, state: SceneState, active: Ids) -> Array:
        """Chunks of all environments (n, 8, 7); those of environments not in ``active`` are not used."""
        ...


class HoldActor:
    """Stands still with the gripper as it is."""

    name = "hold"

    def begin(self, specs: Sequence[EnvironmentSpec]) -> None:
        """Nothing is kept."""

    def act(self, state: SceneState, active: Ids) -> Array:
        """Zero displacement."""
        chunks = np.zeros((state.n, CHUNK_STEPS, ACTION_SIZE))
        chunks[..., 6] = state.gripper_opening[:, None]
        return chunks


class ScriptedActor:
    """The family's expert."""

    name = "expert"

    def begin(self, specs: Sequence[EnvironmentSpec]) -> None:
        """Compile the experts of the specifications."""
        self._expert = ExpertActor(specs)

    def act(self, state: SceneState, active: Ids) -> Array:
        """Chunks of the expert."""
        return self._expert.act(state)


class PolicyActor:
    """A policy, which sees observations only, of active environments only."""

    def __init__(self, policy: ChunkPolicy, name: str) -> None:
        self.name = name
        self._policy = policy

    def begin(self, specs: Sequence[EnvironmentSpec]) -> None:
        """Tell the policy that new scenes start."""
        self._policy.reset(len(specs))

    def act(self, state: SceneState, active: Ids) -> Array:
        """Chunks of the policy."""
        chunks = np.zeros((state.n, CHUNK_STEPS, ACTION_SIZE))
        chunks[active] = self._policy.act(state.observation().select(active))
        return chunks
