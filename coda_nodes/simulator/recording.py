"""Records what a batch simulator does, chunk by chunk, and cuts the record into episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import mujoco
import numpy as np
from numpy.typing import NDArray

from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.simulator.protocol import StepResult
from coda_nodes.world.action import ACTION_SIZE, CHUNK_STEPS
from coda_nodes.world.episode import Episode, Outcome
from coda_nodes.world.state import SceneState

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def versions() -> dict[str, str]:
    """Versions of what decides an episode, stored with it."""
    return {"mujoco": mujoco.__version__, "numpy": np.__version__}


class Tape:
    """Record of the environments a simulator holds now; begin it after the reset (and restore)."""

    def __init__(self, simulator: BatchSimulator, physics: bool = False) -> None:
        self._simulator, self._with_physics = simulator, physics
        self._states: list[SceneState] = []
        self._physics: list[Array] = []
        self._chunks: list[Array] = []
        self._sent: list[Mask] = []
        self._executed: list[NDArray[np.int_]] = []
        self._predicates: list[Mask] = []
        self._look()

    @property
    def state(self) -> SceneState:
        """The state at the last chunk boundary."""
        return self._states[-1]

    def add(self, chunks: Array, sent: Mask, result: StepResult) -> None:
        """Record chunks (n, 8, 7) just executed; ``sent`` (n,) is False for environments that were over
        before."""
        self._chunks.append(np.where(sent[:, None, None], chunks, 0.0))
        self._sent.append(sent.copy())
        self._executed.append(result.executed)
        self._predicates.append(result.predicates)
        self._look()

    def episodes(self, seeds: Sequence[int], actor: str, variants: Sequence[str]) -> list[Episode]:
        """Cut the record into one episode per environment."""
        columns = {
            f.name: np.stack([getattr(state, f.name) for state in self._states])
            for f in fields(SceneState)
            if f.name not in ("entity_names", "instructions")
        }
        n = len(self._simulator.specs)
        chunks = np.array(self._chunks).reshape(-1, n, CHUNK_STEPS, ACTION_SIZE)
        executed = np.array(self._executed, dtype=int).reshape(-1, n)
        return [
            self._episode(i, columns, chunks[:, i], executed[:, i], seeds[i], actor, variants[i])
            for i in range(n)
        ]

    def _episode(
        self,
        i: int,
        columns: dict[str, Array],
        chunks: Array,
        executed: NDArray[np.int_],
        seed: int,
        actor: str,
        variant: str,
    ) -> Episode:
        simulator, spec = self._simulator, self._simulator.specs[i]
        length = int(sum(sent[i] for sent in self._sent))
        reason, names = simulator.reasons[i], simulator.predicate_names[i]
        outcome: Outcome = "invalid" if reason else "success" if simulator.success[i] else "failure"
        truths = [part[i, : executed[k], : len(names)] for k, part in enumerate(self._predicates[:length])]
        width = simulator.snapshot_width(i)
        physics = (
            np.stack([part[i, :width] for part in self._physics[: length + 1]]) if self._physics else None
        )
        states = SceneState(
            **{name: values[: length + 1, i] for name, values in columns.items()},
            entity_names=(spec.entity_names,) * (length + 1),
            instructions=(spec.instruction,) * (length + 1),
        )
        return Episode(
            spec=spec,
            seed=seed,
            actor=actor,
            outcome=outcome,
            steps=int(executed.sum()),
            reason=reason,
            states=states,
            chunks=chunks[:length],
            executed=executed[:length],
            predicate_names=names,
            predicates=np.concatenate([*truths, np.zeros((0, len(names)), bool)]),
            physics_states=physics,
            versions=versions(),
            variant=variant,
        )

    def _look(self) -> None:
        self._states.append(self._simulator.state())
        if self._with_physics:
            self._physics.append(self._simulator.snapshot())
