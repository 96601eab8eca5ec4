"""The palette: colour names that may stand in an object's name, and how they are drawn."""

from __future__ import annotations

from coda_nodes.world.errors import SpecError, unknown

COLORS: dict[str, tuple[float, float, float, float]] = {
    "red": (0.85, 0.12, 0.10, 1.0),
    "green": (0.13, 0.62, 0.20, 1.0),
    "blue": (0.12, 0.28, 0.85, 1.0),
    "yellow": (0.95, 0.82, 0.10, 1.0),
    "orange": (0.95, 0.50, 0.08, 1.0),
    "purple": (0.50, 0.18, 0.66, 1.0),
    "cyan": (0.10, 0.75, 0.80, 1.0),
    "pink": (0.95, 0.50, 0.68, 1.0),
    "brown": (0.45, 0.28, 0.14, 1.0),
    "white": (0.93, 0.93, 0.93, 1.0),
    "gray": (0.50, 0.50, 0.52, 1.0),
    "black": (0.10, 0.10, 0.11, 1.0),
}
"""Name to RGBA, each 0 to 1."""


def rgba(color: str) -> tuple[float, float, float, float]:
    """RGBA of a colour name. Raises SpecError that lists the palette."""
    try:
        return COLORS[color]
    except KeyError:
        raise SpecError(unknown("colour", color, COLORS)) from None
