"""A world of SDF models in drake: what stands in for Gazebo's physics where no Gazebo is installed.

Drake parses the same SDF with the same libsdformat, but ignores plugins, per-link gravity, self-collision settings
and joint friction. This module reads those out of the SDF itself and gives them to drake, so that what the file
says holds. Contacts are hydroelastic (compliant) and solved with friction as the harmonic mean of two (Gazebo's DART: the
smaller of two).
"""

from __future__ import annotations

import logging
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pydrake.geometry import CollisionFilterDeclaration, GeometrySet, SceneGraphConfig
from pydrake.math import RigidTransform
from pydrake.multibody.math import SpatialVelocity
from pydrake.multibody.parsing import Parser
from pydrake.multibody.plant import AddMultibodyPlant, MultibodyPlantConfig
from pydrake.multibody.tree import ModelInstanceIndex, PdControllerGains
from pydrake.systems.analysis import Simulator
from pydrake.systems.framework import DiagramBuilder

logging.getLogger("drake").setLevel(logging.ERROR)
SLOW = 1e-3
"""Speed [m/s, rad/s] from which dry friction is fully there."""


@dataclass(frozen=True)
class ContactConfig:
    """Drake's contact: compliant hydroelastic pressure fields."""

    modulus: float = 1e7
    """[Pa]"""
    resolution: float = 0.01
    """Size of mesh elements of round shapes [m]."""
    dissipation: float = 10.0
    """Hunt and Crossley [s/m]."""
    approximation: str = "lagged"
    model: str = "hydroelastic_with_fallback"


@dataclass
class Trajectory:
    """What a joint trajectory controller follows: point k is the target until its time, the last one for ever."""

    joints: tuple[str, ...]
    ends: np.ndarray
    """Physics steps after the start at which points end. Shape (T,)."""
    positions: np.ndarray
    velocities: np.ndarray
    start: int | None = None
    """Physics step at which it began; it begins with the next step after it arrives."""
    point: int = -1

    def update(self, now: int) -> bool:
        """Choose the point of physics step ``now``; whether it is another than before."""
        self.start = now if self.start is None else self.start
        point = min(int(np.searchsorted(self.ends, now - self.start, side="right")), len(self.ends) - 1)
        changed, self.point = point != self.point, point
        return changed

    def left(self, now: int) -> int:
        """Physics steps until the next point; many at the last."""
        return int(self.ends[self.point]) - (now - self.start) if self.point + 1 < len(self.ends) else 1 << 30


@dataclass
class Entity:
    """A model of the world, and where it was when last looked at."""

    sdf: str
    pose: RigidTransform | None = None
    """None: where the SDF puts it."""
    velocity: np.ndarray = field(default_factory=lambda: np.zeros(6))
    joints: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Position and velocity of each joint."""
    targets: dict[str, tuple[float, float]] = field(default_factory=dict)
    """What the controller was last told, position and velocity."""
    trajectory: Trajectory | None = None

    @property
    def element(self) -> ElementTree.Element:
        """The model element."""
        found = ElementTree.fromstring(self.sdf)
        return found if found.tag == "model" else found.find("model")


class DrakeWorld:
    """Models that can be added, removed, posed and stepped. Built anew lazily, because a plant cannot change."""

    def __init__(self, world_sdf: str, contact: ContactConfig | None = None) -> None:
        world = ElementTree.fromstring(world_sdf).find("world")
        self.contact = contact or ContactConfig()
        self.step = float(world.findtext("physics/max_step_size"))
        self.gravity = np.array([float(part) for part in world.findtext("gravity").split()])
        self.steps = 0
        """Physics steps since the start."""
        self.entities: dict[str, Entity] = {}
        self._built: _Built | None = None
        for model in world.findall("model"):
            text = f'<sdf version="1.9">{ElementTree.tostring(model, encoding="unicode")}</sdf>'
            self.spawn(model.get("name"), text)

    def spawn(self, name: str, sdf: str) -> None:
        """Add a model."""
        self._forget()
        self.entities[name] = Entity(sdf)

    def delete(self, name: str) -> None:
        """Remove a model."""
        self._forget()
        del self.entities[name]

    def pose(self, name: str) -> RigidTransform:
        """Where a model is."""
        return self._now.pose(name)

    def velocity(self, name: str) -> np.ndarray:
        """Angular, then linear velocity of a model, 0 where it stands still. Shape (6,)."""
        return self._now.velocity(name)

    def place(self, name: str, pose: RigidTransform, velocity: np.ndarray | None = None) -> None:
        """Pose a model."""
        self._forget()
        entity = self.entities[name]
        entity.pose, entity.velocity = pose, np.zeros(6) if velocity is None else velocity

    def joints(self, name: str) -> dict[str, tuple[float, float]]:
        """Position and velocity of the joints of a model."""
        return self._now.joints(name)

    def follow(self, name: str, trajectory: Trajectory) -> None:
        """Give the controller of a model a trajectory, in place of what it followed."""
        self.entities[name].trajectory = trajectory

    @property
    def time(self) -> float:
        """Simulated time [s]."""
        return self.steps * self.step

    def advance(self, steps: int) -> list[str]:
        """Simulate some physics steps; return the models whose controller went on to another point."""
        end, moved = self.steps + steps, []
        while self.steps < end:
            part = end - self.steps
            for name, entity in self.entities.items():
                if entity.trajectory is not None:
                    if entity.trajectory.update(self.steps):
                        self._aim(name, entity)
                        moved.append(name)
                    part = min(part, entity.trajectory.left(self.steps))
            self._now.advance(part)
            self.steps += part
        return moved

    def _aim(self, name: str, entity: Entity) -> None:
        along, k = entity.trajectory, entity.trajectory.point
        for column, joint in enumerate(along.joints):
            entity.targets[joint] = (along.positions[k, column], along.velocities[k, column])
        self._now.aim(name)

    @property
    def plant(self):
        """The drake plant and its context, for looking at."""
        return self._now.plant, self._now.context

    @property
    def _now(self) -> _Built:
        if self._built is None:
            self._built = _Built(self)
        return self._built

    def _forget(self) -> None:
        """Keep what the models do now and drop the plant."""
        if self._built is not None:
            self._built.remember()
            self._built = None


class _Built:
    """A finalized plant of the models as they are now."""

    def __init__(self, world: DrakeWorld) -> None:
        self._world = world
        builder = DiagramBuilder()
        self.plant, scene_graph = _empty_plant(world, builder)
        self._instances: dict[str, ModelInstanceIndex] = {}
        for name, entity in world.entities.items():
            (self._instances[name],) = Parser(self.plant, name).AddModelsFromString(entity.sdf, "sdf")
            self._use(self._instances[name], entity.element)
        self.plant.Finalize()
        _let_no_model_meet_itself(self.plant, scene_graph, list(self._instances.values()))
        self._diagram = builder.Build()
        self._simulator = Simulator(self._diagram)
        self.context = self.plant.GetMyMutableContextFromRoot(self._simulator.get_mutable_context())
        self._restore()
        self._simulator.Initialize()

    def _use(self, instance: ModelInstanceIndex, element: ElementTree.Element) -> None:
        """What drake's parser leaves out: gravity, controllers and dry friction of a model."""
        if any(link.findtext("gravity") == "false" for link in element.findall("link")):
            self.plant.set_gravity_enabled(instance, False)
        gains = controller_gains(element)
        for index in self.plant.GetJointActuatorIndices():  # those of one instance are known only once it is finalized
            actuator = self.plant.get_mutable_joint_actuator(index)
            joint = actuator.joint().name()
            if actuator.model_instance() != instance:
                continue
            if joint in gains:
                actuator.set_controller_gains(PdControllerGains(p=gains[joint][0], d=gains[joint][1]))
            else:
                dry = float(element.findtext(f"joint[@name='{joint}']/axis/dynamics/friction", "0"))
                actuator.set_effort_limit(max(dry, 1e-9))
                actuator.set_controller_gains(PdControllerGains(p=0.0, d=max(dry, 1e-9) / SLOW))

    def _restore(self) -> None:
        for name, instance in self._instances.items():
            entity, body = self._world.entities[name], self._base(name)
            if body.is_floating_base_body():
                if entity.pose is not None:
                    self.plant.SetFreeBodyPose(self.context, body, entity.pose)
                speed = SpatialVelocity(entity.velocity[:3], entity.velocity[3:])
                self.plant.SetFreeBodySpatialVelocity(self.context, body, speed)
            positions, velocities = self._values()
            for joint in self._moving(instance):
                position, velocity = entity.joints.get(joint.name(), (0.0, 0.0))
                positions[joint.position_start()] = position
                velocities[joint.velocity_start()] = velocity
            self.plant.SetPositions(self.context, positions)
            self.plant.SetVelocities(self.context, velocities)
            self.aim(name)

    def remember(self) -> None:
        """Store where everything is in the entities."""
        for name, entity in self._world.entities.items():
            if self._base(name).is_floating_base_body():
                entity.pose, entity.velocity = self.pose(name), self.velocity(name)
            entity.joints = self.joints(name)

    def _base(self, name: str) -> Any:
        return self.plant.get_body(self.plant.GetBodyIndices(self._instances[name])[0])

    def _moving(self, instance: ModelInstanceIndex) -> list[Any]:
        joints = [self.plant.get_joint(index) for index in self.plant.GetJointIndices(instance)]
        return [joint for joint in joints if joint.num_velocities() == 1]

    def pose(self, name: str) -> RigidTransform:
        return self.plant.EvalBodyPoseInWorld(self.context, self._base(name))

    def velocity(self, name: str) -> np.ndarray:
        speed = self.plant.EvalBodySpatialVelocityInWorld(self.context, self._base(name))
        return np.concatenate([speed.rotational(), speed.translational()])

    def joints(self, name: str) -> dict[str, tuple[float, float]]:
        positions, velocities = self._values()
        return {
            joint.name(): (float(positions[joint.position_start()]), float(velocities[joint.velocity_start()]))
            for joint in self._moving(self._instances[name])
        }

    def _values(self) -> tuple[np.ndarray, np.ndarray]:
        positions, velocities = self.plant.GetPositions(self.context), self.plant.GetVelocities(self.context)
        return positions.copy(), velocities.copy()

    def aim(self, name: str) -> None:
        """Hand what the controllers of a model follow to drake."""
        instance, targets = self._instances[name], self._world.entities[name].targets
        indices = self.plant.GetJointActuatorIndices(instance)
        if indices:
            names = [self.plant.get_joint_actuator(index).joint().name() for index in indices]
            aims = np.array([targets.get(joint, (0.0, 0.0)) for joint in names]).T.ravel()
            self.plant.get_desired_state_input_port(instance).FixValue(self.context, aims)

    def advance(self, steps: int) -> None:
        self._simulator.AdvanceTo(self._simulator.get_context().get_time() + steps * self._world.step)


def controller_gains(element: ElementTree.Element) -> dict[str, tuple[float, float]]:
    """Position and velocity gain of each joint that a joint trajectory controller drives."""
    for plugin in element.findall("plugin"):
        if plugin.get("name", "").endswith("JointTrajectoryController"):
            tags = ("joint_name", "position_p_gain", "velocity_p_gain")
            columns = [[found.text or "" for found in plugin.findall(tag)] for tag in tags]
            return {joint: (float(p), float(d)) for joint, p, d in zip(*columns, strict=True)}
    return {}


def _empty_plant(world: DrakeWorld, builder: DiagramBuilder) -> tuple[Any, Any]:
    contact = world.contact
    config = MultibodyPlantConfig(
        time_step=world.step, contact_model=contact.model, discrete_contact_approximation=contact.approximation
    )
    plant, scene_graph = AddMultibodyPlant(config, builder)
    settings = SceneGraphConfig()
    defaults = settings.default_proximity_properties
    defaults.compliance_type = "compliant"
    defaults.hydroelastic_modulus, defaults.slab_thickness = contact.modulus, 0.1
    defaults.resolution_hint = contact.resolution
    defaults.hunt_crossley_dissipation = contact.dissipation
    scene_graph.set_config(settings)
    plant.mutable_gravity_field().set_gravity_vector(world.gravity)
    return plant, scene_graph


def _let_no_model_meet_itself(plant: Any, scene_graph: Any, instances: list[ModelInstanceIndex]) -> None:
    for instance in instances:
        frames = [plant.GetBodyFrameIdOrThrow(index) for index in plant.GetBodyIndices(instance)]
        apart = CollisionFilterDeclaration().ExcludeWithin(GeometrySet(frames))
        scene_graph.collision_filter_manager().Apply(apart)
