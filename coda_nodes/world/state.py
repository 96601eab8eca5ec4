"""Arrays that describe ``n`` scenes at one instant: what simulators give, policies and predicates read.

Frames: robot base (which is the world frame, see ``spec``). Units: [m], [rad], [s]. Quaternions xyzw.
``K`` is the number of entity slots; slot ``i`` is the i-th of ``spec.entities``; slots beyond are not ``present``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
ENTITY_SLOTS = 8
"""Entity slots K of every scene state and of observations read from messages, equal for all families: episodes can
be joined, and a network gives the same bits for the same scene."""
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class ObservationBatch:
    """What a policy may see of ``n`` scenes (also what a real robot can measure)."""

    joint_positions: Array
    """Arm joints [rad]. Shape (n, J), order of the robot description."""
    gripper_opening: Array
    """0 closed to 1 open. Shape (n,)."""
    tool_position_base: Array
    """Tool frame (between the finger tips) [m]. Shape (n, 3)."""
    tool_quaternion_xyzw: Array
    """Shape (n, 4)."""
    entity_position_base: Array
    """Entity origins [m]. Shape (n, K, 3). Centre of an object; of a drawer the centre of its handle, of a knob the
    centre of its grip, both moving with the joint."""
    entity_quaternion_xyzw: Array
    """Shape (n, K, 4)."""
    entity_half_extents: Array
    """[m]. Shape (n, K, 3)."""
    entity_joint_value: Array
    """Joint of an articulated entity [m] or [rad], 0 elsewhere. Shape (n, K)."""
    entity_joint_range: Array
    """Shape (n, K, 2); (0, 0) where there is no joint."""
    present: Mask
    """Shape (n, K)."""
    entity_names: tuple[tuple[str, ...], ...]
    """Names of the present entities, one tuple per scene."""
    instructions: tuple[str, ...]
    """One per scene."""

    @property
    def n(self) -> int:
        """Number of scenes."""
        return len(self.gripper_opening)

    def select(self, ids: Sequence[int] | NDArray[Any]) -> Any:
        """Return the same arrays for the scenes ``ids`` only."""
        return _select(self, np.asarray(ids, dtype=int))


@dataclass(frozen=True)
class SceneState(ObservationBatch):
    """Simulator truth: the observation and what no robot measures (contacts, velocities)."""

    entity_linear_velocity: Array
    """[m/s]. Shape (n, K, 3)."""
    grasped: Mask
    """Both finger pads touch the entity. Shape (n, K)."""
    touched: Mask
    """Any part of the robot touches the entity. Shape (n, K)."""
    contact: Mask
    """Entities i and j touch each other. Shape (n, K, K), symmetric."""
    on_table: Mask
    """The entity touches the table. Shape (n, K)."""
    time: Array
    """Simulated time since reset [s]. Shape (n,)."""

    def observation(self) -> ObservationBatch:
        """Drop what no robot measures."""
        return ObservationBatch(**{f.name: getattr(self, f.name) for f in fields(ObservationBatch)})


def _select(batch: Any, ids: NDArray[np.int_]) -> Any:
    changes: dict[str, Any] = {}
    for f in fields(batch):
        value = getattr(batch, f.name)
        changes[f.name] = tuple(value[i] for i in ids) if isinstance(value, tuple) else value[ids]
    return replace(batch, **changes)


def concatenate(batches: Sequence[Any]) -> Any:
    """Join batches of the same type and slot count along the scene axis."""
    first = batches[0]
    changes: dict[str, Any] = {}
    for f in fields(first):
        parts = [getattr(batch, f.name) for batch in batches]
        changes[f.name] = sum(parts, ()) if isinstance(parts[0], tuple) else np.concatenate(parts)
    return replace(first, **changes)
