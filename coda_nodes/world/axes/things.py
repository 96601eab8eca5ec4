"""Parameters of position and objects: where things stand, how large they are, their colour and shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from coda_nodes.world.axes.base import (
    ANY,
    Access,
    Value,
    changed,
    fixture,
    item,
    movables,
    number,
    register,
    rename,
    task_things,
)
from coda_nodes.world.axes.scene import fixtures_of
from coda_nodes.world.errors import SpecError, unknown
from coda_nodes.world.families.base import SHAPES
from coda_nodes.world.fixtures import SLOT_WALL
from coda_nodes.world.spec import EnvironmentSpec, ObjectSpec, Pose

PEG = "peg"
Things = Callable[[EnvironmentSpec], Sequence[str]]


def is_peg(name: str) -> bool:
    """Whether a movable object is a peg (pegs have ranges of their own)."""
    return name.split()[-1] == PEG


def objects_where(test: Callable[[ObjectSpec], bool]) -> Things:
    """Names of the objects that pass a test."""
    return lambda spec: tuple(entity.name for entity in spec.objects if test(entity))


def _movable(entity: ObjectSpec) -> bool:
    return entity.role in ("object", "distractor")


WORDS: dict[str, Things] = {
    "object": objects_where(lambda e: _movable(e) and not is_peg(e.name)),
    "peg": objects_where(lambda e: _movable(e) and is_peg(e.name)),
    "distractor": objects_where(lambda e: e.role == "distractor" and not is_peg(e.name)),
    "receptacle": objects_where(lambda e: e.role == "receptacle"),
    "bin": objects_where(lambda e: e.shape == "bin"),
    "plate": objects_where(lambda e: e.shape == "plate"),
    "slot": objects_where(lambda e: e.shape == "slot"),
    "goal": objects_where(lambda e: e.role == "marker"),
    "drawer": fixtures_of("drawer"),
    "knob": fixtures_of("knob"),
}
"""First word of a parameter's name -> the things it is about."""


def _planar(spec: EnvironmentSpec, name: str) -> tuple[float, float, float, float]:
    pose = spec.entity(name).pose
    return (*pose.position, pose.yaw)


def move(
    spec: EnvironmentSpec, name: str, x: float | None = None, y: float | None = None, yaw: float | None = None
) -> EnvironmentSpec:
    """A copy with a thing elsewhere on the table [m], or turned about z [rad]; None leaves a part as it
    is."""
    now = _planar(spec, name)
    at = tuple(old if new is None else new for old, new in zip(now, (x, y, None, yaw), strict=True))
    return changed(spec, name, pose=Pose.planar(*at))


Sign = Callable[[EnvironmentSpec, str], float]


def _place(things: Things, part: str, sign: Sign) -> Access:
    index = {"x": 0, "y": 1, "yaw": 3}[part]

    def put(spec: EnvironmentSpec, name: str, value: Value) -> EnvironmentSpec:
        return move(spec, name, **{part: sign(spec, name) * number(value, part)})

    return Access(things, lambda spec, name: sign(spec, name) * _planar(spec, name)[index], put)


def _both(things: Things, sign: Sign) -> Access:
    """x and y together."""

    def get(spec: EnvironmentSpec, name: str) -> Value:
        x, y, _, _ = _planar(spec, name)
        return (x, sign(spec, name) * y)

    def put(spec: EnvironmentSpec, name: str, value: Value) -> EnvironmentSpec:
        if not isinstance(value, tuple) or len(value) != 2:
            raise SpecError(f"position {value!r} of {name}: expected two numbers, x and y [m]")
        return move(spec, name, x=float(value[0]), y=sign(spec, name) * float(value[1]))

    return Access(things, get, put)


BESIDE = ("other", "extra")
"""Words for things beside the task: where they stand is a matter of clutter."""


def register_place(
    word: str, things: Things, family: str = ANY, y_sign: Sign | None = None, yaw_sign: Sign | None = None
) -> None:
    """Register ``<word>_x``, ``<word>_y``, ``<word>_yaw`` and both coordinates together as ``<word>_xy``.

    The signs turn table coordinates into those of the splits where a family mirrors its scenes.
    """
    plain: Sign = lambda spec, name: 1.0  # noqa: E731
    for axis in ("position", "clutter") if word in BESIDE else ("position",):
        register(axis, f"{word}_x", _place(things, "x", plain), family)
        register(axis, f"{word}_y", _place(things, "y", y_sign or plain), family)
        register(axis, f"{word}_yaw", _place(things, "yaw", yaw_sign or plain), family)
        register(axis, f"{word}_xy", _both(things, y_sign or plain), family)


def recolor(spec: EnvironmentSpec, name: str, value: Value) -> EnvironmentSpec:
    """Another colour; a name that holds the old one is changed, in goal and instruction too."""
    old = spec.entity(name).color
    words = [str(value) if word == old else word for word in name.split()]
    return rename(changed(spec, name, color=str(value)), name, " ".join(words))


def _noun(name: str) -> str:
    return name.split()[-1]


def _half_width(spec: EnvironmentSpec, name: str) -> float | None:
    noun = _noun(name)
    return item(spec, name).half_extents[0] / SHAPES[noun][1][0] if noun in SHAPES else None


def _resized(
    spec: EnvironmentSpec, name: str, half_extents: Sequence[float], **changes: object
) -> EnvironmentSpec:
    """Other half extents [m], the lower face staying where it is."""
    entity = spec.entity(name)
    x, y, z = entity.pose.position
    pose = entity.pose.model_copy(update={"position": (x, y, z - entity.half_extents[2] + half_extents[2])})
    return changed(spec, name, half_extents=tuple(half_extents), pose=pose, **changes)


def _set_half_width(spec: EnvironmentSpec, name: str, value: Value) -> EnvironmentSpec:
    noun = _noun(name)
    if noun not in SHAPES:
        raise SpecError(f"{name!r}: {unknown('shape', noun, SHAPES)}")
    return _resized(spec, name, [number(value, "half_width") * part for part in SHAPES[noun][1]])


def _shape(spec: EnvironmentSpec, name: str) -> str | None:
    return _noun(name) if _noun(name) in SHAPES else None


def reshape(spec: EnvironmentSpec, name: str, value: Value) -> EnvironmentSpec:
    """Another noun with its solid and proportions at the same half width; the name follows."""
    noun, width = str(value), _half_width(spec, name)
    if noun not in SHAPES or width is None:
        raise SpecError(unknown("shape", noun if width is not None else _noun(name), SHAPES))
    solid, proportions = SHAPES[noun]
    resized = _resized(spec, name, [width * part for part in proportions], shape=solid)
    return rename(resized, name, " ".join([*name.split()[:-1], noun]))


def _extent(things: Things, axis: int) -> Access:
    """One half extent [m] of a thing."""

    def put(spec: EnvironmentSpec, name: str, value: Value) -> EnvironmentSpec:
        half = list(spec.entity(name).half_extents)
        half[axis] = number(value, "half extent")
        return _resized(spec, name, half)

    return Access(things, lambda spec, name: spec.entity(name).half_extents[axis], put)


def _radius(things: Things) -> Access:
    """Both horizontal half extents [m] of a thing."""

    def put(spec: EnvironmentSpec, name: str, value: Value) -> EnvironmentSpec:
        radius = number(value, "radius")
        return changed(spec, name, half_extents=(radius, radius, spec.entity(name).half_extents[2]))

    return Access(things, lambda spec, name: spec.entity(name).half_extents[0], put)


def _asked_peg(spec: EnvironmentSpec) -> Sequence[str]:
    """The peg asked for; the first one where none is."""
    pegs = WORDS[PEG](spec)
    return [name for name in task_things(spec) if name in pegs][:1] or pegs[:1]


def _peg_number(index: int) -> Access:
    """Half width (0) or half height (2) [m] of all pegs of a scene, which are alike; the hole keeps its
    clearance."""

    def put(spec: EnvironmentSpec, name: str, value: Value) -> EnvironmentSpec:
        clearances = {slot: _clearance(spec, slot) for slot in WORDS["slot"](spec)}
        size = number(value, "peg size")
        for peg in WORDS[PEG](spec):
            half = list(spec.entity(peg).half_extents)
            half[index] = size
            if index == 0:
                half[1] *= size / spec.entity(peg).half_extents[0]
            spec = _resized(spec, peg, half)
        for slot, clearance in clearances.items():
            if clearance is not None:
                spec = _set_clearance(spec, slot, clearance)
        return spec

    return Access(_asked_peg, lambda spec, name: spec.entity(name).half_extents[index], put)


def _peg_aspect(spec: EnvironmentSpec, name: str) -> float:
    """Depth of a peg relative to its width."""
    half = spec.entity(name).half_extents
    return half[1] / half[0]


def _set_peg_aspect(spec: EnvironmentSpec, name: str, value: Value) -> EnvironmentSpec:
    for peg in WORDS[PEG](spec):
        width, _, height = spec.entity(peg).half_extents
        spec = changed(spec, peg, half_extents=(width, width * number(value, "peg_aspect"), height))
    return spec


def _clearance(spec: EnvironmentSpec, name: str) -> float | None:
    """Half width of the hole less that of the peg [m]."""
    pegs = _asked_peg(spec)
    return (
        spec.entity(name).half_extents[0] - SLOT_WALL - spec.entity(pegs[0]).half_extents[0] if pegs else None
    )


def _set_clearance(spec: EnvironmentSpec, name: str, value: Value) -> EnvironmentSpec:
    pegs = _asked_peg(spec)
    if not pegs:
        raise SpecError(f"clearance of {name!r}: the scene has no peg")
    half = spec.entity(pegs[0]).half_extents[0] + number(value, "clearance") + SLOT_WALL
    return changed(spec, name, half_extents=(half, half, spec.entity(name).half_extents[2]))


for _word, _things in WORDS.items():
    register_place(_word, _things)
    _axis = "objects" if _word in ("bin", "receptacle", "plate") else "appearance"
    register(_axis, f"{_word}_color", Access(_things, lambda spec, name: spec.entity(name).color, recolor))
register_place("other", WORDS["distractor"])
register("objects", "color", Access(movables, lambda spec, name: spec.entity(name).color, recolor))
register("objects", "shape", Access(WORDS["object"], _shape, reshape))
register("objects", "half_width", Access(WORDS["object"], _half_width, _set_half_width))
register("objects", "peg_half_width", _peg_number(0))
register("objects", "peg_half_height", _peg_number(2))
register("objects", "peg_aspect", Access(_asked_peg, _peg_aspect, _set_peg_aspect))
register("objects", "clearance", Access(WORDS["slot"], _clearance, _set_clearance))
register("objects", "slot_half_height", _extent(WORDS["slot"], 2))
for _name, _word in (("goal_radius", "goal"), ("bin_half_width", "bin"), ("plate_radius", "plate")):
    register("objects", _name, _radius(WORDS[_word]))
for _index, _name in enumerate(("depth", "width", "height")):
    register("objects", f"drawer_half_{_name}", _extent(WORDS["drawer"], _index))


def _side(spec: EnvironmentSpec) -> float:
    """1 where the drawer stands on the left, -1 on the right."""
    names = WORDS["drawer"](spec)
    return math.copysign(1.0, fixture(spec, names[0]).pose.position[1]) if names else 1.0


def _mirror(spec: EnvironmentSpec, name: str, value: Value) -> EnvironmentSpec:
    """Exchange left and right for everything on the table."""
    if value not in ("left", "right"):
        raise SpecError(unknown("drawer_side", value, ("left", "right")))
    if (value == "left") == (_side(spec) > 0):
        return spec
    for entity in spec.entity_names:
        _, y, _, yaw = _planar(spec, entity)
        spec = move(spec, entity, y=-y, yaw=-yaw if entity == name else yaw)
    return spec


_ASKED = objects_where(lambda e: e.role == "object" and not is_peg(e.name))
"""Distractors stand where ranges of their own put them."""
_DRAWER_SIDE: Sign = lambda spec, name: _side(spec)  # noqa: E731
_OTHER_SIDE: Sign = lambda spec, name: -_side(spec)  # noqa: E731
register_place("drawer", WORDS["drawer"], "articulated", _DRAWER_SIDE, _DRAWER_SIDE)
register_place("knob", WORDS["knob"], "articulated", _OTHER_SIDE)
register_place("object", _ASKED, "articulated", _OTHER_SIDE)
register_place("other", WORDS["distractor"], "articulated", _OTHER_SIDE)
register_place("receptacle", lambda spec: WORDS["receptacle"](spec)[:2], "pick_place")
register_place("extra", lambda spec: WORDS["receptacle"](spec)[2:], "pick_place")
register(
    "position", "receptacle_yaw", _place(WORDS["receptacle"], "yaw", lambda spec, name: 1.0), "pick_place"
)
for _family in ("pick_place", "stack", "push_insert"):
    register_place("object", _ASKED, _family)
for _family in ("pick_place", "stack", "articulated", "push_insert"):
    register("position", "object_yaw", _place(WORDS["object"], "yaw", lambda spec, name: 1.0), _family)
register(
    "position",
    "drawer_side",
    Access(WORDS["drawer"], lambda spec, _: "left" if _side(spec) > 0 else "right", _mirror),
    "articulated",
)
