"""The other nodes in this process: the same rooms put together without ROS, for debugging, tests and benchmarks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from coda_nodes.conductor.ports import DatasetItem, EpisodesRequest, Generated, Report, Trained
from coda_nodes.critic.state import StateCritic
from coda_nodes.generator.sampling import base_stream, draw_valid
from coda_nodes.learner.training import Weighted, run_program
from coda_nodes.memory.service import MemoryService
from coda_nodes.simulator.bags import write_failure_bags
from coda_nodes.simulator.workers import RolloutPool
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.diagnosis import Diagnosis
from coda_nodes.world.episode import Episode, EpisodeSummary
from coda_nodes.world.programs import GenerationProgram, TrainingProgram
from coda_nodes.world.splits import load_splits


class LocalPorts:
    """Implements ``conductor.ports.Ports`` by direct calls; a context manager that ends its rollout workers."""

    def __init__(self, root: ArtifactRoot, workers: int, seed: int, retrieval: bool = True) -> None:
        self.root, self.seed = root, seed
        self.pool = RolloutPool(workers, root)
        self.memory = MemoryService(root, retrieval=retrieval)
        self.critic = StateCritic()

    def __enter__(self) -> LocalPorts:
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.close()

    def generate(self, programs: Sequence[GenerationProgram], counts: Sequence[int], seed: int) -> Generated:
        """See ``Ports``."""
        made = Generated([])
        for program, count in zip(programs, counts, strict=True):
            drawn = draw_valid(program, count, base_stream(program, seed), load_splits())
            made.specs.extend(drawn.specs)
            made.rejections.extend(f"{program.family}: {reason}" for reason in drawn.rejections)
        return made

    def run_episodes(self, request: EpisodesRequest, report: Report | None = None) -> list[EpisodeSummary]:
        """See ``Ports``."""
        begun = time.monotonic()

        def progress(done: int, total: int, fresh: Sequence[EpisodeSummary]) -> None:
            if report and total:
                left = (time.monotonic() - begun) * (total - done) / done if done else -1.0
                report({"fraction": done / total, "text": f"{done} of {total} episodes", "seconds_left": left})

        ended = self.pool.run(
            request.specs, request.actor, request.seed, request.execute, request.noise or None,
            record_physics=request.record_physics, on_progress=progress,
            starts=[(start.episode, start.chunk) for start in request.starts] or None,
        )
        write_failure_bags(self.root, ended, request.bags)
        return ended

    def diagnose(self, episodes: Sequence[str]) -> list[Diagnosis]:
        """See ``Ports``."""
        return [self.critic.diagnose(Episode.load(self.root.episode(key))) for key in episodes]

    def store(self, kind: str, records: Sequence[dict[str, Any]]) -> list[str]:
        """See ``Ports``."""
        return self.memory.store(kind, records)

    def query(self, kind: str, query: dict[str, Any]) -> list[dict[str, Any]]:
        """See ``Ports``."""
        return self.memory.query(kind, query)

    def compile(self, diagnoses: Sequence[Diagnosis]) -> list[GenerationProgram | None]:
        """See ``Ports``."""
        return [self.memory.compile(diagnosis) for diagnosis in diagnoses]

    def train(
        self, program: TrainingProgram, dataset: Sequence[DatasetItem], parent: str, seed: int, report: Report | None = None,
    ) -> Trained:
        """See ``Ports``."""

        def progress(step: int, total: int, loss: float, seconds_left: float) -> None:
            if report:
                text = f"step {step} of {total}, loss {loss:.3f}"
                report({"fraction": step / total, "text": text, "seconds_left": seconds_left})

        items = [Weighted(item.episode, item.weight) for item in dataset]
        made = run_program(program, items, self.root, parent, seed, progress)
        return Trained(made.checkpoint, made.metrics)
