"""Embeds what environments say before workers start, so that no worker and no node holds the sentence
encoder.

``python -m coda_nodes.policy.preparation CACHE`` reads ``[[instruction, [names]], ...]`` from standard input.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from coda_nodes.policy.features import FeatureEncoder
from coda_nodes.policy.language import EmbeddingCache, SentenceEncoder, default_cache_path
from coda_nodes.world.errors import CodaError, NotAvailableError
from coda_nodes.world.spec import EnvironmentSpec

logger = logging.getLogger(__name__)
Said = tuple[str, tuple[str, ...]]
"""Instruction and names of the entities."""


def prepare_language(specs: Sequence[EnvironmentSpec], path: Path | None = None) -> bool:
    """``prepare_sentences`` for what ``specs`` say."""
    return prepare_sentences([(spec.instruction, spec.entity_names) for spec in specs], path)


def prepare_sentences(said: Iterable[Said], path: Path | None = None) -> bool:
    """Make sure that the cache file (default: the user's) holds every sentence vector that a policy needs.

    What is missing is embedded by a process of its own, whose memory (some 450 MB) is free again afterwards.
    Returns False, with a warning in the log, when the cache could not be filled; policies then load the
    encoder themselves.
    """
    path = path if path is not None else default_cache_path()
    said = list(dict.fromkeys(said))
    if _complete(said, path):
        return True
    command = [sys.executable, "-m", "coda_nodes.policy.preparation", str(path)]
    package = str(Path(__file__).resolve().parents[2])
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")])),
    }
    done = subprocess.run(
        command, input=json.dumps(said), text=True, capture_output=True, check=False, env=environment
    )
    if done.returncode != 0:
        logger.warning("sentence vectors were not prepared: %s", done.stderr.strip().splitlines()[-1:])
    return done.returncode == 0


def _complete(said: Sequence[Said], path: Path) -> bool:
    features = FeatureEncoder(SentenceEncoder(EmbeddingCache(path), may_load=False))
    try:
        for instruction, names in said:
            features.language(instruction, names)
    except NotAvailableError:
        return False
    return True


def main() -> int:
    """Entry of the process; returns its exit status."""
    encoder = SentenceEncoder(EmbeddingCache(Path(sys.argv[1])))
    features = FeatureEncoder(encoder)
    try:
        for instruction, names in json.load(sys.stdin):
            features.language(instruction, tuple(names))
        encoder.cache.save()
    except CodaError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
