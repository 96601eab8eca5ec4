"""``coda critique FAILURE``: diagnose a recorded failure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from coda_nodes.cli.options import parse, with_help
from coda_nodes.critic.factory import CRITICS, create_critic
from coda_nodes.critic.protocol import Critic
from coda_nodes.critic.vision.options import VisionOptions
from coda_nodes.world.config import from_mapping
from coda_nodes.world.episode import Episode
from coda_nodes.world.errors import ArtifactError, NotAvailableError

Settings = with_help(VisionOptions)


@dataclass(frozen=True)
class Options:
    """Diagnose a failure."""

    failure: tyro.conf.Positional[Path]
    """Recorded episode (.npz below the episodes folder of a run)."""
    critic: str = "state"
    """state, hf or openai (coda_vlm is not in this version)."""
    vision: Annotated[Any, tyro.conf.arg(constructor=Settings)] = field(default_factory=Settings)
    """Which model answers (hf, openai)."""
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
    diagnoses = _critic(options).diagnoses(episode, max(1, options.causes))
    text = "\n\n".join(diagnosis.render() for diagnosis in diagnoses)
    Console(soft_wrap=True).print(text, highlight=False, markup=False)  # a line of the grammar must not be broken
    return 0


def _critic(options: Options) -> Critic:
    """The critic asked for; pictures are drawn and answers kept for those that look at them only."""
    if options.critic in ("state", "coda_vlm") or options.critic not in CRITICS:
        return create_critic(options.critic)
    from coda_nodes.conductor.pictures import Illustrator

    settings = from_mapping(VisionOptions, asdict(options.vision))
    cache = options.failure.resolve().parent.parent / "critic_answers"
    return create_critic(options.critic, options=settings, views=Illustrator(), cache=cache)
