"""``coda critique FAILURE``: diagnose a recorded failure, a rosbag2 or an episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from coda_nodes.cli.options import parse, with_help
from coda_nodes.critic.bag_critique import episodes_in
from coda_nodes.critic.bag_episodes import Recorded
from coda_nodes.critic.bag_reading import is_bag, parse_topic_map
from coda_nodes.critic.factory import CRITICS, create_critic
from coda_nodes.critic.protocol import Critic
from coda_nodes.critic.vision.options import VisionOptions
from coda_nodes.world.config import from_mapping
from coda_nodes.world.episode import Episode
from coda_nodes.world.errors import ArtifactError, DiagnosisError

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
    if options.failure.suffix == ".npz":
        recorded, notes = [Recorded(Episode.load(options.failure))], []
    elif is_bag(options.failure):
        found = episodes_in(options.failure, renamed)
        recorded, notes = found.episodes, found.notes
    else:
        expected = "expected a rosbag2 (folder, .mcap, .db3) or an episode (.npz)"
        raise ArtifactError(f"{options.failure} is no recorded failure: {expected}")
    for note in notes:
        tell.print(f"note: {note}", highlight=False, markup=False)
    _diagnose(critic, recorded, max(1, options.causes), tell)
    return 0


def _diagnose(critic: Critic, recorded: Sequence[Recorded], causes: int, tell: Console) -> None:
    """Print the diagnoses of all failures; raises DiagnosisError where there is none."""
    texts, refused = [], []
    for item in recorded:
        for note in item.notes:
            tell.print(f"note: {note}", highlight=False, markup=False)
        try:
            texts += [diagnosis.render() for diagnosis in critic.diagnoses(item.episode, causes)]
        except DiagnosisError as error:
            refused.append(str(error))
    if not texts:
        raise DiagnosisError("; ".join(refused))
    for text in refused:
        tell.print(f"note: {text}", highlight=False, markup=False)
    # a line of the grammar must not be broken
    Console(soft_wrap=True).print("\n\n".join(texts), highlight=False, markup=False)


def _critic(options: Options) -> Critic:
    """The critic asked for; pictures are drawn and answers kept for those that look at them only."""
    if options.critic in ("state", "coda_vlm") or options.critic not in CRITICS:
        return create_critic(options.critic)
    from coda_nodes.conductor.pictures import Illustrator

    settings = from_mapping(VisionOptions, asdict(options.vision))
    cache = options.failure.resolve().parent.parent / "critic_answers"
    return create_critic(options.critic, options=settings, views=Illustrator(), cache=cache)
