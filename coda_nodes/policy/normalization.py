"""Statistics that scale features and actions; they are part of a checkpoint, never of a data set on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from coda_nodes.policy.features import ENTITY_SIZE, Features, robot_size
from coda_nodes.world.action import CHUNK_STEPS
from coda_nodes.world.errors import CheckpointError

POSE_SIZE = 6
"""Translation and rotation vector of an action; the gripper opening needs no scaling."""
_FLOOR = 1e-2
"""Smallest deviation of a feature; what hardly varied in training is not blown up."""
_ACTION_FLOOR = (2e-3, 2e-3, 2e-3, 1e-2, 1e-2, 1e-2)
"""Smallest deviation of an action: [m] three times, [rad] three times."""
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Normalization:
    """Mean and standard deviation of features and of the pose part of chunks, and the largest action seen."""

    robot_mean: Floats
    robot_std: Floats
    entity_mean: Floats
    entity_std: Floats
    action_mean: Floats
    """Shape (8, 6)."""
    action_std: Floats
    """Shape (8, 6)."""
    action_limit: Floats
    """Largest absolute displacement in the training data, per dimension [m] and [rad]. Shape (6,)."""

    @staticmethod
    def fit(features: Features, chunks: NDArray[np.float64]) -> Normalization:
        """Statistics of a training set; only entity slots in use count. ``chunks``: shape (n, 8, 7)."""
        pose = chunks[..., :POSE_SIZE]
        entity = features.entity[features.present]
        arrays = {
            "robot_mean": features.robot.mean(0),
            "robot_std": np.maximum(features.robot.std(0), _FLOOR),
            "entity_mean": entity.mean(0),
            "entity_std": np.maximum(entity.std(0), _FLOOR),
            "action_mean": pose.mean(0),
            "action_std": np.maximum(pose.std(0), _ACTION_FLOOR),
            "action_limit": np.abs(pose).max(axis=(0, 1)),
        }
        return Normalization(**{key: value.astype(np.float32) for key, value in arrays.items()})

    def arrays(self) -> dict[str, Floats]:
        """Arrays by name, as a checkpoint stores them."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray], joints: int) -> Normalization:
        """Check and take over stored statistics.

        Raises:
            CheckpointError: an array is missing, of another shape, not finite, or a deviation is not
            positive.
        """
        pose = (CHUNK_STEPS, POSE_SIZE)
        shapes = {
            "robot_mean": (robot_size(joints),),
            "robot_std": (robot_size(joints),),
            "entity_mean": (ENTITY_SIZE,),
            "entity_std": (ENTITY_SIZE,),
            "action_mean": pose,
            "action_std": pose,
            "action_limit": (POSE_SIZE,),
        }
        return Normalization(**{key: _checked(arrays, key, shape) for key, shape in shapes.items()})


def _checked(arrays: Mapping[str, NDArray], key: str, shape: tuple[int, ...]) -> Floats:
    if key not in arrays:
        raise CheckpointError(
            f"normalization statistics {key!r} are missing; the checkpoint holds: "
            f"{', '.join(sorted(arrays)) or '(none)'}"
        )
    value = np.asarray(arrays[key], dtype=np.float32)
    if value.shape != shape:
        raise CheckpointError(f"normalization statistics {key!r} have shape {value.shape}, expected {shape}")
    if not np.isfinite(value).all() or (key.endswith("_std") and (value <= 0).any()):
        raise CheckpointError(f"normalization statistics {key!r} are not finite or not positive")
    return value
