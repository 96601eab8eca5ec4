"""One self-contained HTML page of a run, rebuilt from the files the run wrote."""

from __future__ import annotations

import importlib.resources
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from pydantic import ValidationError

from coda_nodes.report import plots
from coda_nodes.report.frames import HEIGHT, WIDTH, Film, film_of
from coda_nodes.report.terminal import duration, percent
from coda_nodes.simulator.schematic import Painter
from coda_nodes.world.artifacts import ArtifactRoot, write_atomic
from coda_nodes.world.episode import Episode
from coda_nodes.world.errors import ArtifactError, SpecError
from coda_nodes.world.potentials import trace_potential
from coda_nodes.world.records import FailureRecord, ProgramRecord, RoundRecord, Summary

log = logging.getLogger(__name__)
GALLERY_LIMIT = 24
"""Failures shown at most; each costs some 100 kB of page."""


@dataclass(frozen=True)
class Exhibit:
    """A failure in the gallery with its films."""

    failure: FailureRecord
    round: int
    film: Film | None
    solved: Film | None
    program: ProgramRecord | None
    potential: str = ""
    """Its potential over time as SVG; empty where the episode is not kept or its goal has none."""

    @property
    def sentence(self) -> str:
        """What the critic says in words: the text line of the diagnosis."""
        lines = self.failure.diagnosis.splitlines()
        return next((line.removeprefix("text: ") for line in lines if line.startswith("text: ")), "")


def read_rounds(root: ArtifactRoot) -> list[RoundRecord]:
    """Read the records of the finished rounds, in order. Raises ArtifactError when one is damaged."""
    paths = sorted((root.path / "rounds").glob("[0-9]*.json"), key=lambda path: int(path.stem))
    return [_read(path, RoundRecord) for path in paths]


def read_summary(root: ArtifactRoot) -> Summary | None:
    """Read ``summary.json``; None while the run has not ended."""
    path = root.path / "summary.json"
    return _read(path, Summary) if path.exists() else None


def _read(path: Path, kind):
    try:
        return kind.model_validate_json(path.read_text())
    except (OSError, ValidationError) as error:
        raise ArtifactError(f"cannot read {path}: {str(error).splitlines()[0]}") from error


def write_report(root: ArtifactRoot, gallery: int = GALLERY_LIMIT) -> Path:
    """Write ``report.html`` of a run and return its path.

    Raises:
        ArtifactError: the folder holds no finished round, or a record is damaged.
    """
    rounds = read_rounds(root)
    if not rounds:
        raise ArtifactError(f"{root.path} holds no finished round (expected rounds/0.json); nothing to report")
    summary = read_summary(root)
    page = _template().render(
        rounds=rounds, summary=summary, last=rounds[-1], programs=_lives(rounds, exploration=False),
        exploration=_lives(rounds, exploration=True), exhibits=_exhibits(root, rounds, gallery),
        curves=plots.success_curves(rounds), bars=plots.before_after(summary) if summary else "",
        budget=plots.budget_bars(rounds[-1].budget), percent=percent, duration=duration, name=root.path.resolve().name,
    )
    path = root.path / "report.html"
    write_atomic(path, page.encode())
    return path


def _template():
    source = importlib.resources.files(__package__).joinpath("report.html.j2").read_text()
    return Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True).from_string(source)


def _lives(rounds: Sequence[RoundRecord], exploration: bool) -> list[list[tuple[int, ProgramRecord]]]:
    """Records of each program over the rounds, in the order of their birth: exploration programs, or all others."""
    lives: dict[str, list[tuple[int, ProgramRecord]]] = {}
    for record in rounds:
        for program in record.programs:
            if (program.state == "exploration") == exploration:
                lives.setdefault(program.program_id, []).append((record.round, program))
    return sorted(lives.values(), key=lambda life: (life[0][0], life[0][1].family))


def _exhibits(root: ArtifactRoot, rounds: Sequence[RoundRecord], limit: int) -> list[Exhibit]:
    programs = {program.program_id: program for record in rounds for program in record.programs}
    painter = Painter(WIDTH, HEIGHT)
    shown = []
    for record in rounds:
        for failure in record.failures[: max(1, limit // max(1, len(rounds) - 1))]:
            shown.append(Exhibit(
                failure, record.round, _film(root, failure.episode, painter), _film(root, failure.solved_episode, painter),
                programs.get(failure.program_id), _potential(root, failure.episode),
            ))
    return shown


def _potential(root: ArtifactRoot, key: str) -> str:
    try:
        return plots.potential_curve(trace_potential(Episode.load(root.episode(key))))
    except (ArtifactError, SpecError) as error:
        log.warning("no potential of episode %s: %s", key, error)
        return ""


def _film(root: ArtifactRoot, key: str, painter: Painter) -> Film | None:
    if not key:
        return None
    try:
        return film_of(root.episode(key), painter)
    except ArtifactError as error:
        log.warning("no film of episode %s: %s", key, error)
        return None
