"""Episodes in worker processes: shared out by family, saved under the artifact root, resumed by identity."""

from __future__ import annotations

import json
import logging
import os
import selectors
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from coda_nodes.policy.preparation import prepare_language
from coda_nodes.simulator.orders import PART, Order, Start, Task
from coda_nodes.world import errors
from coda_nodes.world.action import CHUNK_STEPS
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.episode import Episode, EpisodeSummary
from coda_nodes.world.errors import ArtifactError, CodaError, SimulationError
from coda_nodes.world.spec import EnvironmentSpec

log = logging.getLogger(__name__)

ATTEMPTS = 2
"""Times a task is given out before a worker's death counts as the task's fault."""
THREADS = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
SCRIPTED = ("expert", "hold")
"""Actors that are no checkpoints."""
Progress = Callable[[int, int, Sequence[EpisodeSummary]], None]
"""Called with episodes done, episodes in all, and those just finished."""


class _Process:
    """A worker process and its two pipes."""

    def __init__(self, root: Path, capacity: int) -> None:
        # the kernel ties a child to the thread that started it: only the main thread surely outlives the work
        tied = os.getpid() if threading.current_thread() is threading.main_thread() else 0
        package = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "coda_nodes.simulator.worker", str(root), str(capacity), str(tied)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **THREADS, "PYTHONPATH": path},
        )
        self.task: Task | None = None

    def give(self, task: Task) -> None:
        """Send a task. A worker that is gone is found out when its answer is read."""
        task.attempts += 1
        self.task = task
        try:
            self.process.stdin.write(task.message)  # type: ignore[union-attr]
            self.process.stdin.flush()  # type: ignore[union-attr]
        except BrokenPipeError:
            log.debug("worker %d is gone", self.process.pid)

    def answer(self) -> dict[str, Any] | None:
        """Answer to the task given; None when the worker died."""
        line = self.process.stdout.readline()  # type: ignore[union-attr]
        return json.loads(line) if line.endswith(b"\n") else None

    def end(self) -> None:
        """Stop the worker at once and wait for it."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                pipe.close()  # type: ignore[union-attr]
            except BrokenPipeError:
                log.debug("worker %d left input unread", self.process.pid)


class RolloutPool:
    """Worker processes that run episodes. Started when first needed, kept until ``close``; a context
    manager."""

    def __init__(self, workers: int, root: ArtifactRoot, capacity: int = PART) -> None:
        if workers < 1:
            raise SimulationError(f"{workers} workers, expected 1 or more")
        self.root = root
        self._count, self._capacity = workers, capacity
        self._processes: list[_Process] = []

    def __enter__(self) -> RolloutPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def process_ids(self) -> list[int]:
        """Workers alive."""
        return [worker.process.pid for worker in self._processes if worker.process.poll() is None]

    def close(self) -> None:
        """End all workers."""
        for worker in self._processes:
            worker.end()
        self._processes = []

    def run(
        self,
        specs: Sequence[EnvironmentSpec],
        actor: str = "expert",
        seed: int = 0,
        execute: int = CHUNK_STEPS,
        noise: float | None = None,
        record_physics: bool = False,
        on_progress: Progress | None = None,
        starts: Sequence[Start] | None = None,
    ) -> list[EpisodeSummary]:
        """Run one episode per specification and save it; return the summaries in the order given.

        Args:
            actor: ``expert``, ``hold``, the hash of a checkpoint under the root, or ``lookahead:`` and that of a plan.
            seed: seed of every episode; a specification listed again gets the next one (seed + 1, ...).
            starts: (episode hash, chunk) of the recorded physics state to start from, or None, per
            specification.

        Episodes saved before are not run again. Workers save each task's episodes before they answer, so that
        whatever is killed loses no finished episode.

        Raises:
            CodaError: what a worker reported, under its own type.
            SimulationError: a task's worker died twice.
        """
        settings = {"actor": actor, "execute": execute, "noise": noise, "record_physics": record_physics}
        order = Order(specs, seed, settings, starts)
        found = [self._saved(key, record_physics) for key in order.identities()]
        if actor not in SCRIPTED and None in found:
            # workers with a policy must not each load the sentence encoder
            prepare_language(specs)
        tasks = deque(order.tasks([one is None for one in found]))

        def report(fresh: list[EpisodeSummary]) -> None:
            if on_progress is not None:
                on_progress(sum(one is not None for one in found), len(specs), fresh)

        report([])
        try:
            self._work(tasks, found, report)
        except BaseException:
            self.close()  # nothing half-asked may stay in the pipes
            raise
        return [one for one in found if one is not None]

    def _work(
        self,
        tasks: deque[Task],
        found: list[EpisodeSummary | None],
        report: Callable[[list[EpisodeSummary]], Any],
    ) -> None:
        wanted = min(self._count, len(tasks))
        self._processes = [worker for worker in self._processes if worker.process.poll() is None]
        while len(self._processes) < wanted:
            self._processes.append(_Process(self.root.path, self._capacity))
        with selectors.DefaultSelector() as ready:
            for worker in self._processes[:wanted]:
                worker.give(tasks.popleft())
                ready.register(worker.process.stdout, selectors.EVENT_READ, worker)  # type: ignore[arg-type]
            while ready.get_map():
                for key, _ in ready.select():
                    self._collect(key.data, ready, tasks, found, report)

    def _collect(
        self,
        worker: _Process,
        ready: selectors.BaseSelector,
        tasks: deque[Task],
        found: list[EpisodeSummary | None],
        report: Callable[[list[EpisodeSummary]], Any],
    ) -> None:
        task, answer = worker.task, worker.answer()
        assert task is not None
        if answer is None:
            ready.unregister(worker.process.stdout)  # type: ignore[arg-type]
            worker = self._replace(worker, task)
            ready.register(worker.process.stdout, selectors.EVENT_READ, worker)  # type: ignore[arg-type]
            worker.give(task)
            return
        if "error" in answer:
            raise _error(answer["error"], answer["message"], answer["passing"])
        fresh = [EpisodeSummary(**summary) for summary in answer["episodes"]]
        for place, summary in zip(task.places, fresh, strict=True):
            found[place] = summary
        report(fresh)
        if tasks:
            worker.give(tasks.popleft())
        else:
            ready.unregister(worker.process.stdout)  # type: ignore[arg-type]

    def _replace(self, dead: _Process, task: Task) -> _Process:
        code = dead.process.wait()
        log.warning(
            "worker %d ended with code %d; its %d episodes are run again",
            dead.process.pid,
            code,
            len(task.places),
        )
        if task.attempts >= ATTEMPTS:
            raise SimulationError(
                f"a worker ended {ATTEMPTS} times (code {code}) on the same {len(task.places)} episodes"
            )
        dead.end()
        fresh = _Process(self.root.path, self._capacity)
        self._processes[self._processes.index(dead)] = fresh
        return fresh

    def _saved(self, key: str, physics: bool) -> EpisodeSummary | None:
        """Summary of an episode already under the root; None where it is missing, damaged or lacks what is
        asked for."""
        path = self.root.episode(key)
        if not path.exists():
            return None
        try:
            episode = Episode.load(path)
        except ArtifactError as error:
            log.warning("%s; it is run again", error)
            return None
        return None if physics and episode.physics_states is None else EpisodeSummary.of(episode)


def _error(kind: str, message: str, passing: bool) -> CodaError:
    cause = getattr(errors, kind, SimulationError)
    error = cause(message) if issubclass(cause, CodaError) else SimulationError(message)
    error.passing = passing
    return error
