"""Free places on the table, and drawing anew until a scene fits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from coda_nodes.world.errors import ValidityError
from coda_nodes.world.spec import EnvironmentSpec

REACH = (0.30, 0.72)
"""Horizontal distance from the base axis at which things may stand [m]."""
ATTEMPTS = 60
"""Placements tried per thing, and whole scenes tried per call, before giving up."""


@dataclass(frozen=True)
class Footprint:
    """Where something stands: centre [m] and radius of its outline [m]."""

    x: float
    y: float
    radius: float


@dataclass
class Layout:
    """Footprints placed so far; finds room for the next one."""

    rng: np.random.Generator
    placed: list[Footprint] = field(default_factory=list)

    def free(self, candidate: Footprint, gap: float) -> bool:
        """Whether ``candidate`` keeps ``gap`` [m] to all that is placed and is within reach of the arm."""
        if not REACH[0] <= math.hypot(candidate.x, candidate.y) <= REACH[1]:
            return False
        return all(
            math.hypot(candidate.x - other.x, candidate.y - other.y) >= candidate.radius + other.radius + gap
            for other in self.placed
        )

    def place(
        self, draw: Callable[[], tuple[float, float]], radius: float, gap: float
    ) -> tuple[float, float]:
        """Draw positions until one is free; record and return it.

        Raises:
            ValidityError: no room after ATTEMPTS draws.
        """
        for _ in range(ATTEMPTS):
            candidate = Footprint(*draw(), radius)
            if self.free(candidate, gap):
                self.placed.append(candidate)
                return candidate.x, candidate.y
        raise ValidityError(
            f"no room for a footprint of {radius:.3f} m among {len(self.placed)} others, gap {gap:.3f} m"
        )


def until_valid(build: Callable[[], EnvironmentSpec]) -> EnvironmentSpec:
    """Call ``build`` until it succeeds. Raises the last ValidityError after ATTEMPTS tries."""
    for attempt in range(ATTEMPTS):
        try:
            return build()
        except ValidityError:
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")
