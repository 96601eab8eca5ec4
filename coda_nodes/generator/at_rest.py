"""A scene as specified, before any physics: what the predicates say of it."""

from __future__ import annotations

import numpy as np

from coda_nodes.world.predicates import CompiledGoals
from coda_nodes.world.solids import Solid, entity_position, solids
from coda_nodes.world.spec import EnvironmentSpec, FixtureSpec
from coda_nodes.world.state import SceneState

TOUCH = 0.006
"""Gap between the top of one thing and the bottom of another up to which they are taken to touch [m]."""
HAND = (0.3, 0.0, 0.6)
"""Where the tool is taken to be: away from everything [m]."""


def goal_holds(spec: EnvironmentSpec) -> bool:
    """Whether the goal of a scene already holds where everything stands as specified."""
    goals = CompiledGoals([spec])
    return bool(goals.satisfied(goals.evaluate(state_at_rest(spec)))[0])


def state_at_rest(spec: EnvironmentSpec) -> SceneState:
    """The state of one scene with everything at its specified pose, the hand away, nothing moving."""
    count = len(spec.entities)
    poses = [entity_position(entity) for entity in spec.entities]
    joints = [
        (entity.joint_value, *entity.joint_range) if isinstance(entity, FixtureSpec) else (0.0, 0.0, 0.0)
        for entity in spec.entities
    ]
    contact, on_table = _contacts(spec)
    no = np.zeros((1, count), dtype=bool)
    return SceneState(
        joint_positions=np.array([spec.robot_start.joint_positions], dtype=float),
        gripper_opening=np.array([spec.robot_start.gripper_opening]),
        tool_position_base=np.array([HAND]), tool_quaternion_xyzw=np.array([[1.0, 0.0, 0.0, 0.0]]),
        entity_position_base=np.array([[position for position, _ in poses]]),
        entity_quaternion_xyzw=np.array([[quaternion for _, quaternion in poses]]),
        entity_half_extents=np.array([[entity.half_extents for entity in spec.entities]], dtype=float),
        entity_joint_value=np.array([[value for value, _, _ in joints]]),
        entity_joint_range=np.array([[(low, high) for _, low, high in joints]]), present=~no,
        entity_names=(spec.entity_names,), instructions=(spec.instruction,),
        entity_linear_velocity=np.zeros((1, count, 3)), grasped=no, touched=no, contact=contact[None],
        on_table=on_table[None], time=np.zeros(1),
    )


def _contacts(spec: EnvironmentSpec) -> tuple[np.ndarray, np.ndarray]:
    """Which entities rest on which (symmetric, (K, K)), and on the table (K,)."""
    bodies = [solids(entity) for entity in spec.entities]
    count = len(bodies)
    contact = np.zeros((count, count), dtype=bool)
    for upper in range(count):
        for lower in range(count):
            if upper != lower and any(_rests(a, b) for a in bodies[upper] for b in bodies[lower]):
                contact[upper, lower] = contact[lower, upper] = True
    lowest = np.array([min((solid.low for solid in body), default=0.0) for body in bodies])
    return contact, lowest < TOUCH


def _rests(upper: Solid, lower: Solid) -> bool:
    return abs(upper.low - lower.high) < TOUCH and lower.shadows(upper.centre)
