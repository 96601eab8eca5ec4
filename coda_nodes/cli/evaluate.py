"""``coda evaluate``: success of a checkpoint, or of the expert, with intervals per family and axis."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from coda_nodes.cli.held_out import evaluate_run
from coda_nodes.cli.measuring import grouped, groups_table, roll_out, stage_checkpoint
from coda_nodes.cli.options import parse
from coda_nodes.conductor.scenes import draw_valid
from coda_nodes.generator.validity import require_valid
from coda_nodes.world.artifacts import ArtifactRoot, write_atomic
from coda_nodes.world.errors import ConfigError, ValidityError
from coda_nodes.world.robots import robot
from coda_nodes.world.spec import FAMILIES, EnvironmentSpec, read_specs


@dataclass(frozen=True)
class Options:
    """Measure a checkpoint."""

    checkpoint: Path | None = None
    """Folder with policy.safetensors and policy.json."""
    expert: bool = False
    """Measure the scripted expert instead of a checkpoint."""
    environments: Path | None = None
    """File of environments, one JSON specification per line."""
    split: str = "dev"
    """Without a file: split to draw from (train, probe, dev)."""
    family: tuple[str, ...] = FAMILIES
    """Without a file: families to draw."""
    n: int = 50
    """Without a file: environments per family."""
    seed: int = 0
    """Seed of the drawing and of the episodes."""
    workers: int = 2
    """Worker processes."""
    out: Path | None = None
    """Also write the figures as JSON here."""
    final: Path | None = None
    """Folder of a finished run: open held_out and measure its first and last checkpoint, once, at the end."""


def run(words: Sequence[str]) -> int:
    """Run the verb."""
    options = parse(Options, words, "evaluate", __doc__ or "")
    if options.final:
        evaluate_run(options.final, options.workers)
        return 0
    if (options.checkpoint is None) == (not options.expert):
        raise ConfigError("name one of --checkpoint FOLDER or --expert")
    specs = _environments(options)
    with tempfile.TemporaryDirectory(prefix="coda-evaluate-") as folder:
        root = ArtifactRoot(folder)
        actor = stage_checkpoint(options.checkpoint, root) if options.checkpoint else "expert"
        ended = roll_out(specs, actor, root, options.workers, options.seed, "evaluating")
    groups = grouped(specs, ended)
    invalid = sum(summary.outcome == "invalid" for summary in ended)
    title = f"Success of {options.checkpoint or 'the expert'} on {len(specs)} environments"
    Console().print(groups_table(title, groups, invalid))
    if options.out:
        document = {"actor": actor, "seed": options.seed, "invalid": invalid,
                    "groups": {name: group.model_dump() for name, group in groups.items()}}
        write_atomic(options.out, json.dumps(document, indent=1).encode())
    return 0


def _environments(options: Options) -> list[EnvironmentSpec]:
    if options.environments:
        specs = read_specs(options.environments)
        _refuse_unusable(options.environments, specs)
        return specs
    rng = np.random.default_rng(options.seed)
    return [spec for family in options.family for spec in draw_valid(family, options.split, options.n, rng)]


def _refuse_unusable(path: Path, specs: Sequence[EnvironmentSpec]) -> None:
    """Raise ValidityError naming the first environment that has an unknown robot, is out of reach or solved at the start."""
    for number, spec in enumerate(specs, start=1):
        try:
            robot(spec.robot)
            require_valid(spec)
        except (ConfigError, ValidityError) as error:
            raise ValidityError(f"{path}, environment {number}: {error}") from error
