"""One compiled MuJoCo model per family that holds every slot a specification may fill.

Simulations differ only in per-simulation model fields (pose, size, type, mass, friction, colour ...), so that
a reset writes a few arrays instead of compiling. Slots a specification leaves empty are parked far away,
asleep, without contacts and without gravity.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from coda_nodes.simulator.sensors import ContactSensors, add_sensors, addresses
from coda_nodes.world.action import CONTROL_PERIOD
from coda_nodes.world.errors import SimulationError, unknown
from coda_nodes.world.robots import RobotDescription

SUBSTEPS = 12
"""Physics steps per control step."""
TIMESTEP = CONTROL_PERIOD / SUBSTEPS
"""[s]"""
WORLD_BIT, MOVABLE_BIT, ROBOT_BIT = 1, 2, 4
MOVABLE_BITS = (WORLD_BIT | MOVABLE_BIT, MOVABLE_BIT | ROBOT_BIT)
"""contype and conaffinity of a movable object: meets the world, its like, and the robot."""
SOLREF, SOLIMP = (0.008, 1.0), (0.95, 0.995, 0.001, 0.5, 2.0)
TABLE_FRICTION = 0.2
"""Below every object's: MuJoCo takes the larger of two, so that the object's own friction acts."""
TORSION, ROLLING = 0.005, 0.0001
TRAY_MASS, KNOB_MASS = 0.4, 0.1
"""[kg]"""
PARKING = (3.0, 3.0, 1.0)
"""Where unused slots wait [m]."""


@dataclass(frozen=True)
class SlotCounts:
    """How many entities of each kind a family's model holds."""

    movable: int = 0
    bin: int = 0
    plate: int = 0
    slot: int = 0
    marker: int = 0
    drawer: int = 0
    knob: int = 0

    def kinds(self) -> tuple[str, ...]:
        """Kind of each slot, in slot order."""
        return tuple(kind for kind, count in vars(self).items() for _ in range(count))


FAMILY_SLOTS = {
    "pick_place": SlotCounts(movable=5, bin=2, plate=1),
    "stack": SlotCounts(movable=5, plate=1),
    "articulated": SlotCounts(movable=4, drawer=1, knob=1),
    "push_insert": SlotCounts(movable=5, marker=1, slot=1),
}
PART_COUNTS = {"movable": 1, "bin": 5, "plate": 1, "slot": 5, "marker": 1, "drawer": 5, "knob": 1}
"""Geometries of the body that stands still (of a movable, of its only body)."""
MOVING_PARTS = {"drawer": 7, "knob": 1}
"""Geometries of the body on the joint."""


@dataclass(frozen=True)
class Slot:
    """Indices of one slot in the compiled model; -1 where it has no such part."""

    kind: str
    body: int
    geoms: tuple[int, ...]
    moving_body: int = -1
    moving_geoms: tuple[int, ...] = ()
    joint: int = -1
    qpos: int = -1
    """First position coordinate."""
    dof: int = -1
    tree: int = -1
    grip_geom: int = -1
    """Geometry whose centre is the entity's position, for a fixture."""


@dataclass(frozen=True)
class SceneModel:
    """The compiled model of a family and where its parts are."""

    family: str
    robot: RobotDescription
    model: mujoco.MjModel
    slots: tuple[Slot, ...]
    sensors: ContactSensors
    arm_qpos: np.ndarray
    finger_qpos: np.ndarray
    arm_ctrl: np.ndarray
    gripper_ctrl: int
    tool_site: int
    velocity_gain: np.ndarray
    """Time by which a set point leads for its velocity to be fed forward: damping over stiffness [s]. Shape
    (J,)."""


def build_scene(family: str, robot: RobotDescription) -> SceneModel:
    """Compile the model of a family. Raises SimulationError for an unknown family."""
    if family not in FAMILY_SLOTS:
        raise SimulationError(unknown("family", family, FAMILY_SLOTS))
    spec = mujoco.MjSpec.from_file(str(robot.model_path))
    _options(spec)
    _surroundings(spec)
    _lighting(spec)
    names = []
    for number, kind in enumerate(FAMILY_SLOTS[family].kinds()):
        name = f"{kind}{number}"
        _add_slot(spec, kind, name, number)
        names.append((kind, name))
    table = add_sensors(spec, robot, names)
    model = spec.compile()
    slots = tuple(_index(model, kind, name) for kind, name in names)
    for slot in slots:
        _park(model, slot)
    arm = np.array([model.actuator(name).id for name in robot.actuator_names])
    return SceneModel(
        family=family,
        robot=robot,
        model=model,
        slots=slots,
        sensors=addresses(table, len(slots)),
        arm_qpos=np.array([model.joint(name).qposadr[0] for name in robot.joint_names]),
        finger_qpos=np.array([model.joint(name).qposadr[0] for name in robot.finger_joints]),
        arm_ctrl=arm,
        velocity_gain=-model.actuator_biasprm[arm, 2] / model.actuator_gainprm[arm, 0],
        gripper_ctrl=int(model.actuator(robot.gripper_actuator).id),
        tool_site=int(model.site(robot.tool_site).id),
    )


def _options(spec: mujoco.MjSpec) -> None:
    option = spec.option
    option.timestep = TIMESTEP
    option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    option.impratio = 10
    option.enableflags |= int(mujoco.mjtEnableBit.mjENBL_SLEEP)
    # a diverged simulation must stay diverged, to be seen and marked invalid
    option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    spec.memory = 4 * 2**20


def _surroundings(spec: mujoco.MjSpec) -> None:
    world = spec.worldbody
    surface = {
        "contype": 0,
        "conaffinity": WORLD_BIT,
        "friction": [TABLE_FRICTION, TORSION, ROLLING],
        "solref": SOLREF,
        "solimp": SOLIMP,
        "condim": 3,
    }
    world.add_geom(
        name="table",
        type=mujoco.mjtGeom.mjGEOM_BOX,
        size=[0.65, 0.75, 0.02],
        pos=[0.45, 0, -0.02],
        rgba=[0.76, 0.70, 0.62, 1],
        **surface,
    )
    world.add_geom(
        name="floor",
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        size=[4, 4, 0.1],
        pos=[0, 0, -0.75],
        rgba=[0.45, 0.47, 0.5, 1],
        **surface,
    )


def _lighting(spec: mujoco.MjSpec) -> None:
    spec.add_texture(
        name="sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.62, 0.65, 0.70],
        rgb2=[0.42, 0.44, 0.48],
        width=32,
        height=192,
    )
    spec.worldbody.add_light(
        name="light",
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
        pos=[0.4, 0, 2],
        dir=[0, 0, -1],
        castshadow=False,
    )


def _geom(body: mujoco.MjsBody, name: str, bits: tuple[int, int] = (0, WORLD_BIT), **extra: object) -> None:
    # off-centre in the compiled model, so that the compiler does not fuse the frames of body and geometry
    settings = {"pos": [0.001, 0.002, 0.003], **extra}
    body.add_geom(
        name=name,
        type=mujoco.mjtGeom.mjGEOM_BOX,
        size=[0.02, 0.02, 0.02],
        contype=bits[0],
        conaffinity=bits[1],
        friction=[TABLE_FRICTION, TORSION, ROLLING],
        solref=SOLREF,
        solimp=SOLIMP,
        condim=3,
        mass=0,
        **settings,
    )


def _add_slot(spec: mujoco.MjSpec, kind: str, name: str, number: int) -> None:
    spot = [PARKING[0] + 0.5 * number, PARKING[1], PARKING[2]]
    body = spec.worldbody.add_body(name=name, pos=spot)
    if kind == "movable":
        _inertia(body, 0.1)
        body.sleep = mujoco.mjtSleepPolicy.mjSLEEP_ALLOWED
        body.add_freejoint(name=f"{name}_joint")
        _geom(body, f"{name}_0", MOVABLE_BITS, pos=[0, 0, 0])
        return
    for part in range(PART_COUNTS[kind]):
        _geom(body, f"{name}_{part}", (0, 0) if kind == "marker" else (0, WORLD_BIT))
    if kind in MOVING_PARTS:
        _add_moving(body, kind, name)


def _add_moving(body: mujoco.MjsBody, kind: str, name: str) -> None:
    moving = body.add_body(name=f"{name}_moving", gravcomp=1)
    _inertia(moving, TRAY_MASS if kind == "drawer" else KNOB_MASS)
    moving.sleep = mujoco.mjtSleepPolicy.mjSLEEP_ALLOWED
    slide = kind == "drawer"
    moving.add_joint(
        name=f"{name}_joint",
        type=mujoco.mjtJoint.mjJNT_SLIDE if slide else mujoco.mjtJoint.mjJNT_HINGE,
        axis=[-1, 0, 0] if slide else [0, 0, 1],
        limited=True,
        range=[0, 1],
        damping=1,
        frictionloss=0.1,
        armature=0.0 if slide else 1e-3,
    )
    for part in range(MOVING_PARTS[kind]):
        _geom(moving, f"{name}_moving_{part}")


def _inertia(body: mujoco.MjsBody, mass: float) -> None:
    body.mass, body.ipos, body.explicitinertial = mass, [0, 0, 0], True
    body.inertia = [mass * 0.001] * 3


def _index(model: mujoco.MjModel, kind: str, name: str) -> Slot:
    geoms = tuple(int(model.geom(f"{name}_{part}").id) for part in range(PART_COUNTS[kind]))
    body = int(model.body(name).id)
    if kind != "movable" and kind not in MOVING_PARTS:
        return Slot(kind, body, geoms)
    joint = model.joint(f"{name}_joint")
    moving = body if kind == "movable" else int(model.body(f"{name}_moving").id)
    moving_geoms = (
        ()
        if kind == "movable"
        else tuple(int(model.geom(f"{name}_moving_{p}").id) for p in range(MOVING_PARTS[kind]))
    )
    return Slot(
        kind,
        body,
        geoms,
        moving,
        moving_geoms,
        int(joint.id),
        int(joint.qposadr[0]),
        int(joint.dofadr[0]),
        int(model.body_treeid[moving]),
        moving_geoms[-1] if moving_geoms else -1,
    )


def _park(model: mujoco.MjModel, slot: Slot) -> None:
    """Make an empty slot inert: no contacts, no weight, invisible, asleep."""
    geoms, bodies = list(slot.geoms + slot.moving_geoms), [slot.body, max(slot.moving_body, slot.body)]
    model.geom_contype[geoms] = model.geom_conaffinity[geoms] = 0
    model.body_contype[bodies] = model.body_conaffinity[bodies] = 0
    model.geom_rgba[geoms, 3] = 0.0
    model.body_gravcomp[bodies] = 1.0
    if slot.tree >= 0:
        model.tree_sleep_policy[slot.tree] = mujoco.mjtSleepPolicy.mjSLEEP_INIT
