"""What a program that cured a similar failure lends to a draft."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coda_nodes.memory.retrieval import Cure
from coda_nodes.world.operators import OperatorData
from coda_nodes.world.programs import GenerationProgram, bound
from coda_nodes.world.ranges import FamilyRanges, Range
from coda_nodes.world.splits import Splits

ALIKE = 0.5
"""Similarity from which a cured program lends its parameters."""


def seeded(program: GenerationProgram, similar: Sequence[Cure], splits: Splits) -> GenerationProgram:
    """The draft with spans at least as wide, relative to the bounds, as in the best cure with an operator of
    its kind."""
    for cure in similar:
        operator = next((op for op in cure.program.operators if _kin(op, program.operators[0])), None)
        if cure.similarity >= ALIKE and operator is not None:
            theirs = splits.ranges(cure.program.family, "probe")
            changes = _widened(program, operator, splits.ranges(program.family, "probe"), theirs)
            operators = (program.operators[0].model_copy(update=changes), *program.operators[1:])
            words = f"{program.explanation}; {'seeded' if changes else 'confirmed'} by {cure.sentence}"
            return program.model_copy(update={"operators": operators, "explanation": words[:1000]})
    return program


def _kin(first: OperatorData, second: OperatorData) -> bool:
    return type(first) is type(second) and first.moves == second.moves


def _widened(
    program: GenerationProgram, lender: OperatorData, ours: FamilyRanges, theirs: FamilyRanges
) -> dict[str, tuple[float, float]]:
    """Fields of the draft's operator that become wider."""
    mine = program.operators[0]
    lent = {
        name: _share(value, bound(theirs, axis, names))
        for axis, names, value in lender.bounded()
        for name in [_name(lender, value)]
    }
    changes: dict[str, tuple[float, float]] = {}
    for axis, names, value in mine.bounded():
        allowed, name = bound(ours, axis, names), _name(mine, value)
        share = lent.get(name)
        if isinstance(allowed, Range) and share is not None:
            wider = _about(value, share * (allowed.high - allowed.low), allowed)
            if wider[1] - wider[0] > value[1] - value[0] + 1e-9:
                changes[name] = wider
    return changes


def _name(operator: OperatorData, value: Any) -> str:
    return next(name for name, held in operator if held is value)


def _share(value: Any, allowed: Any) -> float | None:
    """Width of a span as a share of its bounds."""
    return (
        (value[1] - value[0]) / max(allowed.high - allowed.low, 1e-9) if isinstance(allowed, Range) else None
    )


def _about(span: tuple[float, float], width: float, allowed: Range) -> tuple[float, float]:
    """``span`` widened to ``width`` about its middle, moved to lie within the bounds."""
    width = min(max(width, span[1] - span[0]), allowed.high - allowed.low)
    low = min(max(0.5 * (span[0] + span[1] - width), allowed.low), allowed.high - width)
    return min(low, span[0]), max(low + width, span[1])
