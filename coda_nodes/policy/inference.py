"""The forward pass of ``network.PolicyNetwork`` in numpy, in double precision.

Workers and nodes that only run a policy need no PyTorch, whose import alone takes some 180 MB and a second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from coda_nodes.policy.architecture import CLIP, HIDDEN, NetworkConfig
from coda_nodes.policy.features import ROLE_TEXTS, Features
from coda_nodes.policy.normalization import POSE_SIZE
from coda_nodes.world.action import CHUNK_STEPS

Array = NDArray[np.float64]
_EPSILON = 1e-5
"""Added to the variance by layer normalization, as PyTorch does."""


class NumpyNetwork:
    """The network of one checkpoint for inference. ``weights``: by name in ``PolicyNetwork.state_dict``."""

    def __init__(self, config: NetworkConfig, joints: int, weights: Mapping[str, NDArray]) -> None:
        self.config, self.joints = config, joints
        self._weights = {key: np.array(value, dtype=float) for key, value in weights.items()}
        self._table: NDArray | None = None
        self._sentences: tuple[Array, Array, list[Array]] | None = None

    def best(self, scene: Features) -> tuple[Array, Array]:
        """Normalized poses (n, 8, 6) and gripper logits (n, 8) of the likeliest mode."""
        poses, grippers, modes = self.propose(scene)
        rows, index = np.arange(len(modes)), modes.argmax(-1)
        return poses[rows, index], grippers[rows, index]

    def propose(self, scene: Features) -> tuple[Array, Array, Array]:
        """Normalized poses (n, M, 8, 6), gripper logits (n, M, 8), mode logits (n, M)."""
        robot, entity = self._normalized("robot", scene.robot), self._normalized("entity", scene.entity)
        words, names, roles = self._said(scene.table)
        said = names[scene.name]
        for k in range(ROLE_TEXTS):
            said += roles[k][scene.role[..., k]]
        numbers = self._linear("numbers", np.concatenate([entity, scene.flags], axis=-1))
        tokens = self._linear("embed_entity", _silu(numbers + said))
        head = self._mlp("embed_robot", np.concatenate([robot, words[scene.task]], axis=-1))
        if self.config.layers:
            together = self._transform(np.concatenate([head[:, None], tokens], axis=1), scene.present)
            head, tokens = together[:, 0], together[:, 1:]
        return self._read_out(head, tokens, entity, robot, scene.present)

    def _said(self, table: NDArray) -> tuple[Array, Array, list[Array]]:
        """Projections of a table of sentences, kept while it is the same array: sentences seldom change."""
        if self._sentences is None or table is not self._table:
            words, roles = self._linear("project", table), self._linear("role", table)
            layers = [roles @ self._weights[f"roles.{k}.weight"].T for k in range(ROLE_TEXTS)]
            self._table = table
            self._sentences = words, words @ self._weights["name.weight"].T, layers
        return self._sentences

    def _normalized(self, key: str, value: NDArray) -> Array:
        scaled = (value - self._weights[f"{key}_mean"]) / self._weights[f"{key}_std"]
        return np.clip(scaled, -CLIP, CLIP)

    def _transform(self, tokens: Array, present: NDArray[np.bool_]) -> Array:
        seen = np.pad(present, ((0, 0), (1, 0)), constant_values=True)[:, None, None]
        for i in range(self.config.layers):
            tokens = tokens + self._attend(f"layers.{i}", self._norm(f"layers.{i}.norm_1", tokens), seen)
            tokens = tokens + self._mlp(f"layers.{i}.feed", self._norm(f"layers.{i}.norm_2", tokens))
        return tokens

    def _attend(self, name: str, x: Array, seen: NDArray[np.bool_]) -> Array:
        """Multi-head attention over tokens (n, K, width); ``seen`` (n, 1, 1, K)."""
        n, k, width = x.shape
        parts = self._linear(f"{name}.qkv", x).reshape(n, k, 3, self.config.heads, -1)
        query, key, value = parts.transpose(2, 0, 3, 1, 4)
        score = query @ key.swapaxes(-1, -2) / math.sqrt(query.shape[-1])
        mixed = softmax(np.where(seen, score, -np.inf), axis=-1) @ value
        return self._linear(f"{name}.out", mixed.swapaxes(1, 2).reshape(n, k, width))

    def _read_out(
        self, head: Array, tokens: Array, entity: Array, robot: Array, present: NDArray[np.bool_]
    ) -> tuple[Array, Array, Array]:
        n, width = head.shape
        query = self._linear("query", head).reshape(n, self.config.slots, width)
        score = query @ self._linear("key", tokens).swapaxes(1, 2) / math.sqrt(width)
        attention = softmax(np.where(present[:, None], score, HIDDEN), axis=-1)
        picked = attention @ np.concatenate([tokens, entity], axis=-1)
        hidden = np.concatenate([picked.reshape(n, -1), head, robot], axis=-1)
        for i in range(self.config.depth):
            hidden = _silu(self._norm(f"trunk.{3 * i + 1}", self._linear(f"trunk.{3 * i}", hidden)))
        flat = self._linear("head", hidden).reshape(n, self.config.modes, -1)
        steps = flat[..., 1:].reshape(n, self.config.modes, CHUNK_STEPS, POSE_SIZE + 1)
        return steps[..., :POSE_SIZE], steps[..., POSE_SIZE], flat[..., 0]

    def _linear(self, name: str, x: NDArray) -> Array:
        return x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _mlp(self, name: str, x: Array) -> Array:
        return self._linear(f"{name}.2", _silu(self._linear(f"{name}.0", x)))

    def _norm(self, name: str, x: Array) -> Array:
        """Layer normalization (Ba 2016)."""
        centred = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + _EPSILON)
        return centred / deviation * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]


def _silu(x: Array) -> Array:
    return x * expit(x)
