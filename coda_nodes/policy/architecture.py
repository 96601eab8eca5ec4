"""Sizes of the policy network and the shapes of its weights, known without the library that trains it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from coda_nodes.policy.features import ENTITY_SIZE, FLAG_SIZE, ROLE_TEXTS, robot_size
from coda_nodes.policy.language import EMBEDDING_SIZE
from coda_nodes.policy.normalization import POSE_SIZE
from coda_nodes.world.action import CHUNK_STEPS
from coda_nodes.world.config import check_settings, setting
from coda_nodes.world.errors import ConfigError

CLIP = 5.0
"""Normalized features are clipped to this many deviations: far scenes stay inside what layers have seen."""
HIDDEN = -1e9
"""Score of an entity slot that is empty."""
Shapes = Iterator[tuple[str, tuple[int, ...]]]


@dataclass(frozen=True)
class NetworkConfig:
    """Sizes of the network."""

    width: int = setting(64, "width of entity tokens", low=16, high=512)
    heads: int = setting(4, "attention heads; must divide the width", low=1, high=16)
    layers: int = setting(
        0, "transformer layers over entity tokens; cost as much as all the rest", low=0, high=6
    )
    slots: int = setting(6, "entities read out by attention", low=1, high=16)
    trunk: int = setting(256, "width of the trunk", low=32, high=2048)
    depth: int = setting(2, "hidden layers of the trunk", low=1, high=6)
    words: int = setting(24, "size of a projected sentence vector", low=4, high=128)
    modes: int = setting(1, "chunks proposed by the head; 1 is plain regression", low=1, high=16)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.width % self.heads:
            raise ConfigError(
                f"NetworkConfig.heads = {self.heads}: expected a divisor of width = {self.width}"
            )


def weight_shapes(config: NetworkConfig, joints: int) -> dict[str, tuple[int, ...]]:
    """Shape of every weight and buffer by its name in ``PolicyNetwork.state_dict``."""
    return dict(_shapes(config, joints))


def _shapes(config: NetworkConfig, joints: int) -> Shapes:
    width, words, robot = config.width, config.words, robot_size(joints)
    for key, size in (("robot", robot), ("entity", ENTITY_SIZE)):
        yield f"{key}_mean", (size,)
        yield f"{key}_std", (size,)
    yield from _linear("project", EMBEDDING_SIZE, words)
    yield from _linear("role", EMBEDDING_SIZE, words)
    yield from _linear("numbers", ENTITY_SIZE + FLAG_SIZE, width)
    yield "name.weight", (width, words)
    for k in range(ROLE_TEXTS):
        yield f"roles.{k}.weight", (width, words)
    yield from _linear("embed_entity", width, width)
    yield from _mlp("embed_robot", robot + words, width, width)
    for i in range(config.layers):
        yield from _layer(f"layers.{i}", width)
    yield from _linear("query", width, config.slots * width)
    yield from _linear("key", width, width)
    size = config.slots * (width + ENTITY_SIZE) + width + robot
    for i in range(config.depth):
        yield from _linear(f"trunk.{3 * i}", size if i == 0 else config.trunk, config.trunk)
        yield from _norm(f"trunk.{3 * i + 1}", config.trunk)
    yield from _linear("head", config.trunk, config.modes * (CHUNK_STEPS * (POSE_SIZE + 1) + 1))


def _linear(name: str, size_in: int, size_out: int) -> Shapes:
    yield f"{name}.weight", (size_out, size_in)
    yield f"{name}.bias", (size_out,)


def _norm(name: str, size: int) -> Shapes:
    yield f"{name}.weight", (size,)
    yield f"{name}.bias", (size,)


def _mlp(name: str, size_in: int, hidden: int, size_out: int) -> Shapes:
    yield from _linear(f"{name}.0", size_in, hidden)
    yield from _linear(f"{name}.2", hidden, size_out)


def _layer(name: str, width: int) -> Shapes:
    yield from _norm(f"{name}.norm_1", width)
    yield from _norm(f"{name}.norm_2", width)
    yield from _linear(f"{name}.qkv", width, 3 * width)
    yield from _linear(f"{name}.out", width, width)
    yield from _mlp(f"{name}.feed", width, 2 * width, width)
