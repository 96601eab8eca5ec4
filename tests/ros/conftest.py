"""Real nodes over DDS, each test process in a domain of its own."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

rclpy = pytest.importorskip("rclpy", reason="no ROS 2 here: `make` sets one up, or source yours")


@contextmanager
def _free_domain() -> Iterator[int]:
    """A domain that no other test process on this machine holds (1 to 101 are safe on Linux)."""
    for step in range(101):
        domain = 1 + (os.getpid() + step) % 101
        with open(Path(tempfile.gettempdir()) / f"coda-ros-domain-{domain}.lock", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            yield domain
            return
    pytest.fail("all ROS domains from 1 to 101 are held by other tests")


@pytest.fixture(scope="session")
def ros() -> Iterator[None]:
    """ROS started in this process, in a free domain, on localhost only."""
    with _free_domain() as domain:
        os.environ.update(ROS_DOMAIN_ID=str(domain), ROS_AUTOMATIC_DISCOVERY_RANGE="LOCALHOST")
        rclpy.init(args=["--ros-args", "--disable-rosout-logs"])
        yield
        rclpy.try_shutdown()


class NodeProcess:
    """A node in a process of its own."""

    def __init__(self, module: str, parameters: dict[str, object], log: Path) -> None:
        self.log = log
        command = [sys.executable, "-m", module, "--ros-args"]
        for name, value in parameters.items():
            text = str(value).lower() if isinstance(value, bool) else value
            command += ["-p", f"{name}:={text}"]
        with open(log, "w") as file:
            environment = dict(os.environ, OMP_NUM_THREADS="1")
            self.process = subprocess.Popen(command, stdout=file, stderr=file, env=environment)

    def text(self) -> str:
        """What the node has written."""
        return self.log.read_text()

    def stop(self, timeout: float = 15.0) -> int:
        """End it by SIGTERM; return its status."""
        self.process.terminate()
        return self.process.wait(timeout)


@pytest.fixture
def start_node(ros: None, tmp_path: Path) -> Iterator[Callable[..., NodeProcess]]:
    """Start nodes by module name and parameters; all of them end with the test."""
    started: list[NodeProcess] = []

    def start(module: str, **parameters: object) -> NodeProcess:
        started.append(NodeProcess(module, parameters, tmp_path / f"{len(started)}.log"))
        return started[-1]

    yield start
    for node in started:
        if node.process.poll() is None:
            node.process.terminate()
    for node in started:
        try:
            node.process.wait(15)
        except subprocess.TimeoutExpired:
            node.process.kill()


@pytest.fixture
def until() -> Callable[..., None]:
    """Wait until a condition holds; fail with ``what`` after ``timeout`` [s]."""

    def wait(condition: Callable[[], object], what: str, timeout: float = 20.0) -> None:
        pause = threading.Event()
        for _ in range(int(timeout / 0.02)):
            if condition():
                return
            pause.wait(0.02)
        pytest.fail(f"not within {timeout} s: {what}")

    return wait


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory):
    """Artifact root with a hastily trained checkpoint of pick_place, and the hash of the checkpoint."""
    import numpy as np

    from coda_nodes.learner.training import Weighted, run_program
    from coda_nodes.simulator.actors import ScriptedActor
    from coda_nodes.simulator.batch import BatchSimulator
    from coda_nodes.simulator.rollout import rollout
    from coda_nodes.world.artifacts import ArtifactRoot
    from coda_nodes.world.programs import TRAIN_SPLIT, Regime, Share, TrainingProgram
    from coda_nodes.world.splits import sample_split

    root = ArtifactRoot(tmp_path_factory.mktemp("trained"))
    rng = np.random.default_rng(1)
    specs = [sample_split("pick_place", "train", rng) for _ in range(4)]
    episodes = rollout(BatchSimulator("pick_place", len(specs)), specs, [0] * len(specs), ScriptedActor())
    program = TrainingProgram(
        regime=Regime.EXPERT,
        environments=(Share(program_id=TRAIN_SPLIT, share=1.0),),
        supervision=("demonstrations",),
        steps=60,
        batch_size=64,
        learning_rate=1e-3,
    )
    made = run_program(program, [Weighted(episode.save(root)) for episode in episodes], root)
    return root, made.checkpoint
