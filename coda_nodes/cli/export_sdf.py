"""``coda export-sdf FILE``: environments as SDF worlds for Gazebo, each with the configuration of its bridge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console

from coda_nodes.cli.options import parse
from coda_nodes.simulator.gazebo.bridge import bridge_yaml
from coda_nodes.simulator.gazebo.worlds import WorldConfig, export_world
from coda_nodes.world.artifacts import write_atomic
from coda_nodes.world.spec import read_specs


@dataclass(frozen=True)
class Options:
    """Write environments as SDF worlds."""

    file: tyro.conf.Positional[Path]
    """Environments, one JSON specification per line."""
    out: Path
    """Folder to write NUMBER_FAMILY_HASH.sdf and NUMBER_FAMILY_HASH.bridge.yaml into."""
    gazebo: str = "harmonic"
    """Gazebo release whose plugin names are written: harmonic (and later) or fortress."""


def run(words: Sequence[str]) -> int:
    """Run the verb."""
    options = parse(Options, words, "export-sdf", __doc__ or "")
    config = WorldConfig(release=options.gazebo)
    worlds = [(spec, export_world(spec, config)) for spec in read_specs(options.file)]
    options.out.mkdir(parents=True, exist_ok=True)
    for number, (spec, text) in enumerate(worlds):
        stem = f"{number:03d}_{spec.family}_{spec.content_hash}"
        cameras = [camera.name for camera in spec.cameras]
        write_atomic(options.out / f"{stem}.sdf", text.encode())
        write_atomic(options.out / f"{stem}.bridge.yaml", bridge_yaml(spec.robot, cameras, options.gazebo).encode())
    Console().print(f"wrote {len(worlds)} worlds to {options.out}", highlight=False)
    return 0
