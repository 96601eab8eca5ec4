"""Refining generation programs: harder, easier, narrower, wider, split; each child says in words what
changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from coda_nodes.world.errors import ProgramError
from coda_nodes.world.operators import AddDistractor, OperatorData, StartPastStage
from coda_nodes.world.programs import GenerationProgram, bound, read_program, within
from coda_nodes.world.ranges import FamilyRanges, Range
from coda_nodes.world.splits import Splits

STEP = 0.25
"""How much ``harder`` raises a magnitude below 1."""
EASE = 0.6
"""Factor by which ``easier`` lowers magnitudes."""
LEAST = 0.1
"""Magnitude below which a program is hardly more than train; it is not eased further."""
SHRINK, GROW = 0.5, 1.5
"""Factors of ``narrower`` and ``wider``."""
BEFORE = {"grasp": "approach", "lift": "grasp", "transport": "grasp", "open": "grasp", "turn": "grasp"}
"""Failed stage -> the stage that ``easier`` starts past."""

Span = tuple[float, float]
Fields = dict[str, Any]


def harder(program: GenerationProgram, splits: Splits) -> GenerationProgram:
    """Raise magnitudes; where all are 1, move spans away from train and stand more things in the way.

    Raises:
        ProgramError: everything is at its bounds already.
    """
    if any(op.magnitude < 1 for op in program.operators):
        return _child(
            program, "harder", [{"magnitude": min(1.0, op.magnitude + STEP)} for op in program.operators]
        )
    train, probe = splits.ranges(program.family, "train"), splits.ranges(program.family, "probe")

    def outward(span: Span, allowed: Range, known: Range | None) -> Span:
        width = max(span[1] - span[0], 0.1 * (allowed.high - allowed.low))
        up = known is None or sum(span) >= known.low + known.high
        shift = 0.5 * width if up else -0.5 * width
        return _fitted((span[0] + shift, span[1] + shift), allowed) or span

    changes = [_spans(op, probe, train, outward) for op in program.operators]
    for op, fields in zip(program.operators, changes, strict=True):
        if isinstance(op, AddDistractor) and op.count < 3:
            fields["count"] = op.count + 1
    return _child(program, "harder", changes)


def easier(program: GenerationProgram, failed_stage: str = "") -> GenerationProgram:
    """Lower magnitudes; with a stage that fails, start past the one before it as well.

    Raises:
        ProgramError: it is hardly more than train already.
    """
    changes = [
        {"magnitude": op.magnitude * EASE}
        if op.magnitude * EASE >= LEAST and op.kind != "start_past_stage"
        else {}
        for op in program.operators
    ]  # type: ignore[attr-defined]
    start = BEFORE.get(failed_stage)
    started = any(isinstance(op, StartPastStage) for op in program.operators)
    added = [StartPastStage(stage=start)] if start and not started else []  # type: ignore[arg-type]
    return _child(program, "easier", changes, added)


def narrower(program: GenerationProgram, splits: Splits) -> GenerationProgram:
    """Halve spans about their middles, and keep the first half of the words. Raises ProgramError for single
    points."""
    return _resized(program, splits, "narrower", SHRINK)


def wider(program: GenerationProgram, splits: Splits) -> GenerationProgram:
    """Widen spans by half within the probe bounds, and allow all words there. Raises ProgramError at the
    bounds."""
    return _resized(program, splits, "wider", GROW)


def _resized(program: GenerationProgram, splits: Splits, how: str, factor: float) -> GenerationProgram:
    probe = splits.ranges(program.family, "probe")

    def scaled(span: Span, allowed: Range, known: Range | None) -> Span:
        middle, half = 0.5 * (span[0] + span[1]), 0.5 * factor * (span[1] - span[0])
        return _fitted((middle - half, middle + half), allowed) or span

    changes = []
    for op in program.operators:
        fields = _spans(op, probe, None, scaled)
        for name, words, existing in _words(op, probe):
            fields[name] = (
                words[: max(1, len(words) // 2)] if factor < 1 else tuple(dict.fromkeys((*words, *existing)))
            )
        changes.append(fields)
    return _child(program, how, changes)


def split(program: GenerationProgram, splits: Splits) -> tuple[GenerationProgram, GenerationProgram]:
    """Two programs, each with one half of the first operator that has a span or several words.

    Raises:
        ProgramError: no operator can be split.
    """
    probe = splits.ranges(program.family, "probe")
    for index, op in enumerate(program.operators):
        for name, (low, high), allowed in _numbers(op, probe):
            halves = [
                _fitted(half, allowed) for half in ((low, 0.5 * (low + high)), (0.5 * (low + high), high))
            ]
            if high > low and all(halves):
                return _pair(program, index, name, halves)
        for name, words, _ in _words(op, probe):
            if len(words) > 1:
                return _pair(program, index, name, [words[: len(words) // 2], words[len(words) // 2 :]])
    raise ProgramError(
        f"program {program.program_id} cannot be split: no span and no choice of words ({program.sentence})"
    )


def _pair(
    program: GenerationProgram, index: int, name: str, halves: list[Any]
) -> tuple[GenerationProgram, GenerationProgram]:
    first, second = (
        _child(
            program,
            f"{number} half of",
            [{name: half} if place == index else {} for place in range(len(program.operators))],
        )
        for number, half in zip(("first", "second"), halves, strict=True)
    )
    return first, second


def _numbers(op: OperatorData, probe: FamilyRanges) -> Iterator[tuple[str, Span, Range]]:
    """Fields with spans of numbers, and their bounds."""
    for axis, names, value in op.bounded():
        allowed = bound(probe, axis, names)
        if isinstance(allowed, Range):
            yield _field(op, value), value, allowed


def _words(op: OperatorData, probe: FamilyRanges) -> Iterator[tuple[str, tuple[Any, ...], tuple[Any, ...]]]:
    """Fields with words, and the words that exist."""
    for axis, names, value in op.bounded():
        allowed = bound(probe, axis, names)
        if not isinstance(allowed, Range):
            yield _field(op, value), tuple(value), allowed.values


def _field(op: OperatorData, value: Any) -> str:
    return next(name for name, held in op if held is value)


def _spans(
    op: OperatorData,
    probe: FamilyRanges,
    train: FamilyRanges | None,
    change: Callable[[Span, Range, Range | None], Span],
) -> Fields:
    fields: Fields = {}
    for axis, names, value in op.bounded():
        allowed = bound(probe, axis, names)
        if isinstance(allowed, Range):
            known = bound(train, axis, names) if train else None
            fields[_field(op, value)] = change(value, allowed, known if isinstance(known, Range) else None)
    return fields


def _fitted(span: Span, allowed: Range) -> Span | None:
    """``span`` moved into the hull of the bounds, as wide as fits; None where no allowed value lies in it."""
    width = min(span[1] - span[0], allowed.high - allowed.low)
    low = min(max(span[0], allowed.low), allowed.high - width)
    return (low, low + width) if within(allowed, (low, low + width)) else None


def _child(
    program: GenerationProgram, how: str, changes: list[Fields], added: list[OperatorData] | None = None
) -> GenerationProgram:
    """The program with some fields of its operators changed. Raises ProgramError when nothing changes."""
    operators, words = [], []
    for op, fields in zip(program.operators, changes, strict=True):
        operators.append(op.model_dump() | fields)
        for name, new in fields.items():
            if new != getattr(op, name):
                words.append(f"{op.kind} {name} {_say(getattr(op, name))} became {_say(new)}")  # type: ignore[attr-defined]
    for op in added or []:
        operators.append(op.model_dump())
        words.append(op.sentence)
    if not words:
        raise ProgramError(
            f"program {program.program_id} cannot be made {how}: it is at its bounds ({program.sentence})"
        )
    return read_program(
        program.model_dump()
        | {
            "operators": operators,
            "parent": program.program_id,
            "version": program.version + 1,
            "reason": "",
            "state": "draft" if program.state == "draft" else "validated",
            "explanation": f"{how} {program.program_id}: {'; '.join(words)}"[:1000],
        }
    )


def _say(value: Any) -> str:
    if isinstance(value, tuple) and value and isinstance(value[0], float):
        return " to ".join(f"{part:.3g}" for part in value)
    return " or ".join(map(str, value)) if isinstance(value, tuple) else f"{value:.3g}"
