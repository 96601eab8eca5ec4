"""The point world of the policy's tests, and a private cache of sentence vectors."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

_PATH = Path(__file__).parents[1] / "policy" / "point_world.py"


@pytest.fixture(scope="session")
def point_world():
    """The module ``point_world``."""
    if "coda_point_world" not in sys.modules:
        spec = importlib.util.spec_from_file_location("coda_point_world", _PATH)
        module = importlib.util.module_from_spec(spec)
        sys.modules["coda_point_world"] = module
        spec.loader.exec_module(module)
    return sys.modules["coda_point_world"]


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    """Sentence encoder with a cache of its own."""
    from coda_nodes.policy.language import EmbeddingCache, SentenceEncoder

    return SentenceEncoder(EmbeddingCache(tmp_path_factory.mktemp("embeddings") / "cache.safetensors"))


@pytest.fixture(scope="session")
def episodes(point_world):
    """Disturbed demonstrations of the point world."""
    import numpy as np

    rng = np.random.default_rng(0)
    return point_world.demonstrations([point_world.sample_spec(rng) for _ in range(200)], rng)
