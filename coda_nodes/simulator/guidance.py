"""Where the hand would have to go for the potential to rise: a direction found on the state alone, without a simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from coda_nodes.world.potentials import CompiledPotential
from coda_nodes.world.state import SceneState

Array = NDArray[np.float64]
PROBE = 0.005
"""Displacement of the central differences [m]."""
LENGTHS = (0.01, 0.03, 0.06, 0.12)
"""Ways tried along the steepest ascent [m]."""
TURNS = 3
"""Times the direction is taken anew."""


def ascend(potential: CompiledPotential, state: SceneState, longest: float) -> Array:
    """Displacement of the tool [m] along base axes that raises the potential most, as far as a few lines of steepest
    ascent find. Shape (n, 3); zero where no displacement raises it.

    The hand and what it holds are imagined moved; nothing else is, and no contact is foreseen.

    Args:
        potential: of the scenes of ``state``.
        state: n scenes.
        longest: largest displacement [m].
    """
    way = np.zeros((state.n, 3))
    best = potential(state)
    for _ in range(TURNS):
        slope = np.stack([_slope(potential, state, way, axis) for axis in np.eye(3)], axis=1)
        size = np.linalg.norm(slope, axis=1, keepdims=True)
        direction = np.divide(slope, size, out=np.zeros_like(slope), where=size > 1e-9)
        start = way
        for length in LENGTHS:
            tried = _shorten(start + length * direction, longest)
            value = potential(moved(state, tried))
            better = value > best + 1e-9
            way, best = np.where(better[:, None], tried, way), np.where(better, value, best)
    return way


def moved(state: SceneState, way: Array) -> SceneState:
    """The scenes with the tool and what it holds displaced by ``way`` (n, 3) [m]."""
    carried = np.where(state.grasped[..., None], way[:, None], 0.0)
    return replace(
        state, tool_position_base=state.tool_position_base + way, entity_position_base=state.entity_position_base + carried
    )


def _slope(potential: CompiledPotential, state: SceneState, way: Array, axis: Array) -> Array:
    """Central difference of the potential along ``axis`` (3,) at the displacement ``way`` (n, 3). Shape (n,)."""
    ahead, behind = (potential(moved(state, way + sign * PROBE * axis)) for sign in (1.0, -1.0))
    return (ahead - behind) / (2 * PROBE)


def _shorten(way: Array, longest: float) -> Array:
    size = np.linalg.norm(way, axis=1, keepdims=True)
    return way * np.minimum(1.0, longest / np.maximum(size, 1e-9))
