"""The counterfactual: the failed scene again, with only the cause set to its nominal value."""

from __future__ import annotations

import numpy as np

from coda_nodes.world.spec import EnvironmentSpec
from coda_nodes.world.validation import ArmCount, Verdict


def repeats(
    spec: EnvironmentSpec, count: int, start_noise: float, rng: np.random.Generator
) -> list[EnvironmentSpec]:
    """The scene ``count`` times, each with its own small offset of the arm's start: normal, ``start_noise``
    [rad].

    The seed stays, so that only the start differs; without the offset a deterministic policy would repeat
    itself.
    """
    offsets = rng.normal(scale=start_noise, size=(count, len(spec.robot_start.joint_positions)))
    moved = spec.robot_start.joint_positions + offsets
    starts = [
        spec.robot_start.model_copy(update={"joint_positions": tuple(map(float, row))}) for row in moved
    ]
    return [spec.revise(robot_start=start) for start in starts]


def judge(nominal: ArmCount, factual: ArmCount, alone: bool = True) -> tuple[Verdict, str] | None:
    """Verdict after the counterfactual, or None when the recreation has to tell.

    It can only rule a cause out: a rescued scene may also be luck, which the recreation tests. ``alone``:
    nothing else in the scene lies outside train, so that a scene still failing speaks against the cause.
    """
    if (factual.total and not factual.valid) or (nominal.total and not nominal.valid):
        return "inconclusive", "inconclusive: no valid episode of the failed scene could be run"
    if factual.valid and factual.failures == 0:
        reruns = f"{factual.successes} of {factual.valid} reruns succeed"
        return "inconclusive", f"inconclusive: the failure does not repeat, {reruns}"
    if alone and nominal.valid and nominal.successes == 0:
        still = f"the scene still fails {nominal.failures} of {nominal.valid}"
        return "refuted", f"refuted: with only the cause at its nominal value {still}"
    return None
