"""What is validated: a diagnosed failure, the same scene with the cause at its nominal value, and its draft program."""

from __future__ import annotations

from collections.abc import Sequence

from coda_nodes.conductor.loop import Loop
from coda_nodes.conductor.validation import Draw, Subject
from coda_nodes.world.axes import deviations, set_value
from coda_nodes.world.diagnosis import Diagnosis
from coda_nodes.world.episode import Episode
from coda_nodes.world.errors import DiagnosisError
from coda_nodes.world.programs import GenerationProgram
from coda_nodes.world.spec import EnvironmentSpec


def subjects_of(loop: Loop, drafts: Sequence[tuple[Diagnosis, GenerationProgram]]) -> list[Subject]:
    """One subject per draft. Raises DiagnosisError for a diagnosis without a cause or an episode."""
    return [_subject(loop, index, diagnosis, program) for index, (diagnosis, program) in enumerate(drafts)]


def _subject(loop: Loop, index: int, diagnosis: Diagnosis, program: GenerationProgram) -> Subject:
    cause = diagnosis.cause
    if cause is None or not diagnosis.episode:
        raise DiagnosisError(f"diagnosis {diagnosis.diagnosis_id} names no cause or episode; nothing to validate")
    factual = Episode.load(loop.root.episode(diagnosis.episode)).spec
    nominal = set_value(factual, cause.axis, cause.object, cause.parameter, cause.nominal)
    alone = len(deviations(factual)) <= 1
    return Subject(diagnosis.diagnosis_id, program.program_id, factual, nominal, _draw(loop, index, program), alone)


def _draw(loop: Loop, index: int, program: GenerationProgram) -> Draw:
    matched = program.without_operators()
    seeds = loop.rng(f"recreation {index}")

    def draw(count: int) -> tuple[list[EnvironmentSpec], list[EnvironmentSpec]]:
        seed = int(seeds.integers(2**31))  # the same for both: matched scenes differ by the operators alone
        return loop.ports.generate([program], [count], seed).specs, loop.ports.generate([matched], [count], seed).specs

    return draw
