"""Starting an episode as if a stage were done: the arm where that stage ends, or the fixture moved."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.spatial.transform import Rotation

from coda_nodes.policy.kinematics import Kinematics
from coda_nodes.world.axes.base import changed
from coda_nodes.world.errors import ValidityError
from coda_nodes.world.families import Stage, family
from coda_nodes.world.fixtures import grip_offset, handle_offset
from coda_nodes.world.robots import robot
from coda_nodes.world.spec import EnvironmentSpec, FixtureSpec, RobotStart

HOVER = 0.07
"""Height of the tool above the grasp point after ``approach`` [m]."""
FINGER_REACH = 0.03
"""How far below the top of a tall thing the tool takes hold [m]."""
SQUEEZE = 0.001
"""How much narrower than the thing the closed hand is asked to be [m]."""
WIDEST = 0.076
"""Widest thing the hand can hold [m]."""
TOLERANCE = 0.004
"""Distance at which the arm counts as having arrived [m]."""


@lru_cache(maxsize=4)
def _kinematics(name: str) -> Kinematics:
    return Kinematics(robot(name))


def start_past(spec: EnvironmentSpec, stage: str) -> EnvironmentSpec:
    """The scene with the first step's ``stage`` done.

    ``approach``: open hand above what is to be held. ``grasp``: hand closed around it, still on the table.
    ``open``, ``close``, ``turn``: the fixture moved to where that stage wants it.

    Raises:
        ValidityError: the first step has no such stage (the message lists those it has), or the arm cannot
        get there.
    """
    stages = [item for item in family(spec.family).stages(spec) if item.part == 0]
    found = next((item for item in stages if item.name == stage), None)
    if found is None:
        raise ValidityError(
            f"no stage {stage!r} in the first step: {', '.join(item.name for item in stages)}"
        )
    thing = found.atom.args[0]
    if stage in ("open", "close", "turn"):
        return _moved_fixture(spec, found, thing)
    if stage == "approach" and found.atom.predicate == "behind":
        raise ValidityError("a push begins beside the thing; no posture above it stands for its approach")
    return _held(spec, thing, closed=stage == "grasp")


def _moved_fixture(spec: EnvironmentSpec, stage: Stage, name: str) -> EnvironmentSpec:
    fixture = spec.entity(name)
    assert isinstance(fixture, FixtureSpec)
    low, high = fixture.joint_range
    away = stage.atom.predicate in ("opened", "turned_on")
    return changed(spec, name, joint_value=low + (0.95 if away else 0.05) * (high - low))


def _held(spec: EnvironmentSpec, name: str, closed: bool) -> EnvironmentSpec:
    point, closing, width = _grip(spec, name)
    if width > WIDEST:
        raise ValidityError(f"{name!r} is {width:.3f} m wide; the hand holds {WIDEST} m")
    arm = robot(spec.robot)
    position = point + np.array([0.0, 0.0, 0.0 if closed else HOVER])
    joints = _reach(spec.robot, position, closing)
    metres = np.array((width - SQUEEZE) / 2 if closed else arm.gripper_range[1])
    opening = float(arm.gripper_opening(metres))
    return spec.revise(
        robot_start=RobotStart(joint_positions=tuple(joints.tolist()), gripper_opening=opening)
    )


def _grip(spec: EnvironmentSpec, name: str) -> tuple[np.ndarray, float, float]:
    """Where to hold a thing [m], the direction in which the fingers close [rad], and its width there [m]."""
    entity = spec.entity(name)
    centre, yaw, half = np.array(entity.pose.position), entity.pose.yaw, np.array(entity.half_extents)
    if isinstance(entity, FixtureSpec):
        return _fixture_grip(entity, centre, yaw, half)
    top = centre[2] + half[2]
    centre[2] = max(centre[2], top - FINGER_REACH)
    narrow = 0 if half[0] < half[1] else 1
    return centre, yaw + narrow * math.pi / 2, 2 * float(half[narrow])


def _fixture_grip(
    entity: FixtureSpec, centre: np.ndarray, yaw: float, half: np.ndarray
) -> tuple[np.ndarray, float, float]:
    turn = Rotation.from_quat(entity.pose.quaternion_xyzw)
    if entity.kind == "drawer":
        local = handle_offset(half) - [entity.joint_value, 0.0, 0.0]
        return centre + turn.apply(local), yaw + math.pi / 2, 2 * 0.012
    return centre + turn.apply(grip_offset(half)), yaw + entity.joint_value + math.pi / 2, 2 * 0.009


def _reach(name: str, position: np.ndarray, closing: float) -> np.ndarray:
    """Joints [rad] of a hand pointing down that closes along ``closing``, turned as little from home as
    possible."""
    kinematics = _kinematics(name)
    home = np.array(robot(name).home)[None]
    tool = Rotation.from_quat(kinematics.forward(home)[1][0]).as_matrix()
    if tool[:2, 1] @ [math.cos(closing), math.sin(closing)] < 0:
        closing += math.pi
    across = np.array([math.cos(closing), math.sin(closing), 0.0])
    down = np.array([0.0, 0.0, -1.0])
    goal = Rotation.from_matrix(np.stack([np.cross(across, down), across, down], axis=1)).as_quat()[None]
    joints = kinematics.solve(home, position[None], goal)
    arrived, _ = kinematics.forward(joints)
    if np.linalg.norm(arrived[0] - position) > TOLERANCE:
        raise ValidityError(f"the arm cannot start at {np.round(position, 3).tolist()}")
    return joints[0]
