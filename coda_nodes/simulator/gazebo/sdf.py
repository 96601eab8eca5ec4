"""Models as SDF 1.9 elements: the newest format that Fortress, Harmonic and Debian's parser all read."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable

import numpy as np

from coda_nodes.simulator.gazebo.bodies import Joint, Link, Model, Placed, Shape
from coda_nodes.simulator.gazebo.plugins import system

VERSION = "1.9"
WORLD = "coda"
"""Name of every world: topics and services carry it."""
Element = ElementTree.Element


def numbers(values: Iterable[float]) -> str:
    """Numbers as text that reads back within 1e-9 and is the same on every machine."""
    return " ".join(f"{0.0 if abs(value) < 1e-12 else value:.10g}" for value in values)


def add(parent: Element, tag: str, text: str | float | bool | None = None, **attributes: str) -> Element:
    """Append a child element."""
    child = ElementTree.SubElement(parent, tag, attributes)
    if isinstance(text, bool):
        child.text = "true" if text else "false"
    elif isinstance(text, (int, float)):
        child.text = numbers((text,))
    elif text is not None:
        child.text = text
    return child


def add_pose(parent: Element, pose: Placed) -> None:
    """Append a pose, unless it is the origin."""
    if pose != Placed():
        text = numbers((*pose.position, *pose.quaternion_xyzw))
        add(parent, "pose", text, rotation_format="quat_xyzw")


def add_plugin(parent: Element, name: str, release: str) -> Element:
    """Append a system plugin."""
    file, kind = system(name, release)
    return add(parent, "plugin", filename=file, name=kind)


def document(content: Iterable[Element]) -> str:
    """A whole SDF file."""
    root = ElementTree.Element("sdf", version=VERSION)
    root.extend(content)
    ElementTree.indent(root)
    return '<?xml version="1.0"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def model_element(model: Model, release: str) -> Element:
    """A model with its links, joints, state publisher and controllers."""
    element = ElementTree.Element("model", name=model.name)
    add(element, "static", model.static)
    add(element, "self_collide", False)
    add_pose(element, model.pose)
    for link in model.links:
        _link(element, link)
    for joint in model.joints:
        _joint(element, joint)
    if any(joint.kind != "fixed" for joint in model.joints):
        _state_publisher(element, model, release)
    if model.gains:
        _controller(element, model, release)
    return element


def _link(parent: Element, link: Link) -> None:
    element = add(parent, "link", name=link.name)
    add_pose(element, link.pose)
    if not link.gravity:
        add(element, "gravity", False)
    if link.mass:
        inertial = add(element, "inertial")
        add_pose(inertial, Placed(link.centre))
        add(inertial, "mass", link.mass)
        moments = add(inertial, "inertia")
        for tag, (i, j) in {"ixx": (0, 0), "ixy": (0, 1), "ixz": (0, 2), "iyy": (1, 1), "iyz": (1, 2), "izz": (2, 2)}.items():
            add(moments, tag, float(np.asarray(link.inertia)[i, j]))
    for shape in link.shapes:
        _visual(element, shape)
        if shape.friction is not None:
            _collision(element, shape, shape.friction)


def _visual(parent: Element, shape: Shape) -> None:
    element = add(parent, "visual", name=f"{shape.name}_visual")
    add_pose(element, shape.pose)
    _geometry(element, shape)
    material = add(element, "material")
    for tag in ("ambient", "diffuse"):
        add(material, tag, numbers(shape.rgba))


def _collision(parent: Element, shape: Shape, friction: float) -> None:
    element = add(parent, "collision", name=f"{shape.name}_collision")
    add_pose(element, shape.pose)
    _geometry(element, shape)
    ode = add(add(add(element, "surface"), "friction"), "ode")
    add(ode, "mu", friction)
    add(ode, "mu2", friction)


def _geometry(parent: Element, shape: Shape) -> None:
    element = add(add(parent, "geometry"), shape.kind)
    if shape.kind == "box":
        add(element, "size", numbers(shape.size))
    else:
        add(element, "radius", shape.size[0])
        if shape.kind != "sphere":
            add(element, "length", shape.size[1])


def _joint(parent: Element, joint: Joint) -> None:
    element = add(parent, "joint", name=joint.name, type=joint.kind)
    add(element, "parent", joint.parent)
    add(element, "child", joint.child)
    if joint.kind == "fixed":
        return
    axis = add(element, "axis")
    add(axis, "xyz", numbers(joint.axis))
    limit = add(axis, "limit")
    add(limit, "lower", joint.lower - joint.start)
    add(limit, "upper", joint.upper - joint.start)
    if joint.effort is not None:
        add(limit, "effort", joint.effort)
    if joint.velocity is not None:
        add(limit, "velocity", joint.velocity)
    dynamics = add(axis, "dynamics")
    add(dynamics, "damping", joint.damping)
    add(dynamics, "friction", joint.friction)


def joint_state_topic(model: str) -> str:
    """Topic on which the joints of a model are published."""
    return f"/world/{WORLD}/model/{model}/joint_state"


FIXTURES_TOPIC = f"/world/{WORLD}/fixtures/joint_state"
"""Topic that all fixtures share, so that a bridge need not know their names."""


def trajectory_topic(model: str) -> str:
    """Topic on which a model takes joint trajectories."""
    return f"/model/{model}/joint_trajectory"


def _state_publisher(parent: Element, model: Model, release: str) -> None:
    plugin = add_plugin(parent, "joint-state-publisher", release)
    add(plugin, "topic", joint_state_topic(model.name) if model.gains else FIXTURES_TOPIC)
    for joint in model.joints:
        if joint.kind != "fixed":
            add(plugin, "joint_name", joint.name)


def _controller(parent: Element, model: Model, release: str) -> None:
    plugin = add_plugin(parent, "joint-trajectory-controller", release)
    add(plugin, "topic", trajectory_topic(model.name))
    for gain in model.gains:
        add(plugin, "joint_name", gain.joint)
        add(plugin, "position_p_gain", gain.position)
        add(plugin, "position_cmd_min", -gain.most)
        add(plugin, "position_cmd_max", gain.most)
        add(plugin, "velocity_p_gain", gain.velocity)
        add(plugin, "velocity_cmd_min", -gain.most)
        add(plugin, "velocity_cmd_max", gain.most)
