"""``coda critique FAILURE``: diagnose a recorded failure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console

from coda_nodes.cli.options import parse
from coda_nodes.critic.factory import create_critic
from coda_nodes.world.episode import Episode
from coda_nodes.world.errors import ArtifactError, NotAvailableError


@dataclass(frozen=True)
class Options:
    """Diagnose a failure."""

    failure: tyro.conf.Positional[Path]
    """Recorded episode (.npz below the episodes folder of a run)."""
    critic: str = "state"
    """state, coda_vlm, hf or openai."""
    causes: int = 1
    """Likely causes shown at most, best first."""


def run(words: Sequence[str]) -> int:
    """Run the verb."""
    options = parse(Options, words, "critique", __doc__ or "")
    if not options.failure.exists():
        raise ArtifactError(f"no such file or folder: {options.failure}")
    if options.failure.is_dir() or options.failure.suffix != ".npz":
        raise NotAvailableError(
            f"{options.failure}: reading rosbags is not part of this version; expected an episode, <run>/episodes/<hash>.npz"
        )
    episode = Episode.load(options.failure)
    diagnoses = create_critic(options.critic).diagnoses(episode, max(1, options.causes))
    text = "\n\n".join(diagnosis.render() for diagnosis in diagnoses)
    Console(soft_wrap=True).print(text, highlight=False, markup=False)  # a line of the grammar must not be broken
    return 0
