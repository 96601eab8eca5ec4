"""What the conductor asks of the other nodes, over the wire or in process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from coda_nodes.world.diagnosis import Diagnosis
from coda_nodes.world.episode import EpisodeSummary
from coda_nodes.world.programs import GenerationProgram, TrainingProgram
from coda_nodes.world.spec import EnvironmentSpec

Report = Callable[[dict[str, Any]], None]
"""Receives JSON-able progress events."""


@dataclass(frozen=True)
class Start:
    """A physics state to start an episode from: chunk boundary ``chunk`` of a recorded episode."""

    episode: str
    chunk: int


@dataclass(frozen=True)
class EpisodesRequest:
    """Episodes to run: one per specification."""

    specs: Sequence[EnvironmentSpec]
    actor: str
    """Checkpoint hash, ``expert``, ``hold``, or ``lookahead:`` and the hash of a plan."""
    seed: int
    purpose: str
    """Budget purpose, see ``conductor.budget``."""
    execute: int = 8
    noise: float = 0.0
    """[m]"""
    starts: Sequence[Start] = ()
    """Empty, or one per specification."""
    steps_paid: int = 1
    """Control steps paid for each one executed, at most: more than 1 where branches are tried."""
    bags: int = 0
    """Failures written as rosbags, at most."""

    @property
    def record_physics(self) -> bool:
        """Whether full physics states are kept: for the policy's own rollouts, from which an expert may take over."""
        return self.actor not in ("expert", "hold") and self.purpose in ("rollout", "recreation")


@dataclass(frozen=True)
class Generated:
    """Valid environments with the id of the program behind each, and the reasons of those rejected."""

    specs: list[EnvironmentSpec]
    rejections: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class DatasetItem:
    """An episode to learn from, with its weight."""

    episode: str
    weight: float = 1.0


@dataclass(frozen=True)
class Trained:
    """A new checkpoint and the figures of its training."""

    checkpoint: str
    metrics: dict[str, Any]


class Ports(Protocol):
    """The other nodes as the conductor sees them. Every method raises NodeError when a node does not answer."""

    def generate(self, programs: Sequence[GenerationProgram], counts: Sequence[int], seed: int) -> Generated:
        """Sample ``counts[i]`` valid environments of ``programs[i]``; provenance names the program."""

    def run_episodes(self, request: EpisodesRequest, report: Report | None = None) -> list[EpisodeSummary]:
        """Run episodes; the summaries are in the order of the specifications."""

    def diagnose(self, episodes: Sequence[str]) -> list[Diagnosis]:
        """Diagnose failed episodes, in order."""

    def store(self, kind: str, records: Sequence[dict[str, Any]]) -> list[str]:
        """Put records into the memory; equal content is stored once. Returns their ids."""

    def query(self, kind: str, query: dict[str, Any]) -> list[dict[str, Any]]:
        """Read records from the memory by fields or similarity."""

    def compile(self, diagnoses: Sequence[Diagnosis]) -> list[GenerationProgram | None]:
        """Compile a draft program from each diagnosis; None where its cause cannot be set."""

    def train(
        self,
        program: TrainingProgram,
        dataset: Sequence[DatasetItem],
        parent: str,
        seed: int,
        report: Report | None = None,
    ) -> Trained:
        """Train a candidate from ``parent`` (empty: from scratch)."""
