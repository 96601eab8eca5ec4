"""Family push_insert: predicates against near misses worked out by hand, sampling, expert on physics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coda_nodes.generator.at_rest import state_at_rest
from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.simulator.rollout import ChunkNoise
from coda_nodes.world.experts import ExpertActor
from coda_nodes.world.families import family
from coda_nodes.world.families.push_insert import goal_of, task_parts
from coda_nodes.world.predicates import CompiledAtoms
from coda_nodes.world.spec import Atom, EnvironmentSpec, ObjectSpec, Pose, RobotStart, atoms
from coda_nodes.world.splits import load_splits, sample_split
from coda_nodes.world.state import SceneState

FAMILY = "push_insert"
PUCK, PEG = 0, 1
SLOT = (0.50, 0.15)


def scene() -> EnvironmentSpec:
    """Puck of radius 0.03 m, goal of radius 0.06 m, peg 0.03 x 0.03 x 0.09 m, hole 0.04 x 0.04 x 0.045 m."""
    thing = dict(role="object", color="red", mass=0.1)
    return EnvironmentSpec(
        family=FAMILY,
        instruction="push the red puck to the goal",
        objects=(
            ObjectSpec(
                name="red puck",
                shape="cylinder",
                half_extents=(0.03, 0.03, 0.018),
                pose=Pose.planar(0.4, -0.2, 0.018),
                **thing,
            ),
            ObjectSpec(
                name="red peg",
                shape="box",
                half_extents=(0.015, 0.015, 0.045),
                pose=Pose.planar(0.4, 0.1, 0.045),
                **thing,
            ),
            ObjectSpec(
                name="goal",
                shape="marker",
                role="marker",
                half_extents=(0.06, 0.06, 0.001),
                color="white",
                pose=Pose.planar(0.55, -0.1, 0.001),
            ),
            ObjectSpec(
                name="slot",
                shape="slot",
                role="receptacle",
                half_extents=(0.05, 0.05, 0.025),
                color="gray",
                pose=Pose.planar(*SLOT, 0.025),
            ),
        ),
        goal=Atom(predicate="at", args=("red puck", "goal")),
        robot_start=RobotStart(joint_positions=(0.0,) * 7),
    )


def moved(index: int, position: tuple[float, float, float], tilt: float = 0.0, **changes: bool) -> SceneState:
    """The scene with one object elsewhere, turned by ``tilt`` [rad] about y, ``touched`` or ``moving``."""
    state = state_at_rest(scene())
    places, turns = state.entity_position_base.copy(), state.entity_quaternion_xyzw.copy()
    places[0, index] = position
    turns[0, index] = (0.0, np.sin(tilt / 2), 0.0, np.cos(tilt / 2))
    touched, velocity = state.touched.copy(), state.entity_linear_velocity.copy()
    touched[0, index] = changes.get("touched", False)
    velocity[0, index, 0] = 0.1 if changes.get("moving") else 0.0
    return replace(
        state,
        entity_position_base=places,
        entity_quaternion_xyzw=turns,
        touched=touched,
        entity_linear_velocity=velocity,
    )


def holds(state: SceneState, predicate: str, *args: str) -> bool:
    return bool(CompiledAtoms([scene()], [[Atom(predicate=predicate, args=args)]]).evaluate(state)[0, 0])


@pytest.mark.parametrize("angle", np.linspace(0.0, 2 * np.pi, 7))
@pytest.mark.parametrize(
    ("overhang", "there"), [(-0.03, True), (-0.001, True), (0.005, False), (0.03, False)]
)
def test_puck_over_the_rim_of_the_goal_is_not_there(angle: float, overhang: float, there: bool) -> None:
    distance = 0.06 - 0.03 + overhang
    place = (0.55 + distance * np.cos(angle), -0.1 + distance * np.sin(angle), 0.018)
    assert holds(moved(PUCK, place), "at", "red puck", "goal") is there


def test_puck_that_slides_or_hangs_over_the_goal_is_not_there() -> None:
    assert not holds(moved(PUCK, (0.55, -0.1, 0.018), moving=True), "at", "red puck", "goal")
    assert not holds(moved(PUCK, (0.55, -0.1, 0.05)), "at", "red puck", "goal")


@pytest.mark.parametrize(
    ("offset", "height", "tilt", "inside"),
    [
        ((0.0, 0.0), 0.050, 0.0, True),
        ((0.004, 0.0), 0.052, 0.05, True),
        ((0.0, 0.0), 0.066, 0.0, True),
        ((0.0, 0.0), 0.070, 0.0, False),
        ((0.0, 0.0), 0.095, 0.0, False),
        ((0.07, 0.0), 0.045, 0.0, False),
        ((0.0, 0.03), 0.095, 0.0, False),
        ((0.0, 0.0), 0.055, 0.3, False),
        ((0.0, 0.0), 0.065, np.pi / 2, False),
    ],
    ids=[
        "down",
        "leaning a little",
        "deep enough",
        "too high",
        "on the rim",
        "beside the block",
        "over the rim",
        "tilted",
        "lying across",
    ],
)
def test_inserted(offset: tuple[float, float], height: float, tilt: float, inside: bool) -> None:
    place = (SLOT[0] + offset[0], SLOT[1] + offset[1], height)
    assert holds(moved(PEG, place, tilt), "inserted", "red peg", "slot") is inside


def test_peg_upside_down_counts_and_a_held_one_does_not() -> None:
    assert holds(moved(PEG, (*SLOT, 0.05), np.pi), "inserted", "red peg", "slot")
    assert not holds(moved(PEG, (*SLOT, 0.05), touched=True), "inserted", "red peg", "slot")


def test_progress_of_a_push_grows_on_the_way() -> None:
    atoms_of = CompiledAtoms([scene()], [[Atom(predicate="at", args=("red puck", "goal"))]])
    way = np.linspace((0.4, -0.2, 0.018), (0.55, -0.1, 0.018), 12)
    values = [float(atoms_of.progress(moved(PUCK, tuple(place)))[0, 0]) for place in way]
    assert np.all(np.diff(values) >= 0) and values[-1] == 1.0 and values[0] < 0.95


@pytest.mark.parametrize("split", ["train", "probe", "dev"])
def test_scenes_fit_the_simulator(split: str) -> None:
    rng = np.random.default_rng(2)
    tasks = set()
    for _ in range(20):
        spec = sample_split(FAMILY, split, rng)
        tasks.add(spec.provenance.task)
        movables = [item for item in spec.objects if item.role in ("object", "distractor")]
        assert len(movables) <= 5 and len(spec.entities) == len(movables) + 2
        hole = spec.entity("slot").half_extents[0] - 0.03
        assert all(hole >= peg.half_extents[0] + 0.0019 for peg in movables if peg.name.endswith("peg"))
        CompiledAtoms([spec], [[stage.atom for stage in family(FAMILY).stages(spec)]])
    assert {"push", "insert"} <= tasks


def test_lane_of_the_push_is_free() -> None:
    ranges, rng = load_splits().ranges(FAMILY, "probe"), np.random.default_rng(4)
    for _ in range(20):
        spec = family(FAMILY).sample(ranges, rng)
        thing, goal = spec.objects[0], spec.entity("goal")
        start, end = np.array(thing.pose.position[:2]), np.array(goal.pose.position[:2])
        for item in spec.objects[1:]:
            if item.name != "goal":
                share = np.clip(
                    (np.array(item.pose.position[:2]) - start)
                    @ (end - start)
                    / ((end - start) @ (end - start)),
                    0,
                    1,
                )
                gap = np.linalg.norm(start + share * (end - start) - item.pose.position[:2])
                assert gap > 0.7 * thing.half_extents[0] + 0.7 * item.half_extents[0]


def run(specs: list[EnvironmentSpec], execute: int = 8, noise: float = 0.0) -> np.ndarray:
    simulator = BatchSimulator(FAMILY, len(specs))
    simulator.reset(specs)
    return finish(simulator, specs, execute, noise)


def finish(
    simulator: BatchSimulator, specs: list[EnvironmentSpec], execute: int = 8, noise: float = 0.0
) -> np.ndarray:
    """Let the expert act from where the scenes are now until all have succeeded or the time is over."""
    state, actor = simulator.state(), ExpertActor(specs)
    disturb = ChunkNoise(noise, list(range(len(specs))))
    for _ in range(max(spec.horizon for spec in specs) // execute):
        result = simulator.step_chunk(disturb(actor.act(state), np.arange(len(specs))), execute)
        state = simulator.state()
        if (result.success | result.invalid).all():
            break
    return result.success


def test_expert_solves_train_and_dev() -> None:
    rng = np.random.default_rng(17)
    specs = [sample_split(FAMILY, split, rng) for split in ("train",) * 12 + ("dev",) * 12]
    assert run(specs).sum() >= 23


def test_expert_solves_push_then_insert() -> None:
    rng = np.random.default_rng(5)
    specs = [sample_split(FAMILY, "dev", rng, axis="composition") for _ in range(8)]
    assert {len(list(atoms(spec.goal))) for spec in specs} == {2}
    assert run(specs).sum() >= 7


def test_expert_bears_noise_and_short_chunks() -> None:
    rng = np.random.default_rng(23)
    assert run([sample_split(FAMILY, "train", rng) for _ in range(12)], execute=4, noise=0.01).sum() >= 11


@pytest.mark.parametrize("chunks", [2, 4, 7])
def test_expert_puts_right_what_another_task_began(chunks: int) -> None:
    """After some chunks of the other task the hand holds or has inserted a peg, or has begun to push."""
    rng = np.random.default_rng(chunks)
    specs = [sample_split(FAMILY, "train", rng) for _ in range(10)]
    simulator = BatchSimulator(FAMILY, len(specs))
    simulator.reset(specs)
    misled = ExpertActor([other_task(spec) for spec in specs])
    for _ in range(chunks):
        simulator.step_chunk(misled.act(simulator.state()))
    assert finish(simulator, specs).sum() >= 9


def other_task(spec: EnvironmentSpec) -> EnvironmentSpec:
    thing, peg = spec.objects[0].name, spec.objects[1].name
    parts = ("insert",) if task_parts(spec.goal) == ("push",) else ("push",)
    return spec.revise(goal=goal_of(parts, thing, peg))
