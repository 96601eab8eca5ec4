"""A critic that asks a language model: asked again while it cannot be read, answers kept by content hash."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from coda_nodes.critic.vision.answers import RejectedAnswerError, cannot_tell, read_answer
from coda_nodes.critic.vision.options import VisionOptions
from coda_nodes.critic.vision.prompt import Message, asked_again, data_url, first_messages
from coda_nodes.critic.vision.sight import blindness
from coda_nodes.critic.vision.view import View, ViewSource
from coda_nodes.world.artifacts import content_hash, write_atomic
from coda_nodes.world.diagnosis import CriticInfo, Diagnosis
from coda_nodes.world.episode import Episode
from coda_nodes.world.errors import DiagnosisError

log = logging.getLogger(__name__)
SHOWN = 160
"""Letters of a rejected answer in the message."""


@dataclass(frozen=True)
class Reply:
    """What a model said, and what that cost [tokens]."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Model(Protocol):
    """A model that is shown pictures and answers in words."""

    identity: dict[str, Any]
    """What decides about its answers; part of the cache's key, holds no secret."""

    def reply(self, conversations: Sequence[tuple[Message, ...]]) -> list[Reply]:
        """One answer per conversation. Raises CodaError where there is none."""
        ...


@dataclass
class Usage:
    """Counts since the critic was made."""

    asked: int = 0
    cached: int = 0
    rejected: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class AskingCritic:
    """Diagnoses by asking a model; the prompt is ``prompt.md``."""

    def __init__(
        self, info: CriticInfo, model: Model, views: ViewSource, options: VisionOptions, cache: Path | None = None
    ) -> None:
        """``cache``: folder of answers by content hash; None: none are kept."""
        self.info, self.usage = info, Usage()
        self._model, self._views, self._options, self._cache = model, views, options, cache

    def diagnose(self, episode: Episode) -> Diagnosis:
        """The model's diagnosis; unknown, with the reason, where the pictures show nothing or no answer can be read.

        Raises:
            DiagnosisError: the episode did not fail.
            CodaError: the model cannot be reached or run.
        """
        check_failed(episode)
        return self.judge([self._views(episode)])[0]

    def diagnoses(self, episode: Episode, limit: int = 3) -> list[Diagnosis]:
        """One diagnosis: a model is asked for its likeliest cause only."""
        return [self.diagnose(episode)]

    def judge(self, views: Sequence[View]) -> list[Diagnosis]:
        """Diagnoses of several failures, asked in batches."""
        found: dict[int, Diagnosis] = {}
        for number, view in enumerate(views):
            if reason := blindness(view):
                found[number] = cannot_tell(reason, view, self.info)
        seen = [number for number in range(len(views)) if number not in found]
        for first in range(0, len(seen), self._options.batch):
            part = seen[first : first + self._options.batch]
            for number, result in zip(part, self.ask([views[number] for number in part]), strict=True):
                found[number] = self._accepted(result, views[number])
        return [found[number] for number in range(len(views))]

    def _accepted(self, result: Diagnosis | RejectedAnswerError, view: View) -> Diagnosis:
        if isinstance(result, Diagnosis):
            return result
        self.usage.rejected += 1
        log.warning("%s", result)
        return cannot_tell(f"No answer could be read. {result}", view, self.info)

    def ask(self, views: Sequence[View]) -> list[Diagnosis | RejectedAnswerError]:
        """Ask about every view, at most ``asks`` times each; a refusal stands for a view whose answers were no good."""
        talks = [first_messages(view, self._options.picture) for view in views]
        answers: list[list[str]] = [[] for _ in views]
        result: list[Diagnosis | RejectedAnswerError | None] = [None] * len(views)
        complaint = ""
        for _ in range(self._options.asks):
            open_ones = [number for number, item in enumerate(result) if item is None]
            for number, text in zip(open_ones, self._replies([talks[n] for n in open_ones]), strict=True):
                answers[number].append(text)
                try:
                    result[number] = read_answer(text, views[number], self.info)
                except DiagnosisError as error:
                    complaint = str(error)
                    talks[number] = asked_again(talks[number], text, complaint)
        return [item or self._rejected(answers[n], talks[n]) for n, item in enumerate(result)]

    def _rejected(self, answers: list[str], talk: tuple[Message, ...]) -> RejectedAnswerError:
        """The refusal; the texts are kept beside the answers."""
        where, complaint = "", str(talk[-1].parts[0])
        if self._cache is not None:
            document = json.dumps({"answers": answers, "complaint": complaint}, indent=1).encode()
            path = self._cache / "rejected" / f"{content_hash(document)}.json"
            write_atomic(path, document)
            where = f" (kept in {path})"
        shown = " ".join(answers[-1].split())[:SHOWN]
        return RejectedAnswerError(f"{len(answers)} answers, the last {shown!r}{where}: {complaint[:SHOWN]}", tuple(answers))

    def _replies(self, talks: Sequence[tuple[Message, ...]]) -> list[str]:
        keys = [self._key(talk) for talk in talks]
        texts = {number: text for number, key in enumerate(keys) if (text := self._kept(key)) is not None}
        self.usage.cached += len(texts)
        missing = [number for number in range(len(talks)) if number not in texts]
        replies = self._model.reply([talks[number] for number in missing]) if missing else []
        for number, reply in zip(missing, replies, strict=True):
            self.usage.asked += 1
            self.usage.prompt_tokens += reply.prompt_tokens
            self.usage.completion_tokens += reply.completion_tokens
            self._keep(keys[number], reply)
            texts[number] = reply.text
        return [texts[number] for number in range(len(talks))]

    def _key(self, talk: tuple[Message, ...]) -> str:
        turns = [[turn.role, [part if isinstance(part, str) else data_url(part) for part in turn.parts]] for turn in talk]
        return content_hash(json.dumps([self._model.identity, turns], sort_keys=True).encode())

    def _kept(self, key: str) -> str | None:
        if self._cache is None:
            return None
        try:
            return str(json.loads((self._cache / f"{key}.json").read_text(encoding="utf-8"))["text"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _keep(self, key: str, reply: Reply) -> None:
        if self._cache is not None:
            document = {**asdict(reply), "model": self._model.identity}
            write_atomic(self._cache / f"{key}.json", json.dumps(document, indent=1).encode())


def check_failed(episode: Episode) -> None:
    """Raise DiagnosisError for an episode that is invalid or did not fail."""
    if episode.outcome != "failure":
        raise DiagnosisError(f"episode {episode.content_hash} ended as {episode.outcome}; only failures are diagnosed")
