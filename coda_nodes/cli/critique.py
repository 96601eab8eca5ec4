"""``coda critique FAILURE``: diagnose a recorded failure, a rosbag2 or an episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from coda_nodes.cli.options import parse, with_help
from coda_nodes.critic.bag_reading import parse_topic_map
from coda_nodes.critic.vision.options import VisionOptions
from coda_nodes.world.errors import ArtifactError

Settings = with_help(VisionOptions)


@dataclass(frozen=True)
class Options:
    """Diagnose a failure."""

    failure: tyro.conf.Positional[Path]
    """Rosbag2 (its folder, or an .mcap or .db3 file), or recorded episode (.npz below the episodes folder of a run)."""
    critic: str = "state"
    """state, hf or openai (coda_vlm is not in this version)."""
    vision: Annotated[Any, tyro.conf.arg(constructor=Settings)] = field(default_factory=Settings)
    """Which model answers (hf, openai)."""
    causes: int = 1
    """Likely causes shown at most, best first."""
    topics: tuple[str, ...] = ()
    """Names of topics in a bag of another recorder, as in /joint_states=/arm/joint_states."""


def run(words: Sequence[str]) -> int:
    """Run the verb."""
    options = parse(Options, words, "critique", __doc__ or "")
    renamed = parse_topic_map(options.topics)
    critic = _critic(options)
    tell = Console(stderr=True, soft_wrap=True)
    if not options.failure.exists():
        raise ArtifactError(f"no such file or folder: {options.failure}")
from coda_nodes.cli.options import with_help
from coda_nodes.critic.vision.options import VisionOptions
