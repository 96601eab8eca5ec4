"""What every critic offers."""

from __future__ import annotations

from typing import Protocol

from coda_nodes.world.diagnosis import CriticInfo, Diagnosis
from coda_nodes.world.episode import Episode


class Critic(Protocol):
    """Says why an episode failed."""

    info: CriticInfo

    def diagnose(self, episode: Episode) -> Diagnosis:
        """Diagnose one failed episode.

        Raises:
            DiagnosisError: the episode is invalid or did not fail.
        """
        ...

    def diagnoses(self, episode: Episode, limit: int = 3) -> list[Diagnosis]:
        """The same diagnosis with its most likely causes, best first: at most ``limit``, at least one."""
        ...
