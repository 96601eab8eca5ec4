"""The episodes that a bag holds, each once, and what has to be said about the bag."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from coda_nodes.critic.bag_episodes import Recorded, TruthAssembler
from coda_nodes.critic.bag_reading import Bag, read_bag
from coda_nodes.world.errors import MessageError

UNSTAMPED = "stamps of 0 were found (recorded before the first /clock): the order is that of the control steps"


@dataclass(frozen=True)
class BagEpisodes:
    """What was found, in order of time."""

    episodes: list[Recorded]
    notes: list[str]
    """What is missing or was repaired, a sentence each."""


def episodes_in(path: Path, renamed: Mapping[str, str] | None = None) -> BagEpisodes:
    """Episodes of a bag; ``renamed`` as in ``read_bag``.

    Raises:
        ArtifactError: nothing can be read.
        MessageError: the bag does not hold what a diagnosis needs (the message says what it holds), or a message in
        it is damaged.
    """
    bag = read_bag(path, renamed)
    assembler = TruthAssembler()
    found: list[Recorded] = []
    for item in bag.messages:
        found += assembler.add(item.topic, item.message)
    found += assembler.close()
    if not found:
        raise MessageError(f"{path}: {_nothing(bag, assembler)}")
    notes = [*bag.notes, *[UNSTAMPED] * assembler.unstamped]
    for key, count in assembler.repeats.items():
        notes.append(f"episode {key} is in the bag {count + 1} times, as when it is played in a loop; it counts once")
    return BagEpisodes(found, notes)


def _nothing(bag: Bag, assembler: TruthAssembler) -> str:
    """Why a bag gives no episode."""
    part = f" ({'; '.join(bag.notes)})" if bag.notes else ""
    if assembler.without_specification:
        missing = ", ".join(assembler.without_specification)
        return f"the specification of environment {missing} is missing on /coda/environment{part}"
    if assembler.headless:
        return f"the recording begins in the middle of an episode, whose reset is missing{part}"
    if assembler.seen:
        return f"the episode was cut off before its first chunk had ended{part}"
    return (
        "no episode: a diagnosis needs /coda/truth and /coda/environment (simulation), or /joint_states, /coda/objects "
        f"and /coda/instruction (arm); the bag holds {bag.contents}{part}; other names are told by --topics OURS=THEIRS"
    )
