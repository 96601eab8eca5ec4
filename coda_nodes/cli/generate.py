"""``coda generate``: valid environments of a family, split and axis into a file, with the reasons of rejections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from coda_nodes.cli.options import parse
from coda_nodes.generator.validity import static_rejections
from coda_nodes.world.errors import ConfigError, ValidityError, unknown
from coda_nodes.world.spec import FAMILIES, EnvironmentSpec, write_specs
from coda_nodes.world.splits import SPLITS, load_splits, sample_split

ATTEMPTS = 40
"""Draws per environment asked for before giving up."""


@dataclass(frozen=True)
class Options:
    """Generate environments."""

    family: str
    """pick_place, stack, articulated or push_insert."""
    out: Path
    """File to write, one JSON specification per line."""
    axis: str | None = None
    """Move only this axis out of the train split; without it, the split's own mixture of axes."""
    split: str = "probe"
    """train, probe or dev (held_out is opened by the final evaluation only)."""
    n: int = 50
    """Number of environments."""
    seed: int = 0
    """Seed of the drawing."""


def run(words: Sequence[str]) -> int:
    """Run the verb."""
    options = parse(Options, words, "generate", __doc__ or "")
    _check(options)
    specs, rejected = draw(options)
    write_specs(options.out, specs)
    console = Console()
    console.print(f"wrote {len(specs)} environments to {options.out}", highlight=False)
    for reason, number in rejected.most_common():
        console.print(f"  rejected {number}: {reason}", style="dim", highlight=False)
    return 0


def draw(options: Options) -> tuple[list[EnvironmentSpec], Counter[str]]:
    """Draw until enough are valid; count the rejections by check.

    Raises:
        ValidityError: too few draws are valid.
    """
    rng = np.random.default_rng(options.seed)
    specs: list[EnvironmentSpec] = []
    rejected: Counter[str] = Counter()
    for _ in range(options.n * ATTEMPTS):
        if len(specs) == options.n:
            break
        spec = sample_split(options.family, options.split, rng, axis=options.axis)
        reasons = static_rejections(spec)
        rejected.update({reason.check for reason in reasons})
        if not reasons:
            specs.append(spec)
    if len(specs) < options.n:
        raise ValidityError(f"only {len(specs)} of {options.n * ATTEMPTS} draws are valid; rejected: {dict(rejected)}")
    return specs, rejected


def _check(options: Options) -> None:
    if options.family not in FAMILIES:
        raise ConfigError(unknown("family", options.family, FAMILIES))
    if options.split not in SPLITS:
        raise ConfigError(unknown("split", options.split, SPLITS))
    axes = load_splits().axes(options.family)
    if options.axis is not None and options.axis not in axes:
        raise ConfigError(unknown(f"axis of {options.family}", options.axis, axes))
    if options.n < 1:
        raise ConfigError(f"--n {options.n}: expected at least 1")
