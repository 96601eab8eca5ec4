"""A specification as models: table, floor, arm, objects, receptacles and fixtures, of the same parts as in MuJoCo.

MuJoCo takes the larger of two frictions, so that there an object's own acts against table and pads (0.2). DART,
Gazebo's engine, takes the smaller, so that here table, floor, pads and cabinets get the highest friction of
the scene: again an object's own acts. Two things that both have one of their own take the larger there, the smaller here.
"""

from __future__ import annotations

import numpy as np

from coda_nodes.simulator.fill import KNOB_GRIP_COLOR, inertia
from coda_nodes.simulator.gazebo.arm import arm_model
from coda_nodes.simulator.gazebo.bodies import Joint, Link, Model, Placed, Shape, Vector, shape_of
from coda_nodes.simulator.scene import KNOB_MASS, TRAY_MASS
from coda_nodes.world.colors import rgba
from coda_nodes.world.errors import SpecError
from coda_nodes.world.fixtures import Part, bin_parts, drawer_parts, knob_parts, slot_parts
from coda_nodes.world.robots import robot
from coda_nodes.world.spec import EnvironmentSpec, FixtureSpec, ObjectSpec

GRIP_FRICTION = 1.0
"""Of handles and grips, as in MuJoCo."""
WOOD, GROUND = (0.76, 0.70, 0.62, 1.0), (0.45, 0.47, 0.5, 1.0)


def models(spec: EnvironmentSpec) -> tuple[Model, ...]:
    """Everything that a specification puts into the world, the arm first.

    Raises:
        ConfigError: unknown robot. SpecError: names that differ only in a way that model names cannot show.
    """
    start, friction = spec.robot_start, deferring_friction(spec)
    arm = arm_model(robot(spec.robot), start.joint_positions, start.gripper_opening, friction)
    made = (arm, *(entity_model(entity, spec, friction) for entity in spec.entities))
    names = ["table", "floor", *(model.name for model in made), *(camera_name(camera.name) for camera in spec.cameras)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SpecError(f"model names used twice in an SDF world, where spaces become underscores: {', '.join(twice)}")
    return made


def model_name(name: str) -> str:
    """Name of an entity's model: topics cannot hold spaces."""
    return name.replace(" ", "_").replace("-", "_")


def camera_name(name: str) -> str:
    """Name of a camera's model."""
    return f"camera_{model_name(name)}"


def deferring_friction(spec: EnvironmentSpec) -> float:
    """Friction of what takes on that of its partner: the highest in the scene."""
    own = [entity.friction for entity in spec.objects if entity.role in ("object", "distractor")]
    return max([GRIP_FRICTION, *(value * spec.physics.friction_scale for value in own)])


def surroundings(friction: float) -> tuple[Model, Model]:
    """Table (top at z = 0) and floor."""
    table = Shape("table", "box", (1.3, 1.5, 0.04), WOOD, friction, Placed((0.45, 0.0, -0.02)))
    floor = Shape("floor", "box", (8.0, 8.0, 0.04), GROUND, friction, Placed((0.0, 0.0, -0.77)))
    return tuple(Model(shape.name, (Link("body", (shape,)),), static=True) for shape in (table, floor))  # type: ignore[return-value]


def entity_model(entity: ObjectSpec | FixtureSpec, spec: EnvironmentSpec, friction: float) -> Model:
    """Model of one entity; ``friction`` is the deferring one."""
    if isinstance(entity, FixtureSpec):
        return _fixture(entity, spec.physics.damping_scale, friction)
    own = entity.friction * spec.physics.friction_scale
    return _movable(entity, own) if entity.role in ("object", "distractor") else _standing(entity, own)


def _placed(entity: ObjectSpec | FixtureSpec) -> Placed:
    return Placed(entity.pose.position, entity.pose.quaternion_xyzw)


def _movable(entity: ObjectSpec, friction: float) -> Model:
    body = Part("body", (0.0, 0.0, 0.0), entity.half_extents, entity.shape)
    moments = np.diag(inertia(entity.shape, entity.half_extents, entity.mass))
    shape = shape_of(body, rgba(entity.color), friction)
    link = Link("body", (shape,), mass=entity.mass, inertia=moments)
    return Model(model_name(entity.name), (link,), pose=_placed(entity), entity=entity.name)


def _standing(entity: ObjectSpec, friction: float) -> Model:
    if entity.shape == "bin":
        parts = bin_parts(entity.half_extents)
    elif entity.shape == "slot":
        parts = slot_parts(entity.half_extents)
    else:
        parts = (Part("disc", (0.0, 0.0, 0.0), entity.half_extents, "cylinder"),)
    felt = None if entity.shape == "marker" else friction
    shapes = tuple(shape_of(part, rgba(entity.color), felt) for part in parts)
    return Model(model_name(entity.name), (Link("body", shapes),), pose=_placed(entity), static=True, entity=entity.name)


def _fixture(entity: FixtureSpec, damping_scale: float, friction: float) -> Model:
    drawer = entity.kind == "drawer"
    still, moving = (drawer_parts if drawer else knob_parts)(entity.half_extents)
    color, name, value = rgba(entity.color), model_name(entity.name), entity.joint_value
    shade = (*(0.8 * part for part in color[:3]), 1.0)
    base = Link("base", tuple(shape_of(part, shade, friction) for part in still))
    shapes = tuple(_moving_shape(part, color, friction) for part in moving)
    mass = TRAY_MASS if drawer else KNOB_MASS
    moved = Placed((-value, 0.0, 0.0)) if drawer else Placed(quaternion_xyzw=(0.0, 0.0, np.sin(value / 2), np.cos(value / 2)))
    tray = Link("moving", shapes, moved, mass, inertia=np.eye(3) * mass * 0.001, gravity=False)
    joint = Joint(
        name=f"{name}_joint",
        kind="prismatic" if drawer else "revolute",
        parent="base",
        child="moving",
        axis=(-1.0, 0.0, 0.0) if drawer else (0.0, 0.0, 1.0),
        lower=entity.joint_range[0],
        upper=entity.joint_range[1],
        start=value,
        damping=entity.damping * damping_scale,
        friction=entity.frictionloss * damping_scale,
    )
    weld = Joint(f"{name}_fixed", "fixed", "world", "base")
    return Model(name, (base, tray), (weld, joint), _placed(entity), entity=entity.name)


def _moving_shape(part: Part, color: Vector, friction: float) -> Shape:
    if part.name in ("handle", "grip"):
        return shape_of(part, KNOB_GRIP_COLOR, GRIP_FRICTION)
    return shape_of(part, color, friction)
