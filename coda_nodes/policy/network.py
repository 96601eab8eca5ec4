"""The policy network: entity tokens, attention steered by the instruction, one head for a chunk of actions.

A few read-out slots, whose queries come from robot and task, pick entity tokens, so that the trunk gets the
coordinates of what the instruction is about. Before that, entity tokens may meet in transformer layers
(Vaswani 2017, pre-norm); at equal cost more gradient steps without them did better. The mixture head gives
several chunks with weights, trained by the likelihood of a Laplace mixture.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from coda_nodes.policy.architecture import CLIP, HIDDEN, NetworkConfig
from coda_nodes.policy.features import ENTITY_SIZE, FLAG_SIZE, ROLE_TEXTS, Features, robot_size
from coda_nodes.policy.language import EMBEDDING_SIZE
from coda_nodes.policy.normalization import POSE_SIZE, Normalization
from coda_nodes.world.action import CHUNK_STEPS


@dataclass(frozen=True)
class NetworkInput:
    """``features.Features`` as tensors, plus the sentence table."""

    robot: Tensor
    entity: Tensor
    flags: Tensor
    name: Tensor
    role: Tensor
    task: Tensor
    present: Tensor
    table: Tensor

    @staticmethod
    def from_features(features: Features) -> NetworkInput:
        """Wrap arrays without copying."""
        return NetworkInput(
            **{key: torch.from_numpy(getattr(features, key)) for key in NetworkInput.__dataclass_fields__}
        )

    def select(self, ids: Tensor) -> NetworkInput:
        """The same input for some scenes."""
        pick = lambda key: getattr(self, key) if key == "table" else getattr(self, key)[ids]  # noqa: E731
        return NetworkInput(**{key: pick(key) for key in NetworkInput.__dataclass_fields__})


@dataclass(frozen=True)
class ChunkProposal:
    """Head output: normalized poses, gripper logits, mode logits."""

    pose: Tensor
    """Shape (n, M, 8, 6)."""
    gripper: Tensor
    """Shape (n, M, 8)."""
    mode: Tensor
    """Shape (n, M)."""

    def best(self) -> tuple[Tensor, Tensor]:
        """Pose (n, 8, 6) and gripper logits (n, 8) of the likeliest mode."""
        rows, index = torch.arange(len(self.mode)), self.mode.argmax(-1)
        return self.pose[rows, index], self.gripper[rows, index]


class PolicyNetwork(nn.Module):
    """Maps ``NetworkInput`` (raw features; normalization is a set of buffers) to ``ChunkProposal``."""

    def __init__(self, config: NetworkConfig, joints: int) -> None:
        super().__init__()
        self.config, self.joints = config, joints
        width, words = config.width, config.words
        for key, size in (("robot", robot_size(joints)), ("entity", ENTITY_SIZE)):
            self.register_buffer(f"{key}_mean", torch.zeros(size))
            self.register_buffer(f"{key}_std", torch.ones(size))
        self.project = nn.Linear(EMBEDDING_SIZE, words)
        self.role = nn.Linear(EMBEDDING_SIZE, words)
        self.numbers = nn.Linear(ENTITY_SIZE + FLAG_SIZE, width)
        self.name = nn.Linear(words, width, bias=False)
        self.roles = nn.ModuleList(nn.Linear(words, width, bias=False) for _ in range(ROLE_TEXTS))
        self.embed_entity = nn.Linear(width, width)
        self.embed_robot = _mlp(robot_size(joints) + words, width, width)
        self.layers = nn.ModuleList(_Layer(width, config.heads) for _ in range(config.layers))
        self.query, self.key = nn.Linear(width, config.slots * width), nn.Linear(width, width)
        read = config.slots * (width + ENTITY_SIZE) + width + robot_size(joints)
        self.trunk = _trunk(read, config.trunk, config.depth)
        self.head = nn.Linear(config.trunk, config.modes * (CHUNK_STEPS * (POSE_SIZE + 1) + 1))

    def set_normalization(self, normalization: Normalization) -> None:
        """Take over the statistics of the features."""
        for key in ("robot_mean", "robot_std", "entity_mean", "entity_std"):
            getattr(self, key).copy_(torch.from_numpy(getattr(normalization, key)))

    def forward(self, scene: NetworkInput, keep_names: Tensor | None = None) -> ChunkProposal:
        """Propose chunks. ``keep_names`` (n, 1, 1), 0 or 1, hides the names of whole scenes during
        training."""
        robot = ((scene.robot - self.robot_mean) / self.robot_std).clamp(-CLIP, CLIP)
        entity = ((scene.entity - self.entity_mean) / self.entity_std).clamp(-CLIP, CLIP)
        words, roles = self.project(scene.table), self.role(scene.table)
        names = self.name(words)[scene.name]  # projected per sentence, not per entity: sentences are few
        said = names if keep_names is None else names * keep_names
        for k, layer in enumerate(self.roles):
            said = said + layer(roles)[scene.role[..., k]]
        tokens = self.embed_entity(F.silu(self.numbers(torch.cat([entity, scene.flags], dim=-1)) + said))
        head = self.embed_robot(torch.cat([robot, words[scene.task]], dim=-1))
        tokens = torch.cat([head[:, None], tokens], dim=1)
        seen = F.pad(scene.present, (1, 0), value=True)
        for layer in self.layers:
            tokens = layer(tokens, seen)
        return self._read_out(tokens, entity, robot, scene.present)

    def _read_out(self, tokens: Tensor, entity: Tensor, robot: Tensor, present: Tensor) -> ChunkProposal:
        head, tokens = tokens[:, 0], tokens[:, 1:]
        n, width = head.shape
        query = self.query(head).view(n, self.config.slots, width)
        score = query @ self.key(tokens).transpose(1, 2) / math.sqrt(width)
        attention = score.masked_fill(~present[:, None], HIDDEN).softmax(-1)
        picked = attention @ torch.cat([tokens, entity], dim=-1)
        hidden = self.trunk(torch.cat([picked.flatten(1), head, robot], dim=-1))
        flat = self.head(hidden).view(n, self.config.modes, -1)
        steps = flat[..., 1:].view(n, self.config.modes, CHUNK_STEPS, POSE_SIZE + 1)
        return ChunkProposal(pose=steps[..., :POSE_SIZE], gripper=steps[..., POSE_SIZE], mode=flat[..., 0])


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = _mlp(width, 2 * width, width)

    def forward(self, x: Tensor, seen: Tensor) -> Tensor:
        n, k, width = x.shape
        query, key, value = self.qkv(self.norm_1(x)).view(n, k, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=seen[:, None, None])
        x = x + self.out(mixed.transpose(1, 2).reshape(n, k, width))
        return x + self.feed(self.norm_2(x))


def _mlp(size_in: int, hidden: int, size_out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(size_in, hidden), nn.SiLU(), nn.Linear(hidden, size_out))


def _trunk(size_in: int, width: int, depth: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for i in range(depth):
        layers += [nn.Linear(size_in if i == 0 else width, width), nn.LayerNorm(width), nn.SiLU()]
    return nn.Sequential(*layers)


def chunk_loss(proposal: ChunkProposal, pose: Tensor, gripper: Tensor, gripper_weight: float) -> Tensor:
    """Loss of each scene: mean absolute error of the normalized pose (n, 8, 6) plus weighted cross-entropy of
    the gripper (n, 8); with several modes the negative log likelihood of the mixture built from these costs.
    Shape (n,)."""
    error = (proposal.pose - pose[:, None]).abs().mean(dim=(-1, -2))
    target = gripper[:, None].expand_as(proposal.gripper)
    closing = F.binary_cross_entropy_with_logits(proposal.gripper, target, reduction="none").mean(-1)
    cost = error + gripper_weight * closing
    if cost.shape[1] == 1:
        return cost[:, 0]
    sharp = 10.0  # scale of the Laplace likelihood, in normalized units
    return -torch.logsumexp(proposal.mode.log_softmax(-1) - sharp * cost, dim=-1) / sharp
