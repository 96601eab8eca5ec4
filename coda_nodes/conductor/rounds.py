"""One round of co-evolution: roll out, diagnose, validate, supervise, train, measure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from coda_nodes.conductor.loop import Loop, plain, summaries
from coda_nodes.conductor.ports import EpisodesRequest as Request
from coda_nodes.conductor.ports import Generated
from coda_nodes.conductor.scenes import keep, recall
from coda_nodes.conductor.selection import CauseKey, cause_key, select
from coda_nodes.conductor.state import LoopState
from coda_nodes.conductor.validating import subjects_of
from coda_nodes.conductor.validation import validate
from coda_nodes.world.diagnosis import Diagnosis, read_diagnosis
from coda_nodes.world.episode import EpisodeSummary
from coda_nodes.world.programs import (
    GenerationProgram,
    read_program,
)
from coda_nodes.world.spec import EnvironmentSpec
from coda_nodes.world.validation import ValidationRecord

TEACHING = 0.6
"""Part of what a limited budget has left after the rollouts that validation leaves to supervision."""


class Found:
    """What a round has found so far, rebuilt from the journal at every start."""

    known: Collection[str] = frozenset()
    """Content hashes of scenes that the expert was known to solve before the round."""
    scores: list[float] | None = None
    """Learning potential of each scene, where a strategy has asked for it."""

    def __init__(self, loop: Loop, state: LoopState) -> None:
        self.plan = [(read_program(program), count) for program, count in loop.step("plan", lambda: _plan(loop, state))]
        made = loop.step("generation", lambda: _generate(loop, state, self.plan))
        self.specs: list[EnvironmentSpec] = recall(loop.root, made["specs"])
        self.rejections: list[str] = made["rejections"]
        self.rollouts = summaries(loop.step("rollout", lambda: _roll_out(loop, self.specs, state.checkpoint)))
        self.known = loop.strategy.solvable(state)
        self.expert = summaries(loop.step("solvability", lambda: _solve(loop, self.doubtful())))
        asked = self.failures() if loop.strategy.diagnoses else []
        self.diagnoses = _diagnoses(loop.step("diagnosis", lambda: _diagnose(loop, asked)))
        drafted = loop.step("compilation", lambda: _draft(loop, state, self.diagnoses))
        self.drafts: list[tuple[Diagnosis, GenerationProgram]] = [
            (read_diagnosis(diagnosis), read_program(program)) for diagnosis, program in drafted
        ]
        verdicts = loop.step("validation", lambda: _validate(loop, state, self))
        self.verdicts = [ValidationRecord.model_validate(verdict) for verdict in verdicts]

    def doubtful(self) -> list[EnvironmentSpec]:
        """Scenes the policy failed in, and of which is not known whether the expert solves them."""
        pairs = zip(self.specs, self.rollouts, strict=True)
        return [spec for spec, end in pairs if end.outcome == "failure" and end.environment_hash not in self.known]

    def failures(self) -> list[EpisodeSummary]:
        """Failures in scenes that the expert solves; failing an unsolvable scene teaches nothing."""
        good = {*self.known} | {summary.environment_hash for summary in self.expert if summary.outcome == "success"}
        return [s for s in self.rollouts if s.outcome == "failure" and s.environment_hash in good]

    def promoted(self) -> list[tuple[Diagnosis, GenerationProgram, ValidationRecord]]:
        """Drafts whose cause was confirmed, as validated programs."""
        triples = zip(self.drafts, self.verdicts, strict=True)
        return [
            (diagnosis, program.in_state("validated", record.words), record)
            for (diagnosis, program), record in triples
            if record.verdict == "validated"
        ]


def _plan(loop: Loop, state: LoopState) -> list[tuple[dict[str, Any], int]]:
    return [(program.model_dump(mode="json"), count) for program, count in loop.strategy.plan(loop, state)]


def _generate(loop: Loop, state: LoopState, plan: Sequence[tuple[GenerationProgram, int]]) -> dict[str, Any]:
    made = Generated([])
    if plan:
        programs, numbers = zip(*plan, strict=True)
        made = loop.ports.generate(programs, numbers, loop.seed("generation"))
    scenes = {spec.content_hash: spec for spec in [*made.specs, *loop.strategy.levels(loop, state)]}
    return {"specs": keep(loop.root, loop.affordable(list(scenes.values()))), "rejections": made.rejections}


def _roll_out(loop: Loop, specs: Sequence[EnvironmentSpec], checkpoint: str) -> list[dict[str, Any]]:
    request = Request(
        specs, checkpoint, loop.seed("rollout"), "rollout", loop.config.execute, bags=loop.config.bags_per_round
    )
    return plain(loop.episodes(request))


def _solve(loop: Loop, specs: Sequence[EnvironmentSpec]) -> list[dict[str, Any]]:
    paid = loop.affordable(specs)
    request = Request(paid, "expert", loop.seed("solvability"), "solvability", loop.config.demonstration_execute)
    return plain(loop.episodes(request))


def _diagnose(loop: Loop, failures: Sequence[EpisodeSummary]) -> list[dict[str, Any]]:
    diagnoses = loop.ports.diagnose([summary.hash for summary in failures])
    records = [diagnosis.model_dump(mode="json") for diagnosis in diagnoses]
    if records:
        loop.ports.store("diagnosis", records)
    return records


def _diagnoses(records: Sequence[dict[str, Any]]) -> list[Diagnosis]:
    return [read_diagnosis(record) for record in records]


def covered_causes(loop: Loop, state: LoopState) -> set[CauseKey]:
    """Causes that a validated, rehearsed or retired program already recreates."""
    known = {program.diagnosis_id for program in state.programs}
    if not known:
        return set()
    found = loop.ports.query("diagnosis", {"ids": sorted(known)})
    keys = (cause_key(read_diagnosis(record)) for record in found)
    return {key for key in keys if key is not None}


def _draft(loop: Loop, state: LoopState, diagnoses: Sequence[Diagnosis]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    clusters = select(diagnoses, loop.config.drafts, covered_causes(loop, state))
    chosen = [cluster.representative for cluster in clusters]
    programs = loop.ports.compile(chosen) if chosen else []
    pairs = [(diagnosis, program) for diagnosis, program in zip(chosen, programs, strict=True) if program is not None]
    return [(diagnosis.model_dump(mode="json"), program.model_dump(mode="json")) for diagnosis, program in pairs]


def _validate(loop: Loop, state: LoopState, found: Found) -> list[dict[str, Any]]:
    if not loop.strategy.validates:
        return [_trusted(diagnosis, program).model_dump(mode="json") for diagnosis, program in found.drafts]
    subjects = subjects_of(loop, found.drafts)
    loop.hold_share(TEACHING)

    def run(specs: Sequence[EnvironmentSpec], purpose: str) -> list[EpisodeSummary]:
        return loop.episodes(Request(specs, state.checkpoint, loop.seed("validation"), purpose, loop.config.execute))

    records = validate(subjects, run, loop.rng("validation"))
    data = [record.model_dump(mode="json") for record in records]
    if data:
        loop.ports.store("validation", data)
    return data


def _trusted(diagnosis: Diagnosis, program: GenerationProgram) -> ValidationRecord:
    """What stands in for a verdict where drafts are not tested."""
    return ValidationRecord(
        diagnosis_id=diagnosis.diagnosis_id, program_id=program.program_id, verdict="validated", words="not tested"
    )
