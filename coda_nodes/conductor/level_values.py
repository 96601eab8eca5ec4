"""Scores of levels from episodes of the current policy, by a value function learned from these episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coda_nodes.conductor.level_replay import Estimate, advantages, score
from coda_nodes.learner.critic_network import CriticNetworkConfig
from coda_nodes.learner.critics import ChunkCritics
from coda_nodes.learner.replay import ChunkReplay, gives_values
from coda_nodes.learner.returns import continuing
from coda_nodes.learner.valuing import CriticConfig, fit_critics
from coda_nodes.world.config import check_settings, setting
from coda_nodes.world.episode import Episode


@dataclass(frozen=True)
class ScoreConfig:
    """How learning potential is estimated; published values where there are such."""

    estimate: str = setting("l1", "size of advantages, or their positive part", choices=("l1", "positive"))
    discount: float = setting(0.995, "per control step", low=0.5, high=0.99999)
    trace: float = setting(0.95, "lambda of the advantages, per chunk", low=0.0, high=1.0)
    steps: int = setting(500, "gradient steps of the value function, each round anew", low=1, high=100_000)

    def __post_init__(self) -> None:
        check_settings(self)


def score_episodes(episodes: Sequence[Episode], config: ScoreConfig, seed: int) -> list[float]:
    """Score of each episode's level, in order; 0 for an episode that gives no values (invalid, or without a chunk).

    ``V`` is the mean over what the policy does (expectile 0.5, no potential), fitted to all of the episodes; a time limit
    bootstraps, a true end does not.
    """
    used = [episode for episode in episodes if gives_values(episode)]
    if not used:
        return [0.0] * len(episodes)
    replay = ChunkReplay.from_episodes(used)
    settings = CriticConfig(
        steps=config.steps, batch=128, discount=config.discount, shaped=False, expectile=0.5, pessimism=0.0,
        network=CriticNetworkConfig(members=2),
    )
    critics, _ = fit_critics(replay, settings, seed)
    scored = iter(_scores(replay, critics, config))
    return [next(scored) if gives_values(episode) else 0.0 for episode in episodes]


def _scores(replay: ChunkReplay, critics: ChunkCritics, config: ScoreConfig) -> list[float]:
    value = np.clip(critics.state_values(replay.states.observation()), 0.0, 1.0)
    t = replay.transitions
    errors = replay.targets(value[t.after], config.discount, shaped=False) - value[t.before]
    decay = config.trace * continuing(t.executed, t.terminal, config.discount)
    begins = np.flatnonzero(~np.isin(t.before, t.after))  # states that no chunk leads to
    parts = np.split(np.arange(t.n), begins[1:])
    estimate: Estimate = "l1" if config.estimate == "l1" else "positive"
    return [score(advantages(errors[part], decay[part]), estimate) for part in parts]
