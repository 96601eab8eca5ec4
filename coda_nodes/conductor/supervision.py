"""Regime ``expert``: what the policy is taught after a round, a capped number of expert episodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from coda_nodes.conductor.lessons import Lesson
from coda_nodes.conductor.loop import Loop
from coda_nodes.conductor.ports import EpisodesRequest, Start
from coda_nodes.conductor.scenes import draw_valid
from coda_nodes.learner.corrections import CorrectionConfig, choose_starts
from coda_nodes.world.episode import Episode, EpisodeSummary
from coda_nodes.world.programs import TRAIN_SPLIT

WEIGHT = 2.0
"""Weight of an episode from a compiled environment against one demonstration."""


def supervise(
    loop: Loop, failures: Sequence[EpisodeSummary], solved_by_expert: Sequence[EpisodeSummary]
) -> list[Lesson]:
    """Episodes to learn from, each with its weight; at most ``corrections`` per family.

    Args:
        loop: the run.
        failures: the policy's failures whose cause was confirmed, most telling first.
        solved_by_expert: expert episodes in such scenes that solvability has already paid for.
    """
    taught: list[EpisodeSummary] = []
    mine: list[EpisodeSummary] = []
    for family in loop.config.families:
        shown = [s for s in solved_by_expert if s.family == family and s.outcome == "success"]
        shown = shown[: loop.config.corrections // 2]
        mine += [s for s in failures if s.family == family][: loop.config.corrections - len(shown)]
        taught += shown
    corrected = correct(loop, mine, Counter(summary.family for summary in mine))
    return [_lesson(loop, summary) for summary in [*taught, *corrected]]


def demonstrate(loop: Loop, count: int) -> list[Lesson]:
    """Expert episodes in ``count`` new scenes of the train split per family, as far as the budget goes."""
    config, rng = loop.config, loop.rng("more demonstrations")
    specs = loop.affordable([spec for family in config.families for spec in draw_valid(family, "train", count, rng)])
    request = EpisodesRequest(
        specs, "expert", loop.seed("more demonstrations"), "demonstration", config.demonstration_execute,
        config.demonstration_noise,
    )
    return [Lesson(item.hash, 1.0, item.family, TRAIN_SPLIT) for item in loop.episodes(request) if item.outcome == "success"]


def _lesson(loop: Loop, summary: EpisodeSummary) -> Lesson:
    spec = Episode.load(loop.root.episode(summary.hash)).spec
    return Lesson(summary.hash, WEIGHT, summary.family, spec.provenance.program_id)


def correct(
    loop: Loop, failures: Sequence[EpisodeSummary], limits: Mapping[str, int], starts: CorrectionConfig = CorrectionConfig()
) -> list[EpisodeSummary]:
    """Let the expert take over from states of the policy's own failures; keep what it solves.

    Args:
        loop: the run.
        failures: the failures, recorded with their physics states; others are passed over.
        limits: family -> corrections at most.
        starts: where in an episode the expert takes over.
    """
    episodes = [Episode.load(loop.root.episode(summary.hash)) for summary in failures]
    by_hash = {episode.content_hash: episode.spec for episode in episodes}
    chosen: list[Start] = []
    left = Counter(limits)
    for start in choose_starts(episodes, len(episodes) * starts.per_episode, loop.rng("corrections"), starts):
        family = by_hash[start.episode].family
        if left[family] > 0:  # a failure that cannot be restored gives no other family a start beyond its own
            left[family] -= 1
            chosen.append(Start(start.episode, start.chunk))
    config = loop.config
    chosen = chosen[: loop.budget.affordable([by_hash[start.episode].horizon for start in chosen])]
    request = EpisodesRequest(
        [by_hash[start.episode] for start in chosen], "expert", loop.seed("corrections"), "demonstration",
        config.demonstration_execute, config.demonstration_noise, chosen,
    )
    return [summary for summary in loop.episodes(request) if summary.outcome == "success"]
