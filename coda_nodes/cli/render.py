"""``coda render FILE``: environments as a contact sheet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import tyro
from rich.console import Console

from coda_nodes.cli.options import parse
from coda_nodes.simulator.schematic import Painter, contact_sheet
from coda_nodes.simulator.single import SingleSimulator
from coda_nodes.world.artifacts import write_atomic
from coda_nodes.world.errors import ConfigError
from coda_nodes.world.spec import read_specs


@dataclass(frozen=True)
class Options:
    """Draw environments."""

    file: tyro.conf.Positional[Path]
    """Environments, one JSON specification per line."""
    out: Path | None = None
    """Picture to write (PNG); by default FILE with the ending .png."""
    camera: str = ""
    """Camera of the specifications; by default their first."""
    most: int = 50
    """Environments drawn at most."""
    columns: int = 5
    """Pictures in a row."""
    width: int = 320
    """Width of one picture [pixels]."""
    height: int = 240
    """Height of one picture [pixels]."""


def run(words: Sequence[str]) -> int:
    """Run the verb."""
    options = parse(Options, words, "render", __doc__ or "")
    if min(options.most, options.columns) < 1 or min(options.width, options.height) < 32:
        raise ConfigError("--most and --columns: expected at least 1; --width and --height: at least 32")
    specs = read_specs(options.file)[: options.most]
    painter = Painter(options.width, options.height)
    simulator = SingleSimulator()
    pictures = [painter.paint(spec, simulator.reset(spec), 0, options.camera) for spec in specs]
    sheet = contact_sheet(pictures, [f"{spec.family}: {spec.instruction}" for spec in specs], options.columns)
    path = options.out or options.file.with_suffix(".png")
    _, encoded = cv2.imencode(".png", cv2.cvtColor(sheet, cv2.COLOR_RGB2BGR))
    write_atomic(path, encoded.tobytes())
    Console().print(f"wrote {len(pictures)} pictures to {path} (drawn by {painter.backend})", highlight=False)
    return 0
