"""The control loop of one task: look, decide, check, send; and hold, however it ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from coda_nodes.executor.safety import Limits
from coda_nodes.executor.scheduling import due_steps
from coda_nodes.policy.kinematics import Kinematics
from coda_nodes.policy.protocol import ChunkPolicy
from coda_nodes.world.action import CHUNK_STEPS, CONTROL_PERIOD
from coda_nodes.world.state import ObservationBatch

Array = NDArray[np.float64]
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Seen:
    """What was seen, and how the task stands."""

    observation: ObservationBatch
    """n = 1."""
    at: float
    """Time of arrival of its oldest part, on ``time.monotonic`` [s]."""
    ended: str = ""
    """How the episode ended, in words; empty while it goes on."""
    success: bool = False
    steps: int = 0
    """Control steps executed since the task began, where the other side counts them."""


class Arm(Protocol):
    """What the loop drives: an arm with a trajectory controller, or a simulator in lockstep."""

    lockstep: bool
    """Whether the world stands still between ``observe`` and ``send``."""

    def observe(self) -> Seen:
        """The newest observation. Raises NodeError when it is missing or stale."""

    def send(self, chunk: Array, times: Array, targets: Array, openings: Array, first: int) -> None:
        """Execute a chunk (8, 7), of which the actions from ``first`` on are due.

        ``targets`` (T, J) [rad], ``openings`` (T,), ``times`` (T,) [s] from now.
        """

    def hold(self) -> None:
        """Stay where the arm is, with the gripper as it is."""


@dataclass(frozen=True)
class Ended:
    """How a task ended."""

    success: bool
    message: str
    steps: int


class Driver:
    """Drives an arm by a policy; one task at a time."""

    def __init__(
        self, policy: ChunkPolicy, kinematics: Kinematics, limits: Limits, execute: int = CHUNK_STEPS
    ) -> None:
        self._policy, self._kinematics, self._limits, self._execute = policy, kinematics, limits, execute

    def run(
        self,
        arm: Arm,
        time_limit: float,
        dry_run: bool = False,
        stop: Callable[[], str] = lambda: "",
        on_step: Callable[[int], None] = lambda _: None,
    ) -> Ended:
        """Run until the episode ends, ``time_limit`` [s] is over, or ``stop()`` names a reason.

        Raises:
            SafetyError: a command beyond the limits.
            NodeError: an observation is missing or stale.
            The arm holds before either is raised.
        """
        self._policy.reset(1)
        try:
            return self._loop(arm, time_limit, dry_run, stop, on_step)
        finally:
            if not dry_run:
                arm.hold()

    def _loop(
        self,
        arm: Arm,
        time_limit: float,
        dry_run: bool,
        stop: Callable[[], str],
        on_step: Callable[[int], None],
    ) -> Ended:
        steps, begun = 0, time.monotonic()
        while True:
            seen = arm.observe()
            if seen.ended:
                return Ended(seen.success, seen.ended, seen.steps or steps)
            elapsed = steps * CONTROL_PERIOD if arm.lockstep and not dry_run else time.monotonic() - begun
            reason = stop() or ("time is over" if elapsed >= time_limit else "")
            if reason:
                return Ended(False, reason, seen.steps or steps)
            steps += self._decide(arm, seen, dry_run)
            on_step(steps)

    def _decide(self, arm: Arm, seen: Seen, dry_run: bool) -> int:
        """One chunk; return the control steps sent."""
        chunk = self._policy.act(seen.observation)
        start = seen.observation.joint_positions
        targets, openings = self._kinematics.chunk_to_joints(start, chunk)
        age = 0.0 if arm.lockstep else time.monotonic() - seen.at
        due = due_steps(self._execute, age)
        if not len(due.times):
            _log.warning("the whole chunk came too late (%.0f ms); the arm holds", 1e3 * age)
            if not dry_run:
                arm.hold()
            return 0
        chosen = slice(due.first, self._execute)
        now = start if arm.lockstep else arm.observe().observation.joint_positions
        # where steps were dropped the first of the others is further off: it gets the time it needs
        late = self._limits.reach_time(now[0], targets[0, due.first]) - due.times[0]
        times = due.times + max(late, 0.0)
        safe = self._limits.check(now[0], targets[0, chosen], times)
        if not dry_run:
            arm.send(chunk[0], times, safe, openings[0, chosen], due.first)
        if dry_run or not arm.lockstep:
            _watch(arm, time.monotonic() + float(times[-1]) - CONTROL_PERIOD)
        return 0 if dry_run else len(times)


def _watch(arm: Arm, until: float) -> None:
    """Wait until the moment ``until`` while the arm still reports; raises NodeError once it is silent."""
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, CONTROL_PERIOD))
        arm.observe()
