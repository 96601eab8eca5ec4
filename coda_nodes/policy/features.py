"""What the network sees of a scene: numbers per entity relative to the gripper, the robot, and indices of
sentences.

Geometry is given relative to the tool, in base axes, at several scales, so that what is learned at one place
of the table holds at another. Sentences are rows of one table, embedded once however many scenes use them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from coda_nodes.policy.grounding import Grounding, ground
from coda_nodes.policy.language import EMBEDDING_SIZE, SentenceEncoder
from coda_nodes.world.errors import CheckpointError
from coda_nodes.world.spec import EnvironmentSpec
from coda_nodes.world.state import ObservationBatch

OBSERVATION_LAYOUT = "entities relative to tool and partner, v3"
"""Stored in every checkpoint; changes whenever a feature is added, removed or redefined."""
SCALES = (0.02, 0.08, 0.3)
"""Lengths [m] at which ``tanh`` of a relative position is given."""
MAX_MENTIONS = 8
"""Mentions that are told apart by their number; later ones count as the last of these."""
ROLE_TEXTS = 4
"""Sentences that tell the role of an entity, see ``Features.role``."""
PARTNER_SIZE = 1 + 2 + 4
"""Numbers that tell where a partner is, see ``partner_features``."""
PARTNERS = 2
ENTITY_SIZE = PARTNERS * PARTNER_SIZE + 3 + 3 * len(SCALES) + 4 + 6 + 6 + 3 + 4
FLAG_SIZE = 3 + 2 * MAX_MENTIONS
Floats = NDArray[np.float32]
Indices = NDArray[np.int64]


def robot_size(joints: int) -> int:
    """Length of the robot vector of an arm with ``joints`` joints."""
    return joints + 3 + 6 + 1 + len(SCALES)


@dataclass(frozen=True)
class Features:
    """Network input for n scenes with K entity slots; ``table`` holds the sentences that the indices point
    at."""

    robot: Floats
    """Shape (n, robot_size)."""
    entity: Floats
    """Shape (n, K, ENTITY_SIZE)."""
    flags: Floats
    """Mentioned, score, mentioned again, number of first and last mention. Shape (n, K, FLAG_SIZE)."""
    name: Indices
    """Rows of the names. Shape (n, K)."""
    role: Indices
    """Rows of the words before first and last mention, of the steps with first and last mention.
    Shape (n, K, ROLE_TEXTS)."""
    task: Indices
    """Rows of the whole instruction without names. Shape (n,)."""
    present: NDArray[np.bool_]
    """Shape (n, K)."""
    table: Floats
    """Sentence vectors; row 0 is zero. Shape (U, 384)."""

    def select(self, ids: Indices) -> Features:
        """The same features of some scenes; the table is shared."""
        return Features(**{f.name: value if f.name == "table" else value[ids] for f, value in self._items()})

    def compact(self) -> Features:
        """Keep only the table rows in use."""
        used = np.unique(np.concatenate([[0], self.name.ravel(), self.role.ravel(), self.task.ravel()]))
        place = np.zeros(len(self.table), dtype=np.int64)
        place[used] = np.arange(len(used))
        moved = {key: place[getattr(self, key)] for key in ("name", "role", "task")}
        return Features(
            **{**dict((f.name, value) for f, value in self._items()), **moved, "table": self.table[used]}
        )

    def _items(self):
        return ((f, getattr(self, f.name)) for f in fields(self))


@dataclass(frozen=True)
class SceneLanguage:
    """Sentence rows and flags of one instruction over one list of entity names (K entities)."""

    task: int
    name: Indices
    role: Indices
    flags: Floats
    partners: Indices
    """Slots of the entities each is brought together with, -1 for none. Shape (K, 2)."""


class FeatureEncoder:
    """Turns observations into features; grounds each (instruction, names) pair once."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.encoder = encoder
        self._rows: dict[str, int] = {"": 0}
        self._table = np.zeros((1, EMBEDDING_SIZE), dtype=np.float32)
        self._scenes: dict[tuple[str, tuple[str, ...], int], SceneLanguage] = {}

    def prepare(self, specs: Iterable[EnvironmentSpec]) -> None:
        """Ground and embed everything that ``specs`` say, so that the encoder's cache holds it."""
        for key in dict.fromkeys((spec.instruction, spec.entity_names) for spec in specs):
            self.language(*key)

    def language(self, instruction: str, names: tuple[str, ...], slots: int = 0) -> SceneLanguage:
        """Sentence rows and flags of one scene, padded to ``slots`` entities."""
        slots = max(slots, len(names))
        key = (instruction, names, slots)
        if key not in self._scenes:
            said = ground(instruction, names, self.encoder.similarity)
            roles = (said.first_texts, said.last_texts, said.first_clauses, said.last_clauses)
            role = np.stack([self._index(texts) for texts in roles], axis=-1)
            self._scenes[key] = SceneLanguage(
                task=int(self._index([said.task_text])[0]),
                name=_padded(self._index(names), slots),
                role=_padded(role, slots),
                flags=_padded(_flags(said), slots),
                partners=_padded(said.partners, slots, -1),
            )
        return self._scenes[key]

    def encode(self, observation: ObservationBatch) -> Features:
        """Features of a batch.

        Raises:
            CheckpointError: an observation holds NaN or infinity, or arrays that do not belong together.
        """
        check_finite(observation)
        said = zip(observation.instructions, observation.entity_names, strict=True)
        scenes = [self.language(*pair, observation.present.shape[1]) for pair in said]
        partners = np.stack([scene.partners for scene in scenes])
        numbers = [entity_features(observation), partner_features(observation, partners)]
        return Features(
            robot=robot_features(observation),
            entity=np.concatenate(numbers, axis=-1) * observation.present[..., None].astype(np.float32),
            flags=np.stack([scene.flags for scene in scenes]),
            name=np.stack([scene.name for scene in scenes]),
            role=np.stack([scene.role for scene in scenes]),
            task=np.array([scene.task for scene in scenes], dtype=np.int64),
            present=observation.present,
            table=self._table,
        )

    def _index(self, texts: Sequence[str]) -> Indices:
        new = [text for text in dict.fromkeys(texts) if text not in self._rows]
        if new:
            self._rows.update({text: len(self._table) + i for i, text in enumerate(new)})
            self._table = np.concatenate([self._table, self.encoder.encode(new)])
        return np.array([self._rows[text] for text in texts], dtype=np.int64)


def check_finite(observation: ObservationBatch) -> None:
    """Raise CheckpointError, naming the array, when an observation holds NaN or infinity."""
    for f in fields(ObservationBatch):
        value = getattr(observation, f.name)
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and not np.isfinite(value).all():
            raise CheckpointError(
                f"observation.{f.name} holds values that are not finite; the policy expects numbers"
            )


def robot_features(observation: ObservationBatch) -> Floats:
    """Joints [rad], tool position [m], tool axes x and y (6-D rotation), opening, tool height by scale.
    Shape (n, robot_size)."""
    axes = rotation_matrix(observation.tool_quaternion_xyzw)
    height = observation.tool_position_base[:, 2:]
    parts = [
        observation.joint_positions,
        observation.tool_position_base,
        axes[..., 0],
        axes[..., 1],
        observation.gripper_opening[:, None],
        *(np.tanh(height / scale) for scale in SCALES),
    ]
    return np.concatenate(parts, axis=-1).astype(np.float32)


def entity_features(observation: ObservationBatch) -> Floats:
    """Position relative to the tool plain and by scale, heights, tilt and 6-D rotation, yaw relative to the
    tool modulo 180 and 90 degrees, half extents, joint. Shape (n, K, ENTITY_SIZE)."""
    relative = observation.entity_position_base - observation.tool_position_base[:, None]
    axes = rotation_matrix(observation.entity_quaternion_xyzw)
    tool = rotation_matrix(observation.tool_quaternion_xyzw)[:, None]
    turn = np.arctan2(axes[..., 1, 0], axes[..., 0, 0]) - np.arctan2(tool[..., 1, 0], tool[..., 0, 0])
    height, half = observation.entity_position_base[..., 2:], observation.entity_half_extents
    low, high = observation.entity_joint_range[..., 0], observation.entity_joint_range[..., 1]
    value = observation.entity_joint_value
    fraction = np.divide(value - low, high - low, out=np.zeros_like(value), where=high > low)
    parts = [
        relative,
        *(np.tanh(relative / scale) for scale in SCALES),
        height - half[..., 2:],
        height + half[..., 2:],
        np.tanh((height - half[..., 2:]) / SCALES[0]),
        np.tanh(height / SCALES[1]),
        axes[..., 0],
        axes[..., 1],
        np.stack([np.sin(2 * turn), np.cos(2 * turn), np.sin(4 * turn), np.cos(4 * turn)], axis=-1),
        np.stack([wrap(turn, np.pi), wrap(turn, np.pi / 2)], axis=-1),
        half,
        np.stack([high > low, value, high - low, fraction], axis=-1),
    ]
    return np.concatenate(parts, axis=-1).astype(np.float32)


def partner_features(observation: ObservationBatch, partners: Indices) -> Floats:
    """Where the partners of each entity are (n, K, 2): whether there is one; unit direction to it in the
    plane; where the tool is along and across that direction [m], seen from the entity, plain and by the
    smallest scale. Shape (n, K, 2 * PARTNER_SIZE)."""
    position, tool = observation.entity_position_base[..., :2], observation.tool_position_base[:, None, :2]
    columns = []
    for slot in np.moveaxis(partners, -1, 0):
        has = (slot >= 0)[..., None]
        other = np.take_along_axis(position, np.maximum(slot, 0)[..., None], axis=1)
        offset = np.where(has, other - position, 0.0)
        way = offset / np.maximum(np.linalg.norm(offset, axis=-1, keepdims=True), 1e-3)
        hand = tool - position
        along = (hand * way).sum(-1, keepdims=True)
        across = hand[..., 1:] * way[..., :1] - hand[..., :1] * way[..., 1:]
        columns += [has, way, along, across, np.tanh(along / SCALES[0]), np.tanh(across / SCALES[0])]
    return np.concatenate(columns, axis=-1).astype(np.float32)


def wrap(angle: NDArray[np.float64], period: float) -> NDArray[np.float64]:
    """Angle of a shape that looks the same after ``period``, in [-period / 2, period / 2) [rad]."""
    return (angle + period / 2) % period - period / 2


def rotation_matrix(quaternion_xyzw: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rotation matrices of unit quaternions; a zero quaternion (empty slot) gives the identity. Shape (...,
    3, 3)."""
    x, y, z, w = np.moveaxis(quaternion_xyzw, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def _flags(grounding: Grounding) -> Floats:
    number = np.minimum(np.stack([grounding.first, grounding.last], axis=1), MAX_MENTIONS - 1)
    one_hot = (number[..., None] == np.arange(MAX_MENTIONS)).reshape(len(number), -1)
    columns = [grounding.first >= 0, grounding.score, grounding.last > grounding.first]
    return np.concatenate([np.stack(columns, axis=-1), one_hot], axis=-1).astype(np.float32)


def _padded(values: NDArray, slots: int, fill: int = 0) -> NDArray:
    width = [(0, slots - len(values)), *[(0, 0)] * (values.ndim - 1)]
    return np.pad(values, width, constant_values=fill)
