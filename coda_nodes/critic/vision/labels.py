"""What a recorded episode shows, from simulator truth: labels for training and measuring, by what happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from coda_nodes.critic.stages import find_stall
from coda_nodes.critic.state import StateCritic
from coda_nodes.critic.trace import Trace
from coda_nodes.critic.vision.moments import MOMENTS, moments
from coda_nodes.world.diagnosis import UNKNOWN, Cause, Diagnosis
from coda_nodes.world.episode import Episode

CANDIDATES = 3
"""Likely causes that are tried by counterfactual."""


@dataclass(frozen=True)
class Label:
    """Truth of one episode. ``cause`` is confirmed: with it at its nominal value the same actor succeeds."""

    failed: bool
    stage: str = UNKNOWN
    mode: str = UNKNOWN
    thing: int = 0
    """Slot of what the stage handles."""
    moment: int = 0
    """Key moment nearest to where it shows."""
    cause: Cause | None = None
    cause_known: bool = False
    """Whether ``cause`` (None: nothing in the scene) is the truth, not just missing."""
    hard: bool = False
    """The outcome is unlike what was injected, or an injection ended well."""
    sure: float = 1.0
    """How sure the rules are of what happened."""
    sentence: str = ""
    actor: str = ""
    fault: str = ""
    axes: tuple[str, ...] = ()
    """Axes that were moved out of train."""
    candidates: tuple[Cause, ...] = field(default=())
    """Causes to be tried, likeliest first."""


def label_of(episode: Episode, critic: StateCritic, actor: str, fault: str = "", meant: Sequence[str] = ()) -> Label:
    """The label, its cause not confirmed yet."""
    common = {"actor": actor, "fault": fault, "axes": tuple(episode.spec.provenance.axes)}
    injected = fault not in ("", "none")
    if episode.success:
        return Label(False, hard=injected, sentence="It succeeded.", cause_known=True, **common)
    found = critic.diagnoses(episode, CANDIDATES)
    first, trace = found[0], Trace(episode)
    candidates = tuple(one.cause for one in found if one.cause is not None and one.cause.axis != "appearance")
    return Label(
        True, first.stage, first.failure_mode, trace.slot(find_stall(trace).target), _moment(first, trace),
        cause_known=not candidates, hard=bool(meant) and first.failure_mode not in meant, sure=first.confidence,
        sentence=first.text, candidates=candidates, **common,
    )  # fmt: skip


def _moment(diagnosis: Diagnosis, trace: Trace) -> int:
    """The shown moment nearest to the first evidence."""
    frame = diagnosis.evidence[0].frame if diagnosis.evidence else trace.last
    shown = [one.boundary for one in moments(trace, MOMENTS)]
    return min(range(len(shown)), key=lambda k: abs(shown[k] - (frame if frame is not None else trace.last)))
