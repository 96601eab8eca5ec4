"""Drawing environments from generation programs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from coda_nodes.generator.operators import apply, redrawn
from coda_nodes.generator.validity import static_rejections
from coda_nodes.world.errors import ProgramError, ValidityError
from coda_nodes.world.families import family
from coda_nodes.world.operators import OperatorData
from coda_nodes.world.plain import data_hash
from coda_nodes.world.programs import GenerationProgram, check_bounds
from coda_nodes.world.ranges import Choices, FamilyRanges
from coda_nodes.world.spec import EnvironmentSpec, Provenance
from coda_nodes.world.splits import Splits

HOPELESS = 16
"""Draws that are refused before the first one succeeds, after which a program counts as empty."""


@dataclass(frozen=True)
class Drawn:
    """Valid environments, and why other draws were refused (one sentence each)."""

    specs: list[EnvironmentSpec] = field(default_factory=list)
    rejections: list[str] = field(default_factory=list)


def base_stream(program: GenerationProgram, seed: int) -> np.random.Generator:
    """Where scenes of a program are drawn from: programs of one family and base share it, so that a program and the same
    without its operators give matched scenes; programs of different bases do not repeat each other's scenes."""
    return np.random.default_rng([seed, int(data_hash(program.model_dump(mode="json", include={"family", "base"})), 16)])


def sample(program: GenerationProgram, rng: np.random.Generator, splits: Splits) -> EnvironmentSpec:
    """Draw one environment: the base distribution, then the operators in order.

    ``rng`` gives exactly one number per call, whatever the program: programs that differ only in their
    operators, drawn from generators in the same state, give the same base scenes one for one (matched
    comparison).

    Raises:
        ProgramError: a value outside the probe bounds, or an axis or parameter the family has not.
        ValidityError: this draw leaves no room for an operator; draw again.
    """
    probe = splits.ranges(program.family, "probe")
    check_bounds(program, probe)
    seed = int(rng.integers(2**63))
    active = [(op, _own_rng(seed, op)) for op in program.operators if op.magnitude > 0]
    ranges: FamilyRanges = splits.mixed(program.family, dict.fromkeys(program.base.probe_axes, "probe"))
    if program.base.tasks:
        ranges = ranges.replaced("instruction", "task", Choices(program.base.tasks))
    for op, own in active:
        ranges = redrawn(ranges, op, probe, own)
    spec = family(program.family).sample(ranges, np.random.default_rng(seed))
    for op, own in active:
        spec = apply(spec, op, probe, own)
    return spec.revise(provenance=_provenance(program, spec))


def _own_rng(seed: int, op: OperatorData) -> np.random.Generator:
    """Each operator draws from its own stream, so that taking one away does not change what another does."""
    return np.random.default_rng([seed, int(data_hash(op.model_dump(mode="json")), 16)])


def _provenance(program: GenerationProgram, spec: EnvironmentSpec) -> Provenance:
    return Provenance(
        split="train" if not program.axes else "program",
        program_id=program.program_id,
        diagnosis_id=program.diagnosis_id,
        task=spec.provenance.task,
        axes=program.axes,
    )


def draw_valid(
    program: GenerationProgram, count: int, rng: np.random.Generator, splits: Splits, attempts: int = 8
) -> Drawn:
    """Draw ``count`` environments that pass the static validity checks; fewer after ``attempts`` draws for
    each.

    Raises:
        ProgramError: as ``sample``.
    """
    if count < 0:
        raise ProgramError(f"cannot draw {count} environments")
    drawn = Drawn()
    for _ in range(count * attempts):
        if len(drawn.specs) == count or (not drawn.specs and len(drawn.rejections) == HOPELESS):
            break
        try:
            spec = sample(program, rng, splits)
        except ValidityError as error:
            drawn.rejections.append(str(error))
            continue
        reasons = static_rejections(spec)
        if reasons:
            drawn.rejections.append(reasons[0].message)
        else:
            drawn.specs.append(spec)
    return drawn
