"""A small policy trained once in the point world, shared by the tests of this room."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

_PATH = Path(__file__).with_name("point_world.py")


def _module():
    if "coda_point_world" not in sys.modules:
        spec = importlib.util.spec_from_file_location("coda_point_world", _PATH)
        module = importlib.util.module_from_spec(spec)
        sys.modules["coda_point_world"] = module
        spec.loader.exec_module(module)
    return sys.modules["coda_point_world"]


@pytest.fixture(scope="session")
def point_world():
    """The module ``point_world``."""
    return _module()


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    """Sentence encoder with a cache of its own."""
    from coda_nodes.policy.language import EmbeddingCache, SentenceEncoder

    return SentenceEncoder(EmbeddingCache(tmp_path_factory.mktemp("embeddings") / "cache.safetensors"))


@pytest.fixture()
def checkpoint(point_world, encoder):
    """An untrained checkpoint with real statistics."""
    from coda_nodes.policy.checkpoint import Checkpoint
    from coda_nodes.policy.features import FeatureEncoder
    from coda_nodes.policy.network import NetworkConfig, PolicyNetwork
    from coda_nodes.policy.normalization import Normalization

    rng = np.random.default_rng(3)
    world = point_world.PointWorld([point_world.sample_spec(rng) for _ in range(20)], rng)
    features = FeatureEncoder(encoder).encode(world.state().observation())
    statistics = Normalization.fit(features, world.expert())
    torch.manual_seed(0)
    network = PolicyNetwork(NetworkConfig(width=32, trunk=64), joints=7)
    network.set_normalization(statistics)
    return Checkpoint.of(
        network, statistics, "panda", tuple(f"joint{i}" for i in range(1, 8)), regime="expert"
    )
