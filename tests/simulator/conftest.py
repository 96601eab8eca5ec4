"""Scenes and scripted motions for the tests of the simulator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.simulator.protocol import StepResult
from coda_nodes.world.geometry import tool_down
from coda_nodes.world.robots import robot
from coda_nodes.world.spec import Atom, EnvironmentSpec, ObjectSpec, Pose, RobotStart
from coda_nodes.world.splits import sample_split

SHAPES = {
    "cube": ("box", (0.02, 0.02, 0.02)),
    "block": ("box", (0.035, 0.02, 0.018)),
    "can": ("cylinder", (0.025, 0.025, 0.04)),
    "puck": ("cylinder", (0.028, 0.028, 0.014)),
}


@pytest.fixture(scope="session")
def make_spec() -> Callable[..., EnvironmentSpec]:
    """Pick-and-place scene with one object of a shape, and a bin."""

    def make(
        shape: str = "cube", x: float = 0.5, y: float = 0.0, z: float | None = None, **changes: object
    ) -> EnvironmentSpec:
        solid, half = SHAPES[shape]
        thing = ObjectSpec(
            name=f"red {shape}",
            shape=solid,
            role="object",
            half_extents=half,
            color="red",
            mass=changes.pop("mass", 0.15),
            friction=changes.pop("friction", 0.8),
            pose=Pose.planar(x, y, half[2] if z is None else z, changes.pop("yaw", 0.0)),
        )
        container = ObjectSpec(
            name="blue bin",
            shape="bin",
            role="receptacle",
            half_extents=(0.09, 0.08, 0.035),
            color="blue",
            pose=Pose.planar(0.5, 0.25, 0.035),
        )
        goal = changes.pop("goal", Atom(predicate="inside", args=(f"red {shape}", "blue bin")))
        return EnvironmentSpec(
            family="pick_place",
            instruction=f"put the red {shape} in the blue bin",
            objects=(thing, container),
            goal=goal,
            robot_start=RobotStart(joint_positions=robot("panda").home),
            **changes,
        )

    return make


@pytest.fixture(scope="session")
def train_specs() -> Callable[..., list[EnvironmentSpec]]:
    """Scenes of the train split."""

    def sample(family: str, count: int, seed: int = 0) -> list[EnvironmentSpec]:
        rng = np.random.default_rng(seed)
        return [sample_split(family, "train", rng) for _ in range(count)]

    return sample


@pytest.fixture(scope="session")
def move_to() -> Callable[..., StepResult]:
    """Straight motion of every tool to places (n, 3), pointing down at a yaw, over whole chunks."""

    def move(
        simulator: BatchSimulator, places: np.ndarray, opening: float, chunks: int = 1, yaw: float = 0.0
    ) -> StepResult:
        for left in range(chunks, 0, -1):
            state = simulator.state()
            share = (np.arange(1, 9) / (8 * left))[None, :, None]
            turn = (
                Rotation.from_quat(tool_down(np.full(state.n, yaw)))
                * Rotation.from_quat(state.tool_quaternion_xyzw).inv()
            )
            chunk = np.zeros((state.n, 8, 7))
            chunk[..., :3] = (places - state.tool_position_base)[:, None] * share
            chunk[..., 3:6] = turn.as_rotvec()[:, None] * share
            chunk[..., 6] = opening
            result = simulator.step_chunk(chunk)
        return result

    return move
