"""Failures on the real simulator, and their bags; lets the tests of this folder share ``vision_parts``."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from coda_nodes.simulator.actors import ScriptedActor
from coda_nodes.simulator.bags import write_bag
from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.simulator.rollout import rollout
from coda_nodes.world.episode import Episode
from coda_nodes.world.splits import sample_split
from coda_nodes.world.state import SceneState

sys.path.insert(0, str(Path(__file__).parent))


class OffTheMark(ScriptedActor):
    """The expert, whose hand is closed from the first chunk on: it approaches and grasps nothing."""

    name = "off_the_mark"

    def act(self, state: SceneState, active: np.ndarray) -> np.ndarray:
        chunks = super().act(state, active).copy()
        chunks[..., 6] = 0.0
        return chunks


def failed(family: str, seed: int = 0) -> Episode:
    """A failure within three seconds."""
    spec = sample_split(family, "train", np.random.default_rng(seed))
    return rollout(BatchSimulator(family, 1), [spec.revise(horizon=60)], [0], OffTheMark())[0]


@pytest.fixture(scope="session")
def failure() -> Episode:
    """A failed stack, three seconds long."""
    return failed("stack")


@pytest.fixture
def bag(failure: Episode, tmp_path: Path) -> Path:
    """Its bag, to be spoilt."""
    return write_bag(failure, tmp_path / "bags" / failure.content_hash)
