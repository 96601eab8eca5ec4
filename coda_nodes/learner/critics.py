"""Chunk values: an ensemble of critics ``Q(s, chunk)`` and the value ``V(s)`` learned from it.

``V`` is an upper expectile of the ensemble's cautious estimate over the chunks that were executed in states like ``s``, so
that no chunk outside the replay is ever asked about while values are learned (Kostrikov, Nair and Levine 2022). Shaping moves
``Q`` and ``V`` of a state by the same ``-Phi(s)``, and an expectile moves along: advantages are those of the task without
potential.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from coda_nodes.learner.critic_network import CriticNetworkConfig, ValueNetwork
from coda_nodes.policy.features import OBSERVATION_LAYOUT, FeatureEncoder
from coda_nodes.policy.language import SentenceEncoder
from coda_nodes.policy.network import NetworkInput
from coda_nodes.policy.normalization import Normalization
from coda_nodes.world.action import CHUNK_STEPS, CONVENTION
from coda_nodes.world.artifacts import content_hash, write_atomic
from coda_nodes.world.config import from_mapping
from coda_nodes.world.errors import CheckpointError, CodaError
from coda_nodes.world.potentials import TaskPotential
from coda_nodes.world.robots import robot
from coda_nodes.world.state import ObservationBatch

Array = NDArray[np.float64]
AT_ONCE = 2048
"""Scenes per forward pass where nothing is learned."""
WEIGHTS_FILE, DOCUMENT_FILE = "critics.safetensors", "critics.json"


class CriticDocument(BaseModel):
    """Under which assumptions the values were learned."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    robot: str
    discount: float = Field(gt=0, lt=1)
    """Per control step."""
    shaped: bool
    """Whether the values are those of the shaped problem, lower by ``Phi`` than those of the task."""
    tasks: tuple[TaskPotential, ...] = ()
    """Potentials that took the place of the default ones."""
    reads: int = Field(ge=1, le=CHUNK_STEPS)
    """Actions of a chunk that count: the most that were executed of any. Later ones are read as the last of these."""
    pessimism: float = Field(ge=0)
    architecture: dict[str, int]
    """Fields of ``CriticNetworkConfig``."""
    convention: Literal[CONVENTION] = CONVENTION  # type: ignore[valid-type]
    observation_layout: Literal[OBSERVATION_LAYOUT] = OBSERVATION_LAYOUT  # type: ignore[valid-type]
    training: dict[str, Any] = {}
    """Settings and seed."""
    weights_hash: str = ""


@dataclass(frozen=True)
class ChunkCritics:
    """Learned values; the networks hold the normalization statistics."""

    document: CriticDocument
    chunk_networks: ValueNetwork
    state_network: ValueNetwork
    features: FeatureEncoder

    @staticmethod
    def new(
        document: CriticDocument, normalization: Normalization | None = None, encoder: SentenceEncoder | None = None
    ) -> ChunkCritics:
        """Networks that know nothing yet; their values are close to 0."""
        config = from_mapping(CriticNetworkConfig, document.architecture)
        joints = len(robot(document.robot).joint_names)
        chunks = ValueNetwork(config, joints, config.members, chunked=True)
        states = ValueNetwork(config, joints, 1, chunked=False)
        if normalization is not None:
            chunks.set_normalization(normalization)
            states.set_normalization(normalization)
        return ChunkCritics(document, chunks, states, FeatureEncoder(encoder or SentenceEncoder()))

    def chunk_values(self, observation: ObservationBatch, chunks: Array) -> Array:
        """What each member thinks that ``chunks`` (n, 8, 7) are worth. Shape (members, n)."""
        scene, networks = self._encode(observation), self.chunk_networks
        read = torch.from_numpy(self.read(chunks).astype(np.float32))
        return _in_parts(lambda ids: networks(scene.select(ids), read[ids]), observation.n, networks.members)

    def state_values(self, observation: ObservationBatch) -> Array:
        """``V`` of each scene. Shape (n,)."""
        scene = self._encode(observation)
        return _in_parts(lambda ids: self.state_network(scene.select(ids)), observation.n, 1)[0]

    def cautious(self, observation: ObservationBatch, chunks: Array) -> Array:
        """Mean of the ensemble less ``pessimism`` times its standard deviation. Shape (n,)."""
        values = self.chunk_values(observation, chunks)
        return values.mean(0) - self.document.pessimism * values.std(0)

    def advantages(self, observation: ObservationBatch, chunks: Array) -> Array:
        """How much better each chunk is than what is usually done well there; free of the potential. Shape (n,)."""
        return self.cautious(observation, chunks) - self.state_values(observation)

    def read(self, chunks: Array) -> Array:
        """Chunks (..., 8, 7) as the critics see them: without what is never executed."""
        reads = self.document.reads
        kept = chunks[..., :reads, :]
        return np.concatenate([kept, np.repeat(kept[..., -1:, :], CHUNK_STEPS - reads, axis=-2)], axis=-2)

    def save(self, folder: Path) -> str:
        """Write into a folder below ``folder`` named by their hash; return the hash. Raises ArtifactError."""
        tensors = {f"{part}.{key}": value.contiguous() for part, network in self._parts() for key, value in network.items()}
        weights = save({key: tensors[key] for key in sorted(tensors)})
        document = self.document.model_copy(update={"weights_hash": content_hash(weights)})
        text = json.dumps(document.model_dump(mode="json"), sort_keys=True, indent=1).encode()
        key = content_hash(text)
        write_atomic(folder / key / WEIGHTS_FILE, weights)
        write_atomic(folder / key / DOCUMENT_FILE, text)
        return key

    @staticmethod
    def load(folder: Path, encoder: SentenceEncoder | None = None) -> ChunkCritics:
        """Read what ``save`` wrote.

        Raises:
            CheckpointError: a file is missing or damaged, or the values were learned under another convention.
        """
        try:
            document = CriticDocument.model_validate_json((folder / DOCUMENT_FILE).read_bytes())
            data = (folder / WEIGHTS_FILE).read_bytes()
            if content_hash(data) != document.weights_hash:
                raise CheckpointError(f"{folder / WEIGHTS_FILE} does not match the hash in {DOCUMENT_FILE}: it is damaged")
            tensors, critics = load(data), ChunkCritics.new(document, encoder=encoder)
            for part, network in (("chunk", critics.chunk_networks), ("state", critics.state_network)):
                network.load_state_dict({k[len(part) + 1 :]: v for k, v in tensors.items() if k.startswith(f"{part}.")})
        except (OSError, ValidationError, SafetensorError, RuntimeError) as error:
            raise CheckpointError(f"cannot read critics {folder}: {error}") from error
        except CodaError as error:
            raise CheckpointError(f"critics {folder}: {error}") from error
        return critics

    def _parts(self) -> Sequence[tuple[str, dict[str, Tensor]]]:
        return (("chunk", self.chunk_networks.state_dict()), ("state", self.state_network.state_dict()))

    def _encode(self, observation: ObservationBatch) -> NetworkInput:
        return NetworkInput.from_features(self.features.encode(observation))


@torch.no_grad()
def _in_parts(values: Callable[[Tensor], Tensor], n: int, members: int) -> Array:
    parts = [values(ids).numpy() for ids in torch.arange(n).split(AT_ONCE)] if n else []
    return np.concatenate([np.zeros((members, 0)), *parts], axis=1).astype(float)
