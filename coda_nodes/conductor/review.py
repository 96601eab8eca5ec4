"""What becomes of the programs after a round: kept, rehearsed, refined or retired, each with its reason."""

from __future__ import annotations

from collections.abc import Sequence

from coda_nodes.conductor.allocation import decide
from coda_nodes.conductor.loop import Loop
from coda_nodes.generator.refine import easier, harder, narrower
from coda_nodes.world.errors import ProgramError
from coda_nodes.world.programs import GenerationProgram
from coda_nodes.world.progress import Measurement
from coda_nodes.world.splits import load_splits


def review(
    loop: Loop, programs: Sequence[GenerationProgram], measurements: Sequence[Measurement]
) -> list[GenerationProgram]:
    """Decide on every validated program that was measured in this round; the others stay as they are."""
    kept: list[GenerationProgram] = []
    for program in programs:
        history = [item for item in measurements if item.program_id == program.program_id]
        fresh = bool(history) and history[-1].round == loop.round
        kept += _next(loop, program, history) if fresh and program.state == "validated" else [program]
    unique = {program.program_id: program for program in kept}
    return list(unique.values())


def _next(loop: Loop, program: GenerationProgram, history: Sequence[Measurement]) -> list[GenerationProgram]:
    decision = decide(program, history)
    if decision.action == "keep":
        return [program.in_state("validated", decision.reason)]
    if decision.action == "rehearse":
        return [program.in_state("rehearsal", decision.reason)]
    if decision.action == "retire":
        return [program.in_state("retired", decision.reason)]
    try:
        refined = _refined(program, decision.action)
    except ProgramError as error:
        return [program.in_state("validated", f"{decision.reason}; it cannot be made {decision.action}: {error}")]
    words = f"made {decision.action}, {decision.reason}"
    return [program.in_state("retired", words), refined.in_state("validated", words)]


def _refined(program: GenerationProgram, action: str) -> GenerationProgram:
    """The refinement that takes the program's place. Raises ProgramError where there is none."""
    if action == "easier":
        return easier(program)
    return (harder if action == "harder" else narrower)(program, load_splits())
