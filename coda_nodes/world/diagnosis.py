"""What a critic says of a failed episode, as data and as text in one grammar (``docs/grammar.md``).

Example::

    text: The gripper closed beside the red cube.
    stage: grasp
    failure_mode: missed_grasp
    cause: axis=position; object=red cube; parameter=x; observed=0.62; nominal=0.45
    evidence: time=3.2; frame=8; note="fingers closed 34 mm from the red cube"
    confidence: 0.8
    critic: name=state; version=1.0
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Annotated, Any, Union

from pydantic import Field, ValidationInfo, field_validator, model_validator

from coda_nodes.world.errors import DiagnosisError, unknown
from coda_nodes.world.plain import data_hash, read_model
from coda_nodes.world.ranges import AXES
from coda_nodes.world.spec import Data, EnvironmentSpec, Family, Finite, Name

STAGES = (
    "approach", "grasp", "lift", "transport", "place", "release",
    "open", "close", "turn", "push", "align", "insert",
)
"""Stage names of all families; a diagnosis names the first one that was not passed."""

FAILURE_MODES = {
    "no_approach": "the gripper never came near what the task needs",
    "missed_grasp": "the fingers closed without holding it",
    "slip": "it was held and slid out while the hand moved with it",
    "dropped": "it was released or lost before its destination",
    "wrong_object": "another thing was handled than the one asked for",
    "wrong_place": "it was brought to another place than the one asked for",
    "misaligned": "it reached its destination turned or shifted too far",
    "wrong_order": "steps were done in another order than asked",
    "collision": "the arm or what it held struck something",
    "knocked_over": "something was toppled or pushed away",
    "not_opened": "an articulated part was not moved, or not far enough",
    "stopped_short": "the motion stopped or time ran out before the stage was finished",
}
"""What happened -> its meaning."""

UNKNOWN = "unknown"
"""Stage and failure mode where a critic cannot tell, for instance because its pictures are black."""

SCENE = "scene"
"""Object of a cause that concerns the whole scene: camera, light, instruction, start of the robot."""

Text = Annotated[str, Field(min_length=1, max_length=2000)]
Label = Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[A-Za-z0-9][A-Za-z0-9 _.:/+-]*$")]
Value = Union[Finite, Text, tuple[Finite, ...]]  # noqa: UP007 (evaluated at run time)


def one_line(text: str) -> str:
    """``text`` with every run of white space made a single space."""
    return " ".join(text.split())


class Cause(Data):
    """Why it happened, as something that can be set: ``parameter`` of ``object`` on ``axis``.

    ``observed`` is its value in the failed scene, ``nominal`` the nearest one of the train split: both
    numbers, both texts, or both lists of numbers. Units are those of the specification ([m], [rad], [kg]).
    """

    axis: Name
    object: Name = SCENE
    parameter: Name
    observed: Value
    nominal: Value

    @field_validator("axis")
    @classmethod
    def _axis(cls, value: str) -> str:
        if value not in AXES:
            raise ValueError(unknown("axis", value, AXES))
        return value

    @model_validator(mode="after")
    def _same_kind(self) -> Cause:
        if type(self.observed) is not type(self.nominal):
            raise ValueError(f"observed {self.observed!r} and nominal {self.nominal!r} are not of one kind")
        return self

    @property
    def sentence(self) -> str:
        """The cause in words."""
        values = f"{_say(self.observed)} instead of {_say(self.nominal)}"
        return f"{self.parameter} of {self.object} is {values} ({self.axis})"


class Evidence(Data):
    """Where it shows: time since reset [s], index of the chunk boundary (frame), and what is seen there."""

    time: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    frame: Annotated[int, Field(ge=0)] | None = None
    note: Annotated[str, Field(max_length=300)] = ""

    _note = field_validator("note")(one_line)


class CriticInfo(Data):
    """Which critic spoke: its name (``state``, ``coda_vlm``, ``hf``, ``openai``) and version or model."""

    name: Label
    version: Label


class Diagnosis(Data):
    """Why one episode failed. ``episode`` and ``environment`` are content hashes; empty: there is none."""

    text: Text
    stage: str
    failure_mode: str
    cause: Cause | None = None
    evidence: tuple[Evidence, ...] = ()
    confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    critic: CriticInfo
    family: Family | None = None
    episode: Annotated[str, Field(pattern=r"^[0-9a-f]{0,64}$")] = ""
    environment: Annotated[str, Field(pattern=r"^[0-9a-f]{0,64}$")] = ""

    @field_validator("text", mode="before")
    @classmethod
    def _text(cls, value: Any) -> Any:
        return one_line(value) if isinstance(value, str) else value

    @field_validator("stage", "failure_mode")
    @classmethod
    def _known(cls, value: str, info: ValidationInfo) -> str:
        existing = STAGES if info.field_name == "stage" else tuple(FAILURE_MODES)
        if value not in (*existing, UNKNOWN):
            raise ValueError(unknown(str(info.field_name).replace("_", " "), value, existing))
        return value

    @property
    def diagnosis_id(self) -> str:
        """Content hash of the diagnosis (16 hex digits)."""
        return data_hash(self.model_dump(mode="json"))

    @property
    def sentence(self) -> str:
        """One line for people and for sentence similarity; the cause in words where there is one."""
        cause = f": {self.cause.sentence}" if self.cause else ""
        return f"{self.failure_mode.replace('_', ' ')} during {self.stage}{cause}. {self.text}"

    def to_json(self) -> str:
        """One line of JSON."""
        return self.model_dump_json()

    def render(self) -> str:
        """The diagnosis as text in the grammar; ``parse_diagnosis`` reads it back unchanged."""
        lines = [f"text: {self.text}", f"stage: {self.stage}", f"failure_mode: {self.failure_mode}"]
        lines.append(f"cause: {_pairs(self.cause) if self.cause else 'unknown'}")
        lines.extend(f"evidence: {_pairs(item)}" for item in self.evidence)
        lines.extend((f"confidence: {self.confidence!r}", f"critic: {_pairs(self.critic)}"))
        lines.extend(f"{key}: {getattr(self, key)}" for key in _CONTEXT if getattr(self, key))
        return "\n".join(lines) + "\n"


_CONTEXT = ("family", "episode", "environment")
_KEYS = ("text", "stage", "failure_mode", "cause", "evidence", "confidence", "critic", *_CONTEXT)
_PARTS: dict[str, tuple[type[Data], str]] = {
    "cause": (Cause, "axis, object, parameter, observed, nominal"),
    "evidence": (Evidence, "time, frame, note"),
    "critic": (CriticInfo, "name, version"),
}
_PAIR = re.compile(r'\s*(\w+)\s*=\s*("(?:[^"\\]|\\.)*"|\([^()]*\)|[^;"]*?)\s*(?:;|$)')


def _say(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(_say(part) for part in value) + ")"
    return f"{value:.4g}" if isinstance(value, float) else f'"{value}"'


def _pairs(part: Data) -> str:
    return "; ".join(f"{key}={_token(key, value)}" for key, value in part if value not in (None, ""))


def _token(key: str, value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(repr(number) for number in value) + ")"
    if isinstance(value, (int, float)):
        return repr(value)
    return json.dumps(value) if key in ("observed", "nominal", "note") else value


def parse_diagnosis(text: str, critic: CriticInfo | None = None) -> Diagnosis:
    """Read a diagnosis written in the grammar.

    Args:
        text: one ``key: value`` per line, in any order; blank lines are skipped.
        critic: who wrote it, where the text itself has no ``critic`` line.

    Raises:
        DiagnosisError: a line, key or value that cannot be read; the message quotes it and lists what exists.
    """
    data: dict[str, Any] = {} if critic is None else {"critic": critic.model_dump()}
    seen: set[str] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            key, value = _line(number, line, seen)
            if key == "evidence":
                data.setdefault(key, []).append(value)
            else:
                data[key] = value
    missing = [key for key in ("text", "stage", "failure_mode", "confidence", "critic") if key not in data]
    if missing:
        raise DiagnosisError(f"diagnosis {one_line(text)[:80]!r} has no line {', '.join(missing)}")
    return read_diagnosis(data)


def read_diagnosis(data: Any) -> Diagnosis:
    """Validate a mapping or JSON text as a diagnosis. Raises DiagnosisError naming the first wrong field."""
    return read_model(Diagnosis, data, DiagnosisError, "diagnosis")


def _line(number: int, line: str, seen: set[str]) -> tuple[str, Any]:
    key, colon, value = (part.strip() for part in line.partition(":"))
    if not colon:
        keys = ", ".join(_KEYS)
        raise DiagnosisError(f"line {number} {line.strip()!r}: expected 'key: value', keys {keys}")
    if key not in _KEYS:
        raise DiagnosisError(f"line {number}: {unknown('key', key, _KEYS)}")
    if key in seen and key != "evidence":
        raise DiagnosisError(f"line {number} {line.strip()!r}: key {key!r} is given twice")
    seen.add(key)
    if key == "cause" and value == UNKNOWN:
        return key, None
    if key in _PARTS:
        return key, _read_pairs(number, key, value)
    return key, _number(number, key, value) if key == "confidence" else value


def _read_pairs(number: int, key: str, value: str) -> dict[str, Any]:
    kind, names = _PARTS[key]
    pairs: dict[str, Any] = {}
    position = 0
    while position < len(value):
        match = _PAIR.match(value, position)
        if match is None:
            rest = value[position:]
            expected = f"expected name=value; ... of {names}"
            raise DiagnosisError(f"line {number}, {key}: cannot read {rest!r}; {expected}")
        name, token = match.groups()
        if name not in kind.model_fields:
            raise DiagnosisError(f"line {number}, {key}: {unknown('part', name, kind.model_fields)}")
        if name in pairs:
            raise DiagnosisError(f"line {number}, {key}: {name} is given twice")
        pairs[name] = _value(number, name, token)
        position = match.end()
    return pairs


def _value(number: int, name: str, token: str) -> Any:
    if token.startswith('"'):
        try:
            return json.loads(token)
        except ValueError as error:
            raise DiagnosisError(f"line {number}: cannot read {name}={token}: {error}") from error
    if token.startswith("("):
        return tuple(_number(number, name, part) for part in token[1:-1].split(",") if part.strip())
    if name in ("observed", "nominal"):
        return _number_or_text(token)
    return int(token) if name == "frame" and token.isdecimal() else token


def _number_or_text(token: str) -> float | str:
    try:
        return float(token)
    except ValueError:
        return token


def _number(number: int, name: str, token: str) -> float:
    try:
        return float(token)
    except ValueError as error:
        raise DiagnosisError(f"line {number}: {name} {token.strip()!r}: expected a number") from error


def check_diagnosis(diagnosis: Diagnosis, spec: EnvironmentSpec, axes: Iterable[str] = ()) -> None:
    """Refuse a diagnosis that names what does not exist.

    ``axes``: names that exist; empty: any.

    Raises:
        DiagnosisError: another family than the scene's, an object that is not in it, or an unknown axis.
    """
    cause, axes = diagnosis.cause, tuple(axes)
    if diagnosis.family not in (None, spec.family):
        raise DiagnosisError(f"diagnosis of family {diagnosis.family!r}, scene of family {spec.family!r}")
    if cause is None:
        return
    if cause.object not in (SCENE, *spec.entity_names):
        raise DiagnosisError(unknown("object", cause.object, (SCENE, *spec.entity_names)))
    if axes and cause.axis not in axes:
        raise DiagnosisError(unknown("axis", cause.axis, axes))


