"""What a lookahead is told, stored below the artifact root; its hash makes the actor's name ``lookahead:HASH``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from coda_nodes.simulator.lookahead import LookaheadConfig
from coda_nodes.world.artifacts import ArtifactRoot, content_hash, write_atomic
from coda_nodes.world.config import from_mapping
from coda_nodes.world.errors import ArtifactError, CodaError
from coda_nodes.world.potentials import TaskPotential, read_task_potential

PREFIX = "lookahead:"


@dataclass(frozen=True)
class LookaheadPlan:
    """Which policy searches, by which potentials, and how."""

    checkpoint: str
    """Hash of the checkpoint."""
    tasks: Sequence[TaskPotential] = ()
    """In place of the default potentials of their kinds of goals."""
    config: LookaheadConfig = field(default_factory=LookaheadConfig)

    def save(self, root: ArtifactRoot) -> str:
        """Store it; return the name of the actor."""
        document = {
            "checkpoint": self.checkpoint, "config": asdict(self.config),
            "tasks": [task.model_dump(mode="json") for task in self.tasks],
        }
        data = json.dumps(document, sort_keys=True).encode()
        key = content_hash(data)
        write_atomic(_path(root, key), data)
        return PREFIX + key

    @staticmethod
    def load(root: ArtifactRoot, actor: str) -> LookaheadPlan:
        """Read the plan of an actor's name. Raises ArtifactError when it is missing, damaged or something else."""
        path = _path(root, actor.removeprefix(PREFIX))
        try:
            data = path.read_bytes()
            if content_hash(data) != path.stem:
                raise ArtifactError("its content does not match its hash")
            document = json.loads(data)
            tasks = tuple(read_task_potential(task) for task in document["tasks"])
            return LookaheadPlan(document["checkpoint"], tasks, from_mapping(LookaheadConfig, document["config"]))
        except (OSError, ValueError, KeyError, TypeError, CodaError) as error:
            raise ArtifactError(f"cannot read the plan of {actor!r} from {path}: {error}") from error


def _path(root: ArtifactRoot, key: str) -> Path:
    return root.path / "plans" / f"{key}.json"
