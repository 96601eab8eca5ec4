"""Runs a checkpoint: observations in, action chunks out; the same code for one scene and for hundreds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from coda_nodes.policy.checkpoint import Checkpoint
from coda_nodes.policy.features import FeatureEncoder
from coda_nodes.policy.language import EmbeddingCache, SentenceEncoder
from coda_nodes.policy.normalization import POSE_SIZE
from coda_nodes.world.action import ACTION_SIZE, CHUNK_STEPS
from coda_nodes.world.errors import CheckpointError
from coda_nodes.world.state import ObservationBatch

_DECIMALS = 9
"""Chunks are rounded to so many decimals [nm]. Matrix products of other batch sizes differ in the last bits; in double
precision these lie far below, so a scene gets the same chunk alone and among hundreds, and contacts cannot amplify them."""


class PolicyRunner:
    """A ``ChunkPolicy`` with the weights of one checkpoint. Deterministic and without memory between
    calls."""

    def __init__(self, checkpoint: Checkpoint, encoder: SentenceEncoder | None = None) -> None:
        self.checkpoint = checkpoint
        self.features = FeatureEncoder(encoder if encoder is not None else SentenceEncoder())
        self.network = checkpoint.inference()
        self._mean = checkpoint.normalization.action_mean
        self._std = checkpoint.normalization.action_std
        self._limit = checkpoint.normalization.action_limit

    @staticmethod
    def load(folder: Path | str, embeddings: Path | None = None) -> PolicyRunner:
        """Load a checkpoint folder; ``embeddings`` is a file of cached sentence vectors (default: the
        user's).

        Raises:
            CheckpointError: see ``Checkpoint.load``.
        """
        encoder = SentenceEncoder(EmbeddingCache(embeddings)) if embeddings is not None else None
        return PolicyRunner(Checkpoint.load(folder), encoder)

    @property
    def robot(self) -> str:
        """Name of the arm it was trained for."""
        return self.checkpoint.document.robot

    def reset(self, n: int) -> None:
        """Nothing is kept between calls."""

    def act(self, observation: ObservationBatch) -> NDArray[np.float64]:
        """One chunk per scene (convention: ``world/action.py``). Shape (n, 8, 7).

        Raises:
            CheckpointError: the observation is of another arm, not finite, or the network gives no finite
            action.
        """
        joints = observation.joint_positions.shape[-1]
        if joints != self.network.joints:
            raise CheckpointError(
                f"observation has {joints} joints, the policy for {self.robot} expects {self.network.joints}"
            )
        if observation.n == 0:
            return np.zeros((0, CHUNK_STEPS, ACTION_SIZE))
        pose, gripper = self.network.best(self.features.encode(observation))
        return self._decode(pose, expit(gripper))

    def _decode(self, pose: NDArray[np.float64], opening: NDArray[np.float64]) -> NDArray[np.float64]:
        chunk = np.empty((len(pose), CHUNK_STEPS, ACTION_SIZE))
        chunk[..., :POSE_SIZE] = np.clip(pose * self._std + self._mean, -self._limit, self._limit)
        chunk[..., POSE_SIZE] = opening > 0.5 if self.checkpoint.document.binary_gripper else opening
        chunk = np.round(chunk, _DECIMALS)
        if not np.isfinite(chunk).all():
            raise CheckpointError("the policy gave an action that is not finite")
        return chunk
