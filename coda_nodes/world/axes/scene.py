"""Parameters of dynamics, appearance and start_pose."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from coda_nodes.world.axes.base import (
    Access,
    Value,
    changed,
    fixture,
    item,
    movables,
    number,
    register,
    whole_scene,
)
from coda_nodes.world.errors import SpecError
from coda_nodes.world.families.base import CAMERA_TARGET, HOME
from coda_nodes.world.spec import CameraSpec, EnvironmentSpec, LightSpec

LIGHT_SLANT = 0.4
"""Horizontal part of the light's direction against its vertical one."""


def fixtures_of(kind: str) -> Callable[[EnvironmentSpec], Sequence[str]]:
    """Names of the fixtures of a kind."""
    return lambda spec: tuple(entity.name for entity in spec.fixtures if entity.kind == kind)


def _pushed(spec: EnvironmentSpec) -> Sequence[str]:
    """Things to be pushed, which have a friction range of their own; pegs are not among them."""
    return tuple(e.name for e in spec.objects if e.role == "object" and not e.name.endswith(" peg"))


def _not_pushed(spec: EnvironmentSpec) -> Sequence[str]:
    return tuple(name for name in movables(spec) if name not in _pushed(spec))


def _object_number(attribute: str, things: Callable[[EnvironmentSpec], Sequence[str]] = movables) -> Access:
    return Access(
        things,
        lambda spec, name: float(getattr(item(spec, name), attribute)),
        lambda spec, name, value: changed(spec, name, **{attribute: number(value, attribute)}),
    )


def _fixture_number(kind: str, attribute: str) -> Access:
    return Access(
        fixtures_of(kind),
        lambda spec, name: float(getattr(fixture(spec, name), attribute)),
        lambda spec, name, value: changed(spec, name, **{attribute: number(value, attribute)}),
    )


def _set_damping(spec: EnvironmentSpec, _: str, value: Value) -> EnvironmentSpec:
    return spec.revise(
        physics=spec.physics.model_copy(update={"damping_scale": number(value, "damping_scale")})
    )


def _camera_polar(spec: EnvironmentSpec) -> tuple[CameraSpec, list[float]]:
    """The first camera and its distance [m], azimuth and elevation [rad] about the point it looks at."""
    camera = spec.cameras[0]
    x, y, z = (a - b for a, b in zip(camera.position, camera.look_at, strict=True))
    flat = math.hypot(x, y)
    return camera, [math.hypot(flat, z), math.atan2(y, x), math.atan2(z, flat)]


def _camera(index: int) -> Access:
    def get(spec: EnvironmentSpec, _: str) -> float | None:
        return (
            _camera_polar(spec)[1][index]
            if spec.cameras and spec.cameras[0].look_at == CAMERA_TARGET
            else None
        )

    def put(spec: EnvironmentSpec, _: str, value: Value) -> EnvironmentSpec:
        if not spec.cameras:
            raise SpecError("the scene has no camera to move")
        camera, polar = _camera_polar(spec)
        polar[index] = number(value, "camera")
        flat = polar[0] * math.cos(polar[2])
        offset = (flat * math.cos(polar[1]), flat * math.sin(polar[1]), polar[0] * math.sin(polar[2]))
        position = tuple(a + b for a, b in zip(camera.look_at, offset, strict=True))
        return spec.revise(cameras=(camera.model_copy(update={"position": position}), *spec.cameras[1:]))

    return Access(whole_scene, get, put)


def _light_azimuth(spec: EnvironmentSpec, _: str) -> float:
    x, y, _z = spec.light.direction
    return math.atan2(-y, -x)


def _set_light_azimuth(spec: EnvironmentSpec, _: str, value: Value) -> EnvironmentSpec:
    azimuth = number(value, "light_azimuth")
    direction = (-LIGHT_SLANT * math.cos(azimuth), -LIGHT_SLANT * math.sin(azimuth), -1.0)
    return spec.revise(light=LightSpec(direction=direction, intensity=spec.light.intensity))


def _set_light_intensity(spec: EnvironmentSpec, _: str, value: Value) -> EnvironmentSpec:
    return spec.revise(light=spec.light.model_copy(update={"intensity": number(value, "light_intensity")}))


def _offsets(spec: EnvironmentSpec) -> tuple[float, ...] | None:
    """Start joints from home [rad], None for an arm with another home."""
    joints = spec.robot_start.joint_positions
    return (
        tuple(float(q - home) for q, home in zip(joints, HOME, strict=True))
        if len(joints) == len(HOME)
        else None
    )


def _start_at(spec: EnvironmentSpec, offsets: Sequence[float]) -> EnvironmentSpec:
    joints = tuple(float(home + delta) for home, delta in zip(HOME, offsets, strict=True))
    return spec.revise(robot_start=spec.robot_start.model_copy(update={"joint_positions": joints}))


def _base_yaw(spec: EnvironmentSpec, _: str) -> float | None:
    offsets = _offsets(spec)
    return offsets[0] if offsets else None


def _set_base_yaw(spec: EnvironmentSpec, _: str, value: Value) -> EnvironmentSpec:
    return _start_at(spec, (number(value, "base_yaw"), *(_offsets(spec) or ())[1:]))


def _joint_offset(spec: EnvironmentSpec, _: str) -> tuple[float, ...] | None:
    offsets = _offsets(spec)
    return offsets[1:] if offsets else None


def _set_joint_offset(spec: EnvironmentSpec, _: str, value: Value) -> EnvironmentSpec:
    """All other joints' offsets, or one size for all of them, each keeping its sign."""
    now = (_offsets(spec) or (0.0,) * len(HOME))[1:]
    if not isinstance(value, tuple):
        size = abs(number(value, "joint_offset"))
        value = tuple(math.copysign(size, offset) for offset in now)
    if len(value) != len(now):
        raise SpecError(f"joint_offset {value!r}: expected {len(now)} numbers, one per joint after the first")
    return _start_at(spec, ((_offsets(spec) or (0.0,))[0], *value))


def _set_opening(spec: EnvironmentSpec, _: str, value: Value) -> EnvironmentSpec:
    start = spec.robot_start.model_copy(update={"gripper_opening": number(value, "gripper_opening")})
    return spec.revise(robot_start=start)


register("dynamics", "mass", _object_number("mass"))
register("dynamics", "friction", _object_number("friction"))
register("dynamics", "friction", _object_number("friction", _not_pushed), "push_insert")
register("dynamics", "push_friction", _object_number("friction", _pushed), "push_insert")
for _kind in ("drawer", "knob"):
    register("dynamics", f"{_kind}_damping", _fixture_number(_kind, "damping"))
    register("dynamics", f"{_kind}_friction", _fixture_number(_kind, "frictionloss"))
register(
    "dynamics", "damping_scale", Access(whole_scene, lambda spec, _: spec.physics.damping_scale, _set_damping)
)
for _index, _name in enumerate(("camera_distance", "camera_azimuth", "camera_elevation")):
    register("appearance", _name, _camera(_index))
register("appearance", "light_azimuth", Access(whole_scene, _light_azimuth, _set_light_azimuth))
register(
    "appearance",
    "light_intensity",
    Access(whole_scene, lambda spec, _: spec.light.intensity, _set_light_intensity),
)
register("start_pose", "base_yaw", Access(whole_scene, _base_yaw, _set_base_yaw))
register("start_pose", "joint_offset", Access(whole_scene, _joint_offset, _set_joint_offset))
register(
    "start_pose",
    "gripper_opening",
    Access(whole_scene, lambda spec, _: spec.robot_start.gripper_opening, _set_opening),
)
