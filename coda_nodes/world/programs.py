"""Programs as data: what environments to generate, and how to train on them. No program is ever executed as
code."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from coda_nodes.world.action import CHUNK_STEPS
from coda_nodes.world.errors import ConfigError, ProgramError, unknown
from coda_nodes.world.operators import OPERATORS, Operator, OperatorData
from coda_nodes.world.plain import data_hash, read_model
from coda_nodes.world.potentials.spec import TaskPotential
from coda_nodes.world.ranges import AXES, Allowed, FamilyRanges, Range
from coda_nodes.world.spec import Atom, Data, Family, Finite, Name

PROGRAM_VERSION = 1
REASON = 500
"""Longest reason of a state [characters]."""
Key = Annotated[str, Field(pattern=r"^[0-9a-f]{0,64}$")]
State = Literal["draft", "validated", "rehearsal", "retired"]
"""``draft``: compiled, not tested; ``validated``: its cause was confirmed; ``rehearsal``: solved, replayed
against forgetting; ``retired``: not used any more."""


class BaseDistribution(Data):
    """Scenes before the operators: the train split, with the axes in ``probe_axes`` drawn within the probe
    bounds."""

    split: Literal["train"] = "train"
    probe_axes: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    """Tasks asked for, in families whose splits state ``instruction.task``; empty: all of them."""

    @model_validator(mode="after")
    def _known(self) -> BaseDistribution:
        for axis in self.probe_axes:
            if axis not in AXES:
                raise ValueError(unknown("axis", axis, AXES))
        return self


class GenerationProgram(Data):
    """A distribution of environments: base distribution, then operators in order, with where it came from."""

    schema_version: Literal[1] = PROGRAM_VERSION
    family: Family
    base: BaseDistribution = BaseDistribution()
    operators: Annotated[tuple[Operator, ...], Field(max_length=8)] = ()
    parent: Key = ""
    """Id of the program it was refined from."""
    version: Annotated[int, Field(ge=1)] = 1
    """1 for a compiled program, one more with each refinement."""
    diagnosis_id: Key = ""
    state: State = "draft"
    reason: Annotated[str, Field(max_length=REASON)] = ""
    """Why it is in this state, in words."""
    explanation: Annotated[str, Field(max_length=1000)] = ""
    """How it came to be, in words."""

    @property
    def program_id(self) -> str:
        """Content hash of what it samples (family, base, operators): equal distributions are one program."""
        return data_hash(self.model_dump(mode="json", include={"family", "base", "operators"}))

    @property
    def axes(self) -> tuple[str, ...]:
        """Axes on which it leaves the train split, in the order of AXES."""
        moved = {*self.base.probe_axes, *(op.moves for op in self.operators if op.magnitude > 0)}
        return tuple(axis for axis in AXES if axis in moved)

    @property
    def sentence(self) -> str:
        """What it generates, in words."""
        parts = [f"{axis} within the probe bounds" for axis in self.base.probe_axes]
        parts += [f"task {' or '.join(self.base.tasks)}"] if self.base.tasks else []
        parts += [operator.sentence for operator in self.operators]
        return f"{self.family}: {'; '.join(parts) if parts else 'scenes of the train split'}"

    def without_operators(self) -> GenerationProgram:
        """The same base distribution alone: what a draft is compared with."""
        return self.model_copy(update={"operators": ()})

    def in_state(self, state: State, reason: str) -> GenerationProgram:
        """The same program in another state; a long reason is cut. Raises ProgramError: unknown state."""
        return read_program({**self.model_dump(), "state": state, "reason": reason[:REASON]})

    def to_json(self) -> str:
        """One line of JSON."""
        return self.model_dump_json()


def read_program(data: Any) -> GenerationProgram:
    """Validate a mapping or JSON text as a generation program.

    Raises:
        ProgramError: an unknown operator or parameter (the message lists what exists), or a value out of
        range.
    """
    if isinstance(data, (str, bytes)):
        data = _decoded(data)
    if isinstance(data, Mapping):
        for place, operator in enumerate(data.get("operators") or ()):
            _check_names(place, operator)
    return read_model(GenerationProgram, data, ProgramError, "program")


def read_operator(data: Any) -> OperatorData:
    """Validate a mapping as one operator. Raises ProgramError as ``read_program`` does."""
    _check_names(0, data)
    return read_model(OPERATORS[data["kind"]], data, ProgramError, f"operator {data['kind']}")


def _decoded(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ProgramError(f"program is not JSON: {error} (got {str(text)[:80]!r})") from error


def _check_names(place: int, operator: Any) -> None:
    if not isinstance(operator, Mapping):
        return
    kind = operator.get("kind")
    if kind not in OPERATORS:
        raise ProgramError(f"operator {place}: {unknown('operator', kind, OPERATORS)}")
    fields = [name for name in OPERATORS[kind].model_fields if name != "kind"]
    for name in operator:
        if name not in (*fields, "kind"):
            raise ProgramError(f"operator {place}: {unknown(f'parameter of {kind}', name, fields)}")


def check_bounds(program: GenerationProgram, probe: FamilyRanges) -> None:
    """Refuse values outside the bounds within which programs may move.

    Raises:
        ProgramError: an axis or parameter the family has not, or a value outside ``probe`` (the message lists
        it).
    """
    if program.base.tasks:
        _check_value("task", bound(probe, "instruction", ("task",)), program.base.tasks)
    for axis in program.axes:
        if axis not in probe.axes:
            raise ProgramError(unknown(f"axis of {program.family}", axis, probe.axes))
    for operator in program.operators:
        for axis, names, value in operator.bounded():
            _check_value(f"{operator.kind} {names[0]}", bound(probe, axis, names), value)  # type: ignore[attr-defined]


def bound(probe: FamilyRanges, axis: str, names: tuple[str, ...]) -> Allowed:
    """Bounds of the first of ``names`` that exists. Raises ProgramError that lists the parameters there
    are."""
    try:
        table = probe[axis]
    except ConfigError as error:
        raise ProgramError(str(error)) from error
    for name in names:
        if name in table:
            return table[name]
    raise ProgramError(unknown(f"parameter of {probe.family}.{axis}", names[0], table))


def _check_value(what: str, allowed: Allowed, value: Any) -> None:
    numbers = isinstance(value, tuple) and len(value) == 2 and not isinstance(value[0], str)
    if isinstance(allowed, Range):
        if not numbers:
            raise ProgramError(f"{what} {value!r}: expected a span within the probe bounds {allowed}")
        inside = allowed.low - 1e-9 <= value[0] and value[1] <= allowed.high + 1e-9
        if not inside or not within(allowed, value):
            raise ProgramError(f"{what} {value[0]:g} to {value[1]:g}: outside the probe bounds {allowed}")
        return
    for part in value:
        if not allowed.contains(part):
            raise ProgramError(f"{what}: {unknown('value within the probe bounds', part, allowed.values)}")


def within(allowed: Range, span: tuple[float, float]) -> tuple[tuple[float, float], ...]:
    """Parts of ``span`` inside a union of intervals; a single point counts."""
    parts = ((max(low, span[0]), min(high, span[1])) for low, high in allowed.intervals)
    return tuple((low, max(low, high)) for low, high in parts if low <= high + 1e-9)


class Regime(str, Enum):
    """Where supervision may come from after imitation on the train split."""

    NO_EXPERT = "no_expert"
    """Only the policy's own rollouts; the expert merely checks that scenes are solvable."""
    EXPERT = "expert"
    """A capped number of expert demonstrations or corrections in compiled environments."""


Source = Literal["demonstrations", "corrections", "own_successes", "own_rollouts"]
"""``demonstrations``: expert from reset; ``corrections``: expert from the policy's failing states;
``own_successes``: the policy's successful rollouts; ``own_rollouts``: all of them, by value."""
TRAIN_SPLIT = "train"
"""Stands for the train split where a program id is asked for."""


class Share(Data):
    """What part of the training environments one program gives."""

    program_id: Annotated[str, Field(pattern=r"^(train|[0-9a-f]{8,64})$")]
    share: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


class StagePotential(Data):
    """One stage of a potential: a predicate with smooth progress, and the part of the potential it is
    worth."""

    stage: Name
    atom: Atom
    worth: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


class StoppingRule(Data):
    """End of training: at ``steps`` of the program, or earlier once the loss has not fallen by ``fall`` for
    ``patience``."""

    patience: Annotated[int, Field(ge=0)] = 0
    """Gradient steps without improvement; 0: never stop early."""
    fall: Annotated[float, Field(ge=0, lt=1)] = 0.01
    """Relative fall of the loss that counts as improvement."""


class TrainingProgram(Data):
    """On what and how to train. ``weights``: weight of a sample by source of supervision."""

    schema_version: Literal[1] = PROGRAM_VERSION
    regime: Regime
    environments: Annotated[tuple[Share, ...], Field(min_length=1)]
    supervision: Annotated[tuple[Source, ...], Field(min_length=1)]
    weights: dict[Source, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = {}
    potential: tuple[StagePotential, ...] = ()
    """Stages in order; empty: no potential."""
    task_potentials: tuple[TaskPotential, ...] = ()
    """Stages of kinds of goals, one each, in place of the default ones (``docs/potentials.md``)."""
    discount: Annotated[float, Field(gt=0, lt=1)] = 0.99
    """Per control step."""
    chunk_length: Annotated[int, Field(ge=1, le=CHUNK_STEPS)] = CHUNK_STEPS
    """Actions per chunk."""
    steps: Annotated[int, Field(ge=1)]
    """Gradient steps."""
    batch_size: Annotated[int, Field(ge=1)] = 256
    learning_rate: Annotated[Finite, Field(gt=0, lt=1)]
    stopping: StoppingRule = StoppingRule()

    @model_validator(mode="after")
    def _consistent(self) -> TrainingProgram:
        total = sum(item.share for item in self.environments)
        if not math.isclose(total, 1.0, abs_tol=1e-6):
            raise ValueError(f"shares of environments add up to {total:.6g}, expected 1")
        names = [item.program_id for item in self.environments]
        if len(set(names)) < len(names):
            raise ValueError("a program is named twice among the environments")
        if sum(stage.worth for stage in self.potential) > 1 + 1e-6:
            raise ValueError("worths of the potential's stages add up to more than 1")
        kinds = [task.predicate for task in self.task_potentials]
        if len(set(kinds)) < len(kinds):
            raise ValueError(f"task potentials {', '.join(kinds)}: expected one for each kind of goal; merge them")
        return self._check_regime(names)

    def _check_regime(self, names: list[str]) -> TrainingProgram:
        if self.regime is Regime.NO_EXPERT:
            if "corrections" in self.supervision:
                raise ValueError("regime no_expert allows no corrections")
            if "demonstrations" in self.supervision and TRAIN_SPLIT not in names:
                raise ValueError("regime no_expert demonstrates train only; train is missing")
        return self

    @property
    def training_id(self) -> str:
        """Content hash (16 hex digits)."""
        exclude = set() if self.task_potentials else {"task_potentials"}  # ids of older programs stay what they were
        return data_hash(self.model_dump(mode="json", exclude=exclude))

    def to_json(self) -> str:
        """One line of JSON."""
        return self.model_dump_json()


def read_training(data: Any) -> TrainingProgram:
    """Validate a mapping or JSON text as a training program. Raises ProgramError naming the first wrong
    field."""
    return read_model(TrainingProgram, data, ProgramError, "training program")
