"""Where an instruction mentions the entities of a scene, and which words lead to each mention.

Names are cut out of the text before it is embedded, so that what is learned about "put ... in ..." holds for
names never seen in training. A name that is not written out is matched to the noun phrases left over by the
similarity of their sentence vectors ("crimson block" for "red cube").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Similarity = Callable[[Sequence[str], Sequence[str]], NDArray[np.float32]]

CONTEXT_WORDS = 3
"""Words before a mention that describe its role."""
MIN_SIMILARITY = 0.35
"""Noun phrases less similar than this to every name refer to nothing in the scene."""
_ARTICLES = frozenset({"the", "a", "an", "that", "this", "its", "one"})
_PHRASE_END = frozenset(
    {
        "and",
        "then",
        "on",
        "onto",
        "in",
        "into",
        "inside",
        "to",
        "from",
        "at",
        "with",
        "by",
        "of",
        "over",
        "under",
    }
    | {"beside", "near", "next", "until", "so", "it", "is", "be", "for", "up", "down", "off", "out", "back"}
    | {"after", "before", "first", "please", "while"}
)
_WORD = re.compile(r"[a-z0-9_-]+")
_NEXT_CLAUSE = re.compile(r",? (?:and )?then\b|;|\.(?= )")


@dataclass(frozen=True)
class Mention:
    """Characters ``start`` to ``end`` of the instruction refer to entity ``entity``, with a score (1:
    literally)."""

    start: int
    end: int
    entity: int
    score: float


@dataclass(frozen=True)
class Grounding:
    """What an instruction says of each of K entities."""

    task_text: str
    """The instruction with every mention replaced by "something"."""
    first_texts: tuple[str, ...]
    """Words that lead to the first mention of each entity; empty where it is not mentioned."""
    last_texts: tuple[str, ...]
    """The same for the last mention."""
    first_clauses: tuple[str, ...]
    """The step ("..., then ...") that holds the first mention, every mention replaced by "something"."""
    last_clauses: tuple[str, ...]
    """The same for the last mention."""
    first: NDArray[np.int64]
    """Number of the first mention, counted over all mentions from 0; -1 where not mentioned. Shape (K,)."""
    last: NDArray[np.int64]
    """Number of the last mention. Shape (K,)."""
    partners: NDArray[np.int64]
    """Entity that the step of the first mention, and that of the last, brings together with each entity ("put
    ... in ..."); -1 for none. Shape (K, 2)."""
    score: NDArray[np.float32]
    """1 for a literal mention, the similarity for a paraphrased one, 0 for none. Shape (K,)."""


def ground(instruction: str, names: Sequence[str], similarity: Similarity) -> Grounding:
    """Find the mentions of ``names`` in ``instruction``.

    ``similarity`` is asked only when a noun phrase and a name remain unmatched.
    """
    text = " ".join(instruction.lower().split())
    mentions = _literal(text, [name.lower() for name in names])
    named = {mention.entity for mention in mentions}
    left = [i for i in range(len(names)) if i not in named]
    phrases = _phrases(text, mentions)
    if left and phrases:
        mentions = mentions + _paraphrased(text, phrases, names, left, similarity)
    return _summarise(text, sorted(mentions, key=lambda m: m.start), len(names))


def phrases_to_compare(instruction: str, names: Sequence[str]) -> list[str]:
    """Noun phrases whose similarity to names ``ground`` would ask for."""
    text = " ".join(instruction.lower().split())
    return [text[a:b] for a, b in _phrases(text, _literal(text, [name.lower() for name in names]))]


def _literal(text: str, names: Sequence[str]) -> list[Mention]:
    """Longest names first; a stretch of text is claimed once."""
    taken = np.zeros(len(text) + 1, dtype=bool)
    found = []
    for entity in sorted(range(len(names)), key=lambda i: (-len(names[i]), i)):
        for match in re.finditer(rf"(?<![a-z0-9_]){re.escape(names[entity])}(?![a-z0-9_])", text):
            if not taken[match.start() : match.end()].any():
                taken[match.start() : match.end()] = True
                found.append(Mention(match.start(), match.end(), entity, 1.0))
    return found


def _phrases(text: str, mentions: Sequence[Mention]) -> list[tuple[int, int]]:
    """Runs of words after an article, up to a preposition, punctuation or a mention: spans of characters."""
    taken = {i for mention in mentions for i in range(mention.start, mention.end)}
    spans: list[tuple[int, int]] = []
    start = end = -1
    for word in _WORD.finditer(text):
        broken = end >= 0 and text[end : word.start()].strip() != ""
        stops = word.group() in _PHRASE_END or word.group() in _ARTICLES or word.start() in taken
        if start >= 0 and (stops or broken):
            if end > start:
                spans.append((start, end))
            start = end = -1
        if word.group() in _ARTICLES and word.start() not in taken:
            start = end = word.end() + 1
        elif start >= 0:
            end = word.end()
    if start >= 0 and end > start:
        spans.append((start, end))
    return spans


def _paraphrased(
    text: str,
    phrases: list[tuple[int, int]],
    names: Sequence[str],
    left: Sequence[int],
    similarity: Similarity,
) -> list[Mention]:
    """Best one-to-one assignment of distinct phrases to names that were not written out."""
    words = list(dict.fromkeys(text[a:b] for a, b in phrases))
    table = np.array(similarity(words, [names[i] for i in left]))
    entity: dict[str, tuple[int, float]] = {}
    while table.size and table.max() >= MIN_SIMILARITY:  # a handful of phrases: the best pair first
        row, column = np.unravel_index(int(table.argmax()), table.shape)
        entity[words[row]] = (left[column], float(table[row, column]))
        table[row, :], table[:, column] = -1.0, -1.0
    return [Mention(a, b, *entity[text[a:b]]) for a, b in phrases if text[a:b] in entity]


def _summarise(text: str, mentions: Sequence[Mention], count: int) -> Grounding:
    contexts, clauses = [""] * (2 * count), [""] * (2 * count)
    number, score = np.full(2 * count, -1), np.zeros(count, dtype=np.float32)
    partners = np.full(2 * count, -1)
    position = 0
    for i, mention in enumerate(mentions):
        start, end = _clause(text, mention)
        leading = text[max(position, start) : mention.start]
        places = [count + mention.entity] + ([mention.entity] if number[mention.entity] < 0 else [])
        for place in places:
            contexts[place], number[place] = _context(leading), i
            clauses[place] = _masked(text, mentions, start, end)
            partners[place] = _partner(mention, [m for m in mentions if start <= m.start and m.end <= end])
        score[mention.entity] = mention.score
        position = mention.end
    return Grounding(
        task_text=_masked(text, mentions, 0, len(text)),
        first_texts=tuple(contexts[:count]),
        last_texts=tuple(contexts[count:]),
        first_clauses=tuple(clauses[:count]),
        last_clauses=tuple(clauses[count:]),
        first=number[:count],
        last=number[count:],
        partners=partners.reshape(2, count).T,
        score=score,
    )


def _partner(mention: Mention, step: Sequence[Mention]) -> int:
    """Mentions of a step are paired in order; one left over goes with the one before it."""
    place = step.index(mention)
    other = place ^ 1 if place ^ 1 < len(step) else place - 1
    return step[other].entity if other >= 0 and step[other].entity != mention.entity else -1


def _clause(text: str, mention: Mention) -> tuple[int, int]:
    """Start and end of the step in which an entity is mentioned."""
    breaks = list(_NEXT_CLAUSE.finditer(text))
    start = max((b.end() for b in breaks if b.end() <= mention.start), default=0)
    end = min((b.start() for b in breaks if b.start() >= mention.end), default=len(text))
    return start, end


def _masked(text: str, mentions: Sequence[Mention], start: int, end: int) -> str:
    pieces, position = [], start
    for mention in mentions:
        if start <= mention.start and mention.end <= end:
            pieces += [text[position : mention.start], "something"]
            position = mention.end
    plain = " ".join("".join([*pieces, text[position:end]]).split())
    return re.sub(r"\b(the|a|an) something\b", "something", plain).strip(" ,.")


def _context(leading: str) -> str:
    words = _WORD.findall(leading)
    while words and words[-1] in _ARTICLES:
        words.pop()
    return " ".join([*words[-CONTEXT_WORDS:], "it"])
