"""Messages <-> the arrays and records of ``world``, in pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from coda_interfaces.msg import (
    ActionChunk,
    EpisodeEvent,
    ObjectState,
    ObjectStateArray,
    Observation,
    Progress,
)
from numpy.typing import NDArray

from coda_nodes.ros.arm_messages import joint_positions_from_message, joint_state_to_message
from coda_nodes.ros.quantities import (
    doubles,
    finite,
    header,
    number,
    pose_from_message,
    pose_to_message,
    time_from_message,
    vector_from_message,
    vector_to_message,
)
from coda_nodes.world.action import ACTION_SIZE, CHUNK_STEPS, CONTROL_PERIOD
from coda_nodes.world.errors import MessageError
from coda_nodes.world.spec import EnvironmentSpec, ObjectSpec
from coda_nodes.world.state import ENTITY_SLOTS, ObservationBatch

Array = NDArray[np.float64]


def chunk_to_message(chunk: Array, stamp: float) -> ActionChunk:
    """Message of one chunk (8, 7) that answers the observation of time ``stamp`` [s]."""
    return ActionChunk(header=header(stamp), steps=len(chunk), period=CONTROL_PERIOD, data=doubles(chunk))


def chunk_from_message(message: ActionChunk) -> Array:
    """Chunk (8, 7).

    Raises MessageError for another shape or period, for NaN, and for an opening outside 0..1.
    """
    if message.steps != CHUNK_STEPS or len(message.data) != CHUNK_STEPS * ACTION_SIZE:
        raise MessageError(
            f"chunk of {message.steps} steps and {len(message.data)} numbers: "
            f"expected {CHUNK_STEPS} and {CHUNK_STEPS * ACTION_SIZE}"
        )
    if abs(message.period - CONTROL_PERIOD) > 1e-9:
        raise MessageError(f"chunk with a period of {message.period} s: expected {CONTROL_PERIOD} s")
    chunk = finite(message.data, "chunk").reshape(CHUNK_STEPS, ACTION_SIZE)
    opening = chunk[:, 6]
    if opening.min() < -1e-6 or opening.max() > 1 + 1e-6:
        raise MessageError(
            f"gripper opening {opening.min():.4g} to {opening.max():.4g} in chunk: expected 0 to 1"
        )
    return chunk


def entity_labels(spec: EnvironmentSpec) -> tuple[tuple[str, str], ...]:
    """Category and role of each entity of a specification, in entity order."""
    return tuple(
        (entity.shape, entity.role) if isinstance(entity, ObjectSpec) else (entity.kind, "fixture")
        for entity in spec.entities
    )


def objects_to_message(
    batch: ObservationBatch, labels: Sequence[tuple[str, str]], stamp: float, scene: int = 0
) -> ObjectStateArray:
    """Objects of one scene of a batch; ``labels`` as ``entity_labels`` gives them."""
    message = ObjectStateArray(header=header(stamp))
    slots = np.flatnonzero(batch.present[scene])
    for slot, name, (category, role) in zip(slots, batch.entity_names[scene], labels, strict=True):
        low, high = (float(v) for v in batch.entity_joint_range[scene, slot])
        message.objects.append(
            ObjectState(
                name=name,
                category=category,
                role=role,
                pose=pose_to_message(
                    batch.entity_position_base[scene, slot], batch.entity_quaternion_xyzw[scene, slot]
                ),
                size=vector_to_message(batch.entity_half_extents[scene, slot]),
                has_joint=low != high,
                joint_value=float(batch.entity_joint_value[scene, slot]),
                joint_range=np.array((low, high)),
            )
        )
    return message


def observation_to_message(
    batch: ObservationBatch,
    labels: Sequence[tuple[str, str]],
    joint_names: Sequence[str],
    stamp: float,
    step: int,
    scene: int = 0,
) -> Observation:
    """Observation of one scene of a batch at time ``stamp`` [s] and control step ``step``."""
    return Observation(
        header=header(stamp),
        joint_state=joint_state_to_message(joint_names, batch.joint_positions[scene], stamp),
        gripper_opening=float(batch.gripper_opening[scene]),
        tool_pose_base=pose_to_message(batch.tool_position_base[scene], batch.tool_quaternion_xyzw[scene]),
        objects=objects_to_message(batch, labels, stamp, scene),
        instruction=batch.instructions[scene],
        step=step,
    )


def observation_from_message(message: Observation, joint_names: Sequence[str]) -> ObservationBatch:
    """Batch of one scene with ENTITY_SLOTS slots, or as many as the message has objects where those are more.

    Raises:
        MessageError: a joint is missing, an object is named twice, a number is not finite, a rotation is not
            unit.
    """
    position, quaternion = pose_from_message(message.tool_pose_base, "tool_pose_base")
    return ObservationBatch(
        joint_positions=joint_positions_from_message(message.joint_state, joint_names)[None],
        gripper_opening=np.array([number(message.gripper_opening, "gripper_opening")]),
        tool_position_base=position[None],
        tool_quaternion_xyzw=quaternion[None],
        instructions=(message.instruction,),
        **entities_from_message(message.objects),
    )


def entities_from_message(message: ObjectStateArray) -> dict[str, Any]:
    """The per-entity fields of an ObservationBatch of one scene. Raises MessageError as above."""
    objects = message.objects
    names = tuple(item.name for item in objects)
    if len(set(names)) != len(names):
        raise MessageError(f"an object is named twice: {', '.join(names)}")
    poses = [pose_from_message(item.pose, item.name) for item in objects]
    sizes = [vector_from_message(item.size, f"{item.name}.size") for item in objects]
    values = [[number(item.joint_value, f"{item.name}.joint_value")] for item in objects]
    ranges = [finite(item.joint_range, f"{item.name}.joint_range") for item in objects]
    return {
        "entity_position_base": _slots([position for position, _ in poses], 3),
        "entity_quaternion_xyzw": _slots([quaternion for _, quaternion in poses], 4),
        "entity_half_extents": _slots(sizes, 3),
        "entity_joint_value": _slots(values, 1)[..., 0],
        "entity_joint_range": _slots(ranges, 2),
        "present": _slots([[1.0]] * len(objects), 1)[..., 0] > 0,
        "entity_names": (names,),
    }


def _slots(rows: Sequence[Any], width: int) -> Array:
    """Rows of the objects, then zeros for the slots that are left. Shape (1, K, width)."""
    filled = np.zeros((1, max(ENTITY_SLOTS, len(rows)), width))
    if rows:
        filled[0, : len(rows)] = rows
    return filled


@dataclass(frozen=True)
class EpisodeNote:
    """Start or end of an episode; ``kind`` is a constant of EpisodeEvent, ``time`` [s]."""

    kind: int
    environment_hash: str
    time: float
    step: int = 0
    episode_hash: str = ""
    run_id: str = ""
    detail: str = ""


def event_to_message(note: EpisodeNote) -> EpisodeEvent:
    """Message of an episode's start or end."""
    return EpisodeEvent(
        header=header(note.time),
        run_id=note.run_id,
        environment_hash=note.environment_hash,
        episode_hash=note.episode_hash,
        kind=note.kind,
        detail=note.detail,
        step=note.step,
    )


def event_from_message(message: EpisodeEvent) -> EpisodeNote:
    """Start or end of an episode. Raises MessageError for a kind that does not exist."""
    if message.kind > EpisodeEvent.STOPPED:
        raise MessageError(f"episode event of kind {message.kind}: expected 0 to {EpisodeEvent.STOPPED}")
    return EpisodeNote(
        kind=message.kind,
        environment_hash=message.environment_hash,
        time=time_from_message(message.header.stamp),
        step=message.step,
        episode_hash=message.episode_hash,
        run_id=message.run_id,
        detail=message.detail,
    )


@dataclass(frozen=True)
class ProgressNote:
    """How far a node's long work has come; ``fraction`` and ``seconds_left`` are -1 when unknown."""

    node: str
    phase: str
    text: str
    round: int = 0
    fraction: float = -1.0
    seconds_left: float = -1.0
    data_json: str = ""


def progress_to_message(note: ProgressNote, stamp: float) -> Progress:
    """Message of a progress report made at time ``stamp`` [s]."""
    return Progress(
        header=header(stamp, ""),
        node=note.node,
        phase=note.phase,
        text=note.text,
        round=note.round,
        fraction=float(note.fraction),
        seconds_left=float(note.seconds_left),
        data_json=note.data_json,
    )


def progress_from_message(message: Progress) -> ProgressNote:
    """Progress report of a node. Raises MessageError for figures that are not finite."""
    return ProgressNote(
        node=message.node,
        phase=message.phase,
        text=message.text,
        round=message.round,
        fraction=number(message.fraction, "fraction"),
        seconds_left=number(message.seconds_left, "seconds_left"),
        data_json=message.data_json,
    )
