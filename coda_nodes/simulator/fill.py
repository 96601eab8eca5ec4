"""Writes a specification into the model fields of one simulation: which slot each entity takes, and every
number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import mujoco
import numpy as np

from coda_nodes.simulator.scene import (
    MOVABLE_BITS,
    ROLLING,
    TORSION,
    WORLD_BIT,
    SceneModel,
    Slot,
)
from coda_nodes.world.colors import rgba
from coda_nodes.world.errors import SimulationError
from coda_nodes.world.fixtures import Part, bin_parts, drawer_parts, knob_parts, slot_parts
from coda_nodes.world.spec import EnvironmentSpec, FixtureSpec, ObjectSpec
from coda_nodes.world.state import ENTITY_SLOTS

MODEL_FIELDS = (
    "body_pos",
    "body_quat",
    "body_mass",
    "body_inertia",
    "body_gravcomp",
    "body_contype",
    "body_conaffinity",
    "geom_type",
    "geom_size",
    "geom_pos",
    "geom_contype",
    "geom_conaffinity",
    "geom_friction",
    "geom_rgba",
    "dof_damping",
    "dof_frictionloss",
    "jnt_range",
    "tree_sleep_policy",
    "opt.gravity",
)
"""Everything in which simulations of one family differ."""
KNOB_GRIP_COLOR = (0.2, 0.2, 0.22, 1.0)
GEOM_TYPES = {"box": int(mujoco.mjtGeom.mjGEOM_BOX), "cylinder": int(mujoco.mjtGeom.mjGEOM_CYLINDER)}
Fields = Mapping[str, np.ndarray]


def model_fields(model: mujoco.MjModel) -> dict[str, np.ndarray]:
    """The fields of a plain model, to be filled like one simulation of a batch."""
    return {
        name: model.opt.gravity if name == "opt.gravity" else getattr(model, name) for name in MODEL_FIELDS
    }


def slot_kind(entity: ObjectSpec | FixtureSpec) -> str:
    """Kind of slot an entity needs."""
    if isinstance(entity, FixtureSpec):
        return entity.kind
    return "movable" if entity.role in ("object", "distractor") else entity.shape


def assign(scene: SceneModel, spec: EnvironmentSpec) -> list[int]:
    """Slot of each entity, in entity order.

    Raises:
        SimulationError: another family or robot than the scene's, or more entities of a kind than it holds.
    """
    if spec.family != scene.family or spec.robot != scene.robot.name:
        raise SimulationError(
            f"specification of family {spec.family!r}, robot {spec.robot!r} given to a simulator "
            f"of {scene.family!r}, {scene.robot.name!r}"
        )
    free: dict[str, list[int]] = {}
    for index, slot in enumerate(scene.slots):
        free.setdefault(slot.kind, []).append(index)
    chosen = []
    for entity in spec.entities:
        kind = slot_kind(entity)
        if not free.get(kind):
            most = sum(slot.kind == kind for slot in scene.slots)
            raise SimulationError(
                f"{entity.name!r} is one {kind} too many: family {spec.family!r} holds {most}"
            )
        chosen.append(free[kind].pop(0))
    return chosen


def fill(scene: SceneModel, fields: Fields, spec: EnvironmentSpec, slots: Sequence[int]) -> None:
    """Write ``spec`` into ``fields``, which hold the values of the scene's own model."""
    fields["opt.gravity"][:] = (0.0, 0.0, -spec.physics.gravity)
    for entity, index in zip(spec.entities, slots, strict=True):
        slot = scene.slots[index]
        if isinstance(entity, FixtureSpec):
            _fill_fixture(fields, slot, entity, spec.physics.damping_scale)
        elif slot.kind == "movable":
            _fill_movable(fields, slot, entity, spec.physics.friction_scale)
        else:
            _fill_receptacle(fields, slot, entity, spec.physics.friction_scale)


def start_position(scene: SceneModel, spec: EnvironmentSpec, slots: Sequence[int], qpos: np.ndarray) -> None:
    """Write the positions of robot, objects and joints at the start into ``qpos`` (nq,). Raises
    SimulationError when the arm's start has another number of joints or lies outside their limits."""
    start, robot = np.array(spec.robot_start.joint_positions), scene.robot
    if start.shape != (robot.joints,):
        raise SimulationError(f"robot_start has {start.size} joints, {robot.name} has {robot.joints}")
    outside = (start < np.array(robot.lower)) | (start > np.array(robot.upper))
    if outside.any():
        joint = int(np.argmax(outside))
        raise SimulationError(
            f"robot_start {robot.joint_names[joint]} = {start[joint]:.4f} rad, limits "
            f"{robot.lower[joint]} to {robot.upper[joint]}"
        )
    qpos[scene.arm_qpos] = start
    qpos[scene.finger_qpos] = robot.gripper_command(np.array(spec.robot_start.gripper_opening))
    for entity, index in zip(spec.entities, slots, strict=True):
        slot = scene.slots[index]
        if isinstance(entity, FixtureSpec):
            qpos[slot.qpos] = entity.joint_value
        elif slot.kind == "movable":
            qpos[slot.qpos : slot.qpos + 3] = entity.pose.position
            qpos[slot.qpos + 3 : slot.qpos + 7] = wxyz(entity.pose.quaternion_xyzw)


def wxyz(quaternion_xyzw: Sequence[float]) -> tuple[float, float, float, float]:
    """MuJoCo's order of a quaternion; the one place on the way in."""
    x, y, z, w = quaternion_xyzw
    return (w, x, y, z)


def entity_arrays(specs: Sequence[EnvironmentSpec]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Half extents (n, K, 3), joint ranges (n, K, 2) and presence (n, K) of the entities of
    specifications."""
    half, ranges = np.zeros((len(specs), ENTITY_SLOTS, 3)), np.zeros((len(specs), ENTITY_SLOTS, 2))
    present = np.zeros((len(specs), ENTITY_SLOTS), dtype=bool)
    for i, spec in enumerate(specs):
        for k, entity in enumerate(spec.entities):
            half[i, k], present[i, k] = entity.half_extents, True
            if isinstance(entity, FixtureSpec):
                ranges[i, k] = entity.joint_range
    return half, ranges, present


def _fill_movable(fields: Fields, slot: Slot, entity: ObjectSpec, friction_scale: float) -> None:
    part = Part("body", (0.0, 0.0, 0.0), entity.half_extents, entity.shape)
    _fill_geom(
        fields, slot.geoms[0], part, rgba(entity.color), entity.friction * friction_scale, MOVABLE_BITS
    )
    fields["body_contype"][slot.body], fields["body_conaffinity"][slot.body] = MOVABLE_BITS
    fields["body_mass"][slot.body] = entity.mass
    fields["body_inertia"][slot.body] = inertia(entity.shape, entity.half_extents, entity.mass)
    fields["body_gravcomp"][slot.body] = 0.0
    fields["tree_sleep_policy"][slot.tree] = int(mujoco.mjtSleepPolicy.mjSLEEP_ALLOWED)


def _fill_receptacle(fields: Fields, slot: Slot, entity: ObjectSpec, friction_scale: float) -> None:
    if slot.kind == "bin":
        parts = bin_parts(entity.half_extents)
    elif slot.kind == "slot":
        parts = slot_parts(entity.half_extents)
    else:
        parts = (Part("disc", (0.0, 0.0, 0.0), entity.half_extents, "cylinder"),)
    bits = (0, 0) if slot.kind == "marker" else (0, WORLD_BIT)
    color = rgba(entity.color)
    for geom, part in zip(slot.geoms, parts, strict=True):
        _fill_geom(fields, geom, part, color, entity.friction * friction_scale, bits)
    _place(fields, slot.body, entity, bits)


def _fill_fixture(fields: Fields, slot: Slot, entity: FixtureSpec, damping_scale: float) -> None:
    make = drawer_parts if slot.kind == "drawer" else knob_parts
    still, moving = make(entity.half_extents)
    color = rgba(entity.color)
    shade = (*(0.8 * part for part in color[:3]), 1.0)
    friction = float(fields["geom_friction"][slot.geoms[0], 0])
    for geom, part in zip(slot.geoms, still, strict=True):
        _fill_geom(fields, geom, part, shade, friction, (0, WORLD_BIT))
    for geom, part in zip(slot.moving_geoms, moving, strict=True):
        grip = geom == slot.grip_geom
        # a handle is made to be gripped: its own friction, well above the pads'
        _fill_geom(
            fields, geom, part, KNOB_GRIP_COLOR if grip else color, 1.0 if grip else friction, (0, WORLD_BIT)
        )
    _place(fields, slot.body, entity, (0, WORLD_BIT))
    moved = slot.moving_body
    fields["body_pos"][moved], fields["body_quat"][moved] = (0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0)
    fields["body_contype"][moved], fields["body_conaffinity"][moved] = 0, WORLD_BIT
    fields["jnt_range"][slot.joint] = entity.joint_range
    fields["dof_damping"][slot.dof] = entity.damping * damping_scale
    fields["dof_frictionloss"][slot.dof] = entity.frictionloss * damping_scale
    fields["tree_sleep_policy"][slot.tree] = int(mujoco.mjtSleepPolicy.mjSLEEP_ALLOWED)


def _place(fields: Fields, body: int, entity: ObjectSpec | FixtureSpec, bits: tuple[int, int]) -> None:
    fields["body_pos"][body] = entity.pose.position
    fields["body_quat"][body] = wxyz(entity.pose.quaternion_xyzw)
    fields["body_contype"][body], fields["body_conaffinity"][body] = bits


def _fill_geom(
    fields: Fields,
    geom: int,
    part: Part,
    color: Sequence[float],
    friction: float,
    bits: tuple[int, int],
) -> None:
    half = part.half_extents
    fields["geom_type"][geom] = GEOM_TYPES[part.shape]
    fields["geom_size"][geom] = half if part.shape == "box" else (half[0], half[2], 0.0)
    fields["geom_pos"][geom] = part.centre
    fields["geom_contype"][geom], fields["geom_conaffinity"][geom] = bits
    fields["geom_friction"][geom] = (friction, TORSION, ROLLING)
    fields["geom_rgba"][geom] = color


def inertia(shape: str, half_extents: Sequence[float], mass: float) -> tuple[float, float, float]:
    """Principal moments [kg m^2] of a solid box or cylinder (axis z) of even density."""
    a, b, c = half_extents
    if shape == "cylinder":
        across = mass * (3 * a * a + 4 * c * c) / 12
        return (across, across, mass * a * a / 2)
    return (mass * (b * b + c * c) / 3, mass * (a * a + c * c) / 3, mass * (a * a + b * b) / 3)
