"""Round 0: demonstrations of the train split, imitation, practice, and the first measurement."""

from __future__ import annotations

from collections import Counter
from typing import Any

from coda_nodes.conductor.lessons import Lesson
from coda_nodes.conductor.loop import Loop, counts, plain, summaries
from coda_nodes.conductor.ports import DatasetItem, EpisodesRequest
from coda_nodes.conductor.practice import practise
from coda_nodes.conductor.scenes import draw_valid, keep, recall, solvable_scenes
from coda_nodes.conductor.state import LoopState
from coda_nodes.memory.training import compile_training
from coda_nodes.world.errors import SimulationError
from coda_nodes.world.programs import TRAIN_SPLIT, Regime
from coda_nodes.world.records import BudgetRecord, Count, DiagnosisCounts, FamilyRecord, RoundRecord


def imitate(loop: Loop) -> LoopState:
    """Run round 0 (or go on with it) and return the state after it."""
    loop.open_round(0)
    shown = loop.step("demonstrations", lambda: _demonstrate(loop))
    lessons = [Lesson(key, 1.0, family, TRAIN_SPLIT) for key, family in shown["episodes"]]
    trained = loop.step("imitation", lambda: _train(loop, "imitation", lessons, "", loop.config.imitation_steps))
    practised = practise(loop, trained["checkpoint"])
    if practised["episodes"]:
        lessons += [Lesson(key, 1.0, family, TRAIN_SPLIT) for key, family in practised["episodes"]]
        parent = trained["checkpoint"]
        trained = loop.step("imitation 2", lambda: _train(loop, "imitation 2", lessons, parent, loop.config.practice_steps))
    scenes = loop.step("scenes", lambda: _fixed_scenes(loop))
    dev = loop.step("dev", lambda: measure(loop, scenes["dev"], trained["checkpoint"]))
    train = loop.step("train", lambda: measure(loop, scenes["train"], trained["checkpoint"]))
    state = LoopState(
        checkpoint=trained["checkpoint"], first_checkpoint=trained["checkpoint"],
        dataset=lessons,
        dev=_counts(loop, dev), train=_counts(loop, train),
        train_outcomes=[item["outcome"] for item in train], scenes=scenes,
    )
    loop.write_round(_record(loop, state, shown, practised))
    return state


def measure(loop: Loop, key: str, checkpoint: str) -> list[dict[str, Any]]:
    """Roll a checkpoint out on a kept set of scenes."""
    request = EpisodesRequest(recall(loop.root, key), checkpoint, loop.config.seed, "progress", loop.config.execute)
    return plain(loop.episodes(request))


def _counts(loop: Loop, ended: list[dict[str, Any]]) -> dict[str, Count]:
    return counts(summaries(ended), loop.config.families)


def _demonstrate(loop: Loop) -> dict[str, Any]:
    config = loop.config
    rng = loop.rng("demonstrations")
    specs = [spec for family in config.families for spec in draw_valid(family, "train", config.demonstrations, rng)]
    request = EpisodesRequest(
        specs, "expert", loop.seed("demonstrations"), "demonstration", config.demonstration_execute, config.demonstration_noise
    )
    ended = loop.episodes(request)
    good = [summary for summary in ended if summary.outcome == "success"]
    if not good:
        raise SimulationError(f"the expert solved none of {len(specs)} train scenes; nothing to imitate")
    per_family = {family: count.model_dump() for family, count in counts(ended, config.families).items()}
    return {"episodes": [[summary.hash, summary.family] for summary in good], "counts": per_family}


def _train(loop: Loop, step: str, lessons: list[Lesson], parent: str, steps: int) -> dict[str, Any]:
    config = loop.config
    program = compile_training({}, Regime(config.regime), steps, config.learning_rate, batch_size=config.batch_size)
    items = [DatasetItem(lesson.episode, lesson.weight) for lesson in lessons]
    trained = loop.ports.train(program, items, parent, loop.seed(step), loop.relay("imitation"))
    return {"checkpoint": trained.checkpoint, "metrics": trained.metrics, "program": program.model_dump(mode="json")}


def _fixed_scenes(loop: Loop) -> dict[str, str]:
    """The dev set, and the train set that the improvement gate compares on; the same for the whole run."""
    config = loop.config
    dev = solvable_scenes(config.families, "dev", config.dev_environments, config.seed, loop.episodes)
    train = solvable_scenes(config.families, "train", config.gate_environments, config.seed, loop.episodes)
    return {"dev": keep(loop.root, dev), "train": keep(loop.root, train)}


def _record(loop: Loop, state: LoopState, shown: dict[str, Any], practised: dict[str, Any]) -> RoundRecord:
    nothing = Count(successes=0, episodes=0)
    taught = Counter(lesson.family for lesson in state.dataset)
    families = {}
    for name in loop.config.families:
        tried, driven = Count(**shown["counts"][name]), practised["counts"][name]
        families[name] = FamilyRecord(
            family=name, dev_before=nothing, dev_after=state.dev[name], train_before=nothing, train_after=state.train[name],
            rollouts=driven, diagnoses=DiagnosisCounts(), generated=tried.episodes + driven.episodes, supervision=taught[name],
            text=_sentence(tried, driven, taught[name] - tried.successes, state.train[name]),
        )
    return RoundRecord(
        round=0, families=families, checkpoint=state.checkpoint, budget=BudgetRecord(**loop.budget.record()),
        seconds=loop.seconds, gate="",
    )


def _sentence(tried: Count, driven: Count, corrected: int, train: Count) -> str:
    words = (
        f"imitation of {tried.successes} demonstrations of the train split (expert solved {tried.successes} of "
        f"{tried.episodes})"
    )
    if driven.episodes:
        words += f" and of {corrected} corrections in practice (policy solved {driven.successes} of {driven.episodes})"
    return f"{words}; train success {100 * train.rate:.0f} %"
