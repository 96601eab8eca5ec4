"""Checkpoints: ``policy.safetensors`` and ``policy.json`` in one folder, written whole or not at all.

Normalization statistics, action convention, robot and observation layout are part of it, so that weights are
never used under other assumptions than they were trained with.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from coda_nodes.policy.architecture import NetworkConfig, weight_shapes
from coda_nodes.policy.features import OBSERVATION_LAYOUT
from coda_nodes.policy.inference import NumpyNetwork
from coda_nodes.policy.language import MODEL_NAME
from coda_nodes.policy.normalization import Normalization
from coda_nodes.world.action import ACTION_SIZE, CHUNK_STEPS, CONVENTION
from coda_nodes.world.artifacts import ArtifactRoot, write_atomic
from coda_nodes.world.config import from_mapping
from coda_nodes.world.errors import ArtifactError, CheckpointError, CodaError

if TYPE_CHECKING:
    from coda_nodes.policy.network import PolicyNetwork

WEIGHTS_FILE = "policy.safetensors"
DOCUMENT_FILE = "policy.json"
_NETWORK, _STATISTICS = "network.", "normalization."


class PolicyDocument(BaseModel):
    """``policy.json``: under which assumptions the weights were trained."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    robot: str
    joint_names: tuple[str, ...]
    """Order of joints in the robot features."""
    architecture: dict[str, int]
    """Fields of ``NetworkConfig``."""
    convention: str = CONVENTION
    chunk: tuple[int, int] = (CHUNK_STEPS, ACTION_SIZE)
    observation_layout: str = OBSERVATION_LAYOUT
    sentence_encoder: str = MODEL_NAME
    binary_gripper: bool = True
    """Whether openings in training were 0 or 1 only, so that a prediction is rounded."""
    regime: str = ""
    """Source of supervision: ``no_expert`` or ``expert``."""
    parent: str = ""
    """Hash of the checkpoint it was fine-tuned from."""
    training: dict[str, Any] = {}
    """Settings and seed of the training run."""
    versions: dict[str, str] = {}
    weights_sha256: str = ""


@dataclass(frozen=True)
class Checkpoint:
    """A policy at rest. ``weights``: state of ``PolicyNetwork`` by parameter name."""

    document: PolicyDocument
    weights: Mapping[str, NDArray[np.float32]]
    normalization: Normalization
    _cache: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def of(
        network: PolicyNetwork,
        normalization: Normalization,
        robot: str,
        joint_names: tuple[str, ...],
        **about: Any,
    ) -> Checkpoint:
        """Take a snapshot of a network. ``about``: further fields of ``PolicyDocument``."""
        weights = {key: value.detach().numpy().copy() for key, value in network.state_dict().items()}
        document = PolicyDocument(
            robot=robot, joint_names=joint_names, architecture=asdict(network.config), **about
        )
        return Checkpoint(document, weights, normalization)

    @property
    def content_hash(self) -> str:
        """First 16 hex digits of the SHA-256 of weights and document; neither holds a time stamp."""
        return hashlib.sha256(self._document_bytes() + self._weight_bytes()).hexdigest()[:16]

    def save(self, folder: Path | str) -> Path:
        """Write into ``folder`` (replacing a checkpoint there): the folder appears whole or not at all.

        Raises:
            CheckpointError: the disk refuses.
        """
        folder = Path(folder)
        partial = folder.with_name(f".{folder.name}.{os.getpid()}.part")
        try:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            write_atomic(partial / WEIGHTS_FILE, self._weight_bytes())
            write_atomic(partial / DOCUMENT_FILE, self._document_bytes())
            shutil.rmtree(folder, ignore_errors=True)
            os.replace(partial, folder)
        except (OSError, ArtifactError) as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise CheckpointError(f"cannot write checkpoint {folder}: {error}") from error
        return folder

    def save_under(self, root: ArtifactRoot) -> str:
        """Write as ``checkpoints/<hash>/`` of an artifact root, unless it is there already; return the
        hash."""
        key = self.content_hash
        folder = root.checkpoint(key)
        if not ((folder / WEIGHTS_FILE).is_file() and (folder / DOCUMENT_FILE).is_file()):
            self.save(folder)
        return key

    @staticmethod
    def load(folder: Path | str) -> Checkpoint:
        """Read and check a checkpoint.

        Raises:
            CheckpointError: a file is missing, damaged, pickled, or was made under another action convention
                or observation layout; statistics are missing or do not fit; weights are not finite or of
                other shapes.
        """
        folder = Path(folder)
        document = _read_document(folder / DOCUMENT_FILE)
        tensors = _read_tensors(folder / WEIGHTS_FILE, document.weights_sha256)
        weights = _part(tensors, _NETWORK)
        _check_weights(weights, document, folder)
        statistics = Normalization.from_arrays(_part(tensors, _STATISTICS), len(document.joint_names))
        checkpoint = Checkpoint(document, weights, statistics)
        checkpoint._cache["weights"] = (folder / WEIGHTS_FILE).read_bytes()
        return checkpoint

    def network(self) -> PolicyNetwork:
        """The network with these weights to train on, in evaluation mode."""
        # imported here: PyTorch costs memory that a process which only runs policies does not need
        import torch

        from coda_nodes.policy.network import PolicyNetwork

        network = PolicyNetwork(_architecture(self.document), len(self.document.joint_names))
        network.load_state_dict({key: torch.from_numpy(value.copy()) for key, value in self.weights.items()})
        return network.eval()

    def inference(self) -> NumpyNetwork:
        """The network with these weights to run."""
        return NumpyNetwork(_architecture(self.document), len(self.document.joint_names), self.weights)

    def _weight_bytes(self) -> bytes:
        if "weights" not in self._cache:
            tensors = {_NETWORK + key: value for key, value in self.weights.items()}
            tensors.update({_STATISTICS + key: value for key, value in self.normalization.arrays().items()})
            self._cache["weights"] = save(
                {key: np.ascontiguousarray(tensors[key]) for key in sorted(tensors)}
            )
        return self._cache["weights"]

    def _document_bytes(self) -> bytes:
        digest = hashlib.sha256(self._weight_bytes()).hexdigest()
        data = self.document.model_copy(update={"weights_sha256": digest}).model_dump(mode="json")
        return json.dumps(data, sort_keys=True, indent=1).encode()


def _part(tensors: Mapping[str, NDArray], prefix: str) -> dict[str, NDArray]:
    return {key[len(prefix) :]: value for key, value in tensors.items() if key.startswith(prefix)}


def _read_document(path: Path) -> PolicyDocument:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"no readable {DOCUMENT_FILE} in {path.parent}: {error}") from error
    _check_assumptions(data if isinstance(data, dict) else {}, path)
    try:
        return PolicyDocument.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "document"
        raise CheckpointError(f"{path}: {place}: {first['msg']}") from error


def _check_assumptions(data: Mapping[str, Any], path: Path) -> None:
    expected = {
        "schema_version": 1,
        "convention": CONVENTION,
        "chunk": [CHUNK_STEPS, ACTION_SIZE],
        "observation_layout": OBSERVATION_LAYOUT,
        "sentence_encoder": MODEL_NAME,
    }
    for key, value in expected.items():
        if data.get(key) != value:
            raise CheckpointError(f"{path}: {key} is {data.get(key)!r}, this software expects {value!r}")


def _read_tensors(path: Path, digest: str) -> dict[str, NDArray]:
    try:
        data = path.read_bytes()
        with safe_open(str(path), framework="numpy") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (OSError, ValueError, SafetensorError) as error:
        raise CheckpointError(
            f"{path} is not a readable safetensors file (pickled weights are never loaded): {error}"
        ) from error
    if hashlib.sha256(data).hexdigest() != digest:
        raise CheckpointError(
            f"{path} does not match the digest in {DOCUMENT_FILE}: the checkpoint is damaged or mixed"
        )
    return tensors


def _architecture(document: PolicyDocument) -> NetworkConfig:
    try:
        return from_mapping(NetworkConfig, document.architecture)
    except CodaError as error:
        raise CheckpointError(f"{DOCUMENT_FILE}: architecture: {error}") from error


def _check_weights(weights: Mapping[str, NDArray], document: PolicyDocument, folder: Path) -> None:
    expected = weight_shapes(_architecture(document), len(document.joint_names))
    if set(expected) != set(weights):
        odd = sorted(set(expected) ^ set(weights))
        raise CheckpointError(
            f"{folder}: weights do not fit the architecture, missing or unknown: {', '.join(odd[:5])}"
        )
    for key, value in weights.items():
        shape = expected[key]
        if tuple(value.shape) != shape or value.dtype != np.float32:
            raise CheckpointError(f"{folder}: {key} is {value.dtype} {value.shape}, expected float32 {shape}")
        if not np.isfinite(value).all():
            raise CheckpointError(f"{folder}: {key} holds values that are not finite")
