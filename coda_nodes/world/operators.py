"""Operators of generation programs: typed data that says how a sampled scene is changed.

Every operator has a ``magnitude`` from 0 (changes nothing) to 1. Operators on numbers move each value that
share of the way from the sampled one to one drawn from their span; operators on words and things change that
share of the scenes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, Union

from pydantic import AfterValidator, Field, model_validator

from coda_nodes.world.errors import unknown
from coda_nodes.world.ranges import AXES
from coda_nodes.world.spec import Data, Finite, Name


def _ascending(span: tuple[float, float]) -> tuple[float, float]:
    if span[0] > span[1]:
        raise ValueError(f"span {span}: expected (low, high) with low <= high")
    return span


Span = Annotated[tuple[Finite, Finite], AfterValidator(_ascending)]
Word = Union[Annotated[str, Field(strict=True, min_length=1, max_length=60)], Finite]  # noqa: UP007
Words = Annotated[tuple[Word, ...], Field(min_length=1, max_length=64)]
Bounded = tuple[str, tuple[str, ...], Any]
"""Axis, parameter names of which the first that exists in the splits bounds the value, and span or words."""

ROLES: dict[str, tuple[str, ...]] = {
    "object": ("object", "push"),
    "distractor": ("other", "object"),
    "receptacle": ("receptacle", "drawer"),
    "base": ("object", "receptacle"),
    "marker": ("goal",),
    "peg": ("peg",),
    "slot": ("slot",),
    "drawer": ("drawer",),
    "knob": ("knob",),
}
"""What a thing is in its task -> first words of its parameters in the splits. Further steps: ``object 2``."""


def _known_role(role: str) -> str:
    if words_of(role) is None:
        raise ValueError(unknown("role", role, ROLES))
    return role


def words_of(role: str) -> tuple[str, ...] | None:
    """First words of the parameters of a role; None for a role that does not exist."""
    name, _, number = role.partition(" ")
    return ROLES.get(name) if not number or number.isdecimal() else None


Role = Annotated[str, AfterValidator(_known_role)]


def named(role: str, suffix: str) -> tuple[str, ...]:
    """Names under which the splits may state ``suffix`` of a role, most specific first."""
    return (*(f"{word}_{suffix}" for word in words_of(role) or ()), suffix)


class OperatorData(Data):
    """What all operators share."""

    axis: ClassVar[str]
    """Axis of the splits on which it moves (see ``moves``)."""
    magnitude: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 1.0

    @property
    def moves(self) -> str:
        """Axis of the splits on which it moves."""
        return getattr(self, "of", self.axis)

    @property
    def sentence(self) -> str:
        """What it does, in words."""
        parts = [f"{name.replace('_', ' ')} {_say(value)}" for name, value in self if _shown(name, value)]
        return f"{self.kind.replace('_', ' ')}{': ' if parts else ''}{', '.join(parts)}"  # type: ignore[attr-defined]

    def bounded(self) -> Iterator[Bounded]:
        """Values that must stay within the probe bounds of the splits."""
        yield from ()


def _shown(name: str, value: Any) -> bool:
    return name != "kind" and value not in (None, ()) and not (name == "magnitude" and value == 1.0)


def _say(value: Any) -> str:
    if isinstance(value, tuple) and len(value) == 2 and not isinstance(value[0], str):
        return f"{value[0]:.3g} to {value[1]:.3g}"
    if isinstance(value, tuple):
        return " or ".join(str(part) for part in value)
    return f"{value:.3g}" if isinstance(value, float) else str(value)


class ShiftRegion(OperatorData):
    """Put the thing in ``role`` into another region of the table: places and reaches the policy has not
    practised."""

    axis: ClassVar[str] = "position"
    kind: Literal["shift_region"] = "shift_region"
    role: Role = "object"
    x: Span | None = None
    """[m], world frame; None leaves it."""
    y: Span | None = None
    """[m], world frame; None leaves it."""
    yaw: Span | None = None
    """[rad] about z; None leaves it."""

    def bounded(self) -> Iterator[Bounded]:
        for field in ("x", "y", "yaw"):
            if getattr(self, field) is not None:
                yield self.axis, named(self.role, field), getattr(self, field)


class SwapRoles(OperatorData):
    """Let two things change places: a policy that remembers where the thing asked for usually stands takes
    the other."""

    axis: ClassVar[str] = "position"
    kind: Literal["swap_roles"] = "swap_roles"
    first: Role = "object"
    second: Role = "distractor"


class AddDistractor(OperatorData):
    """Stand more things beside the one in ``role``: ``near`` ones in the hand's way, ``similar`` ones easily
    mistaken."""

    axis: ClassVar[str] = "clutter"
    kind: Literal["add_distractor"] = "add_distractor"
    role: Role = "object"
    relation: Literal["near", "similar"] = "near"
    count: Annotated[int, Field(ge=1, le=3)] = 1
    gap: Span = (0.03, 0.06)
    """Free space between the outlines [m]."""

    @model_validator(mode="after")
    def _apart(self) -> AddDistractor:
        if not 0.005 <= self.gap[0] <= self.gap[1] <= 0.3:
            raise ValueError(f"gap {self.gap}: expected within 0.005 to 0.3 m")
        return self


class Rescale(OperatorData):
    """Make the thing in ``role`` larger or smaller: grasp widths and heights not practised."""

    axis: ClassVar[str] = "objects"
    kind: Literal["rescale"] = "rescale"
    role: Role = "object"
    half_width: Span
    """[m]"""

    def bounded(self) -> Iterator[Bounded]:
        yield self.axis, named(self.role, "half_width"), self.half_width


class Recolor(OperatorData):
    """Give the thing in ``role`` another colour, and its name and the instruction with it: words not yet
    met."""

    axis: ClassVar[str] = "objects"
    kind: Literal["recolor"] = "recolor"
    role: Role = "object"
    colors: Words

    @property
    def moves(self) -> str:
        """Colours of fixtures, markers and slots only change how they look; those of other things change
        names."""
        return "appearance" if self.role in ("drawer", "knob", "marker", "slot") else self.axis

    def bounded(self) -> Iterator[Bounded]:
        yield self.moves, named(self.role, "color"), self.colors


class Reshape(OperatorData):
    """Give the thing in ``role`` another shape, and its name and the instruction with it: forms not yet
    grasped."""

    axis: ClassVar[str] = "objects"
    kind: Literal["reshape"] = "reshape"
    role: Role = "object"
    shapes: Words
    """Nouns: cube, block, can, puck, post."""

    def bounded(self) -> Iterator[Bounded]:
        yield self.axis, named(self.role, "shape"), self.shapes


class Reweigh(OperatorData):
    """Change mass and friction of the thing in ``role``, or the damping of joints: slips and stiff
    drawers."""

    axis: ClassVar[str] = "dynamics"
    kind: Literal["reweigh"] = "reweigh"
    role: Role = "object"
    mass: Span | None = None
    """[kg]"""
    friction: Span | None = None
    """Sliding friction coefficient; of a fixture, friction loss of its joint."""
    damping: Span | None = None
    """Joint damping of a fixture."""
    damping_scale: Span | None = None
    """Multiplier of all joint damping, whole scene."""

    def bounded(self) -> Iterator[Bounded]:
        for field in ("mass", "friction", "damping", "damping_scale"):
            if getattr(self, field) is not None:
                yield self.axis, named(self.role, field), getattr(self, field)


PHRASING = ("phrasing", "phrase")
"""Names under which the splits state the template of the instruction."""


class Rephrase(OperatorData):
    """Ask for the same in other words: paraphrases the policy has not heard."""

    axis: ClassVar[str] = "instruction"
    kind: Literal["rephrase"] = "rephrase"
    templates: Annotated[tuple[Word, ...], Field(max_length=64)] = ()
    """Names or numbers of templates to draw from; empty: all within the probe bounds."""

    def bounded(self) -> Iterator[Bounded]:
        if self.templates:
            yield self.axis, PHRASING, self.templates


class Retarget(OperatorData):
    """Ask for another thing, or another receptacle, of the same scene: a policy that ignores the words takes
    the old one."""

    axis: ClassVar[str] = "instruction"
    kind: Literal["retarget"] = "retarget"
    role: Role = "object"


class Occlude(OperatorData):
    """Stand a tall thing between the camera and the one in ``role``: it is hidden, and the straight way to it
    is barred."""

    axis: ClassVar[str] = "clutter"
    kind: Literal["occlude"] = "occlude"
    role: Role = "object"
    gap: Span = (0.06, 0.10)
    """Free space between the outlines [m]."""


class PerturbCamera(OperatorData):
    """Move the camera and the light: views not seen in training. None leaves a part as it is."""

    axis: ClassVar[str] = "appearance"
    kind: Literal["perturb_camera"] = "perturb_camera"
    camera_distance: Span | None = None
    """[m] from the middle of the table."""
    camera_azimuth: Span | None = None
    """[rad]"""
    camera_elevation: Span | None = None
    """[rad]"""
    light_azimuth: Span | None = None
    """[rad]"""
    light_intensity: Span | None = None

    def bounded(self) -> Iterator[Bounded]:
        for field in self.fields:
            if getattr(self, field) is not None:
                yield self.axis, (field,), getattr(self, field)

    fields: ClassVar[tuple[str, ...]] = (
        "camera_distance",
        "camera_azimuth",
        "camera_elevation",
        "light_azimuth",
        "light_intensity",
    )


class OffsetStart(OperatorData):
    """Start the arm from another posture: first motions the policy has not practised. None leaves a part as
    it is."""

    axis: ClassVar[str] = "start_pose"
    kind: Literal["offset_start"] = "offset_start"
    base_yaw: Span | None = None
    """First joint [rad]."""
    joint_offset: Span | None = None
    """Every other joint, either sign, from home [rad]."""
    gripper_opening: Span | None = None
    """0 closed to 1 open."""

    def bounded(self) -> Iterator[Bounded]:
        for field in ("base_yaw", "joint_offset", "gripper_opening"):
            if getattr(self, field) is not None:
                yield self.axis, (field,), getattr(self, field)


class StartPastStage(OperatorData):
    """Start as if ``stage`` were done, so that what comes after it is practised even where it is never
    reached."""

    axis: ClassVar[str] = "start_pose"
    kind: Literal["start_past_stage"] = "start_past_stage"
    stage: Literal["approach", "grasp", "open", "close", "turn"]
    """Later stages have no start that rests by itself; they are practised from recorded states."""


COMPOSITION = ("steps", "height")
"""Names under which the splits state how much is asked for."""


class Compose(OperatorData):
    """Ask for several steps together: each is known alone, their order and the second start are not."""

    axis: ClassVar[str] = "composition"
    kind: Literal["compose"] = "compose"
    steps: Annotated[tuple[Word, ...], Field(max_length=64)] = ()
    """Numbers or names of compositions; empty: all within the probe bounds that train has not."""

    def bounded(self) -> Iterator[Bounded]:
        if self.steps:
            yield self.axis, COMPOSITION, self.steps


class Redraw(OperatorData):
    """Draw one parameter of the splits from other values: any difficulty that the splits state, scene by
    scene."""

    axis: ClassVar[str] = ""
    kind: Literal["redraw"] = "redraw"
    of: Literal[AXES]  # type: ignore[valid-type]
    """Axis."""
    parameter: Name
    span: Span | None = None
    values: Annotated[tuple[Word, ...], Field(max_length=64)] = ()

    @model_validator(mode="after")
    def _one(self) -> Redraw:
        if (self.span is None) == (not self.values):
            raise ValueError("expected either a span or values")
        return self

    def bounded(self) -> Iterator[Bounded]:
        yield self.of, (self.parameter,), self.span or self.values


KINDS = (
    ShiftRegion, SwapRoles, AddDistractor, Rescale, Recolor, Reshape, Reweigh, Rephrase, Retarget,
    Occlude, PerturbCamera, OffsetStart, StartPastStage, Compose, Redraw,
)  # fmt: skip
Operator = Annotated[Union[KINDS], Field(discriminator="kind")]  # noqa: UP007

OPERATORS: dict[str, type[OperatorData]] = {kind.model_fields["kind"].default: kind for kind in KINDS}
"""Every operator, by kind."""
