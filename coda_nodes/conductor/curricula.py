"""Methods that CoDA is compared with, closed loop: prioritized level replay, and mutation of levels of high regret.

Both keep levels (scenes) with a score, one buffer per family; a level is taught by the supervision all methods share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from coda_nodes.conductor.baselines import DomainRandomization, rollouts
from coda_nodes.conductor.level_replay import draw, replay_probabilities
from coda_nodes.conductor.level_values import ScoreConfig, score_episodes
from coda_nodes.conductor.loop import Loop
from coda_nodes.conductor.mutation import mutate
from coda_nodes.conductor.rounds import Found
from coda_nodes.conductor.state import Level, LoopState
from coda_nodes.conductor.strategy import Plan
from coda_nodes.world.episode import Episode, EpisodeSummary
from coda_nodes.world.spec import EnvironmentSpec


@dataclass(frozen=True)
class LevelReplay(DomainRandomization):
    """Prioritized level replay (Jiang, Grefenstette and Rocktaeschel 2021, "Prioritized Level Replay", ICML).

    Part ``replay`` of a round's rollouts are in levels played before, the others in new ones that domain randomization draws.
    Levels are replayed by rank of score (temperature 0.1) mixed with staleness (0.1), both as published for Procgen; the score
    is the mean size of the generalised advantage (``l1``), its lambda 0.95. Levels have no end here, so that the published
    schedule (replay as often as a level is known) has no meaning: a fixed half, as in Jiang 2021b for unbounded levels.
    What is new and what is replayed is learned from alike, in the order in which ``P_replay`` draws them.
    """

    replay: float = 0.5
    temperature: float = 0.1
    staleness: float = 0.1
    scoring: ScoreConfig = field(default=ScoreConfig())

    def plan(self, loop: Loop, state: LoopState) -> Plan:
        """New levels."""
        new = rollouts(loop) if not state.levels else round((1.0 - self.replay) * rollouts(loop))
        return [item for family in loop.config.families for item in self.fresh(family, new, loop.rng(f"plan {family}"))]

    def levels(self, loop: Loop, state: LoopState) -> list[EnvironmentSpec]:
        """Levels that are played again."""
        count = round(self.replay * rollouts(loop))
        chosen = self._drawn(loop, state.levels, count, "replayed levels")
        return [Episode.load(loop.root.episode(level.episode)).spec for level in chosen]

    def solvable(self, state: LoopState) -> set[str]:
        """Levels that were solvable before."""
        return {level.environment for level in state.levels if level.solvable}

    def order(self, loop: Loop, state: LoopState, found: Found, failures: Sequence[EpisodeSummary]) -> list[EpisodeSummary]:
        """Failures of the round in the order of the draw."""
        ended = {summary.environment_hash: summary for summary in failures}
        mine = [level for level in self.carry(loop, state, found) if level.environment in ended]
        return [ended[level.environment] for level in self._drawn(loop, mine, len(mine), "taught levels")]

    def carry(self, loop: Loop, state: LoopState, found: Found) -> list[Level]:
        """All levels, those of this round with their new scores."""
        if found.scores is None:
            found.scores = loop.step("levels", lambda: self._score(loop, found))
        levels = {level.environment: level for level in state.levels}
        good = {*found.known} | {summary.environment_hash for summary in found.expert if summary.outcome == "success"}
        for summary, value in zip(found.rollouts, found.scores, strict=True):
            if summary.outcome != "invalid":
                solved = summary.outcome == "success"
                levels[summary.environment_hash] = Level(
                    environment=summary.environment_hash, family=summary.family, episode=summary.hash, solved=solved,
                    solvable=solved or summary.environment_hash in good, score=value, round=loop.round,
                )
        return list(levels.values())

    def _score(self, loop: Loop, found: Found) -> list[float]:
        episodes = [Episode.load(loop.root.episode(summary.hash)) for summary in found.rollouts]
        return score_episodes(episodes, self.scoring, loop.seed("level values"))

    def _drawn(self, loop: Loop, levels: Sequence[Level], count: int, label: str) -> list[Level]:
        """Up to ``count`` levels of each family, one after another by ``P_replay``."""
        chosen: list[Level] = []
        for family in loop.config.families:
            mine = [level for level in levels if level.family == family]
            ages = [loop.round - level.round for level in mine]
            chances = replay_probabilities([level.score for level in mine], ages, self.temperature, self.staleness)
            chosen += [mine[index] for index in draw(chances, count, loop.rng(f"{label} {family}"))]
        return chosen


@dataclass(frozen=True)
class Mutation(LevelReplay):
    """Edits of levels of high regret (Parker-Holder and others 2022, "Evolving Curricula with Regret-Based Environment Design",
    ICML: ACCEL).

    Part ``replay`` of a round's rollouts are in edits of levels drawn by ``P_replay``, the others in new levels; both only
    evaluate (no learning from them as such). What is learned from are levels of the whole buffer, drawn by ``P_replay`` among
    those the policy failed in last time. An edit makes ``edits`` random changes within the probe bounds. Settings are the
    published ones of BipedalWalker, the continuous domain of the paper: replay 0.9, 3 edits, positive value loss, rank,
    staleness 0.5, lambda 0.9; temperature 0.1.
    """

    replay: float = 0.9
    staleness: float = 0.5
    edits: int = 3
    scoring: ScoreConfig = field(default=ScoreConfig(estimate="positive", trace=0.9))

    def levels(self, loop: Loop, state: LoopState) -> list[EnvironmentSpec]:
        """Edits of drawn levels; of fewer levels than edits are wanted, several each."""
        if not state.levels:
            return []
        wanted, rng = round(self.replay * rollouts(loop)), loop.rng("edits")
        edited: list[EnvironmentSpec] = []
        for family in loop.config.families:
            mine = [level for level in state.levels if level.family == family]
            parents = self._drawn(loop, mine, wanted, "edited levels")
            specs = [Episode.load(loop.root.episode(level.episode)).spec for level in parents]
            made = [mutate(specs[i % len(specs)], self.edits, rng) for i in range(wanted if specs else 0)]
            edited += [spec for spec in made if spec is not None]
        return edited

    def order(self, loop: Loop, state: LoopState, found: Found, failures: Sequence[EpisodeSummary]) -> list[EpisodeSummary]:
        """Failed levels of the whole buffer in the order of the draw."""
        mine = [level for level in self.carry(loop, state, found) if level.solvable and not level.solved]
        chosen = self._drawn(loop, mine, len(mine), "taught levels")
        return [EpisodeSummary.of(Episode.load(loop.root.episode(level.episode))) for level in chosen]
