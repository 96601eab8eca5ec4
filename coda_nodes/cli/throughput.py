"""The ratios of speed: batch against plain stepping, the wire against one process, inference, rollouts, memory."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coda_nodes.cli.measuring import stage_checkpoint
from coda_nodes.conductor.scenes import draw_valid
from coda_nodes.policy.runner import PolicyRunner
from coda_nodes.ros.graph import GraphConfig
from coda_nodes.ros.speed import graph_memory, simulator_client
from coda_nodes.simulator.single import SingleSimulator
from coda_nodes.simulator.throughput import measure
from coda_nodes.simulator.workers import RolloutPool
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.spec import FAMILIES, AllOf, EnvironmentSpec, Not
from coda_nodes.world.state import ObservationBatch

if TYPE_CHECKING:
    from coda_nodes.cli.benchmark import Options

CHUNKS = 40
"""Chunks of one lockstep measurement."""
INFERENCES = 300
Say = Callable[[str], None]


def measure_all(options: Options, say: Say) -> dict[str, Any]:
    """All figures of ``throughput.json``."""
    with tempfile.TemporaryDirectory(prefix="coda-throughput-") as folder:
        root = ArtifactRoot(Path(folder))
        say("batch against plain stepping, four families")
        ratios = {family: _batch_ratio(family, options) for family in FAMILIES}
        say("inference of one chunk")
        key = stage_checkpoint(options.checkpoint, root) if options.checkpoint else _untrained(root)
        p50, p99 = _inference(PolicyRunner.load(root.checkpoint(key)))
        say("lockstep over the wire against in process")
        wire = _wire_ratio(root, PolicyRunner.load(root.checkpoint(key)), options)
        say(f"rollouts of {options.episodes} episodes")
        seconds = _rollouts(root, key, options)
        say("memory of the nodes")
        memory = graph_memory(GraphConfig(artifact_root=folder, workers=1), root.path)
    return {
        "batch_vs_mj_step": min(ratios.values()), "batch_vs_mj_step_per_family": ratios,
        "ros_lockstep_vs_in_process": wire, "inference_ms_p50": p50, "inference_ms_p99": p99,
        "rollout_200_episodes_s": seconds * 200 / options.episodes, "node_rss_mb": memory,
        "checkpoint": key if options.checkpoint else f"{key}, untrained",
    }


def _batch_ratio(family: str, options: Options) -> float:
    found = measure(family, options.environments, options.seed, options.repeats)
    return found.batch / found.mj_step


def _untrained(root: ArtifactRoot) -> str:
    """A checkpoint of the default size that has learned one step.

    Inference costs what a trained one costs. Its arm hardly moves, though, and physics that rests is cheap: rollouts take
    less than with a trained policy.
    """
    from coda_nodes.learner.imitation import ImitationConfig, train
    from coda_nodes.learner.samples import Samples
    from coda_nodes.world.episode import Episode

    specs = [draw_valid(family, "train", 1, np.random.default_rng(0))[0] for family in FAMILIES]
    with RolloutPool(1, root) as pool:
        ended = pool.run(specs)
    episodes = [Episode.load(root.episode(summary.hash)) for summary in ended]
    return train(Samples.from_episodes(episodes), ImitationConfig(steps=1, batch=8), root).checkpoint


def _inference(policy: PolicyRunner) -> tuple[float, float]:
    """Median and 99th percentile of the time for one chunk of one scene [ms]."""
    observation = SingleSimulator().reset(draw_valid("stack", "train", 1, np.random.default_rng(0))[0]).observation()
    policy.act(observation)
    times = []
    for _ in range(INFERENCES):
        begun = time.perf_counter()
        policy.act(observation)
        times.append(1000 * (time.perf_counter() - begun))
    return float(np.percentile(times, 50)), float(np.percentile(times, 99))


def _wire_ratio(root: ArtifactRoot, policy: PolicyRunner, options: Options) -> float:
    """Chunks per second of the policy over the wire divided by those in process, measured in turns."""
    spec = draw_valid("pick_place", "train", 1, np.random.default_rng(options.seed))[0]
    # a goal that contradicts itself keeps both paths going for the same number of chunks
    spec = spec.revise(horizon=2000, goal=AllOf(all_of=(spec.goal, Not(negate=spec.goal))))
    with simulator_client(root.path) as client:
        ratios = []
        for _ in range(options.repeats):
            wire = _rate(policy, client.reset(spec), lambda chunk: client.step(chunk).observation)
            ratios.append(wire / _in_process(policy, spec))
    return statistics.median(ratios)


def _in_process(policy: PolicyRunner, spec: EnvironmentSpec) -> float:
    simulator = SingleSimulator()
    state = simulator.reset(spec)

    def step(chunk: np.ndarray) -> ObservationBatch:
        simulator.step_chunk(chunk)
        return simulator.observation

    return _rate(policy, state.observation(), step)


def _rate(policy: PolicyRunner, observation: ObservationBatch, step: Callable[[np.ndarray], ObservationBatch]) -> float:
    """Chunks per second of a loop of policy and simulator."""
    begun = time.perf_counter()
    for _ in range(CHUNKS):
        observation = step(policy.act(observation)[0])
    return CHUNKS / (time.perf_counter() - begun)


def _rollouts(root: ArtifactRoot, checkpoint: str, options: Options) -> float:
    """Wall time of the rollout phase: policy episodes in worker processes that are already warm [s]."""
    rng = np.random.default_rng(options.seed)
    each = options.episodes // len(FAMILIES)
    specs = [spec for family in FAMILIES for spec in draw_valid(family, "train", each, rng)]
    with RolloutPool(options.workers, root) as pool:
        pool.run(specs[:: max(1, each // 2)], checkpoint, seed=1)
        begun = time.perf_counter()
        pool.run(specs, checkpoint, seed=0)
        return time.perf_counter() - begun
