"""``coda report RUN``: rebuild the report page from the files a run left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console

from coda_nodes.cli.options import parse
from coda_nodes.report.html import GALLERY_LIMIT, write_report
from coda_nodes.world.artifacts import ArtifactRoot


@dataclass(frozen=True)
class Options:
    """Rebuild the report."""

    run: tyro.conf.Positional[Path]
    """Folder of the run."""
    gallery: int = GALLERY_LIMIT
    """Failures shown at most."""


def run(words: Sequence[str]) -> int:
    """Run the verb."""
    options = parse(Options, words, "report", __doc__ or "")
    path = write_report(ArtifactRoot(options.run), options.gallery)
    Console().print(f"report: {path}", highlight=False)
    return 0
