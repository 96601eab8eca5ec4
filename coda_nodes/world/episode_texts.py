"""An episode as the texts (JSON) that travel on ``/coda/truth``, live and in bags: one per chunk boundary.

The first one, at the reset, says what the episode is; each says how the scene stands and what happened since the
boundary before. Numbers are written so that they come back bit by bit.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coda_nodes.world.action import ACTION_SIZE, CHUNK_STEPS
from coda_nodes.world.episode import Episode, episode_key
from coda_nodes.world.errors import MessageError
from coda_nodes.world.spec import EnvironmentSpec
from coda_nodes.world.state import SceneState

FLAGS = ("present", "grasped", "touched", "contact", "on_table")
"""Fields of a scene state that hold truth values."""
COLUMNS = tuple(f.name for f in fields(SceneState) if f.name not in ("entity_names", "instructions"))
"""Arrays of a scene state."""


@dataclass(frozen=True)
class EpisodeRecord:
    """What an episode is, known when it begins."""

    environment: str
    """Content hash of the specification."""
    seed: int
    actor: str
    predicate_names: tuple[str, ...]
    variant: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    branch_steps: int = 0

    @staticmethod
    def of(episode: Episode) -> EpisodeRecord:
        """The record of a finished episode."""
        return EpisodeRecord(
            episode.spec.content_hash, episode.seed, episode.actor, episode.predicate_names, episode.variant,
            episode.versions, episode.branch_steps,
        )

    def key(self, spec: EnvironmentSpec) -> str:
        """Identity of the episode, that of ``Episode.content_hash``."""
        return episode_key(spec, self.seed, self.actor, self.variant)


@dataclass(frozen=True)
class Truth:
    """How a scene stands at a chunk boundary, and the chunk that led to it."""

    environment: str
    """Content hash of the specification."""
    step: int
    """Control steps since the reset."""
    stamp: int
    """[ns]; that of the state messages published with it."""
    columns: dict[str, NDArray[Any]]
    """Fields of a scene state, each of shape (1, ...)."""
    predicates: NDArray[np.bool_]
    """Truth after each step since the boundary before. Shape (executed, P)."""
    chunk: NDArray[np.float64] | None = None
    """Shape (8, 7); None at the reset."""
    record: EpisodeRecord | None = None
    """At the reset."""

    def to_text(self) -> str:
        """One line of JSON; truth values are written as 0 and 1."""
        columns = {
            name: (values[0].astype(int) if name in FLAGS else np.asarray(values[0], dtype=float)).tolist()
            for name, values in self.columns.items()
        }
        return json.dumps({
            "environment": self.environment, "step": self.step, "stamp": self.stamp, "state": columns,
            "predicates": ["".join("01"[int(value)] for value in row) for row in self.predicates],
            "chunk": None if self.chunk is None else self.chunk.tolist(),
            "record": None if self.record is None else vars(self.record),
        })


def truth_of(
    environment: str, state: SceneState, step: int, stamp: int, predicates: NDArray[np.bool_],
    chunk: NDArray[np.float64] | None = None, record: EpisodeRecord | None = None, row: int = 0,
) -> Truth:
    """Truth of row ``row`` of a scene state; see ``Truth`` for the rest."""
    columns = {name: getattr(state, name)[row : row + 1] for name in COLUMNS}
    return Truth(environment, step, stamp, columns, predicates, chunk, record)


def read_truth(text: str) -> Truth:
    """Inverse of ``Truth.to_text``; NaN is kept. Raises MessageError for a text that is no truth."""
    try:
        data = json.loads(text)
        rows, record = data["predicates"], data["record"]
        predicates = np.array([[letter == "1" for letter in row] for row in rows], dtype=bool)
        columns = {
            name: np.array([data["state"][name]], dtype=bool if name in FLAGS else np.float64) for name in COLUMNS
        }
        if record is not None:
            record = EpisodeRecord(**{**record, "predicate_names": tuple(record["predicate_names"])})
        return Truth(
            str(data["environment"]), int(data["step"]), int(data["stamp"]), columns,
            predicates.reshape(len(rows), len(rows[0]) if rows else 0), _chunk(data["chunk"]), record,
        )
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise MessageError(f"truth {text[:60]!r} cannot be read: {type(error).__name__}: {error}") from error


def _chunk(rows: Any) -> NDArray[np.float64] | None:
    if rows is None:
        return None
    chunk = np.array(rows, dtype=np.float64)
    if chunk.shape != (CHUNK_STEPS, ACTION_SIZE):
        raise ValueError(f"chunk of shape {chunk.shape}, expected {(CHUNK_STEPS, ACTION_SIZE)}")
    return chunk


def joined(
    spec: EnvironmentSpec, record: EpisodeRecord, truths: Sequence[Truth], outcome: str, reason: str = ""
) -> Episode:
    """Episode of truths in order, the first at the reset, without gaps.

    Raises MessageError where their shapes differ from the record's.
    """
    count, width = len(truths), len(record.predicate_names)
    rows = [truth.predicates for truth in truths[1:]]
    if any(part.shape[1] != width for part in rows if len(part)):
        raise MessageError(f"truth whose predicates are not the {width} that the episode's record names")
    try:
        columns = {name: np.concatenate([truth.columns[name] for truth in truths]) for name in COLUMNS}
    except ValueError as error:
        raise MessageError(f"truths of one episode differ in shape: {error}") from error
    chunks = [truth.chunk for truth in truths[1:] if truth.chunk is not None]
    if len(chunks) != count - 1:
        raise MessageError(f"{count - 1 - len(chunks)} truths after the reset come without their chunk")
    return Episode(
        spec=spec, seed=record.seed, actor=record.actor, outcome=outcome, reason=reason,  # type: ignore[arg-type]
        steps=truths[-1].step, executed=np.array([len(part) for part in rows], dtype=int),
        states=SceneState(
            **columns, entity_names=(spec.entity_names,) * count, instructions=(spec.instruction,) * count
        ),
        chunks=np.array(chunks, dtype=np.float64).reshape(-1, CHUNK_STEPS, ACTION_SIZE),
        predicates=np.concatenate([*(part.reshape(-1, width) for part in rows), np.zeros((0, width), bool)]),
        predicate_names=record.predicate_names, versions=record.versions, variant=record.variant,
        branch_steps=record.branch_steps,
    )
