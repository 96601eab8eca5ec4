"""The arm's own MJCF as links, joints and controller gains, every number read from the compiled MuJoCo model.

Two things have no place in SDF. Reflected inertia of the motors (``armature``) is left out, and the gains of the
arm are scaled by what then remains of each joint's inertia, so that every joint keeps its natural frequency and damping
ratio and explicit force control at 1 ms stays stable. The coupling of the two fingers is left out: each gets its half
of the gripper's force, without the velocity term, which would be unstable on 15 g at 1 ms (the joint's own
damping does that work).
"""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from coda_nodes.simulator.gazebo.bodies import Array, Gain, Joint, Link, Model, Placed, Shape
from coda_nodes.world.robots import RobotDescription

KINDS = {
    int(mujoco.mjtGeom.mjGEOM_BOX): "box",
    int(mujoco.mjtGeom.mjGEOM_CYLINDER): "cylinder",
    int(mujoco.mjtGeom.mjGEOM_CAPSULE): "capsule",
    int(mujoco.mjtGeom.mjGEOM_SPHERE): "sphere",
}
XYZW = [1, 2, 3, 0]


def arm_model(robot: RobotDescription, start: Sequence[float], opening: float, friction: float) -> Model:
    """The robot at arm joint positions ``start`` (J,) [rad] and gripper ``opening`` 0 to 1.

    ``friction`` is that of everything on it that collides, see ``scene.deferring_friction``.
    """
    model = mujoco.MjModel.from_xml_path(str(robot.model_path))
    data = mujoco.MjData(model)
    data.qpos[[model.joint(name).qposadr[0] for name in robot.joint_names]] = start
    data.qpos[[model.joint(name).qposadr[0] for name in robot.finger_joints]] = robot.gripper_command(np.array(opening))
    mujoco.mj_kinematics(model, data)
    owner = _owners(model)
    links = [_link(model, data, body, owner, friction) for body in range(1, model.nbody) if owner[body] == body]
    joints = [_joint(model, data, joint, owner, robot) for joint in range(model.njnt)]
    jointed = {joint.child for joint in joints}
    fixed = [_weld(model, body, owner) for body in range(1, model.nbody) if owner[body] == body]
    joints = [joint for joint in fixed if joint.child not in jointed] + joints
    return Model(robot.name, tuple(links), tuple(joints), gains=(*_arm_gains(model, robot), *_finger_gains(model, robot)))


def _owners(model: mujoco.MjModel) -> list[int]:
    """Body to whose link each body belongs: itself, or for one without mass the one that carries it."""
    owner = [0]
    for body in range(1, model.nbody):
        owner.append(body if model.body_mass[body] > 0 else owner[model.body_parentid[body]])
    return owner


def _link(model: mujoco.MjModel, data: mujoco.MjData, body: int, owner: list[int], friction: float) -> Link:
    turn = Rotation.from_quat(model.body_iquat[body][XYZW]).as_matrix()
    carried = [geom for geom in range(model.ngeom) if owner[model.geom_bodyid[geom]] == body]
    return Link(
        name=model.body(body).name,
        shapes=tuple(_shape(model, data, geom, body, friction) for geom in carried),
        pose=Placed(tuple(data.xpos[body]), tuple(data.xquat[body][XYZW])),
        mass=float(model.body_mass[body]),
        centre=tuple(model.body_ipos[body]),
        inertia=turn @ np.diag(model.body_inertia[body]) @ turn.T,
        gravity=not model.body_gravcomp[body],
    )


def _shape(model: mujoco.MjModel, data: mujoco.MjData, geom: int, body: int, friction: float) -> Shape:
    frame, kind = data.xmat[body].reshape(3, 3), KINDS[int(model.geom_type[geom])]
    turn = Rotation.from_matrix(frame.T @ data.geom_xmat[geom].reshape(3, 3))
    radius, half, _ = size = model.geom_size[geom]
    sizes = {"box": 2 * size, "sphere": (radius,), "cylinder": (radius, 2 * half), "capsule": (radius, 2 * half)}
    collides = bool(model.geom_contype[geom] | model.geom_conaffinity[geom])
    return Shape(
        name=model.geom(geom).name or f"outline{geom}",
        kind=kind,
        size=tuple(sizes[kind]),
        rgba=tuple(model.geom_rgba[geom]),
        friction=friction if collides else None,
        pose=Placed(tuple(frame.T @ (data.geom_xpos[geom] - data.xpos[body])), tuple(turn.as_quat(canonical=True))),
    )


def _joint(model: mujoco.MjModel, data: mujoco.MjData, joint: int, owner: list[int], robot: RobotDescription) -> Joint:
    body, name = int(model.jnt_bodyid[joint]), model.joint(joint).name
    lower, upper = model.jnt_range[joint]
    arm = list(robot.joint_names)
    return Joint(
        name=name,
        kind="prismatic" if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE else "revolute",
        parent=model.body(owner[model.body_parentid[body]]).name,
        child=model.body(body).name,
        axis=tuple(model.jnt_axis[joint]),
        lower=float(lower),
        upper=float(upper),
        start=float(data.qpos[model.jnt_qposadr[joint]]),
        damping=float(model.dof_damping[model.jnt_dofadr[joint]]),
        friction=float(model.dof_frictionloss[model.jnt_dofadr[joint]]),
        effort=_effort(model, joint),
        velocity=robot.velocity[arm.index(name)] if name in arm else None,
    )


def _weld(model: mujoco.MjModel, body: int, owner: list[int]) -> Joint:
    name, parent = model.body(body).name, owner[model.body_parentid[body]]
    return Joint(f"{name}_fixed", "fixed", "world" if parent == 0 else model.body(parent).name, name)


def _drives(model: mujoco.MjModel, joint: int) -> list[tuple[int, float]]:
    """Actuators that move a joint, each with its lever: 1, or the joint's coefficient in the tendon."""
    found = []
    for actuator in range(model.nu):
        target = int(model.actuator_trnid[actuator, 0])
        if model.actuator_trntype[actuator] == mujoco.mjtTrn.mjTRN_JOINT:
            found += [(actuator, 1.0)] if target == joint else []
        elif model.actuator_trntype[actuator] == mujoco.mjtTrn.mjTRN_TENDON:
            first, count = int(model.tendon_adr[target]), int(model.tendon_num[target])
            wraps = range(first, first + count)
            found += [(actuator, float(model.wrap_prm[w])) for w in wraps if model.wrap_objid[w] == joint]
    return found


def _effort(model: mujoco.MjModel, joint: int) -> float | None:
    drives = _drives(model, joint)
    return sum(lever * float(model.actuator_forcerange[number, 1]) for number, lever in drives) if drives else None


def _inertias(model: mujoco.MjModel, robot: RobotDescription) -> Array:
    """Inertia [kg m^2] or [kg] at each degree of freedom with the arm at home, without armature. Shape (nv,)."""
    data = mujoco.MjData(model)
    data.qpos[[model.joint(name).qposadr[0] for name in robot.joint_names]] = robot.home
    mujoco.mj_forward(model, data)
    full = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, full)
    return np.diag(full) - model.dof_armature


def _arm_gains(model: mujoco.MjModel, robot: RobotDescription) -> list[Gain]:
    inertias, gains = _inertias(model, robot), []
    for name, actuator_name in zip(robot.joint_names, robot.actuator_names, strict=True):
        dof, actuator = int(model.joint(name).dofadr[0]), int(model.actuator(actuator_name).id)
        share = inertias[dof] / (inertias[dof] + model.dof_armature[dof])
        stiffness, damping = model.actuator_gainprm[actuator, 0], -model.actuator_biasprm[actuator, 2]
        gains.append(Gain(name, share * stiffness, share * damping, float(model.actuator_forcerange[actuator, 1])))
    return gains


def _finger_gains(model: mujoco.MjModel, robot: RobotDescription) -> list[Gain]:
    gains = []
    for name in robot.finger_joints:
        ((actuator, lever),) = _drives(model, int(model.joint(name).id))
        stiffness, most = model.actuator_gainprm[actuator, 0], model.actuator_forcerange[actuator, 1]
        gains.append(Gain(name, lever * float(stiffness), 0.0, lever * float(most)))
    return gains
