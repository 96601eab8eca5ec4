"""The second half of a round: supervision, training, the gate, learning progress, the new state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from coda_nodes.conductor.closing import (
    add_counts,
    failure_records,
    family_records,
    program_records,
    round_record,
    solved_later,
    verdict_counts,
)
from coda_nodes.conductor.gate import GateConfig, GateDecision, by_family, gate
from coda_nodes.conductor.imitation import measure
from coda_nodes.conductor.improvement import improve, refined_potentials
from coda_nodes.conductor.lessons import Lesson
from coda_nodes.conductor.loop import Loop, counts, plain, summaries
from coda_nodes.conductor.ports import EpisodesRequest as Request
from coda_nodes.conductor.review import review
from coda_nodes.conductor.rounds import Found, covered_causes
from coda_nodes.conductor.scenes import keep, recall
from coda_nodes.conductor.selection import CauseKey, cause_key
from coda_nodes.conductor.state import LoopState
from coda_nodes.conductor.supervision import demonstrate, supervise
from coda_nodes.memory.training import compile_training
from coda_nodes.world.episode import Episode, EpisodeSummary
from coda_nodes.world.potentials import TaskPotential, read_task_potential
from coda_nodes.world.programs import TRAIN_SPLIT, GenerationProgram, Regime
from coda_nodes.world.progress import Measurement
from coda_nodes.world.records import Count
from coda_nodes.world.spec import EnvironmentSpec

GALLERY_REPLAYS = 6
"""Failed scenes per family that the candidate tries again for the gallery, at most."""


def run_round(loop: Loop, state: LoopState, number: int) -> LoopState:
    """Run a round (or go on with it) and return the state after it."""
    loop.open_round(number)
    loop.share_budget()
    rehearsed = recall(loop.root, loop.step("rehearsal scenes", lambda: _rehearsal_scenes(loop, state)))
    gated = [*recall(loop.root, state.scenes["train"]), *rehearsed, *rehearsed]
    loop.hold(gated)
    found = Found(loop, state)
    again = _replayed(loop, found)
    loop.hold([*gated, *again])
    promoted = [program for _, program, _ in found.promoted()]
    own = Regime(loop.config.regime) is Regime.NO_EXPERT
    grounds = own and loop.strategy.grounds
    refined = loop.step("potentials", lambda: _potentials(loop, state, found)) if grounds else []
    tasks = [read_task_potential(task) for task in refined]
    taught = [Lesson(*item) for item in loop.step("supervision", lambda: _supervise(loop, state, found, tasks))]
    loop.hold([])
    if not taught and not loop.strategy.trains_always:
        return _close(loop, state, found, promoted, {}, state.checkpoint, None, [], [])
    grown = state.model_copy(update={"dataset": [*state.dataset, *taught]})
    trained = loop.step("training", lambda: _train(loop, grown, tasks))
    candidate = trained["checkpoint"]
    train = loop.step("gate", lambda: measure(loop, state.scenes["train"], candidate))
    rehearsal = loop.step("rehearsal", lambda: _rehearse(loop, state, rehearsed, candidate))
    decision = _decide(loop, state, train, rehearsal)
    replayed = summaries(loop.step("replay", lambda: _replay(loop, again, candidate)))
    per_family = Counter(lesson.family for lesson in taught)
    return _close(loop, grown, found, promoted, per_family, candidate, decision, train, replayed)


def _supervise(loop: Loop, state: LoopState, found: Found, tasks: Sequence[TaskPotential]) -> list[Lesson]:
    """Learn from failures whose cause was confirmed now or before: those of the rollouts, then those of the recreations.

    Without an expert the other failures follow, as far as the cap goes: what the policy solves itself cannot mislead it.
    A strategy without diagnoses learns from all failures.
    """
    strategy, own = loop.strategy, Regime(loop.config.regime) is Regime.NO_EXPERT
    if shown := strategy.demonstrations(loop.config):
        return demonstrate(loop, shown)
    if strategy.diagnoses:
        confirmed = _confirmed(loop, state, found)
        diagnosed = {diagnosis.episode for diagnosis in found.diagnoses if cause_key(diagnosis) in confirmed}
    else:
        diagnosed = {summary.hash for summary in found.failures()}
    failures = [summary for summary in found.failures() if summary.hash in diagnosed]
    scenes = {summary.environment_hash for summary in failures}
    for _, _, record in found.promoted():
        failures += _failed(loop, record.program.episodes)
    if own:
        rest = [summary for summary in found.failures() if summary.hash not in diagnosed]
        return improve(loop, state.checkpoint, strategy.order(loop, state, found, [*failures, *rest]), tasks)
    solved = [summary for summary in found.expert if summary.environment_hash in scenes]
    return supervise(loop, strategy.order(loop, state, found, failures), solved)


def _confirmed(loop: Loop, state: LoopState, found: Found) -> set[CauseKey | None]:
    return {cause_key(diagnosis) for diagnosis, _, _ in found.promoted()} | covered_causes(loop, state)


def _potentials(loop: Loop, state: LoopState, found: Found) -> list[dict[str, Any]]:
    """What the confirmed diagnoses of this round say about the stages of their tasks."""
    confirmed = _confirmed(loop, state, found)
    scene = {summary.hash: spec for spec, summary in zip(found.specs, found.rollouts, strict=True)}
    diagnosed = [(item, scene[item.episode]) for item in found.diagnoses if cause_key(item) in confirmed]
    return [task.model_dump(mode="json") for task in refined_potentials(diagnosed)]


def _failed(loop: Loop, episodes: Sequence[str]) -> list[EpisodeSummary]:
    loaded = (Episode.load(loop.root.episode(key)) for key in episodes)
    return [EpisodeSummary.of(episode) for episode in loaded if episode.outcome == "failure"]


def _train(loop: Loop, state: LoopState, tasks: Sequence[TaskPotential]) -> dict[str, Any]:
    """Fine-tune the current checkpoint on all lessons so far."""
    config = loop.config
    weights: Counter[str] = Counter()
    for lesson in state.dataset:
        weights[lesson.program_id] += lesson.weight  # type: ignore[assignment]
    total = sum(weights.values())
    train_share = weights.pop(TRAIN_SPLIT) / total
    program = compile_training(
        weights, Regime(config.regime), loop.strategy.gradient_steps(config), config.update_learning_rate, train_share,
        config.batch_size, task_potentials=tasks,
    )
    seed, relay = loop.seed("training"), loop.relay("training")
    trained = loop.ports.train(program, state.items(), state.checkpoint, seed, relay)
    return {"checkpoint": trained.checkpoint, "metrics": trained.metrics, "program": program.model_dump(mode="json")}


def _rehearsal_scenes(loop: Loop, state: LoopState) -> str:
    """Scenes of solved programs, to be compared on; hash under which they are kept."""
    programs = [program for program in state.programs if program.state == "rehearsal"]
    of_family = Counter(program.family for program in programs)
    each = [max(1, loop.config.gate_environments // of_family[program.family]) for program in programs]
    return keep(loop.root, loop.ports.generate(programs, each, loop.config.seed).specs) if programs else ""


def _rehearse(loop: Loop, state: LoopState, specs: Sequence[EnvironmentSpec], candidate: str) -> dict[str, list[str]]:
    """Outcomes of the current policy and the candidate in scenes of solved programs, with the scenes' families."""
    ended = {"families": [spec.family for spec in specs], "before": [], "after": []}
    for name, checkpoint in (("before", state.checkpoint), ("after", candidate)):
        request = Request(specs, checkpoint, loop.config.seed, "progress", loop.config.execute)
        ended[name] = [summary.outcome for summary in loop.episodes(request)]
    return ended


def _decide(
    loop: Loop, state: LoopState, train: Sequence[Mapping[str, Any]], rehearsal: Mapping[str, list[str]]
) -> GateDecision:
    after = [item["outcome"] for item in train]
    sets = by_family("train", [item["family"] for item in train], state.train_outcomes, after)
    sets |= by_family("rehearsal", rehearsal["families"], rehearsal["before"], rehearsal["after"])
    return gate(sets, GateConfig(tolerance=loop.config.gate_tolerance))


def _replayed(loop: Loop, found: Found) -> list[EnvironmentSpec]:
    """Scenes of the round that the candidate tries again: some of each program, and of the failures."""
    if not loop.strategy.tracks:
        return []
    taken: Counter[str] = Counter()
    chosen: dict[str, EnvironmentSpec] = {}
    failed = {summary.environment_hash for summary in found.failures()}
    for spec in found.specs:
        key = spec.provenance.program_id
        if taken[key] < loop.config.progress_environments:
            taken[key] += 1
            chosen[spec.content_hash] = spec
        elif spec.content_hash in failed and taken[spec.family] < GALLERY_REPLAYS:
            taken[spec.family] += 1
            chosen[spec.content_hash] = spec
    return list(chosen.values())


def _replay(loop: Loop, specs: Sequence[EnvironmentSpec], candidate: str) -> list[dict[str, Any]]:
    paid = loop.affordable(specs)
    return plain(loop.episodes(Request(paid, candidate, loop.seed("rollout"), "progress", loop.config.execute)))


def _by_program(found: Found, replayed: Sequence[EpisodeSummary]) -> dict[str, tuple[Count, Count]]:
    """Program id -> success before and after training, in the same scenes."""
    program_of = {spec.content_hash: spec.provenance.program_id for spec in found.specs}
    before = {summary.environment_hash: summary.outcome for summary in found.rollouts}
    tally: dict[str, list[tuple[str, str]]] = {}
    for summary in replayed:
        pair = (before[summary.environment_hash], summary.outcome)
        if "invalid" not in pair:
            tally.setdefault(program_of[summary.environment_hash], []).append(pair)
    return {
        key: tuple(Count(successes=sum(pair[i] == "success" for pair in pairs), episodes=len(pairs)) for i in (0, 1))
        for key, pairs in tally.items()
    }


def _close(
    loop: Loop, state: LoopState, found: Found, promoted: Sequence[GenerationProgram], taught: Mapping[str, int],
    candidate: str, decision: GateDecision | None, train: Sequence[Mapping[str, Any]], replayed: Sequence[EpisodeSummary],
) -> LoopState:
    """Settle the round: which checkpoint goes on, what becomes of each program, and the record."""
    accepted = decision is not None and decision.accepted
    dev = loop.step("dev", lambda: measure(loop, state.scenes["dev"], candidate)) if accepted else []
    pairs = _by_program(found, replayed)
    measurements = _measurements(loop, found, pairs, candidate)
    programs = _kept(loop, state, promoted, measurements)
    tally = state.diagnoses
    for family in loop.config.families:
        tally = add_counts(tally, verdict_counts(found, family))
    levels = loop.strategy.carry(loop, state, found)
    changes: dict[str, Any] = {
        "levels": levels, "programs": programs, "diagnoses": tally, "measurements": [*state.measurements, *measurements],
    }
    if accepted:
        changes.update(
            checkpoint=candidate, dev=counts(summaries(dev), loop.config.families),
            train=counts(summaries(train), loop.config.families), train_outcomes=[item["outcome"] for item in train],
        )
    after = state.model_copy(update=changes)
    loop.step("memory", lambda: _remember(loop, programs, measurements))
    words = decision.sentence if decision else "no confirmed cause to train on in this round; the checkpoint stays"
    first = [diagnosis.diagnosis_id for diagnosis, _ in found.drafts]
    loop.write_round(round_record(
        loop, loop.round, family_records(loop, found, state, after, taught), program_records(after, found, pairs),
        failure_records(found, solved_later(replayed), loop.config.families, first), after, candidate, words,
    ))
    loop.note(f"round {loop.round}: {words}")
    return after


def _kept(
    loop: Loop, state: LoopState, promoted: Sequence[GenerationProgram], measurements: Sequence[Measurement]
) -> list[GenerationProgram]:
    """Programs after the round: without memory only this round's, without progress all of them as they are."""
    programs = [*(state.programs if loop.strategy.remembers else []), *promoted]
    if loop.strategy.tracks:
        return review(loop, programs, [*state.measurements, *measurements])
    return list({program.program_id: program for program in programs}.values())


def _measurements(
    loop: Loop, found: Found, pairs: Mapping[str, tuple[Count, Count]], candidate: str
) -> list[Measurement]:
    families = {spec.provenance.program_id: spec.family for spec in found.specs}
    spent = Counter(spec.provenance.program_id for spec in found.specs)
    steps: Counter[str] = Counter()
    for spec, summary in zip(found.specs, found.rollouts, strict=True):
        steps[spec.provenance.program_id] += summary.steps
    return [
        Measurement(
            program_id=key, family=families[key], round=loop.round, checkpoint=candidate, successes=after.successes,
            episodes=after.episodes, environments=spent[key], control_steps=steps[key],
        )
        for key, (_, after) in pairs.items()
    ]


def _remember(loop: Loop, programs: Sequence[GenerationProgram], measurements: Sequence[Measurement]) -> int:
    loop.ports.store("program", [program.model_dump(mode="json") for program in programs])
    loop.ports.store("progress", [item.model_dump(mode="json") for item in measurements])
    return len(programs)
