"""Episodes that are asked for, shared out into tasks of worker processes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from coda_nodes.simulator.rollout import variant
from coda_nodes.world.episode import episode_key
from coda_nodes.world.errors import SimulationError
from coda_nodes.world.spec import EnvironmentSpec

PART = 25
"""Episodes of one task at most. How specifications are shared out depends on their order only, not on the
number of workers, so that a policy sees the same batches on every machine."""
Start = tuple[str, int] | None
"""(episode hash, chunk) of the recorded physics state to start from; None: from the reset."""


@dataclass
class Task:
    """Episodes that run together, and their places in the list asked for."""

    places: list[int]
    message: bytes
    attempts: int = 0


class Order:
    """One episode per specification, all by one actor.

    Args:
        specs: one per episode; one that is listed again gets the next seed (seed + 1, ...).
        settings: ``actor``, ``execute``, ``noise`` and ``record_physics``, as ``simulator.worker`` reads them.
        starts: one per specification, or None.

    Raises:
        SimulationError: lists of different lengths.
    """

    def __init__(
        self, specs: Sequence[EnvironmentSpec], seed: int, settings: dict[str, Any], starts: Sequence[Start] | None
    ) -> None:
        self.specs, self.settings = specs, settings
        self.starts = list(starts) if starts is not None else [None] * len(specs)
        if len(self.starts) != len(specs):
            raise SimulationError(f"{len(specs)} specifications, {len(self.starts)} starts")
        texts = ["" if start is None else f"{start[0]}:{start[1]}" for start in self.starts]
        self.seeds = _seeds(specs, texts, seed)
        self.variants = [variant(settings["execute"], settings["noise"], text) for text in texts]

    def identities(self) -> list[str]:
        """Identity of each episode."""
        actor = self.settings["actor"]
        rows = zip(self.specs, self.seeds, self.variants, strict=True)
        return [episode_key(spec, seed, actor, name) for spec, seed, name in rows]

    def tasks(self, missing: Sequence[bool]) -> list[Task]:
        """Tasks for the episodes that are missing: one family and robot each, in even parts of at most ``PART``."""
        groups: dict[tuple[str, str], list[int]] = {}
        for place, spec in enumerate(self.specs):
            groups.setdefault((spec.family, spec.robot), []).append(place)
        parts = []
        for places in groups.values():
            count = -(-len(places) // PART)
            for k in range(count):
                part = places[k * len(places) // count : (k + 1) * len(places) // count]
                parts.append([place for place in part if missing[place]])
        return [Task(part, self._message(part)) for part in parts if part]

    def _message(self, places: Sequence[int]) -> bytes:
        task = {
            "specs": [self.specs[i].to_json() for i in places],
            "seeds": [self.seeds[i] for i in places],
            "starts": [self.starts[i] for i in places],
            "variants": [self.variants[i] for i in places],
            **self.settings,
        }
        return json.dumps(task).encode() + b"\n"


def _seeds(specs: Sequence[EnvironmentSpec], starts: Sequence[str], seed: int) -> list[int]:
    seen: Counter[tuple[str, str]] = Counter()
    seeds = []
    for spec, start in zip(specs, starts, strict=True):
        seeds.append(seed + seen[spec.content_hash, start])
        seen[spec.content_hash, start] += 1
    return seeds
