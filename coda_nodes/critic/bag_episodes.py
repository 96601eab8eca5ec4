"""Episodes out of messages, whether they come from a bag, from its replay or from nodes that run.

Messages are read by the names of their fields, so that those of ``rosbags`` and those of rclpy go the same way. The
order across topics does not matter, and what is repeated counts once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from coda_nodes.world import topics
from coda_nodes.world.action import CONTROL_PERIOD
from coda_nodes.world.episode import Episode
from coda_nodes.world.episode_texts import COLUMNS, FLAGS, EpisodeRecord, Truth, joined, read_truth
from coda_nodes.world.predicates import CompiledGoals
from coda_nodes.world.spec import EnvironmentSpec, parse_spec

SAME_TIME = 1_000_000
"""Stamps closer than this are one [ns]."""


@dataclass(frozen=True)
class Recorded:
    """An episode that was put together from messages."""

    episode: Episode
    notes: tuple[str, ...] = ()
    """What is missing or was assumed, a sentence each."""
    observed: bool = False
    """Whether contacts and predicates were worked out from poses, for want of a simulator's truth."""
    rebuilt: bool = False
    """Whether the specification was rebuilt from object poses and instruction."""

    @property
    def unvalidated(self) -> str:
        """Why a diagnosis of it stands on weak ground, in words; empty where it stands as in simulation."""
        reasons = ["its specification was rebuilt from object poses"] * self.rebuilt
        reasons += ["contacts were worked out from poses"] * self.observed
        return " and ".join(reasons)


@dataclass
class _Run:
    """Truths of one episode so far."""

    record: EpisodeRecord
    truths: dict[int, Truth] = field(default_factory=dict)
    """By control step."""
    end: Any = None
    """The event that ended it."""
    finished: bool = False

    def chain(self) -> list[Truth]:
        """Truths from the reset up to the first gap."""
        rows = [self.truths[step] for step in sorted(self.truths)]
        whole = [rows[0]]
        for before, after in pairwise(rows):
            if after.step - len(after.predicates) != before.step:
                break
            whole.append(after)
        return whole


class TruthAssembler:
    """Puts episodes together from specifications, truths and events; holds one episode per specification."""

    def __init__(self) -> None:
        self._specs: dict[str, EnvironmentSpec] = {}
        self._runs: dict[str, _Run] = {}
        self._ends: dict[str, Any] = {}
        self.seen = False
        """Whether any truth has come."""
        self._repeats: dict[str, int] = {}
        self.unstamped = False
        """Whether any truth is stamped 0."""
        self.headless = 0
        """Truths of an episode whose begin has not come."""

    def add(self, topic: str, message: Any) -> list[Recorded]:
        """Take one message; return the episodes that are complete with it.

        Raises MessageError or SpecError for a text that cannot be read.
        """
        if topic == topics.ENVIRONMENT:
            spec = parse_spec(message.data)
            self._specs[spec.content_hash] = spec
            return self._finish(spec.content_hash)
        if topic == topics.TRUTH:
            self.seen = True
            return self._take(read_truth(message.data))
        if topic == topics.EPISODE_EVENT and message.kind != message.RESET:
            self._ends[message.environment_hash] = message
            return self._finish(message.environment_hash)
        return []

    def close(self) -> list[Recorded]:
        """Nothing more comes: return what is left, as far as it goes."""
        left = [self._cut_short(key) for key, run in self._runs.items() if not run.finished]
        return [item for item in left if item is not None]

    @property
    def without_specification(self) -> tuple[str, ...]:
        """Hashes of environments whose truths came without their specification."""
        return tuple(key for key in self._runs if key not in self._specs)

    @property
    def repeats(self) -> dict[str, int]:
        """Content hash of an episode -> how often it was begun again with the same stamps."""
        known = {key: count for key, count in self._repeats.items() if key in self._specs}
        return {self._runs[key].record.key(self._specs[key]): count for key, count in known.items()}

    def _take(self, truth: Truth) -> list[Recorded]:
        key, done = truth.environment, []
        self.unstamped |= truth.stamp == 0
        run = self._runs.get(key)
        if truth.record is not None:
            if run is not None and run.truths[0].stamp == truth.stamp:
                self._repeats[key] = self._repeats.get(key, 0) + 1
                return []
            if run is not None and not run.finished and (left := self._cut_short(key)) is not None:
                done.append(left)
            run = self._runs[key] = _Run(truth.record)
        if run is None:
            self.headless += 1
        elif not run.finished:
            run.truths.setdefault(truth.step, truth)
        return done + self._finish(key)

    def _finish(self, key: str) -> list[Recorded]:
        """The episode, once its specification, its end and every truth up to there have come."""
        run, end, spec = self._runs.get(key), self._ends.get(key), self._specs.get(key)
        if run is None or end is None or spec is None or run.finished:
            return []
        if not _ends(run.truths[0], end):
            return []
        run.end = end
        chain = run.chain()
        if chain[-1].step < end.step:
            return []
        run.finished = True
        del self._ends[key]
        stopped = (f"the episode was stopped from outside: {end.detail or 'no reason given'}",) * (end.kind == end.STOPPED)
        return [Recorded(_checked(joined(spec, run.record, chain, _outcome(end), end.detail)), stopped)]

    def _cut_short(self, key: str) -> Recorded | None:
        """An episode without its end, or with a gap; None where nothing was done in it or its specification is
        not known."""
        run, spec = self._runs[key], self._specs.get(key)
        chain = run.chain()
        run.finished = True
        if spec is None or len(chain) < 2:
            return None
        after = run.end.step if run.end is not None else max(run.truths)
        what = "its end is missing" if after <= chain[-1].step else f"what happened up to step {after} is missing"
        note = f"the episode is known for its first {chain[-1].step * CONTROL_PERIOD:.2f} s only; {what}"
        episode = joined(spec, run.record, chain, "failure")
        outcome = "success" if reached(spec, episode.predicates) else "failure"
        return Recorded(_checked(replace(episode, outcome=outcome)), (note,))


def _ends(first: Truth, end: Any) -> bool:
    """Whether an event ends the episode that began with a truth: as many steps later as it says, where it is
    stamped at all."""
    stamp = end.header.stamp.sec * 1_000_000_000 + end.header.stamp.nanosec
    if not stamp or not first.stamp:
        return True
    return abs(stamp - first.stamp - round(end.step * CONTROL_PERIOD * 1e9)) < SAME_TIME


def _outcome(end: Any) -> str:
    if end.kind == end.INVALID:
        return "invalid"
    return "success" if end.kind == end.SUCCESS else "failure"


def _checked(episode: Episode) -> Episode:
    """The episode, invalid where a number in it is not finite."""
    if episode.outcome == "invalid":
        return episode
    for name in (column for column in COLUMNS if column not in FLAGS):
        values = getattr(episode.states, name)
        wrong = np.argwhere(~np.isfinite(values))
        if len(wrong):
            time = float(np.concatenate([[0], np.cumsum(episode.executed)])[wrong[0][0]] * CONTROL_PERIOD)
            reason = f"{name} is {values[tuple(wrong[0])]} at {time:.2f} s"
            return replace(episode, outcome="invalid", reason=reason)
    return episode


def reached(spec: EnvironmentSpec, predicates: np.ndarray) -> bool:
    """Whether predicates (steps, P) of a scene, in the order of ``CompiledGoals``, make it a success at any step."""
    goals = CompiledGoals([spec])
    memory = goals.initial_memory()
    for row in predicates:
        memory = goals.advance(memory, row[None])
        if goals.succeeded(memory)[0]:
            return True
    return False

