"""The record of a finished round, and the summary of a finished run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from coda_nodes.conductor.loop import Loop, counts
from coda_nodes.conductor.rounds import Found
from coda_nodes.conductor.state import LoopState
from coda_nodes.world.diagnosis import Diagnosis
from coda_nodes.world.episode import EpisodeSummary
from coda_nodes.world.records import (
    BudgetRecord,
    Count,
    DiagnosisCounts,
    FailureRecord,
    FamilyRecord,
    ProgramRecord,
    RoundRecord,
)

GALLERY = 3
"""Failures kept for the report per family and round."""


def verdict_counts(found: Found, family: str) -> DiagnosisCounts:
    """Diagnoses of one family in this round and their verdicts."""
    made = sum(diagnosis.family == family for diagnosis in found.diagnoses)
    pairs = zip(found.drafts, found.verdicts, strict=True)
    verdicts = Counter(record.verdict for (diagnosis, _), record in pairs if diagnosis.family == family)
    return DiagnosisCounts(
        made=made, validated=verdicts["validated"], refuted=verdicts["refuted"], inconclusive=verdicts["inconclusive"]
    )


def add_counts(one: DiagnosisCounts, other: DiagnosisCounts) -> DiagnosisCounts:
    """Sum of two tallies."""
    return DiagnosisCounts(**{name: getattr(one, name) + getattr(other, name) for name in DiagnosisCounts.model_fields})


def family_text(found: Found, family: str, taught: int) -> str:
    """What was diagnosed, validated and generated for one family, in one line."""
    tally = verdict_counts(found, family)
    causes = Counter(
        f"{d.failure_mode.replace('_', ' ')} by {d.cause.axis}" for d in found.diagnoses if d.family == family and d.cause
    )
    common = ", ".join(f"{text} ({number})" for text, number in causes.most_common(2)) or "no cause found"
    generated = sum(spec.family == family for spec in found.specs)
    return (
        f"{generated} generated; {tally.made} failures diagnosed: {common}; {tally.validated} validated, "
        f"{tally.refuted} refuted, {tally.inconclusive} inconclusive; {taught} episodes taught"
    )


def failure_records(
    found: Found, solved: Mapping[str, str], families: Sequence[str], first: Sequence[str]
) -> list[FailureRecord]:
    """Failures for the gallery: those that were validated and those solved later come first.

    Args:
        found: the round.
        solved: environment hash -> episode in which the new checkpoint solved it.
        families: in order.
        first: diagnosis ids to prefer.
    """
    words = {record.diagnosis_id: record.words for record in found.verdicts}
    programs = {diagnosis.diagnosis_id: program.program_id for diagnosis, program in found.drafts}
    specs = {spec.content_hash: spec for spec in found.specs}

    def rank(diagnosis: Diagnosis) -> tuple[bool, bool, float]:
        return diagnosis.diagnosis_id not in first, diagnosis.environment not in solved, -diagnosis.confidence

    chosen = []
    for family in families:
        mine = [d for d in found.diagnoses if d.family == family and d.environment in specs]
        chosen += sorted(mine, key=rank)[:GALLERY]
    return [
        FailureRecord(
            episode=d.episode, family=str(d.family), instruction=specs[d.environment].instruction, diagnosis_id=d.diagnosis_id,
            diagnosis=d.render(), verdict=words.get(d.diagnosis_id, ""), program_id=programs.get(d.diagnosis_id, ""),
            solved_episode=solved.get(d.environment, ""),
        )
        for d in chosen
    ]


def family_records(
    loop: Loop, found: Found, before: LoopState, after: LoopState, taught: Mapping[str, int]
) -> dict[str, FamilyRecord]:
    """One record per family."""
    rolled = counts(found.rollouts, loop.config.families)
    rejected = {family: _rejections(found.rejections, family) for family in loop.config.families}
    return {
        family: FamilyRecord(
            family=family, dev_before=before.dev[family], dev_after=after.dev[family],
            train_before=before.train[family], train_after=after.train[family], rollouts=rolled[family],
            diagnoses=verdict_counts(found, family), generated=sum(spec.family == family for spec in found.specs),
            rejected=sum(rejected[family].values()), rejections=dict(rejected[family]), supervision=taught.get(family, 0),
            text=family_text(found, family, taught.get(family, 0)),
        )
        for family in loop.config.families
    }


def _rejections(reasons: Sequence[str], family: str) -> Counter[str]:
    """Rejections are written ``family: check: message``; they are counted by check."""
    parts = [reason.split(": ", 2) for reason in reasons]
    return Counter(part[1] for part in parts if len(part) > 1 and part[0] == family)


def program_records(
    after: LoopState, found: Found, replayed: Mapping[str, tuple[Count, Count]]
) -> list[ProgramRecord]:
    """Every program that generated in this round, or was born or retired in it."""
    generated = Counter(spec.provenance.program_id for spec in found.specs)
    exploring = [program for program, _ in found.plan if not program.diagnosis_id]
    nothing = Count(successes=0, episodes=0)
    records = []
    for program in [*after.programs, *exploring]:
        key = program.program_id
        pair = replayed.get(key, (nothing, nothing))
        records.append(ProgramRecord(
            program_id=key, family=program.family, text=program.sentence,
            state=program.state if program.diagnosis_id else "exploration", parent=program.parent,
            diagnosis_id=program.diagnosis_id, environments=generated[key], before=pair[0], after=pair[1],
            reason=program.reason if program.diagnosis_id else "",
        ))
    return records


def round_record(
    loop: Loop, number: int, families: dict[str, FamilyRecord], programs: list[ProgramRecord],
    failures: list[FailureRecord], after: LoopState, candidate: str, gate: str,
) -> RoundRecord:
    """Put the parts together."""
    return RoundRecord(
        round=number, families=families, programs=programs, failures=failures, checkpoint=after.checkpoint,
        candidate=candidate, accepted=after.checkpoint == candidate, gate=gate,
        budget=BudgetRecord(**loop.budget.record()), seconds=loop.seconds,
    )


def solved_later(ended: Sequence[EpisodeSummary]) -> dict[str, str]:
    """Environment hash -> episode that solved it."""
    return {summary.environment_hash: summary.hash for summary in ended if summary.outcome == "success"}
