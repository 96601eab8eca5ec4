"""Regime ``no_expert``: the policy looks ahead in scenes it failed in, and learns from what it solves there itself."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from coda_nodes.conductor.lessons import Lesson
from coda_nodes.conductor.loop import Loop
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
    config = LookaheadConfig(branches=loop.config.lookahead_branches)
    plan = LookaheadPlan(checkpoint, tuple(tasks), config)
    request = EpisodesRequest(
        list(scenes.values()), plan.save(loop.root), loop.seed("lookahead") + SHIFT, "lookahead", steps_paid=config.steps_paid
    )
    return [
        Lesson(summary.hash, WEIGHT, summary.family, scenes[summary.environment_hash].provenance.program_id)
        for summary in loop.episodes(request) if summary.outcome == "success"
    ]


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
