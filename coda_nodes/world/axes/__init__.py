"""Axes of variation: read every parameter of the splits from a scene, set one, and say how far a scene is
from train."""

from __future__ import annotations

from coda_nodes.world.axes import clutter, numbered, scene, tasks, things
from coda_nodes.world.axes.base import Value, rename
from coda_nodes.world.axes.deviation import Deviation, Key, deviations, nominal_value, set_value, values
from coda_nodes.world.axes.tasks import retarget

__all__ = [
    "Deviation",
    "Key",
    "Value",
    "clutter",
    "deviations",
    "nominal_value",
    "numbered",
    "rename",
    "retarget",
    "scene",
    "set_value",
    "tasks",
    "things",
    "values",
]
