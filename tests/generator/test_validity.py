"""Validity of scenes: each fault is refused by its own check, naming the body; sound scenes pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from coda_nodes.generator.validity import (
    Rejection,
    SettleReport,
    ValidityLimits,
    check_inertia,
    check_validity,
    require_valid,
    static_rejections,
)
from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.world.errors import ConfigError, ValidityError
from coda_nodes.world.families import FAMILIES
from coda_nodes.world.solids import overlap_depth, solids
from coda_nodes.world.spec import Atom, EnvironmentSpec, FixtureSpec, ObjectSpec, Pose, RobotStart
from coda_nodes.world.splits import sample_split


def thing(name: str, x: float, y: float, z: float = 0.02, **changes: object) -> ObjectSpec:
    values = dict(
        name=name,
        shape="box",
        role="object",
        half_extents=(0.02, 0.02, 0.02),
        color="red",
        pose=Pose.planar(x, y, z),
    )
    return ObjectSpec(**{**values, **changes})


def scene(*things: ObjectSpec, **changes: object) -> EnvironmentSpec:
    values = dict(
        family="pick_place",
        instruction="put the red cube in the blue bin",
        objects=(
            *things,
            thing(
                "blue bin", 0.45, 0.25, 0.03, shape="bin", role="receptacle", half_extents=(0.07, 0.07, 0.03)
            ),
        ),
        goal=Atom(predicate="inside", args=("red cube", "blue bin")),
        robot_start=RobotStart(joint_positions=(0.0,) * 7),
    )
    return EnvironmentSpec(**{**values, **changes})


def checks(spec: EnvironmentSpec) -> set[tuple[str, str]]:
    return {(rejection.check, rejection.entity) for rejection in static_rejections(spec)}


def test_a_sound_scene_passes() -> None:
    assert static_rejections(scene(thing("red cube", 0.45, 0.0), thing("green cube", 0.45, -0.1))) == ()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (scene(thing("red cube", 0.45, 0.0), thing("green cube", 0.48, 0.01)), ("penetration", "red cube")),
        (scene(thing("red cube", 0.45, 0.0, 0.017)), ("penetration", "red cube")),
        (scene(thing("red cube", 0.45, 0.18)), ("penetration", "red cube")),
        (scene(thing("red cube", 0.45, 0.0, 0.06)), ("support", "red cube")),
        (
            scene(thing("red cube", 0.45, 0.0), thing("green cube", 0.475, 0.0, 0.06)),
            ("support", "green cube"),
        ),
        (scene(thing("red cube", 0.85, 0.0)), ("reach", "red cube")),
        (scene(thing("red cube", 0.2, 0.05)), ("reach", "red cube")),
        (scene(thing("red cube", 0.45, 0.0), thing("green cube", 0.5, -0.7)), ("reach", "green cube")),
        (scene(thing("red cube", 0.45, 0.0, mass=5.0)), ("inertia", "red cube")),
        (scene(thing("red cube", 0.45, 0.0, mass=0.0005)), ("inertia", "red cube")),
        (
            scene(thing("red cube", 0.45, 0.0, 0.0005, half_extents=(0.02, 0.02, 0.0005), mass=0.01)),
            ("inertia", "red cube"),
        ),
        (
            scene(thing("red cube", 0.45, 0.0), instruction="put the cube in the blue bin"),
            ("instruction", "red cube"),
        ),
        (
            scene(thing("red cube", 0.45, 0.0), thing("small red cube", 0.45, -0.1)),
            ("instruction", "red cube"),
        ),
        (scene(thing("red cube", 0.45, 0.25, 0.027)), ("goal", "")),
    ],
    ids=[
        "side by side too close",
        "in the table",
        "in the bin's wall",
        "in the air",
        "over an edge",
        "too far",
        "too near",
        "off the table",
        "too heavy",
        "too light",
        "too thin",
        "not named",
        "named twice",
        "solved",
    ],
)
def test_each_fault_is_refused(spec: EnvironmentSpec, expected: tuple[str, str]) -> None:
    assert expected in checks(spec)


def test_a_stack_and_a_full_bin_are_sound() -> None:
    spec = scene(
        thing("red cube", 0.45, 0.0),
        thing("green cube", 0.455, 0.0, 0.06),
        thing("yellow cube", 0.45, 0.25, 0.027),
    )
    assert static_rejections(spec) == ()


def test_joint_outside_its_range_and_drawer_out_of_reach() -> None:
    drawer = FixtureSpec(
        name="drawer",
        kind="drawer",
        pose=Pose.planar(0.4, 0.1, 0.05),
        joint_value=0.2,
        half_extents=(0.1, 0.1, 0.05),
        joint_range=(0.0, 0.15),
    )
    spec = EnvironmentSpec(
        family="articulated",
        instruction="open the drawer",
        objects=(),
        fixtures=(drawer,),
        goal=Atom(predicate="opened", args=("drawer",)),
        robot_start=RobotStart(joint_positions=(0.0,) * 7),
    )
    assert {("joint", "drawer"), ("reach", "drawer")} <= checks(spec)


def test_require_valid_says_what_is_wrong() -> None:
    with pytest.raises(ValidityError, match=r"red cube.*0\.85"):
        require_valid(scene(thing("red cube", 0.85, 0.0)))


@pytest.mark.parametrize(
    ("mass", "moments", "word"),
    [
        (0.0, (1.0, 1.0, 1.0), "mass"),
        (1.0, (1.0, 1.0, 3.0), "A \\+ B < C"),
        (1.0, (1.0, -1.0, 1.0), "positive"),
        (1.0, (np.nan, 1.0, 1.0), "positive"),
    ],
)
def test_impossible_inertia_names_the_body(mass: float, moments: tuple[float, ...], word: str) -> None:
    rejection = check_inertia("gear", mass, np.array(moments))
    assert rejection is not None and rejection.entity == "gear"
    with pytest.raises(AssertionError, match=word):
        raise AssertionError(rejection.message)


def test_possible_inertia_passes() -> None:
    assert check_inertia("rod", 1.0, np.array([1.0, 1.0, 1e-6])) is None
    assert check_inertia("disc", 1.0, np.array([1.0, 1.0, 2.0])) is None


@pytest.mark.parametrize("seed", range(6))
def test_overlap_agrees_with_sampled_points(seed: int) -> None:
    """Two boxes in any attitude share volume where some of many random points lie in both, and only there."""
    rng = np.random.default_rng(seed)
    pair = []
    for name in ("a", "b"):
        turn = rng.normal(size=4)
        pose = Pose(
            position=tuple(rng.uniform(-0.03, 0.03, 3)), quaternion_xyzw=tuple(turn / np.linalg.norm(turn))
        )
        (solid,) = solids(thing(name, 0, 0, half_extents=tuple(rng.uniform(0.01, 0.03, 3)), pose=pose))
        pair.append(solid)
    points = rng.uniform(-0.09, 0.09, (200_000, 3))
    inside = [(points @ solid.normals.T <= solid.offsets).all(1) for solid in pair]
    depth, common = overlap_depth(*pair), bool((inside[0] & inside[1]).any())
    assert depth > 0.0 if common else depth < 0.003  # the points are 3 mm apart


@pytest.mark.parametrize("family", list(FAMILIES))
def test_sampled_scenes_are_sound(family: str) -> None:
    rng = np.random.default_rng(8)
    found = check_validity([sample_split(family, split, rng) for split in ("train", "probe", "dev") * 4])
    assert found == [()] * 12


def test_later_checks_see_only_what_passed() -> None:
    good, bad = scene(thing("red cube", 0.45, 0.0)), scene(thing("red cube", 0.85, 0.0))
    seen: list[int] = []

    def settle(specs: Sequence[EnvironmentSpec]) -> list[SettleReport]:
        seen.append(len(specs))
        return [
            SettleReport({"red cube": 0.03}, {"red cube": 0.0}),
            SettleReport({"red cube": 0.0}, {"red cube": 0.0}),
        ]

    def solve(specs: Sequence[EnvironmentSpec]) -> list[bool]:
        seen.append(len(specs))
        return [False]

    found = check_validity([good, bad, good], settle=settle, solve=solve)
    assert seen == [2, 1]
    assert [rejections[0].check for rejections in found] == ["settle", "reach", "solvability"]


def test_settle_reports_divergence_and_a_goal_reached_by_itself() -> None:
    spec = scene(thing("red cube", 0.45, 0.0))
    diverged = check_validity(
        [spec], settle=lambda specs: [SettleReport({}, {}, problem="state is not finite")]
    )
    solved = check_validity([spec], settle=lambda specs: [SettleReport({}, {}, goal_true=True)])
    assert diverged == [(Rejection("settle", "", "state is not finite"),)]
    assert solved[0][0].check == "goal"


@pytest.mark.parametrize("family", list(FAMILIES))
def test_sampled_scenes_stay_where_they_are_put(family: str) -> None:
    """What geometry calls sound does not move on the embedded physics."""
    rng = np.random.default_rng(9)
    specs = [sample_split(family, "probe", rng) for _ in range(8)]
    simulator = BatchSimulator(family, len(specs))
    before = simulator.reset(specs)
    still = np.zeros((len(specs), 8, 7))
    still[:, :, 6] = before.gripper_opening[:, None]
    simulator.step_chunk(still)
    after = simulator.state()
    drift = np.linalg.norm(after.entity_position_base - before.entity_position_base, axis=2)
    assert drift.max() < ValidityLimits().settle_displacement


def test_limits_are_checked() -> None:
    with pytest.raises(ConfigError, match="penetration"):
        ValidityLimits(penetration=1.0)
