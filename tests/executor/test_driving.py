"""The control loop on an arm made of numbers: it holds on every way out."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
import pytest

from coda_nodes.executor.driving import Driver, Seen
from coda_nodes.executor.safety import Limits, SafetyConfig, SafetyError
from coda_nodes.policy.kinematics import Kinematics
from coda_nodes.world.errors import NodeError
from coda_nodes.world.robots import PANDA
from coda_nodes.world.state import ObservationBatch

KINEMATICS = Kinematics(PANDA)


def observation(q: np.ndarray) -> ObservationBatch:
    """An arm at ``q`` over an empty table."""
    position, quaternion = KINEMATICS.forward(q[None])
    none = np.zeros((1, 0))
    return ObservationBatch(
        joint_positions=q[None].copy(), gripper_opening=np.ones(1), tool_position_base=position,
        tool_quaternion_xyzw=quaternion, entity_position_base=np.zeros((1, 0, 3)),
        entity_quaternion_xyzw=np.zeros((1, 0, 4)), entity_half_extents=np.zeros((1, 0, 3)),
        entity_joint_value=none, entity_joint_range=np.zeros((1, 0, 2)), present=none.astype(bool),
        entity_names=((),), instructions=("go",),
    )  # fmt: skip


@dataclass
class NumberArm:
    """Reaches every target; ends, or falls silent, after so many chunks."""

    lockstep: bool = True
    silent_after: int = 99
    success_after: int = 99
    q: np.ndarray = field(default_factory=lambda: np.array(PANDA.home))
    sent: list[tuple[np.ndarray, np.ndarray, int]] = field(default_factory=list)
    holds: int = 0

    def observe(self) -> Seen:
        if len(self.sent) >= self.silent_after:
            raise NodeError("/joint_states is silent")
        done = len(self.sent) >= self.success_after
        return Seen(observation(self.q), time.monotonic(), "success" if done else "", done)

    def send(self, chunk, times, targets, openings, first) -> None:
        self.sent.append((times, targets, first))
        self.q = targets[-1]

    def hold(self) -> None:
        self.holds += 1


class Forward:
    """Moves the tool along x by ``step`` [m] per action; thinks for ``delay`` [s]."""

    def __init__(self, step: float = 0.001, delay: float = 0.0) -> None:
        self.step, self.delay = step, delay

    def reset(self, n: int) -> None:
        """Nothing is kept."""

    def act(self, observation: ObservationBatch) -> np.ndarray:
        time.sleep(self.delay)
        chunk = np.zeros((1, 8, 7))
        chunk[0, :, 0] = self.step * np.arange(1, 9)
        return chunk


def driver(policy: Forward, execute: int = 8) -> Driver:
    return Driver(policy, KINEMATICS, Limits(PANDA, KINEMATICS, SafetyConfig()), execute)


def test_time_limit_in_lockstep_counts_control_steps() -> None:
    arm, steps = NumberArm(), []
    before, _ = KINEMATICS.forward(arm.q[None])
    ended = driver(Forward()).run(arm, time_limit=0.8, on_step=steps.append)
    after, _ = KINEMATICS.forward(arm.q[None])
    assert (ended.success, ended.message, ended.steps, arm.holds) == (False, "time is over", 16, 1)
    assert steps == [8, 16]
    assert after[0] - before[0] == pytest.approx([0.016, 0, 0], abs=1e-3)


def test_success_ends_and_holds() -> None:
    arm = NumberArm(success_after=1)
    ended = driver(Forward(), execute=4).run(arm, time_limit=10)
    assert (ended.success, ended.steps, arm.holds) == (True, 4, 1)


def test_dry_run_sends_and_holds_nothing() -> None:
    arm = NumberArm()
    ended = driver(Forward(), execute=1).run(arm, time_limit=0.1, dry_run=True)
    assert (ended.message, arm.sent, arm.holds) == ("time is over", [], 0)


def test_a_reason_to_stop_ends_and_holds() -> None:
    arm = NumberArm()
    ended = driver(Forward()).run(arm, 10, stop=lambda: "emergency stop" if len(arm.sent) == 2 else "")
    assert (ended.message, len(arm.sent), arm.holds) == ("emergency stop", 2, 1)


def test_silence_and_forbidden_commands_raise_after_a_hold() -> None:
    arm = NumberArm(silent_after=1)
    with pytest.raises(NodeError, match="silent"):
        driver(Forward()).run(arm, 10)
    assert arm.holds == 1
    away = NumberArm()
    with pytest.raises(SafetyError, match="outside"):
        driver(Forward(step=0.01)).run(away, 60)
    assert away.holds == 1
    tool, _ = KINEMATICS.forward(away.q[None])
    assert tool[0, 0] <= PANDA.workspace_high[0] + SafetyConfig().workspace_tolerance


def test_in_real_time_what_is_late_is_dropped_and_times_are_of_the_future() -> None:
    arm = NumberArm(lockstep=False)
    driver(Forward(delay=0.12)).run(arm, time_limit=0.5)
    times, targets, first = arm.sent[0]
    assert 2 <= first < 8
    assert len(targets) == len(times) == 8 - first
    assert times[0] > 0 and (np.diff(times) > 0).all()


def test_a_policy_slower_than_its_chunk_sends_nothing_and_holds() -> None:
    arm = NumberArm(lockstep=False)
    ended = driver(Forward(delay=0.45)).run(arm, time_limit=0.6)
    assert (ended.message, arm.sent) == ("time is over", [])
    assert arm.holds >= 2
