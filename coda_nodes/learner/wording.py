"""What a text says of a scene: things, lengths and angles with their unit, direction and frame."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from coda_nodes.policy.grounding import ground, phrases_to_compare
from coda_nodes.world.colors import COLORS
from coda_nodes.world.errors import DiagnosisError
from coda_nodes.world.spec import EnvironmentSpec

Similarity = Callable[[Sequence[str], Sequence[str]], NDArray[np.float32]]

GROUNDED = 0.4
"""Least similarity of a paraphrase with the name it stands for: above what things that are not there reach."""
UNITS: dict[str, tuple[str, float]] = {
    **dict.fromkeys(("mm", "millimetre", "millimetres", "millimeter", "millimeters"), ("m", 0.001)),
    **dict.fromkeys(("cm", "centimetre", "centimetres", "centimeter", "centimeters"), ("m", 0.01)),
    **dict.fromkeys(("m", "metre", "metres", "meter", "meters"), ("m", 1.0)),
    **dict.fromkeys(("deg", "degree", "degrees", "°"), ("rad", math.pi / 180)),
    **dict.fromkeys(("rad", "radian", "radians"), ("rad", 1.0)),
}
"""Word -> unit of the library, factor."""
FOREIGN_UNITS = ("inch", "inches", "in.", "ft", "foot", "feet", "yard", "yards", "px", "pixel", "pixels")
DIRECTIONS: dict[str, tuple[str, float]] = {
    "left of": ("y", 1.0), "to the left of": ("y", 1.0), "right of": ("y", -1.0), "to the right of": ("y", -1.0),
    "above": ("z", 1.0), "over": ("z", 1.0), "higher than": ("z", 1.0), "below": ("z", -1.0), "under": ("z", -1.0),
    "behind": ("x", 1.0), "beyond": ("x", 1.0), "in front of": ("x", -1.0), "before": ("x", -1.0),
}
"""Words -> axis of the base frame and sign: x away from the robot, y to its left, z up."""
FRAMES = ("world", "base", "robot")
"""All one and the same here."""
AIM = re.compile(r"\b(should|must|needs? to|has to|have to|ought|keep|stay|aim|at least)\b")


def _any_of(words: Iterable[str]) -> str:
    return "(" + "|".join(sorted(map(re.escape, words), key=len, reverse=True)) + ")"


_NUMBER = re.compile(r"(?<![\w.])(-?\d+(?:\.\d+)?)\s*" + _any_of((*UNITS, *FOREIGN_UNITS)) + r"(?!\w)")
_FRAME = re.compile(r"\b(?:in|along) the (?:axes of the )?(\w+)(?:'s)? frame\b")
_DIRECTION = re.compile(r"\s*(?:too (?:high|low|far)\s*)?" + _any_of(DIRECTIONS) + r"\b")
_PARTS = """
gripper hand fingers finger pads arm robot tool palm wrist table floor air rim wall walls edge edges top bottom side sides middle
centre center way motion movement time task grasp grip policy scene instruction camera light start end position height range value
values episode step stage first second thing things object objects target destination world base frame mark stack tower
left right front back hole handle mm cm m other same wrong whole closed open opened resting moving empty
"""
KNOWN = frozenset(_PARTS.split())
"""Words that name parts of any scene or nothing in it: they need no grounding."""


@dataclass(frozen=True)
class Statement:
    """One length [m] or angle [rad] of a text, signed along ``axis`` from ``reference`` where it says so; ``aim``: it says
    what should be, not what was."""

    words: str
    value: float
    unit: str
    axis: str
    reference: str
    aim: bool


def things(text: str, spec: EnvironmentSpec, similarity: Similarity) -> tuple[str, ...]:
    """Entities that a text mentions, by name or paraphrase, in the order of the scene."""
    found = ground(text, spec.entity_names, lambda a, b: _table(a, b, spec, similarity))
    return tuple(name for name, number in zip(spec.entity_names, found.first, strict=True) if number >= 0)


def check_things(text: str, spec: EnvironmentSpec, similarity: Similarity) -> None:
    """Raises DiagnosisError that quotes the noun phrases of a text that are neither in the scene nor known everywhere."""
    names = spec.entity_names
    strange = [p for p in phrases_to_compare(text, names) if p.split()[0] not in KNOWN and not p[0].isdigit()]
    if not strange:
        return
    table = _table(strange, names, spec, similarity)
    lost = [phrase for phrase, row in zip(strange, table, strict=True) if row.max() < GROUNDED]
    if lost:
        quoted = ", ".join(repr(phrase) for phrase in lost)
        raise DiagnosisError(f"cannot ground {quoted}; the scene holds {', '.join(names)}")


def _table(phrases: Sequence[str], names: Sequence[str], spec: EnvironmentSpec, similarity: Similarity) -> NDArray[np.float32]:
    """Similarity of the beginnings of phrases (at most three words) with names; none to a thing of another colour."""
    table = np.full((len(phrases), len(names)), -1.0, dtype=np.float32)
    for i, words in enumerate(phrase.split() for phrase in phrases):
        if words[0] not in KNOWN and not words[0][0].isdigit():
            starts = [" ".join(words[:k]) for k in range(1, min(len(words), 3) + 1)]
            table[i] = np.max(similarity(starts, names), axis=0)
            said = {word for word in words[:2] if word in COLORS}
            table[i, [bool(said) and spec.entity(name).color not in said for name in names]] = -1.0
    return np.where(table < GROUNDED, -1.0, table)


def statements(text: str, spec: EnvironmentSpec, similarity: Similarity) -> list[Statement]:
    """Lengths and angles of a text. Raises DiagnosisError for a unit or frame that is not known here."""
    made = []
    for clause in re.split(r"(?<=[.;!?])\s+|;\s*", text.lower()):
        for frame in _FRAME.findall(clause):
            if frame not in FRAMES:
                raise DiagnosisError(f"cannot ground 'in the {frame} frame': frames are {', '.join(FRAMES)} (all one)")
        numbers = list(_NUMBER.finditer(clause))
        for number, following in zip_longest(numbers, numbers[1:]):
            rest = clause[number.end() : following.start() if following else len(clause)]
            made.append(_statement(clause, number, rest, spec, similarity))
    return made


def _statement(clause: str, number: re.Match[str], rest: str, spec: EnvironmentSpec, similarity: Similarity) -> Statement:
    if number[2] not in UNITS:
        raise DiagnosisError(f"cannot ground {number[0]!r}: units are mm, cm, m, degrees, rad")
    unit, factor = UNITS[number[2]]
    direction = _DIRECTION.match(rest)
    axis, sign = DIRECTIONS[direction[1]] if direction else ("", 1.0)
    named = things(rest[direction.end() :].split(" and ")[0], spec, similarity) if direction else ()
    words = (number[0] + rest).strip(" .;")
    return Statement(words, sign * factor * float(number[1]), unit, axis, named[0] if named else "", bool(AIM.search(clause)))
