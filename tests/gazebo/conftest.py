"""Scenes of every family for the tests of the Gazebo path."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from coda_nodes.world.spec import FAMILIES, EnvironmentSpec
from coda_nodes.world.splits import sample_split

sys.path.insert(0, str(Path(__file__).parent))  # drake_world and standin are parts of the tests, not a package


@pytest.fixture(scope="session")
def scenes() -> dict[str, list[EnvironmentSpec]]:
    """Two probe scenes of each family, the second with the arm displaced at its start."""
    made = {}
    for number, family in enumerate(FAMILIES):
        rng = np.random.default_rng(number)
        first, second = (sample_split(family, "probe", rng) for _ in range(2))
        displaced = {"joint_positions": (0.2, 0.1, -0.1, -2.0, 0.1, 2.1, 0.6), "gripper_opening": 0.4}
        start = second.robot_start.model_copy(update=displaced)
        made[family] = [first, second.revise(robot_start=start)]
    return made
