"""Potentials: closed forms of hand-made states, bounds, continuity, order, data, merging, and expert episodes."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.world.errors import ProgramError, SpecError
from coda_nodes.world.experts import ExpertActor
from coda_nodes.world.families import family
from coda_nodes.world.potentials import (
    MEASURES,
    TASKS,
    CompiledPotential,
    PotentialPart,
    PotentialSpec,
    PotentialStage,
    TaskPotential,
    merge,
    potential_of,
    read_potential,
    read_task_potential,
)
from coda_nodes.world.predicates import CompiledGoals
from coda_nodes.world.spec import FAMILIES, AllOf, AnyOf, Atom, EnvironmentSpec, Not, ObjectSpec, Pose, RobotStart
from coda_nodes.world.splits import sample_split
from coda_nodes.world.state import SceneState

H = 0.02
NAMES = ("red cube", "green cube", "blue bin", "black bin")
INSIDE = Atom(predicate="inside", args=("red cube", "blue bin"))


def scene(goal=INSIDE) -> EnvironmentSpec:
    """Two cubes and two bins, 6 cm high, at hand-made places."""
    places = ((0.4, 0.0, H), (0.5, -0.1, H), (0.45, 0.25, 0.03), (0.45, -0.35, 0.03))
    return EnvironmentSpec(
        family="pick_place", instruction="put the red cube in the blue bin", goal=goal,
        robot_start=RobotStart(joint_positions=(0.0,) * 7),
        objects=tuple(
            ObjectSpec(
                name=name, shape="bin" if "bin" in name else "box", role="receptacle" if "bin" in name else "object",
                half_extents=(0.07, 0.07, 0.03) if "bin" in name else (H, H, H), color=name.split()[0],
                pose=Pose.planar(*place),
            )
            for name, place in zip(NAMES, places, strict=True)
        ),
    )


def state(spec: EnvironmentSpec, n: int = 1) -> SceneState:
    """The scene as specified, tool at (0.4, 0, 0.32)."""
    k = len(spec.entities)
    repeated = lambda rows: np.repeat(np.array([rows], dtype=float), n, axis=0)  # noqa: E731
    values = {f.name: np.zeros((n, k)) for f in fields(SceneState)} | {
        "entity_position_base": repeated([e.pose.position for e in spec.entities]),
        "entity_quaternion_xyzw": repeated([(0, 0, 0, 1)] * k),
        "entity_half_extents": repeated([e.half_extents for e in spec.entities]),
        "entity_joint_range": np.zeros((n, k, 2)), "entity_linear_velocity": np.zeros((n, k, 3)),
        "joint_positions": np.zeros((n, 7)), "gripper_opening": np.ones(n), "time": np.zeros(n),
        "tool_position_base": repeated((0.4, 0.0, 0.32)), "tool_quaternion_xyzw": repeated((1.0, 0, 0, 0)),
        "present": np.ones((n, k), dtype=bool), "grasped": np.zeros((n, k), dtype=bool),
        "touched": np.zeros((n, k), dtype=bool), "contact": np.zeros((n, k, k), dtype=bool),
        "on_table": np.ones((n, k), dtype=bool),
        "entity_names": (spec.entity_names,) * n, "instructions": (spec.instruction,) * n,
    }
    return SceneState(**values)


def put(at: SceneState, slot: int = 0, xyz=None, tool=None, held: bool | None = None, table: bool = False) -> SceneState:
    position, on_table = at.entity_position_base.copy(), at.on_table.copy()
    grasped, touched = at.grasped.copy(), at.touched.copy()
    if xyz is not None:
        position[:, slot], on_table[:, slot] = xyz, table
    if held is not None:
        grasped[:, slot] = touched[:, slot] = held
    moved = at.tool_position_base if tool is None else np.broadcast_to(np.array(tool, dtype=float), (at.n, 3)).copy()
    return replace(
        at, entity_position_base=position, on_table=on_table, grasped=grasped, touched=touched, tool_position_base=moved
    )


def phi(at: SceneState, spec: EnvironmentSpec | None = None) -> float:
    return float(CompiledPotential([spec or scene()])(at)[0])


def test_the_way_to_the_thing_is_linear_across_the_workspace() -> None:
    """0.25 of the whole for the approach, 0.6 of it over 1.2 m; 0.02 m of the way lie within the tolerance."""
    spec = scene()
    for x in (-0.6, -0.4, -0.2, 0.0, 0.2):
        missing = 0.4 - x - 0.5 * H - 0.01
        assert phi(put(state(spec), tool=(x, 0.0, H)), spec) == pytest.approx(0.25 * 0.6 * (1 - missing / 1.2))


def test_each_stage_is_worth_what_its_closed_form_says() -> None:
    spec = scene()
    near = put(state(spec), tool=(0.4, 0.0, H))
    assert phi(near) == pytest.approx(0.25)
    held = put(near, held=True)
    assert phi(held) == pytest.approx(0.4 + 0.1 * 0.6 * (1 - 0.06 / 0.3))
    lifted = put(held, xyz=(0.4, 0.0, 0.1))
    # 5 cm and 25 cm from the middle; the outline fits within 0.07 - 0.006 wall - 0.02 half width + 0.003 slack
    apart = float(np.hypot(0.05 - 0.047, 0.25 - 0.047))
    assert phi(lifted) == pytest.approx(0.5 + 0.3 * 0.6 * (1 - apart / 1.2))
    # the lowest point may be as high as the rim less 0.15 of the depth
    over = put(held, xyz=(0.45, 0.25, 0.14))
    missing = 0.12 - (0.06 - 0.15 * 0.054)
    assert phi(over) == pytest.approx(0.8 + 0.15 * 0.6 * (1 - missing / 0.3))


def test_the_good_order_never_falls_and_letting_go_over_the_bin_does_not_either() -> None:
    spec = scene()
    start = state(spec)
    near = put(start, tool=(0.4, 0.0, H))
    held, up = put(near, held=True), put(near, held=True, xyz=(0.4, 0.0, 0.09))
    over, down = put(up, xyz=(0.45, 0.25, 0.09)), put(up, xyz=(0.45, 0.25, 0.04))
    falling, done = put(over, held=False), put(down, xyz=(0.45, 0.25, 0.026), held=False)
    values = [phi(step) for step in (start, near, held, up, over, falling, down, done)]
    assert all(b >= a for a, b in pairwise(values)) and values[-1] == 1.0 > values[-2]


def test_a_thing_dropped_on_the_way_loses_what_the_grasp_was_worth() -> None:
    carried = put(state(scene()), xyz=(0.42, 0.1, 0.1), tool=(0.42, 0.1, 0.1), held=True)
    assert phi(put(carried, xyz=(0.42, 0.1, H), held=False, table=True)) < 0.25 < 0.5 < phi(carried)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_bounded_continuous_and_blind_to_what_the_task_does_not_name(seed: int) -> None:
    """A move of 0.1 mm changes Phi by less than the sum of the stages' slopes allows; flags stay as they are."""
    rng, spec = np.random.default_rng(seed), scene()
    xyz, tool = rng.uniform((0.2, -0.4, H), (0.8, 0.4, 0.4)), rng.uniform((0.2, -0.4, 0.0), (0.8, 0.4, 0.5))
    at = put(state(spec), xyz=xyz, tool=tool, held=bool(rng.integers(2)), table=not rng.integers(4))
    value, step = phi(at), rng.normal(size=3)
    step *= 1e-4 / np.linalg.norm(step)
    assert 0.0 <= value <= 1.0
    over = np.abs(xyz[:2] - (0.45, 0.25)).max()
    if abs(over - 0.047) > 2e-4 and not at.on_table[0, 0]:
        moved = put(at, xyz=xyz + step, tool=tool + step)
        assert abs(phi(moved) - value) < 1e-4 * 40 or 1.0 in (phi(moved), value)
    elsewhere = put(put(at, slot=1, xyz=rng.uniform(-1, 1, 3)), slot=3, xyz=rng.uniform(-1, 1, 3))
    assert phi(elsewhere) == value


def test_coming_from_one_side_is_measured_from_the_way_to_the_destination() -> None:
    """Bin at (0.45, 0.25); the way leads in from 10 cm on its left, (0.45, 0.35)."""
    stage = PotentialStage(
        stage="transport", measure="offset", args=("red cube", "blue bin"), parameters={"y": 0.1, "distance": 0.0}
    )
    spec = scene()
    compiled = CompiledPotential([spec], [PotentialSpec(parts=(PotentialPart(goal=INSIDE, stages=(stage,)),))])
    for (x, y), missing in (((0.55, 0.35), 0.1), ((0.45, 0.45), 0.1), ((0.53, 0.31), 0.08), ((0.45, 0.1), 0.15)):
        value = 0.6 * (1 - missing / 1.2) + 0.4 * max(0.0, 1 - missing / 0.1)
        assert compiled(put(state(spec), xyz=(x, y, 0.2), held=True))[0] == pytest.approx(value)


def test_parts_in_order_count_one_by_one_and_the_goal_is_exactly_one() -> None:
    both = AllOf(all_of=(INSIDE, Atom(predicate="inside", args=("green cube", "black bin"))), ordered=True)
    spec = scene(both)
    start = state(spec)
    first = put(start, 0, (0.45, 0.25, 0.026))
    second = put(first, 1, (0.45, -0.35, 0.026))
    values = [phi(step, spec) for step in (start, first, second)]
    assert values[0] == pytest.approx(phi(start) / 2) and 0.5 < values[1] < 0.75 and values[2] == 1.0
    assert CompiledPotential([spec]).value(second, np.array([True]))[0] == 0.0


def test_alternatives_take_the_first_and_negations_alone_have_none() -> None:
    other = Atom(predicate="inside", args=("red cube", "black bin"))
    spec = scene(AnyOf(any_of=(INSIDE, other)))
    assert phi(put(state(spec), 0, (0.45, -0.35, 0.026)), spec) == 1.0
    assert potential_of(scene(Not(negate=INSIDE))) is None
    with pytest.raises(SpecError, match="nothing is to become true"):
        CompiledPotential([scene(Not(negate=INSIDE))])


def test_data_goes_through_json_unchanged() -> None:
    potential = potential_of(scene())
    assert read_potential(potential.model_dump_json()) == potential
    assert read_potential(potential.model_dump_json()).content_hash == potential.content_hash
    for task in TASKS.values():
        assert read_task_potential(task.model_dump_json()) == task


@pytest.mark.parametrize(("changes", "text"), [
    ({"measure": "reech"}, "no measure 'reech': grasp, hand_open"),
    ({"args": ["subject", "target"]}, "reach takes 1 arguments, got 2"),
    ({"parameters": {"height": 1.0}}, "no parameter of reach 'height': distance"),
    ({"stage": "fly"}, "no stage 'fly': approach"),
    ({"args": ["red cube"]}, "no argument of a task's stage 'red cube': subject, target"),
    ({"scale": 0.0}, "greater than 0"),
])
def test_what_does_not_exist_is_refused_with_what_does(changes: dict, text: str) -> None:
    stage = {"stage": "approach", "measure": "reach", "args": ["subject"]} | changes
    with pytest.raises(ProgramError, match=text):
        read_task_potential({"predicate": "inside", "stages": [stage]})


def test_an_entity_that_the_scene_does_not_hold_is_refused() -> None:
    stage = PotentialStage(stage="approach", measure="reach", args=("pink cube",))
    with pytest.raises(SpecError, match="no object 'pink cube': red cube"):
        CompiledPotential([scene()], [PotentialSpec(parts=(PotentialPart(goal=INSIDE, stages=(stage,)),))])


def test_merging_does_not_depend_on_order_and_keeps_the_heaviest() -> None:
    base = TASKS["inside"]
    heavy = base.model_copy(update={"stages": tuple(
        s.model_copy(update={"weight": 2 * s.weight} if s.stage == "grasp" else {}) for s in base.stages
    ), "diagnoses": ("b",)})
    hover = PotentialStage(stage="grasp", measure="over_object", args=("subject",), weight=0.2)
    added = TaskPotential(predicate="inside", stages=(*base.stages, hover), diagnoses=("a",))
    groups = [merge(order) for order in ([base, heavy, added, TASKS["on"]], [TASKS["on"], added, heavy, base])]
    assert groups[0] == groups[1] and [task.predicate for task in groups[0]] == ["inside", "on"]
    merged = groups[0][0]
    assert [s.measure for s in merged.stages] == ["reach", "over_object", "grasp", "lift", "transport", "lower", "settle"]
    assert merged.stages[2].weight == pytest.approx(0.3) and merged.diagnoses == ("a", "b")
    assert merge([merged]) == [merged]


def test_every_measure_has_units_and_every_family_a_potential_of_its_goal() -> None:
    for known in MEASURES.values():
        assert known.unit and known.doc and set(known.units) == set(known.parameters)
    rng = np.random.default_rng(0)
    for name in FAMILIES:
        spec = sample_split(name, "dev", rng)
        asked = [stage.name for stage in family(name).stages(spec)]
        assert {s.stage for s in potential_of(spec).stages} | {"release"} >= set(asked)


@pytest.mark.parametrize("name", FAMILIES)
def test_expert_episodes_rise_to_one_exactly_where_the_goal_holds(name: str) -> None:
    rng = np.random.default_rng(7)
    specs = [sample_split(name, "train", rng) for _ in range(8)]
    simulator = BatchSimulator(name, len(specs))
    simulator.reset(specs)
    actor, potential, goals = ExpertActor(specs), CompiledPotential(specs), CompiledGoals(specs)
    values, ended = [potential(simulator.state())], np.full(len(specs), -1)
    for step in range(1, max(spec.horizon for spec in specs) // 8):
        success = simulator.step_chunk(actor.act(simulator.state())).success
        values.append(potential(simulator.state()))
        holds = goals.satisfied(goals.evaluate(simulator.state()))
        assert ((values[-1] == 1.0) == holds).all()
        ended[success & (ended < 0)] = step
        if (ended >= 0).all():
            break
    assert (ended >= 0).sum() >= 7
    rows = [np.array(values)[: end + 1, i] for i, end in enumerate(ended) if end > 0]
    falls = sum((np.diff(row) < -1e-3).sum() for row in rows) / sum(len(row) - 1 for row in rows)
    assert all(row[0] < 0.5 and row[-1] == 1.0 for row in rows) and falls < 0.1
