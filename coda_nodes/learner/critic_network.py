"""Networks of chunk values: object tokens steered by the instruction, as in the policy's network, with the chunk put in early.

Every entity token is told where the tool will stand relative to it half way through the chunk and at its end, so that what a
chunk is worth at one place of the table holds at another. All members of an ensemble are computed together; they share no
weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from coda_nodes.policy.architecture import CLIP, HIDDEN
from coda_nodes.policy.features import ENTITY_SIZE, FLAG_SIZE, ROLE_TEXTS, SCALES, robot_size
from coda_nodes.policy.language import EMBEDDING_SIZE
from coda_nodes.policy.network import NetworkInput
from coda_nodes.policy.normalization import POSE_SIZE, Normalization
from coda_nodes.world.action import ACTION_SIZE, CHUNK_STEPS
from coda_nodes.world.config import check_settings, setting

MOMENTS = (CHUNK_STEPS // 2 - 1, CHUNK_STEPS - 1)
"""Steps of a chunk after which each token is told where the tool is meant to be."""
AHEAD = len(MOMENTS) * 3 * (1 + len(SCALES))
CHUNK_SIZE = CHUNK_STEPS * ACTION_SIZE
RELATIVE = slice(0, 3)
"""Columns of ``Features.entity`` that hold an entity's position relative to the tool [m]."""
_PLAIN = 5.0
"""Brings a plain distance [m] to the size of the other numbers."""


@dataclass(frozen=True)
class CriticNetworkConfig:
    """Sizes of the networks."""

    members: int = setting(4, "critics in the ensemble", low=2, high=32)
    width: int = setting(48, "width of entity tokens", low=8, high=512)
    slots: int = setting(4, "entities read out by attention", low=1, high=16)
    trunk: int = setting(128, "width of the trunk", low=16, high=2048)
    depth: int = setting(2, "hidden layers of the trunk", low=1, high=6)
    words: int = setting(16, "size of a projected sentence vector", low=4, high=128)

    def __post_init__(self) -> None:
        check_settings(self)


class ValueNetwork(nn.Module):
    """``members`` separate maps of a scene, and of a chunk where ``chunked``, to a number each."""

    def __init__(self, config: CriticNetworkConfig, joints: int, members: int, chunked: bool) -> None:
        super().__init__()
        self.config, self.joints, self.members, self.chunked = config, joints, members, chunked
        width, words, robot = config.width, config.words, robot_size(joints)
        for key, shape in (("robot", (robot,)), ("entity", (ENTITY_SIZE,)), ("action", (CHUNK_STEPS, POSE_SIZE))):
            self.register_buffer(f"{key}_mean", torch.zeros(shape))
            self.register_buffer(f"{key}_std", torch.ones(shape))
        ahead, chunk = (AHEAD, CHUNK_SIZE) if chunked else (0, 0)
        self.project = _Linear(members, EMBEDDING_SIZE, words)
        self.role = _Linear(members, EMBEDDING_SIZE, words)
        self.numbers = _Linear(members, ENTITY_SIZE + FLAG_SIZE + ahead, width)
        self.name = _Linear(members, words, width)
        self.roles = nn.ModuleList(_Linear(members, words, width) for _ in range(ROLE_TEXTS))
        self.embed_entity = _Linear(members, width, width)
        self.embed_robot = _Linear(members, robot + words + chunk, width)
        self.query, self.key = _Linear(members, width, config.slots * width), _Linear(members, width, width)
        read = config.slots * (width + ENTITY_SIZE + ahead) + width + robot + chunk
        sizes = [read, *[config.trunk] * config.depth]
        self.trunk = nn.ModuleList(_Linear(members, a, b) for a, b in pairwise(sizes))
        self.head = _Linear(members, config.trunk, 1)
        with torch.no_grad():
            self.head.weight.mul_(0.1)  # values start near 0: the potential, or failure, is what is first believed

    def set_normalization(self, normalization: Normalization) -> None:
        """Take over the statistics of features and actions."""
        for key in ("robot", "entity", "action"):
            for kind in ("mean", "std"):
                getattr(self, f"{key}_{kind}").copy_(torch.from_numpy(getattr(normalization, f"{key}_{kind}")))

    def forward(self, scene: NetworkInput, chunks: Tensor | None = None) -> Tensor:
        """Values of scenes, of the ``chunks`` (n, 8, 7) in them where the network reads chunks. Shape (members, n)."""
        robot = ((scene.robot - self.robot_mean) / self.robot_std).clamp(-CLIP, CLIP)
        entity = ((scene.entity - self.entity_mean) / self.entity_std).clamp(-CLIP, CLIP)
        if chunks is not None and self.chunked:
            robot = torch.cat([robot, self._normalized(chunks)], dim=-1)
            entity = torch.cat([entity, _ahead(scene, chunks)], dim=-1)
        table = _shared(scene.table, self.members)
        words, roles = self.project(table), self.role(table)
        said = self.name(words)[:, scene.name]
        for k, layer in enumerate(self.roles):
            said = said + layer(roles)[:, scene.role[..., k]]
        numbers = self.numbers(_shared(torch.cat([entity, scene.flags], dim=-1), self.members))
        tokens = self.embed_entity(F.silu(numbers + said))
        robot = _shared(robot, self.members)
        head = F.silu(self.embed_robot(torch.cat([robot, words[:, scene.task]], dim=-1)))
        return self._read_out(tokens, _shared(entity, self.members), head, robot, scene.present)

    def _read_out(self, tokens: Tensor, entity: Tensor, head: Tensor, robot: Tensor, present: Tensor) -> Tensor:
        members, n, width = head.shape
        query = self.query(head).view(members, n, self.config.slots, width)
        score = query @ self.key(tokens).transpose(-1, -2) / math.sqrt(width)
        attention = score.masked_fill(~present[None, :, None], HIDDEN).softmax(-1)
        picked = attention @ torch.cat([tokens, entity], dim=-1)
        hidden = torch.cat([picked.flatten(2), head, robot], dim=-1)
        for layer in self.trunk:
            value = layer(hidden)
            hidden = F.silu(F.layer_norm(value, value.shape[-1:]))
        return self.head(hidden).squeeze(-1)

    def _normalized(self, chunks: Tensor) -> Tensor:
        pose = ((chunks[..., :POSE_SIZE] - self.action_mean) / self.action_std).clamp(-CLIP, CLIP)
        return torch.cat([pose, 2 * chunks[..., POSE_SIZE:] - 1], dim=-1).flatten(1)


class _Linear(nn.Module):
    """``members`` linear layers side by side; input (members, ..., in), output (members, ..., out)."""

    def __init__(self, members: int, size_in: int, size_out: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(size_in)
        self.weight = nn.Parameter(torch.empty(members, size_in, size_out).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(members, 1, size_out).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        flat = torch.baddbmm(self.bias, x.reshape(len(x), -1, x.shape[-1]), self.weight)
        return flat.view(*x.shape[:-1], -1)


def _shared(x: Tensor, members: int) -> Tensor:
    return x.expand(members, *x.shape)


def _ahead(scene: NetworkInput, chunks: Tensor) -> Tensor:
    """Each entity relative to where the tool is meant to be at ``MOMENTS`` [m], plain and by scale. Shape (n, K, AHEAD)."""
    relative = scene.entity[..., RELATIVE]
    parts = []
    for step in MOMENTS:
        moved = relative - chunks[:, None, step, :3]
        parts += [moved * _PLAIN, *(torch.tanh(moved / scale) for scale in SCALES)]
    return torch.cat(parts, dim=-1) * scene.present[..., None]

