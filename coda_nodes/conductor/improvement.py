"""Regime ``no_expert``: the policy looks ahead in scenes it failed in, and learns from what it solves there itself."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from coda_nodes.conductor.lessons import Lesson
from coda_nodes.conductor.loop import Loop, in_turn
from coda_nodes.conductor.ports import EpisodesRequest
from coda_nodes.learner.text2potential import Text2Potential
from coda_nodes.policy.language import SentenceEncoder
from coda_nodes.simulator.lookahead import LookaheadConfig
from coda_nodes.simulator.plans import LookaheadPlan
from coda_nodes.world.diagnosis import Diagnosis
from coda_nodes.world.episode import Episode, EpisodeSummary
from coda_nodes.world.errors import DiagnosisError
from coda_nodes.world.potentials import TaskPotential
from coda_nodes.world.spec import EnvironmentSpec

log = logging.getLogger(__name__)
WEIGHT = 5.0
"""Weight of an own success against one demonstration."""
SHIFT = 104729
"""Between the seeds of two tries in one scene."""


def improve(
    loop: Loop, checkpoint: str, failures: Sequence[EpisodeSummary], tasks: Sequence[TaskPotential]
) -> list[Lesson]:
    """Let the policy look ahead in the scenes of its failures; at most ``lookaheads`` scenes per family.

    Args:
        loop: the run.
        checkpoint: hash of the policy.
        failures: the policy's failures, those whose cause was confirmed first.
        tasks: potentials that diagnoses have refined; other goals have their default ones.

    Returns:
        The episodes that reached the goal. No expert is asked.
    """
    scenes: dict[str, EnvironmentSpec] = {}
    for family in loop.config.families:
        mine = dict.fromkeys(summary.hash for summary in failures if summary.family == family)
        for key in mine:
            spec = Episode.load(loop.root.episode(key)).spec
            scenes.setdefault(spec.content_hash, spec)
            if sum(spec.family == family for spec in scenes.values()) >= loop.config.lookaheads:
                break
    config = LookaheadConfig.of(loop.config.lookahead_branches)
    plan = LookaheadPlan(checkpoint, tuple(tasks), config)
    ended = in_waves(loop, list(scenes.values()), plan.save(loop.root), config.steps_paid)
    return [
        Lesson(summary.hash, WEIGHT, summary.family, scenes[summary.environment_hash].provenance.program_id)
        for summary in ended if summary.outcome == "success"
    ]


def in_waves(loop: Loop, specs: Sequence[EnvironmentSpec], actor: str, steps_paid: int) -> list[EpisodeSummary]:
    """Episodes of ``actor`` in the scenes, families in turn, as far as the budget goes; failed ones again up to
    ``lookahead_tries`` times.

    An episode may cost ``steps_paid`` control steps for each step of its horizon but mostly costs less: each wave takes
    what is surely affordable, and the next one what that left.
    """
    ended: list[EpisodeSummary] = []
    waiting = in_turn(specs)
    for attempt in range(loop.config.lookahead_tries):
        failed: set[str] = set()
        begun = waiting
        while waiting:
            count = loop.budget.affordable([steps_paid * spec.horizon for spec in waiting])
            if not count:
                return ended
            wave, waiting = waiting[:count], waiting[count:]
            seed = loop.seed("lookahead") + SHIFT * (1 + attempt)
            done = loop.episodes(EpisodesRequest(wave, actor, seed, "lookahead", steps_paid=steps_paid))
            failed |= {summary.environment_hash for summary in done if summary.outcome != "success"}
            ended += done
        waiting = [spec for spec in begun if spec.content_hash in failed]
    return ended


def refined_potentials(diagnosed: Sequence[tuple[Diagnosis, EnvironmentSpec]]) -> list[TaskPotential]:
    """Potentials of kinds of goals from diagnoses in words; one whose words cannot be grounded is left out, with a warning."""
    compiler = Text2Potential(SentenceEncoder().similarity)
    able = []
    for diagnosis, spec in diagnosed:
        try:
            compiler.task(diagnosis, spec)
        except DiagnosisError as error:
            log.warning("diagnosis %s refines no potential: %s", diagnosis.diagnosis_id, error)
        else:
            able.append((diagnosis, spec))
    return compiler.merged(able) if able else []
