"""Practice within round 0: the imitated policy drives train scenes, and the expert takes over where it fails.

Demonstrations alone leave small errors that lead to states no demonstration shows, and which task suffers depends on the
seed; labels in the states that the policy reaches do not have that flaw (Ross 2011, DAgger). Scenes are of the train
split, corrections count as demonstrations of it.
"""

from __future__ import annotations

from typing import Any

from coda_nodes.conductor.loop import Loop, counts, plain, summaries
from coda_nodes.conductor.ports import EpisodesRequest
from coda_nodes.conductor.scenes import draw_valid
from coda_nodes.conductor.supervision import correct
from coda_nodes.learner.corrections import CorrectionConfig
from coda_nodes.world.records import Count

STARTS = CorrectionConfig(per_episode=4)
"""A policy that fails seldom still gives several states to learn from."""


def practise(loop: Loop, checkpoint: str) -> dict[str, Any]:
    """Roll the policy out in train scenes and correct its failures.

    Returns:
        ``episodes``: [hash, family] of each correction that the expert solved; ``counts``: family -> successes of the
        policy in practice.
    """
    config = loop.config
    rolled = summaries(loop.step("practice", lambda: _roll_out(loop, checkpoint)))
    failures = [summary for summary in rolled if summary.outcome == "failure"]
    limits = dict.fromkeys(config.families, config.practice_corrections)
    solved = summaries(loop.step("corrections", lambda: plain(correct(loop, failures, limits, STARTS))))
    tally: dict[str, Count] = counts(rolled, config.families)
    return {"episodes": [(summary.hash, summary.family) for summary in solved], "counts": tally}


def _roll_out(loop: Loop, checkpoint: str) -> list[dict[str, Any]]:
    config, rng = loop.config, loop.rng("practice")
    specs = [spec for family in config.families for spec in draw_valid(family, "train", config.practice_environments, rng)]
    return plain(loop.episodes(EpisodesRequest(specs, checkpoint, loop.seed("practice"), "rollout", config.execute)))
