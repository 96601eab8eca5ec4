"""The state critic: diagnoses from simulator truth, for labels, tests and scenes without cameras."""

from __future__ import annotations

from coda_nodes.critic.causes import SURE, Ranked, rank
from coda_nodes.critic.happenings import Happening
from coda_nodes.critic.modes import happening
from coda_nodes.critic.stages import Stall, find_stall
from coda_nodes.critic.trace import Trace
from coda_nodes.world.axes import deviations
from coda_nodes.world.diagnosis import CriticInfo, Diagnosis, Evidence
from coda_nodes.world.episode import Episode
from coda_nodes.world.errors import DiagnosisError
from coda_nodes.world.splits import Splits, load_splits

VERSION = "1.0"
GUESS = 0.5
"""Share of the confidence that is left where no cause explains the failure."""


class StateCritic:
    """Says which stage stalled, what happened there, and which value outside train is likeliest behind it."""

    info = CriticInfo(name="state", version=VERSION)

    def __init__(self, splits: Splits | None = None) -> None:
        self._splits = splits or load_splits()

    def diagnose(self, episode: Episode) -> Diagnosis:
        """The likeliest diagnosis. Raises DiagnosisError for an episode that is invalid or did not fail."""
        return self.diagnoses(episode, limit=1)[0]

    def diagnoses(self, episode: Episode, limit: int = 3) -> list[Diagnosis]:
        """One diagnosis per likely cause, best first: the same stage and mode, at most ``limit`` causes.

        Where no value lies outside train, one diagnosis without a cause: noise of the policy itself.

        Raises:
            DiagnosisError: the episode is invalid or did not fail.
        """
        if episode.outcome != "failure":
            reason = f" ({episode.reason})" if episode.reason else ""
            ended = f"episode {episode.content_hash} ended as {episode.outcome}{reason}"
            raise DiagnosisError(f"{ended}; only failures are diagnosed")
        stall = find_stall(Trace(episode))
        happened = happening(stall)
        ranked = rank(stall, happened, deviations(episode.spec, self._splits))[:limit]
        if not ranked:
            return [self._diagnosis(stall, happened, None)]
        return [self._diagnosis(stall, happened, item) for item in ranked]

    def _diagnosis(self, stall: Stall, happened: Happening, ranked: Ranked | None) -> Diagnosis:
        episode = stall.trace.episode
        return Diagnosis(
            text=_text(stall, happened, ranked),
            stage=stall.stage.name,
            failure_mode=happened.mode,
            cause=ranked.cause if ranked else None,
            evidence=_evidence(stall, happened),
            confidence=round(_confidence(happened, ranked), 3),
            critic=self.info,
            family=episode.spec.family,
            episode=episode.content_hash,
            environment=episode.spec.content_hash,
        )


def _text(stall: Stall, happened: Happening, ranked: Ranked | None) -> str:
    what = happened.note[0].upper() + happened.note[1:]
    if ranked is None:
        return f"{what}. Every value of the scene lies inside train: noise of the policy."
    return f"{what}. Likely because the {ranked.cause.sentence}."


def _evidence(stall: Stall, happened: Happening) -> tuple[Evidence, ...]:
    """Where it happened, and how far the task had come."""
    trace = stall.trace
    passed = stall.stages[: stall.index]
    progress = f"passed {passed[-1].name} of the {passed[-1].atom.args[0]}" if passed else "no stage passed"
    since = Evidence(
        time=trace.time(stall.since),
        frame=stall.since,
        note=f"{progress}; {stall.stage.name} of the {stall.target} never completed",
    )
    return happened.evidence(trace), since


def _confidence(happened: Happening, ranked: Ranked | None) -> float:
    """How sure the rule is, less where the cause is a guess."""
    if ranked is None:
        return happened.confidence * GUESS
    return happened.confidence * (GUESS + (1 - GUESS) * min(ranked.score / SURE, 1.0))
