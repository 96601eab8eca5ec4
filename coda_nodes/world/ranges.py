"""Ranges of sampled parameters: intervals, choices, and the table of both for one family and split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from coda_nodes.world.errors import ConfigError, unknown

AXES = (
    "position",
    "instruction",
    "objects",
    "clutter",
    "dynamics",
    "appearance",
    "start_pose",
    "composition",
)
"""What a scene may differ in; every sampled parameter belongs to exactly one axis."""


@dataclass(frozen=True)
class Range:
    """A union of closed intervals of real numbers, in ascending order."""

    intervals: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        flat = [value for interval in self.intervals for value in interval]
        if not flat or flat != sorted(flat) or not np.all(np.isfinite(flat)):
            raise ConfigError(f"range {self.intervals}: expected ascending finite intervals")

    @property
    def low(self) -> float:
        """Lowest value."""
        return self.intervals[0][0]

    @property
    def high(self) -> float:
        """Highest value."""
        return self.intervals[-1][1]

    @property
    def nominal(self) -> float:
        """Middle of the widest interval."""
        low, high = max(self.intervals, key=lambda pair: pair[1] - pair[0])
        return 0.5 * (low + high)

    def contains(self, value: Any) -> bool:
        """Whether ``value`` lies in one of the intervals (within 1e-9)."""
        return any(low - 1e-9 <= float(value) <= high + 1e-9 for low, high in self.intervals)

    def sample(self, rng: np.random.Generator) -> float:
        """Draw uniformly over the union."""
        lengths = np.array([high - low for low, high in self.intervals])
        total = lengths.sum()
        weights = lengths / total if total > 0 else np.full(len(lengths), 1 / len(lengths))
        low, high = self.intervals[int(rng.choice(len(lengths), p=weights))]
        return float(rng.uniform(low, high))

    def overlaps(self, other: Range) -> bool:
        """Whether some value lies inside both (shared end points do not count)."""
        return any(max(a, c) < min(b, d) - 1e-9 for a, b in self.intervals for c, d in other.intervals)

    def __str__(self) -> str:
        return " | ".join(f"{low:g} .. {high:g}" for low, high in self.intervals)


@dataclass(frozen=True)
class Choices:
    """A finite set of values."""

    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise ConfigError("choices: expected at least one value")

    @property
    def nominal(self) -> Any:
        """The first value."""
        return self.values[0]

    def contains(self, value: Any) -> bool:
        """Whether ``value`` is one of them."""
        return value in self.values

    def sample(self, rng: np.random.Generator) -> Any:
        """Draw uniformly."""
        return self.values[int(rng.integers(len(self.values)))]

    def overlaps(self, other: Choices) -> bool:
        """Whether some value is in both."""
        return bool(set(self.values) & set(other.values))

    def __str__(self) -> str:
        return ", ".join(str(value) for value in self.values)


Allowed = Range | Choices


def parse_allowed(value: Any) -> Allowed:
    """Read ``"0.40 .. 0.52"`` (intervals joined by ``|``) as Range, a list as Choices.

    Raises:
        ConfigError: anything else.
    """
    if isinstance(value, list):
        return Choices(tuple(value))
    try:
        pairs = [part.split("..") for part in str(value).split("|")]
        return Range(tuple((float(low), float(high)) for low, high in pairs))
    except ValueError as error:
        raise ConfigError(f"range {value!r}: expected 'low .. high', joined by '|', or a list") from error


@dataclass(frozen=True)
class FamilyRanges:
    """Axis -> parameter -> allowed values, for one family."""

    family: str
    axes: Mapping[str, Mapping[str, Allowed]]

    def __getitem__(self, axis: str) -> Mapping[str, Allowed]:
        if axis not in self.axes:
            raise ConfigError(unknown(f"axis of {self.family}", axis, self.axes))
        return self.axes[axis]

    def allowed(self, axis: str, parameter: str) -> Allowed:
        """What ``parameter`` may be. Raises ConfigError that lists what exists."""
        table = self[axis]
        if parameter not in table:
            raise ConfigError(unknown(f"parameter of {self.family}.{axis}", parameter, table))
        return table[parameter]

    def draw(self, axis: str, parameter: str, rng: np.random.Generator) -> Any:
        """Sample one parameter."""
        return self.allowed(axis, parameter).sample(rng)

    def parameters(self) -> Iterator[tuple[str, str]]:
        """Yield every (axis, parameter)."""
        for axis, table in self.axes.items():
            for parameter in table:
                yield axis, parameter

    def replaced(self, axis: str, parameter: str, allowed: Allowed) -> FamilyRanges:
        """Return a copy in which one parameter may be something else (generation programs use this)."""
        self.allowed(axis, parameter)
        return FamilyRanges(self.family, {**self.axes, axis: {**self.axes[axis], parameter: allowed}})
