"""One worker process: reads tasks as JSON lines on standard input, runs their episodes, answers on standard
output.

Started as ``python -m coda_nodes.simulator.worker`` by ``workers.RolloutPool``. It ends when its parent does,
however that ends: the input reaches its end, which a thread sees even in the middle of a task.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import queue
import signal
import sys
import threading
from dataclasses import asdict
from typing import IO, Any

from coda_nodes.policy.runner import PolicyRunner
from coda_nodes.simulator.actors import HoldActor, PolicyActor, RolloutActor, ScriptedActor
from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.simulator.lookahead import Lookahead
from coda_nodes.simulator.plans import PREFIX, LookaheadPlan
from coda_nodes.simulator.rollout import rollout
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.episode import Episode, EpisodeSummary
from coda_nodes.world.errors import ArtifactError, CodaError, may_pass
from coda_nodes.world.spec import EnvironmentSpec, parse_spec

log = logging.getLogger(__name__)
PR_SET_PDEATHSIG = 1
SEARCHED = 13
"""Episodes that look ahead together: each holds as many simulations as it has branches."""


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when the thread that started it ends; leave at once when it has
    ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


class Worker:
    """Keeps the simulator and the policy last asked for: one is built in milliseconds, memory is scarce."""

    def __init__(self, root: ArtifactRoot, capacity: int) -> None:
        self._root, self._capacity = root, capacity
        self._simulator_key = ("", "")
        self._simulator: BatchSimulator | None = None
        self._branches: BatchSimulator | None = None
        self._actors: dict[str, RolloutActor] = {"expert": ScriptedActor(), "hold": HoldActor()}

    def run(self, task: dict[str, Any]) -> list[dict[str, Any]]:
        """Run and save the episodes of a task; return their summaries."""
        specs = [parse_spec(text) for text in task["specs"]]
        starts = [self._start(start) for start in task["starts"]]
        run = self._look_ahead if task["actor"].startswith(PREFIX) else self._roll_out
        episodes = run(task, specs, starts)
        for episode in episodes:
            episode.save(self._root)
        return [asdict(EpisodeSummary.of(episode)) for episode in episodes]

    def _roll_out(self, task: dict[str, Any], specs: list[EnvironmentSpec], starts: list[Any]) -> list[Episode]:
        return rollout(
            self._simulator_of(specs[0].family, specs[0].robot),
            specs,
            task["seeds"],
            self._actor(task["actor"]),
            execute=task["execute"],
            noise=task["noise"],
            record_physics=task["record_physics"],
            start_states=starts,
            variants=task["variants"],
        )

    def _look_ahead(self, task: dict[str, Any], specs: list[EnvironmentSpec], starts: list[Any]) -> list[Episode]:
        plan, family, robot = LookaheadPlan.load(self._root, task["actor"]), specs[0].family, specs[0].robot
        simulator = self._simulator_of(family, robot)
        capacity = plan.config.branches * min(len(specs), SEARCHED)
        if self._branches is None or self._branches.capacity < capacity:
            self._branches = BatchSimulator(family, capacity, robot)
        policy = PolicyRunner.load(self._root.checkpoint(plan.checkpoint))
        search = Lookahead(simulator, self._branches, policy, task["actor"], plan.tasks, plan.config)
        return search.run(specs, task["seeds"], starts, task["variants"])

    def _simulator_of(self, family: str, robot: str) -> BatchSimulator:
        if self._simulator is None or self._simulator_key != (family, robot):
            self._simulator = self._branches = None  # their memory must be free before the next takes its own
            self._simulator = BatchSimulator(family, self._capacity, robot)
            self._simulator_key = (family, robot)
        return self._simulator

    def _actor(self, name: str) -> RolloutActor:
        if name not in self._actors:
            self._actors = {key: self._actors[key] for key in ("expert", "hold")}
            self._actors[name] = PolicyActor(PolicyRunner.load(self._root.checkpoint(name)), name)
        return self._actors[name]

    def _start(self, start: list[Any] | None) -> Any:
        if start is None:
            return None
        key, chunk = start
        states = Episode.load(self._root.episode(key)).physics_states
        if states is None or not 0 <= chunk < len(states):
            held = 0 if states is None else len(states)
            raise ArtifactError(f"episode {key} holds {held} physics states, asked for number {chunk}")
        return states[chunk]


def answer(worker: Worker, line: bytes) -> bytes:
    """Result of one task as a JSON line; an error on purpose or of the file system is told, not raised."""
    try:
        reply: dict[str, Any] = {"episodes": worker.run(json.loads(line))}
    except CodaError as error:
        reply = {"error": type(error).__name__, "message": str(error), "passing": may_pass(error)}
    except OSError as error:
        reply = {"error": "ArtifactError", "message": str(error), "passing": may_pass(error)}
    return json.dumps(reply).encode() + b"\n"


def _receive(source: IO[bytes], tasks: queue.Queue[bytes]) -> None:
    for line in source:
        tasks.put(line)
    os._exit(0)


def main() -> None:
    """Arguments: artifact root, capacity, process id of the parent (0: do not tie to its thread)."""
    root, capacity, parent = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if parent:
        die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    # whatever a library prints must not run into the answers
    with os.fdopen(os.dup(1), "wb") as output:
        os.dup2(2, 1)
        tasks: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=_receive, args=(sys.stdin.buffer, tasks), daemon=True).start()
        worker = Worker(ArtifactRoot(root), capacity)
        while True:
            output.write(answer(worker, tasks.get()))
            output.flush()


if __name__ == "__main__":
    main()
