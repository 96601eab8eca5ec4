"""Whole SDF worlds: systems, physics step, light, surroundings, and a scene with its cameras."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from coda_nodes.simulator.gazebo.bodies import Placed
from coda_nodes.simulator.gazebo.plugins import check_release
from coda_nodes.simulator.gazebo.scene import GRIP_FRICTION, camera_name, deferring_friction, models, surroundings
from coda_nodes.simulator.gazebo.sdf import WORLD, Element, add, add_plugin, add_pose, document, model_element
from coda_nodes.world.action import CHUNK_STEPS, CONTROL_PERIOD
from coda_nodes.world.config import check_settings, setting
from coda_nodes.world.spec import CameraSpec, EnvironmentSpec, LightSpec

FLOATING = 1e-9
GRAVITY = 9.81
"""Of a world into which scenes are spawned [m/s^2]."""


@dataclass(frozen=True)
class WorldConfig:
    """What a specification does not say about a Gazebo world."""

    release: str = setting("harmonic", "Gazebo release whose plugin names are used", choices=("harmonic", "fortress"))
    physics_step: float = setting(0.001, "physics step", "s", low=0.0001, high=0.005)
    image_width: int = setting(160, "width of camera images", "px", low=16, high=4096)
    image_height: int = setting(120, "height of camera images", "px", low=16, high=4096)

    def __post_init__(self) -> None:
        check_release(self.release)
        check_settings(self)

    @property
    def steps_per_control(self) -> int:
        """Physics steps in one control step."""
        return round(CONTROL_PERIOD / self.physics_step)


def export_world(spec: EnvironmentSpec, config: WorldConfig | None = None) -> str:
    """A world file with everything in it. Raises ConfigError and SpecError, see ``scene.models``."""
    config = config or WorldConfig()
    world = _world(config, spec.physics.gravity, spec.light)
    for model in surroundings(deferring_friction(spec)):
        world.append(model_element(model, config.release))
    for model in models(spec):
        world.append(model_element(model, config.release))
    for camera in spec.cameras:
        world.append(_camera(camera, config))
    note = f" specification {spec.content_hash}; every joint counts from its value at the start, see docs/gazebo.md "
    world.insert(0, ElementTree.Comment(note))
    return document([world])


def empty_world(config: WorldConfig | None = None) -> str:
    """A world with table and floor, into which scenes are spawned."""
    config = config or WorldConfig()
    world = _world(config, GRAVITY, LightSpec())
    for model in surroundings(GRIP_FRICTION):
        world.append(model_element(model, config.release))
    return document([world])


def scene_documents(spec: EnvironmentSpec, config: WorldConfig | None = None) -> dict[str, str]:
    """One SDF file per model of a scene, table and cameras included, by name: what is spawned at a reset."""
    config = config or WorldConfig()
    table, _ = surroundings(deferring_friction(spec))
    made = {model.name: document([model_element(model, config.release)]) for model in (table, *models(spec))}
    return made | {camera_name(camera.name): document([_camera(camera, config)]) for camera in spec.cameras}


def _world(config: WorldConfig, gravity: float, light: LightSpec) -> Element:
    world = ElementTree.Element("world", name=WORLD)
    add(world, "gravity", f"0 0 {-gravity:.10g}")
    physics = add(world, "physics", name="step", type="ode")
    add(physics, "max_step_size", config.physics_step)
    add(physics, "real_time_factor", 0.0)
    for name in ("physics", "user-commands", "scene-broadcaster"):
        add_plugin(world, name, config.release)
    add(add_plugin(world, "sensors", config.release), "render_engine", "ogre2")
    _light(world, light)
    return world


def _light(world: Element, spec: LightSpec) -> None:
    light = add(world, "light", name="light", type="directional")
    add(light, "cast_shadows", False)
    add(light, "diffuse", " ".join([f"{spec.intensity:.10g}"] * 3 + ["1"]))
    direction = np.array(spec.direction, dtype=float)
    direction /= max(float(np.linalg.norm(direction)), FLOATING)
    add(light, "direction", " ".join(f"{part:.10g}" for part in direction))


def camera_pose(camera: CameraSpec) -> Placed:
    """Pose of an SDF camera: x along the view, z up."""
    forward = np.array(camera.look_at) - np.array(camera.position)
    forward /= max(float(np.linalg.norm(forward)), FLOATING)
    left = np.cross([0.0, 0.0, 1.0], forward)
    left = left / np.linalg.norm(left) if np.linalg.norm(left) > 1e-6 else np.array([0.0, 1.0, 0.0])
    turn = Rotation.from_matrix(np.stack([forward, left, np.cross(forward, left)], axis=1))
    return Placed(camera.position, tuple(turn.as_quat(canonical=True)))


def horizontal_view(camera: CameraSpec, width: int, height: int) -> float:
    """Horizontal field of view [rad] of a camera whose vertical one is given."""
    return 2 * math.atan(math.tan(math.radians(camera.fov_y) / 2) * width / height)


def camera_topic(name: str) -> str:
    """Topic of the images of a camera, as the MuJoCo simulator names it."""
    return f"/camera/{name}/image_raw"


def _camera(camera: CameraSpec, config: WorldConfig) -> Element:
    model = ElementTree.Element("model", name=camera_name(camera.name))
    add(model, "static", True)
    add_pose(model, camera_pose(camera))
    sensor = add(add(model, "link", name="body"), "sensor", name="camera", type="camera")
    add(sensor, "topic", camera_topic(camera.name))
    add(sensor, "update_rate", 1.0 / (CHUNK_STEPS * CONTROL_PERIOD))
    lens = add(sensor, "camera")
    add(lens, "horizontal_fov", horizontal_view(camera, config.image_width, config.image_height))
    image = add(lens, "image")
    add(image, "width", config.image_width)
    add(image, "height", config.image_height)
    add(image, "format", "R8G8B8")
    clip = add(lens, "clip")
    add(clip, "near", 0.02)
    add(clip, "far", 10.0)
    return model
