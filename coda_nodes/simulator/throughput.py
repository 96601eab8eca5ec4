"""Measures control steps per CPU second: the batch simulator with everything in its loop, against a plain
Python loop over ``mj_step`` of the same models with nothing but the physics, both doing the same motions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import mujoco
import numpy as np
from numpy.typing import NDArray

from coda_nodes.simulator.actors import ScriptedActor
from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.simulator.fill import assign, fill, model_fields, start_position
from coda_nodes.simulator.rollout import rollout
from coda_nodes.simulator.scene import SUBSTEPS, build_scene
from coda_nodes.world.action import ACTION_SIZE, CHUNK_STEPS
from coda_nodes.world.episode import Episode
from coda_nodes.world.robots import robot
from coda_nodes.world.spec import EnvironmentSpec
from coda_nodes.world.splits import sample_split
from coda_nodes.world.state import SceneState

Array = NDArray[np.float64]

SWEEP = ((0.35, -0.3, 0.12), (0.65, 0.3, 0.35))
"""Lower and upper corner of the places a sweep goes to [m]."""
PACE = 0.08
"""Longest way of one chunk [m]."""


@dataclass(frozen=True)
class Throughput:
    """Control steps per CPU second on one core, of the same episodes."""

    family: str
    environments: int
    control_steps: int
    batch: float
    """Chunks from a recording, inverse kinematics, observations and predicates in the loop."""
    mj_step: float
    """Plain loop, sleeping disabled, as MuJoCo does by default."""
    mj_step_sleeping: float
    """Plain loop, sleeping enabled as in the batch."""

    @property
    def batch_vs_mj_step(self) -> float:
        """Batch over the plain loop."""
        return self.batch / self.mj_step

    @property
    def batch_vs_mj_step_sleeping(self) -> float:
        """Batch over the plain loop that sleeps too."""
        return self.batch / self.mj_step_sleeping


class SweepActor:
    """A policy that costs nothing: each chunk goes to a random place above the table at a policy's pace."""

    name = "sweep"

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def begin(self, specs: Sequence[EnvironmentSpec]) -> None:
        """Nothing is kept."""

    def act(self, state: SceneState, active: NDArray[np.int_]) -> Array:
        """Straight motions of at most ``PACE``."""
        way = self._rng.uniform(*SWEEP, size=(state.n, 3)) - state.tool_position_base
        way *= np.minimum(1.0, PACE / np.maximum(np.linalg.norm(way, axis=1), 1e-9))[:, None]
        chunks = np.zeros((state.n, CHUNK_STEPS, ACTION_SIZE))
        chunks[..., :3] = way[:, None] * (np.arange(1, CHUNK_STEPS + 1) / CHUNK_STEPS)[:, None]
        chunks[..., 6] = 1.0
        return chunks


def measure(
    family: str,
    environments: int = 32,
    seed: int = 0,
    repeats: int = 3,
    motion: Literal["sweep", "expert"] = "sweep",
    chunks: int = 15,
) -> Throughput:
    """Record a motion in scenes of the train split, then time the recording on each path, in turns; medians.

    ``sweep``: ``chunks`` chunks of a policy that costs nothing. ``expert``: whole episodes of the expert,
    most of whose time goes into solving the contacts of held objects, which no path can save.
    """
    rng = np.random.default_rng(seed)
    specs = [sample_split(family, "train", rng) for _ in range(environments)]
    if motion == "sweep":
        specs = [spec.revise(horizon=chunks * CHUNK_STEPS) for spec in specs]
    simulator = BatchSimulator(family, environments)
    actor = SweepActor(seed) if motion == "sweep" else ScriptedActor()
    episodes = rollout(simulator, specs, list(range(environments)), actor)
    commands = [_commands(simulator, episode) for episode in episodes]
    rates = np.array(
        [
            (
                _time_batch(simulator, specs, episodes),
                _time_plain(specs, commands, False),
                _time_plain(specs, commands, True),
            )
            for _ in range(repeats)
        ]
    )
    batch, plain, sleeping = np.median(rates, axis=0)
    steps = sum(episode.steps for episode in episodes)
    return Throughput(family, environments, steps, float(batch), float(plain), float(sleeping))


def _time_batch(simulator: BatchSimulator, specs: list[EnvironmentSpec], episodes: list[Episode]) -> float:
    most = max(len(episode.chunks) for episode in episodes)
    chunks, counts = np.zeros((most, len(specs), CHUNK_STEPS, 7)), np.zeros((most, len(specs)), dtype=int)
    for i, episode in enumerate(episodes):
        chunks[: len(episode.chunks), i], counts[: len(episode.chunks), i] = episode.chunks, episode.executed
    simulator.reset(specs)
    before, start = simulator.control_steps, time.process_time()
    for k in range(most):
        simulator.state().observation()
        simulator.step_chunk(chunks[k], counts[k])
    return (simulator.control_steps - before) / (time.process_time() - start)


def _commands(simulator: BatchSimulator, episode: Episode) -> Array:
    """Controls of each control step of an episode. Shape (steps, J + 1)."""
    parts = [np.zeros((0, simulator.scene.robot.joints + 1))]
    for k, count in enumerate(episode.executed):
        q0 = episode.states.joint_positions[k : k + 1]
        targets, openings = simulator.kinematics.chunk_to_joints(q0, episode.chunks[k : k + 1])
        grips = simulator.scene.robot.gripper_command(openings)
        parts.append(np.concatenate([targets[0], grips[0][:, None]], axis=1)[:count])
    return np.concatenate(parts)


def _time_plain(specs: list[EnvironmentSpec], commands: list[Array], sleep: bool) -> float:
    steps, seconds = 0, 0.0
    for spec, controls in zip(specs, commands, strict=True):
        model, data, order = _plain(spec, sleep)
        start = time.process_time()
        for control in controls:
            data.ctrl[order] = control
            for _ in range(SUBSTEPS):
                mujoco.mj_step(model, data)
        seconds += time.process_time() - start
        steps += len(controls)
    return steps / seconds


def _plain(spec: EnvironmentSpec, sleep: bool) -> tuple[mujoco.MjModel, mujoco.MjData, Array]:
    """Model and data of one specification, filled in as the batch does, and the order of its controls."""
    scene = build_scene(spec.family, robot(spec.robot))
    model, slots = scene.model, assign(scene, spec)
    fields = model_fields(model)
    fill(scene, fields, spec, slots)
    if not sleep:
        model.opt.enableflags &= ~int(mujoco.mjtEnableBit.mjENBL_SLEEP)
    data = mujoco.MjData(model)
    mujoco.mj_setConst(model, data)
    mujoco.mj_resetData(model, data)
    start_position(scene, spec, slots, data.qpos)
    mujoco.mj_forward(model, data)
    return model, data, np.array([*scene.arm_ctrl, scene.gripper_ctrl])
