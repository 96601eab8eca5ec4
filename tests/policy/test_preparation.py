"""Sentence vectors are prepared by a process of its own."""

from __future__ import annotations

import numpy as np

from coda_nodes.policy.features import FeatureEncoder
from coda_nodes.policy.language import EmbeddingCache, SentenceEncoder
from coda_nodes.policy.preparation import prepare_language


def test_prepared_specs_need_no_encoder(point_world, tmp_path):
    rng = np.random.default_rng(0)
    phrases = ("touch the crimson thing", "go to the {}")
    specs = [point_world.sample_spec(rng, phrases=phrases) for _ in range(12)]
    path = tmp_path / "cache.safetensors"
    assert prepare_language(specs, path)
    written = path.stat().st_mtime_ns
    encoder = SentenceEncoder(EmbeddingCache(path), may_load=False)
    FeatureEncoder(encoder).encode(point_world.PointWorld(specs, rng).state().observation())
    assert prepare_language(specs, path) and path.stat().st_mtime_ns == written


def test_a_cache_that_cannot_be_written_is_told_not_raised(point_world, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    spec = point_world.sample_spec(np.random.default_rng(0))
    assert not prepare_language([spec], tmp_path / "file" / "cache.safetensors")
    assert "not prepared" in caplog.text
