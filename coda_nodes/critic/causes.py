"""Why it may have happened: values outside train, ranked by what they have to do with what happened."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coda_nodes.critic.happenings import Happening
from coda_nodes.critic.stages import Stall
from coda_nodes.world.axes import Deviation
from coda_nodes.world.diagnosis import SCENE, Cause

RELEVANCE: dict[str, dict[str, float]] = {
    "no_approach": {
        "position": 1.0,
        "instruction": 0.9,
        "start_pose": 0.7,
        "objects": 0.6,
        "composition": 0.6,
        "clutter": 0.5,
    },
    "missed_grasp": {
        "position": 1.0,
        "objects": 1.0,
        "start_pose": 0.4,
        "clutter": 0.4,
        "dynamics": 0.3,
        "instruction": 0.3,
    },
    "slip": {"dynamics": 1.0, "objects": 0.6, "position": 0.4, "start_pose": 0.1},
    "dropped": {
        "dynamics": 0.8,
        "objects": 0.7,
        "position": 0.7,
        "composition": 0.3,
        "start_pose": 0.2,
        "instruction": 0.3,
    },
    "wrong_object": {"instruction": 1.0, "clutter": 0.9, "objects": 0.7, "position": 0.6, "composition": 0.6},
    "wrong_place": {"position": 1.0, "instruction": 1.0, "composition": 0.5, "clutter": 0.4, "objects": 0.4},
    "misaligned": {"position": 1.0, "objects": 0.9, "dynamics": 0.4, "clutter": 0.2, "instruction": 0.2},
    "wrong_order": {"composition": 1.0, "instruction": 0.9, "position": 0.2},
    "collision": {"clutter": 1.0, "position": 0.7, "objects": 0.5, "start_pose": 0.4},
    "knocked_over": {"position": 0.9, "objects": 0.8, "clutter": 0.7, "dynamics": 0.4, "start_pose": 0.3},
    "not_opened": {"dynamics": 1.0, "position": 0.8, "objects": 0.4, "instruction": 0.4, "start_pose": 0.2},
    "stopped_short": {
        "composition": 0.8,
        "position": 0.8,
        "dynamics": 0.7,
        "objects": 0.5,
        "start_pose": 0.4,
        "instruction": 0.4,
    },
}
"""Failure mode -> axis -> how often such a value brings it about, 0 to 1; what is not listed has LEAST."""
LEAST = 0.05
"""Relevance of an axis not listed."""
UNSEEN = 0.01
"""Relevance of appearance: a policy that is given poses sees neither light nor camera."""
BYSTANDER = 0.15
"""Share of the relevance of a thing that neither the stage nor the mode is about."""
HALF = 0.5
"""Size of a deviation, in widths of train, that counts half of a huge one."""
SURE = 0.25
"""Score below which a cause is little more than a guess."""
ARRIVING = ("transport", "place", "release", "push", "align", "insert")
"""Stages at which the destination matters."""
REACHING = ("approach", "grasp")
"""Stages at which the hand goes to the target."""
BESIDE = 0.02
"""Offset from which the hand counts as beside a thing [m]."""
TELLING = 2.5
"""Weight of a place whose train values lie where the hand went."""
CONFUSED = ("wrong_object", "collision", "wrong_place")
"""Modes in which things beside the task take part."""


@dataclass(frozen=True)
class Ranked:
    """A cause and its score, higher is likelier."""

    cause: Cause
    score: float


def rank(stall: Stall, happened: Happening, deviations: list[Deviation]) -> list[Ranked]:
    """Deviations as causes of a failure, likeliest first; ties in the order of axis, object, parameter."""
    offset = _offset(stall, happened.boundary)
    scored = [
        (item, _score(stall, happened.mode, item) * _pointed(stall, item, offset)) for item in deviations
    ]
    scored.sort(key=lambda pair: (-pair[1], pair[0].key))
    return [Ranked(_cause(item), score) for item, score in scored]


def _cause(item: Deviation) -> Cause:
    return Cause(
        axis=item.axis,
        object=item.object,
        parameter=item.parameter,
        observed=item.observed,
        nominal=item.nominal,
    )


def _score(stall: Stall, mode: str, item: Deviation) -> float:
    relevance = UNSEEN if item.axis == "appearance" else RELEVANCE[mode].get(item.axis, LEAST)
    return relevance * _involved(stall, mode, item) * _detail(stall, item) * item.size / (item.size + HALF)


def _involved(stall: Stall, mode: str, item: Deviation) -> float:
    """How much the thing has to do with the stage."""
    if item.axis == "position" and item.object == stall.target and stall.stage.name in ARRIVING:
        return 0.5  # where it stood matters less once it is on its way
    if item.object in (SCENE, stall.target):
        return 1.0
    if item.object == stall.destination:
        return 1.0 if stall.stage.name in ARRIVING else BYSTANDER
    return 0.6 if mode in CONFUSED else BYSTANDER


def _offset(stall: Stall, boundary: int) -> np.ndarray:
    """How far the hand was beside its target, or the target beside its destination at last [m]. Shape
    (2,)."""
    trace = stall.trace
    if stall.stage.name in ARRIVING and stall.destination:
        return (trace.position(stall.target)[-1] - trace.position(stall.destination)[-1])[:2]
    return (trace.tool[boundary] - trace.position(stall.target)[boundary])[:2]


def _pointed(stall: Stall, item: Deviation, offset: np.ndarray) -> float:
    """Weight of what the offset says: a hand that goes where things stand in train tells of their place; one
    that is not at the thing tells nothing of its heading and size."""
    reaching = stall.stage.name in REACHING
    aim = stall.target if reaching else stall.destination
    part = item.parameter.rpartition("_")[2]
    away = float(np.linalg.norm(offset))
    if item.object == aim and item.axis == "position" and part in ("x", "y", "xy"):
        inward = _inward(stall, item, part)
        towards = float(offset @ inward) / max(away * float(np.linalg.norm(inward)), 1e-9)
        return 0.5 if away < BESIDE else TELLING if towards > 0.5 else 1.0
    sized = item.axis == "objects" or part == "yaw"
    return 0.3 if reaching and item.object == stall.target and sized and away > BESIDE else 1.0


def _inward(stall: Stall, item: Deviation, part: str) -> np.ndarray:
    """From where the thing stands to where it would stand in train, on the table [m]. Shape (2,)."""
    shift = np.atleast_1d(np.subtract(item.nominal, item.observed)).astype(float)
    x, y = shift if part == "xy" else (shift[0], 0.0) if part == "x" else (0.0, shift[0])
    observed = np.atleast_1d(item.observed).astype(float)[-1]
    mirrored = part != "x" and observed * stall.trace.spec.entity(item.object).pose.position[1] < 0
    return np.array([x, -y if mirrored else y])


def _detail(stall: Stall, item: Deviation) -> float:
    """Parameters of a joint matter where the joint is moved; the damping of all joints nowhere else."""
    moving = stall.stage.name in ("open", "close", "turn")
    if item.parameter == "damping_scale":
        return 1.0 if moving else 0.1
    if item.axis == "dynamics" and item.object == stall.target and stall.stage.name in ("approach", "grasp"):
        return 0.5  # weight and friction are felt once it is held
    if item.parameter.endswith("color"):
        return 0.6
    return 1.0
