"""The loop: imitation, then rounds of failing, diagnosing, validating, training; every step journaled."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from coda_nodes.conductor.budget import Budget
from coda_nodes.conductor.config import TrainConfig
from coda_nodes.conductor.journal import Journal
from coda_nodes.conductor.patience import Patience
from coda_nodes.conductor.ports import EpisodesRequest, Ports, Report
from coda_nodes.conductor.strategy import CODA, Strategy
from coda_nodes.world.artifacts import ArtifactRoot, write_atomic
from coda_nodes.world.episode import EpisodeSummary
from coda_nodes.world.records import Count, RoundRecord
from coda_nodes.world.spec import EnvironmentSpec

log = logging.getLogger(__name__)


class Loop:
    """Shared means of all phases: ports, artifacts, budget, journal, progress events.

    A run killed at any instant continues from its last finished step when it is started again on the same root with
    the same configuration.
    """

    def __init__(
        self, config: TrainConfig, ports: Ports, root: ArtifactRoot, report: Report, patience: Patience | None = None,
        strategy: Strategy = CODA,
    ) -> None:
        self.config, self.ports, self.root, self.report, self.strategy = config, ports, root, report, strategy
        self.patience = patience or Patience(root, tell=self.note)
        self.budget = Budget(config.budget_environments, config.budget_control_steps)
        self.round = 0
        self._later = (0, 0)
        self.journal = self._journal()
        self.seconds: dict[str, float] = {}
        self._doing = ""
        self._found = 0  # finished steps since the last one that ran

    def open_round(self, number: int) -> None:
        """Begin (or go on with) a round."""
        self.round = number
        self.journal = self._journal()
        self.seconds = {}

    def _journal(self) -> Journal:
        return Journal(self.root.path / "journal" / str(self.round), self.write)

    def write(self, path: Path, data: bytes) -> None:
        """Write a file, also where the disk refuses for a while."""
        self.patience.bear(lambda: write_atomic(path, data))

    def step(self, name: str, run: Callable[[], Any]) -> Any:
        """Run one journaled step; what it spends is stored with it and counted once, also after a restart."""
        resumed = self.journal.done(name)
        stored = self.journal.step(name, lambda: self._measured(name, run))
        if resumed:
            self.budget = self.budget.plus(stored["spent"])
            self._found += 1
        self.seconds[name] = stored["seconds"]
        return stored["result"]

    def _measured(self, name: str, run: Callable[[], Any]) -> dict[str, Any]:
        begun, before = time.monotonic(), self.budget.ledger()
        self._doing = name
        if self._found:
            self.note(f"resumed: {self._found} steps were finished before; goes on with {name} of round {self.round}")
            self._found = 0
        before_it = self.budget

        def attempt() -> Any:
            self.budget = before_it.plus({})
            self.phase(name, 0.0, "")
            return run()

        result = self.patience.insist(f"step {name} of round {self.round}", attempt)
        return {"result": result, "spent": self.budget.since(before), "seconds": round(time.monotonic() - begun, 3)}

    def episodes(self, request: EpisodesRequest) -> list[EpisodeSummary]:
        """Run episodes, paid for from the budget."""
        if not request.specs:
            return []
        self.budget.reserve(request.purpose, len(request.specs), request.steps_paid * sum(spec.horizon for spec in request.specs))
        ended = self.ports.run_episodes(request, self.relay(request.purpose))
        self.budget.spend(request.purpose, len(request.specs), sum(summary.control_steps for summary in ended))
        return ended

    def share_budget(self) -> None:
        """From the start of a round on: hold back an even share of what is left for each later round."""
        self.budget = self.budget.holding(0, 0)
        rounds = self.config.rounds - self.round + 1
        later = [0 if limit is None else int(left) * (rounds - 1) // rounds
                 for left, limit in zip(self.budget.left, self.budget.limits, strict=True)]
        self._later = (later[0], later[1])
        self.budget = self.budget.holding(*self._later)

    def hold(self, specs: Sequence[EnvironmentSpec]) -> None:
        """Hold back what one episode in each of these scenes may cost, beside the share of later rounds."""
        environments, steps = self._later
        self.budget = self.budget.holding(environments + len(specs), steps + sum(spec.horizon for spec in specs))

    def hold_share(self, share: float) -> None:
        """Hold back a share of what is left of a limited budget, beside what is held back already."""
        more = [0 if np.isinf(left) else int(share * left) for left in self.budget.left]
        self.budget = self.budget.holding(self.budget.held[0] + more[0], self.budget.held[1] + more[1])

    def affordable(self, specs: Sequence[EnvironmentSpec]) -> list[EnvironmentSpec]:
        """The scenes, or as many as the budget surely pays an episode each for; families then take turns."""
        if self.budget.affordable([spec.horizon for spec in specs]) == len(specs):
            return list(specs)
        turns = in_turn(specs)
        return turns[: self.budget.affordable([spec.horizon for spec in turns])]

    def rng(self, label: str) -> np.random.Generator:
        """A generator of its own for each round and label: a resumed step draws the same numbers."""
        return np.random.default_rng([self.config.seed, self.round, *label.encode()])

    def seed(self, label: str) -> int:
        """A seed of its own for each round and label."""
        return int(self.rng(label).integers(2**31))

    def phase(self, name: str, fraction: float, text: str, seconds_left: float = -1.0) -> None:
        """Report progress of a phase."""
        event = {"event": "phase", "round": self.round, "phase": name, "fraction": fraction}
        self.report({**event, "text": text, "seconds_left": seconds_left})

    def note(self, text: str) -> None:
        """Report a sentence."""
        log.info(text)
        self.report({"event": "note", "round": self.round, "text": text})

    def relay(self, phase: str) -> Report:
        """Hand progress of another node on; what is only measured bears the name of the step it is measured for."""
        phase = self._doing or phase if phase == "progress" else phase
        return lambda event: self.phase(
            event.get("phase", phase), event.get("fraction", 0.0), event.get("text", ""), event.get("seconds_left", -1.0)
        )

    def write_round(self, record: RoundRecord) -> None:
        """Write the record of a finished round and report each family's line."""
        path = self.root.path / "rounds" / f"{record.round}.json"
        self.write(path, record.model_dump_json(indent=1).encode())
        for family in record.families.values():
            before, after = family.dev_before, family.dev_after
            self.report({
                "event": "family", "round": record.round, "family": family.family, "text": family.text,
                "before": [before.successes, before.episodes], "after": [after.successes, after.episodes],
            })


def in_turn(specs: Sequence[EnvironmentSpec]) -> list[EnvironmentSpec]:
    """Scenes of all families in turn, each family's in their order."""
    place: Counter[str] = Counter()
    keyed = []
    for spec in specs:
        keyed.append((place[spec.family], spec))
        place[spec.family] += 1
    return [spec for _, spec in sorted(keyed, key=lambda item: item[0])]


def counts(ended: Sequence[EpisodeSummary], families: Sequence[str]) -> dict[str, Count]:
    """Successes of valid episodes per family."""
    table = {}
    for family in families:
        outcomes = [summary.outcome for summary in ended if summary.family == family and summary.outcome != "invalid"]
        table[family] = Count(successes=outcomes.count("success"), episodes=len(outcomes))
    return table


def plain(ended: Sequence[EpisodeSummary]) -> list[dict[str, Any]]:
    """Summaries as JSON-able data."""
    return [asdict(summary) for summary in ended]


def summaries(data: Sequence[dict[str, Any]]) -> list[EpisodeSummary]:
    """Inverse of ``plain``."""
    return [EpisodeSummary(**item) for item in data]
