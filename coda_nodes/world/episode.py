"""One recorded episode: its specification, what was seen and done at each chunk, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from coda_nodes.world.artifacts import ArtifactRoot, content_hash, pack_arrays, unpack_arrays, write_atomic
from coda_nodes.world.errors import ArtifactError, unknown
from coda_nodes.world.spec import EnvironmentSpec, parse_spec
from coda_nodes.world.state import SceneState

Outcome = Literal["success", "failure", "invalid"]
_TEXT_FIELDS = ("entity_names", "instructions")


def episode_key(spec: EnvironmentSpec, seed: int, actor: str, variant: str = "") -> str:
    """Identity of an episode: specification, seed, actor and variant (one such episode is counted once)."""
    return content_hash(":".join([spec.content_hash, str(seed), actor, *([variant] if variant else [])]).encode())


@dataclass(frozen=True)
class Episode:
    """A finished episode of ``T`` chunks.

    ``states`` holds T + 1 scenes, one per chunk boundary (the last is the final one) along its first axis.
    """

    spec: EnvironmentSpec
    seed: int
    actor: str
    """Checkpoint hash, or ``expert``."""
    outcome: Outcome
    steps: int
    """Control steps executed, branches excluded."""
    states: SceneState
    chunks: np.ndarray
    """Action chunks as sent. Shape (T, 8, 7)."""
    executed: np.ndarray
    """Actions executed of each chunk. Shape (T,)."""
    predicate_names: tuple[str, ...]
    """Atoms of the goal, then stage predicates, written as ``name(arg, arg)``."""
    predicates: np.ndarray
    """Truth of each predicate after every control step. Shape (steps, P), bool."""
    reason: str = ""
    """Why an episode is invalid."""
    physics_states: np.ndarray | None = None
    """Full simulator state at each chunk boundary, for restoring. Shape (T + 1, S) or None."""
    versions: dict[str, str] = field(default_factory=dict)
    variant: str = ""
    """How it was run where not in the plain way, as in ``execute=4 noise=0.01 start=<episode>:<chunk>``."""
    branch_steps: int = 0
    """Control steps of branches that lookahead tried on the way, none of them part of the episode."""

    def __post_init__(self) -> None:
        if self.outcome not in get_args(Outcome):
            raise ArtifactError(unknown("episode outcome", self.outcome, get_args(Outcome)))

    @property
    def success(self) -> bool:
        """Whether the goal held for its required time."""
        return self.outcome == "success"

    def to_bytes(self) -> bytes:
        """Pack as npz (no pickle); equal episodes give equal bytes up to the archive's own time stamps."""
        arrays = {f"state.{f.name}": getattr(self.states, f.name) for f in fields(SceneState) if f.name not in _TEXT_FIELDS}
        arrays.update(chunks=self.chunks, executed=self.executed, predicates=self.predicates)
        if self.physics_states is not None:
            arrays["physics_states"] = self.physics_states
        document: dict[str, Any] = {
            "spec": self.spec.model_dump(mode="json"), "seed": self.seed, "actor": self.actor, "outcome": self.outcome,
            "steps": self.steps, "predicate_names": self.predicate_names, "reason": self.reason, "versions": self.versions,
            "variant": self.variant, "branch_steps": self.branch_steps,
        }
        return pack_arrays(arrays, document)

    @property
    def content_hash(self) -> str:
        """Identity of the episode, see ``episode_key``."""
        return episode_key(self.spec, self.seed, self.actor, self.variant)

    def save(self, root: ArtifactRoot) -> str:
        """Write under the artifact root; return the hash that names it."""
        key = self.content_hash
        write_atomic(root.episode(key), self.to_bytes())
        return key

    @staticmethod
    def load(path: Path) -> Episode:
        """Read an episode. Raises ArtifactError when it is missing, damaged or of another layout."""
        arrays, document = unpack_arrays(path)
        try:
            spec = parse_spec(document["spec"])
            count = len(arrays["chunks"]) + 1
            states = {f.name: arrays[f"state.{f.name}"] for f in fields(SceneState) if f.name not in _TEXT_FIELDS}
            return Episode(
                spec=spec, seed=document["seed"], actor=document["actor"], outcome=document["outcome"],
                steps=document["steps"], reason=document["reason"], versions=document["versions"],
                states=SceneState(**states, entity_names=(spec.entity_names,) * count, instructions=(spec.instruction,) * count),
                chunks=arrays["chunks"], executed=arrays["executed"], predicates=arrays["predicates"],
                predicate_names=tuple(document["predicate_names"]), physics_states=arrays.get("physics_states"),
                variant=document.get("variant", ""), branch_steps=document.get("branch_steps", 0),
            )
        except (KeyError, TypeError) as error:
            raise ArtifactError(f"{path} is not an episode: {error}") from error


@dataclass(frozen=True)
class EpisodeSummary:
    """What is listed of a finished episode; the rest is under its hash."""

    hash: str
    environment_hash: str
    family: str
    outcome: Outcome
    steps: int
    seed: int
    actor: str
    reason: str = ""
    branch_steps: int = 0

    @property
    def control_steps(self) -> int:
        """What the episode costs of the budget: its own steps and those of its branches."""
        return self.steps + self.branch_steps

    @staticmethod
    def of(episode: Episode) -> EpisodeSummary:
        """Summarise an episode."""
        return EpisodeSummary(
            hash=episode.content_hash, environment_hash=episode.spec.content_hash, family=episode.spec.family,
            outcome=episode.outcome, steps=episode.steps, seed=episode.seed, actor=episode.actor, reason=episode.reason,
            branch_steps=episode.branch_steps,
        )
