"""Fixed sets of scenes the conductor measures on: valid, and solvable by the expert."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import numpy as np

from coda_nodes.conductor.ports import EpisodesRequest
from coda_nodes.generator.validity import static_rejections
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.episode import EpisodeSummary
from coda_nodes.world.errors import ArtifactError, ValidityError
from coda_nodes.world.spec import EnvironmentSpec, read_specs, specs_hash, write_specs
from coda_nodes.world.splits import sample_split

log = logging.getLogger(__name__)
SPARE = 1.3
"""Candidates drawn per scene wanted, before the expert has tried them."""
ATTEMPTS = 40
"""Draws per valid scene before sampling is called hopeless."""

Run = Callable[[EpisodesRequest], list[EpisodeSummary]]


def draw_valid(family: str, split: str, count: int, rng: np.random.Generator, half: str | None = None) -> list[EnvironmentSpec]:
    """Draw ``count`` scenes of a split that pass the static validity checks.

    Raises:
        ValidityError: fewer than one draw in 40 is valid.
    """
    specs: list[EnvironmentSpec] = []
    for _ in range(count * ATTEMPTS):
        if len(specs) == count:
            break
        spec = sample_split(family, split, rng, half=half)
        if not static_rejections(spec):
            specs.append(spec)
    if len(specs) == count:
        return specs
    raise ValidityError(f"{family}, {split}: only {len(specs)} of {count * ATTEMPTS} draws are valid; {count} were wanted")


def solvable(specs: Sequence[EnvironmentSpec], run: Run, seed: int) -> list[bool]:
    """Whether the scripted expert solves each scene; costs one environment each."""
    if not specs:
        return []
    ended = run(EpisodesRequest(specs, "expert", seed, "solvability"))
    return [summary.outcome == "success" for summary in ended]


def solvable_scenes(
    families: Sequence[str], split: str, count: int, seed: int, run: Run, half: str | None = None
) -> list[EnvironmentSpec]:
    """``count`` scenes per family that the expert solves, drawn in order; fewer where it solves too few.

    Candidates are drawn once, 1.3 for each scene wanted, so that an unsolvable kind of scene stays visible as a
    shortfall instead of being redrawn away.
    """
    rng = np.random.default_rng([seed, sum(map(ord, split + (half or "")))])
    wanted = int(np.ceil(SPARE * count))
    candidates = [spec for family in families for spec in draw_valid(family, split, wanted, rng, half)]
    solved = solvable(candidates, run, seed)
    chosen: list[EnvironmentSpec] = []
    for family in families:
        good = [spec for spec, ok in zip(candidates, solved, strict=True) if ok and spec.family == family]
        if len(good) < count:
            words = "%s, %s: the expert solves %d of %d candidates, %d scenes wanted"
            log.warning(words, family, split, len(good), wanted, count)
        chosen += good[:count]
    return chosen


def keep(root: ArtifactRoot, specs: Sequence[EnvironmentSpec]) -> str:
    """Store a set of specifications; return the hash that names it (empty for an empty set)."""
    if not specs:
        return ""
    key = specs_hash(specs)
    path = root.environments(key)
    if not path.exists():
        write_specs(path, specs)
    return key


def recall(root: ArtifactRoot, key: str) -> list[EnvironmentSpec]:
    """Read back what ``keep`` stored. Raises ArtifactError when the file is not what its name says."""
    if not key:
        return []
    specs = read_specs(root.environments(key))
    if specs_hash(specs) != key:
        raise ArtifactError(f"{root.environments(key)} does not match its hash {key}")
    return specs
