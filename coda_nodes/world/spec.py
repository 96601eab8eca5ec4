"""Environment specification: plain, versioned JSON data that alone defines a scene.

The world frame is the robot base frame: origin at the base of the arm on the table top, x forward, y left,
z up, table top at z = 0. Positions are [m], quaternions xyzw, masses [kg].
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from coda_nodes.world.artifacts import write_atomic
from coda_nodes.world.errors import SpecError, unknown

SCHEMA_VERSION = 1
FAMILIES = ("pick_place", "stack", "articulated", "push_insert")

Family = Literal["pick_place", "stack", "articulated", "push_insert"]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Vector3 = tuple[Finite, Finite, Finite]
Extents = tuple[Positive, Positive, Positive]
Quaternion = tuple[Finite, Finite, Finite, Finite]
Rgba = tuple[Finite, Finite, Finite, Finite]
Name = Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[a-z0-9][a-z0-9 _-]*$")]


class Data(BaseModel):
    """Immutable data that rejects unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Pose(Data):
    """Pose in the world frame: position [m], unit quaternion xyzw."""

    position: Vector3
    quaternion_xyzw: Quaternion = (0.0, 0.0, 0.0, 1.0)

    @field_validator("quaternion_xyzw")
    @classmethod
    def _unit(cls, value: Quaternion) -> Quaternion:
        norm = math.sqrt(sum(part * part for part in value))
        if abs(norm - 1.0) > 1e-3:
            raise ValueError(f"quaternion norm {norm:.4f}, expected 1")
        return tuple(part / norm for part in value)  # type: ignore[return-value]

    @property
    def yaw(self) -> float:
        """Rotation about z [rad] of a pose that only yaws."""
        x, y, z, w = self.quaternion_xyzw
        return math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))

    @staticmethod
    def planar(x: float, y: float, z: float, yaw: float = 0.0) -> Pose:
        """Pose at (x, y, z) [m] turned by ``yaw`` [rad] about z."""
        return Pose(position=(x, y, z), quaternion_xyzw=(0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2)))


class ObjectSpec(Data):
    """A rigid thing on the table.

    ``role``: ``object`` and ``distractor`` move freely; ``receptacle`` (bin, tray, plate, slot block) stands still;
    ``marker`` is a painted goal region without collision. ``half_extents`` [m] along the object's own axes; for a
    cylinder (radius, radius, half height); for a receptacle its outer half extents.
    """

    name: Name
    shape: Literal["box", "cylinder", "bin", "plate", "slot", "marker"]
    role: Literal["object", "distractor", "receptacle", "marker"]
    half_extents: Extents
    color: Name
    mass: Positive = 0.1
    friction: Positive = 1.0
    pose: Pose


class FixtureSpec(Data):
    """An articulated fixture; ``joint_value`` is [m] for a drawer (0 closed), [rad] for a knob (0 off)."""

    name: Name
    kind: Literal["drawer", "knob"]
    pose: Pose
    color: Name = "gray"
    half_extents: Extents
    joint_value: Finite = 0.0
    joint_range: tuple[Finite, Finite]
    damping: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 2.0
    frictionloss: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.3


class Atom(Data):
    """One predicate over named entities, with its numeric parameters (see ``predicates``)."""

    predicate: Name
    args: tuple[Name, ...]
    parameters: dict[str, Finite] = {}


class AllOf(Data):
    """Conjunction; with ``ordered`` the parts must become true one after the other."""

    all_of: tuple[Goal, ...] = Field(min_length=1)
    ordered: bool = False


class AnyOf(Data):
    """Disjunction."""

    any_of: tuple[Goal, ...] = Field(min_length=1)


class Not(Data):
    """Negation."""

    negate: Goal


Goal = Atom | AllOf | AnyOf | Not


class PhysicsSpec(Data):
    """World-wide multipliers and gravity [m/s^2]."""

    gravity: Annotated[float, Field(gt=0, lt=30)] = 9.81
    friction_scale: Positive = 1.0
    damping_scale: Positive = 1.0


class CameraSpec(Data):
    """A fixed camera: position and look-at point [m] in the world frame, vertical field of view [deg]."""

    name: Name
    position: Vector3
    look_at: Vector3
    fov_y: Annotated[float, Field(gt=5, lt=120)] = 50.0

    def intrinsics(self, width: int, height: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Camera matrix (3, 3) and projection (3, 4) [px]: square pixels, centre in the middle of the image."""
        focal = height / 2 / math.tan(math.radians(self.fov_y) / 2)
        matrix = np.array([[focal, 0, (width - 1) / 2], [0, focal, (height - 1) / 2], [0, 0, 1.0]])
        return matrix, np.column_stack([matrix, np.zeros(3)])


class LightSpec(Data):
    """Direction the light shines along (world frame), and diffuse intensity 0 to 1."""

    direction: Vector3 = (-0.3, 0.2, -1.0)
    intensity: Annotated[float, Field(ge=0, le=1)] = 0.8


class RobotStart(Data):
    """Initial arm joint positions [rad] in the order of the robot description, and gripper opening 0 to 1."""

    joint_positions: tuple[Finite, ...]
    gripper_opening: Annotated[float, Field(ge=0, le=1)] = 1.0


class Provenance(Data):
    """Where a specification came from: a split or a program, the diagnosis behind it, the task variant."""

    split: str = ""
    program_id: str = ""
    diagnosis_id: str = ""
    task: str = ""
    axes: tuple[str, ...] = ()


FRONT_CAMERA = CameraSpec(name="front", position=(1.25, 0.0, 0.75), look_at=(0.45, 0.0, 0.05))


class EnvironmentSpec(Data):
    """Everything that defines one scene; validated on the way in."""

    schema_version: Literal[1] = SCHEMA_VERSION
    family: Family
    robot: Name = "panda"
    instruction: Annotated[str, Field(min_length=3, max_length=300)]
    objects: tuple[ObjectSpec, ...] = Field(max_length=10)
    fixtures: tuple[FixtureSpec, ...] = ()
    goal: Goal
    physics: PhysicsSpec = PhysicsSpec()
    cameras: tuple[CameraSpec, ...] = (FRONT_CAMERA,)
    light: LightSpec = LightSpec()
    robot_start: RobotStart
    horizon: Annotated[int, Field(gt=0, le=2000)] = 200
    """Time limit [control steps at 20 Hz]."""
    seed: Annotated[int, Field(ge=0)] = 0
    provenance: Provenance = Provenance()

    @model_validator(mode="after")
    def _names(self) -> EnvironmentSpec:
        names = [entity.name for entity in self.entities]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"entity names used twice: {', '.join(twice)}")
        for atom in atoms(self.goal):
            for arg in atom.args:
                if arg not in names:
                    raise ValueError(unknown("entity", arg, names))
        return self

    @property
    def entities(self) -> tuple[ObjectSpec | FixtureSpec, ...]:
        """Objects, then fixtures: the order of every per-entity array."""
        return self.objects + self.fixtures

    @property
    def entity_names(self) -> tuple[str, ...]:
        """Names in entity order."""
        return tuple(entity.name for entity in self.entities)

    def entity(self, name: str) -> ObjectSpec | FixtureSpec:
        """Return the entity called ``name``. Raises SpecError that lists those in the scene."""
        for entity in self.entities:
            if entity.name == name:
                return entity
        raise SpecError(unknown("object", name, self.entity_names))

    def replace_entity(self, changed: ObjectSpec | FixtureSpec) -> EnvironmentSpec:
        """Return a copy in which the entity of the same name is ``changed``."""
        self.entity(changed.name)
        swap = lambda group: tuple(changed if item.name == changed.name else item for item in group)  # noqa: E731
        return self.revise(objects=swap(self.objects), fixtures=swap(self.fixtures))

    def revise(self, **changes: Any) -> EnvironmentSpec:
        """Return a validated copy with ``changes``. Raises SpecError when the result is not valid."""
        return parse_spec({**self.model_dump(), **{key: _plain(value) for key, value in changes.items()}})

    def to_json(self) -> str:
        """Canonical one-line JSON."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))

    @property
    def content_hash(self) -> str:
        """First 16 hex digits of the SHA-256 of the canonical JSON."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump()
    if isinstance(value, (tuple, list)):
        return tuple(_plain(item) for item in value)
    return value


def atoms(goal: Goal) -> Iterator[Atom]:
    """Yield the atoms of a goal tree, left to right."""
    if isinstance(goal, Atom):
        yield goal
    elif isinstance(goal, Not):
        yield from atoms(goal.negate)
    else:
        for part in goal.all_of if isinstance(goal, AllOf) else goal.any_of:
            yield from atoms(part)


def parse_spec(data: Any) -> EnvironmentSpec:
    """Validate plain data (a mapping or JSON text). Raises SpecError naming the first wrong field."""
    try:
        if isinstance(data, (str, bytes)):
            return EnvironmentSpec.model_validate_json(data)
        return EnvironmentSpec.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "specification"
        raise SpecError(f"{place}: {first['msg']} (got {str(first.get('input'))[:80]!r})") from error


def read_specs(path: Path | str) -> list[EnvironmentSpec]:
    """Read a ``.jsonl`` file of specifications, one per line.

    Raises:
        SpecError: file missing or empty, or a line that is not valid (the message gives its number).
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"cannot read environments from {path}: {error}") from error
    specs = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                specs.append(parse_spec(line))
            except SpecError as error:
                raise SpecError(f"{path}, line {number}: {error}") from error
    if not specs:
        raise SpecError(f"{path} holds no environment; expected one JSON specification per line")
    return specs


def write_specs(path: Path | str, specs: Iterable[EnvironmentSpec]) -> None:
    """Write specifications, one per line, by atomic rename. Raises ArtifactError when the disk refuses."""
    write_atomic(Path(path), "".join(spec.to_json() + "\n" for spec in specs).encode())


def specs_hash(specs: Sequence[EnvironmentSpec]) -> str:
    """Content hash of an ordered set of specifications (16 hex digits)."""
    return hashlib.sha256("".join(spec.content_hash for spec in specs).encode()).hexdigest()[:16]
