"""Predicates: near misses, progress far away, goal trees against a recursive oracle, order and holding."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from coda_nodes.world.errors import SpecError
from coda_nodes.world.predicates import HOLD_STEPS, PREDICATES, CompiledAtoms, CompiledGoals
from coda_nodes.world.spec import (
    AllOf,
    AnyOf,
    Atom,
    EnvironmentSpec,
    Goal,
    Not,
    ObjectSpec,
    Pose,
    RobotStart,
    atoms,
)
from coda_nodes.world.state import SceneState

H = 0.02
CUBE, OTHER, BIN, PLATE = 0, 1, 2, 3
NAMES = ("red cube", "green cube", "blue bin", "white plate")


def spec_with(goal: Goal) -> EnvironmentSpec:
    def thing(
        name: str, shape: str, role: str, half: tuple[float, float, float], x: float, y: float
    ) -> ObjectSpec:
        pose = Pose.planar(x, y, half[2])
        return ObjectSpec(
            name=name, shape=shape, role=role, half_extents=half, color=name.split()[0], pose=pose
        )

    return EnvironmentSpec(
        family="pick_place",
        instruction="put the red cube in the blue bin",
        goal=goal,
        robot_start=RobotStart(joint_positions=(0.0,) * 7),
        objects=(
            thing(NAMES[0], "box", "object", (H, H, H), 0.4, 0.0),
            thing(NAMES[1], "box", "distractor", (H, H, H), 0.5, 0.0),
            thing(NAMES[2], "bin", "receptacle", (0.07, 0.07, 0.03), 0.45, 0.25),
            thing(NAMES[3], "plate", "receptacle", (0.07, 0.07, 0.006), 0.45, -0.25),
        ),
    )


def state_of(spec: EnvironmentSpec) -> SceneState:
    """The scene as specified, nothing touching anything but the table."""
    k = len(spec.entities)
    position = np.array([[entity.pose.position for entity in spec.entities]])
    movable = np.array([[entity.role in ("object", "distractor") for entity in spec.objects]])
    return SceneState(
        joint_positions=np.zeros((1, 7)),
        gripper_opening=np.ones(1),
        tool_position_base=np.array([[0.5, 0.0, 0.3]]),
        tool_quaternion_xyzw=np.array([[1.0, 0, 0, 0]]),
        entity_position_base=position,
        entity_quaternion_xyzw=np.tile([0.0, 0, 0, 1], (1, k, 1)),
        entity_half_extents=np.array([[entity.half_extents for entity in spec.entities]]),
        entity_joint_value=np.zeros((1, k)),
        entity_joint_range=np.zeros((1, k, 2)),
        present=np.ones((1, k), bool),
        entity_names=(spec.entity_names,),
        instructions=(spec.instruction,),
        entity_linear_velocity=np.zeros((1, k, 3)),
        grasped=np.zeros((1, k), bool),
        touched=np.zeros((1, k), bool),
        contact=np.zeros((1, k, k), bool),
        on_table=movable,
        time=np.zeros(1),
    )


def put(
    state: SceneState, slot: int, at: tuple[float, float, float], on: int | None = None, roll: float = 0.0
) -> SceneState:
    """Place one entity; touching ``on`` (and then not the table) if given; ``roll`` [rad] about x."""
    position, quaternion = state.entity_position_base.copy(), state.entity_quaternion_xyzw.copy()
    position[0, slot], quaternion[0, slot] = at, (np.sin(roll / 2), 0, 0, np.cos(roll / 2))
    contact, table = state.contact.copy(), state.on_table.copy()
    if on is not None:
        contact[0, slot, on] = contact[0, on, slot] = True
        table[0, slot] = False
    return replace(
        state,
        entity_position_base=position,
        entity_quaternion_xyzw=quaternion,
        contact=contact,
        on_table=table,
    )


def flag(state: SceneState, name: str, slot: int) -> SceneState:
    value = getattr(state, name).copy()
    value[0, slot] = True
    return replace(state, **{name: value})


def check(atom: Atom, state: SceneState) -> bool:
    compiled = CompiledAtoms([spec_with(atom)], [[atom]])
    truth, progress = compiled.evaluate(state)[0, 0], compiled.progress(state)[0, 0]
    assert (progress == 1.0) == truth
    return bool(truth)


INSIDE = Atom(predicate="inside", args=(NAMES[CUBE], NAMES[BIN]))
ON = Atom(predicate="on", args=(NAMES[CUBE], NAMES[PLATE]))
STACKED = Atom(predicate="stacked_on", args=(NAMES[CUBE], NAMES[OTHER]))
START = state_of(spec_with(INSIDE))
IN_BIN = put(START, CUBE, (0.45, 0.25, 0.006 + H), on=BIN)
ON_PLATE = put(START, CUBE, (0.45, -0.25, 0.012 + H), on=PLATE)
ON_CUBE = put(START, CUBE, (0.5, 0.0, 3 * H), on=OTHER)


def test_inside_holds_on_the_floor_and_on_another_thing_in_the_bin() -> None:
    assert check(INSIDE, IN_BIN)
    assert check(INSIDE, put(START, CUBE, (0.43, 0.27, 0.006 + 1.9 * H), on=OTHER))


@pytest.mark.parametrize(
    "state",
    [
        START,
        put(START, CUBE, (0.45, 0.315, 0.06 + H), on=BIN),  # on the rim
        put(START, CUBE, (0.45, 0.295, 0.045), on=BIN, roll=0.7),  # leaning on the rim
        put(START, CUBE, (0.45, 0.25, 0.10)),  # over it
        put(START, CUBE, (0.45, 0.345, H)),  # outside against the wall
        flag(flag(IN_BIN, "grasped", CUBE), "touched", CUBE),
    ],
    ids=["away", "on rim", "leaning", "above", "beside", "still held"],
)
def test_near_misses_of_inside(state: SceneState) -> None:
    assert not check(INSIDE, state)


def test_release_is_not_asked_for_where_the_parameter_says_so() -> None:
    held = flag(flag(IN_BIN, "grasped", CUBE), "touched", CUBE)
    assert check(INSIDE.model_copy(update={"parameters": {"release": 0.0}}), held)


def test_on_and_stacked_on_hold_where_they_should() -> None:
    assert check(ON, ON_PLATE)
    assert check(STACKED, ON_CUBE)
    assert check(STACKED, put(START, CUBE, (0.51, 0.005, 3 * H), on=OTHER))


@pytest.mark.parametrize(
    "state",
    [
        put(START, CUBE, (0.45, -0.25, 0.012 + H)),  # no contact reported
        put(START, CUBE, (0.45, -0.335, H), on=PLATE),  # beside, touching its edge
        put(START, CUBE, (0.45, -0.32, 0.025), on=PLATE, roll=0.3),  # half off, tilted
        put(START, CUBE, (0.45, -0.25, 0.012 + 1.4 * H), on=PLATE, roll=0.7),  # touching but tilted
        flag(ON_PLATE, "on_table", CUBE),
        flag(ON_PLATE, "touched", CUBE),
    ],
    ids=["no contact", "beside", "half off", "tilted", "on the table too", "still touched"],
)
def test_near_misses_of_on(state: SceneState) -> None:
    assert not check(ON, state)


@pytest.mark.parametrize(
    "state",
    [
        put(START, CUBE, (0.5, 2 * H, H), on=OTHER),  # beside, touching
        put(START, CUBE, (0.5, 0.9 * H, 3 * H), on=OTHER),  # hardly supported
        put(START, CUBE, (0.5, 0.0, 3.6 * H), on=OTHER, roll=0.6),  # touching but tilted
        put(START, CUBE, (0.5, 0.0, 3 * H + 0.03)),  # above
        flag(flag(ON_CUBE, "grasped", CUBE), "touched", CUBE),
        put(START, OTHER, (0.4, 0.0, 3 * H), on=CUBE),  # the other way round
    ],
    ids=["beside", "overhanging", "tilted", "above", "still held", "reversed"],
)
def test_near_misses_of_stacked_on(state: SceneState) -> None:
    assert not check(STACKED, state)


def test_contact_alone_makes_no_predicate_of_two_things_true() -> None:
    everything = replace(START, contact=np.ones_like(START.contact))
    for name, predicate in PREDICATES.items():
        if predicate.arity == 2 and name in ("inside", "on", "stacked_on", "above"):
            assert not check(Atom(predicate=name, args=(NAMES[CUBE], NAMES[BIN])), everything), name


@pytest.mark.parametrize(
    "atom", [INSIDE, ON, STACKED, Atom(predicate="near", args=(NAMES[CUBE],))], ids=lambda a: a.predicate
)
def test_progress_keeps_falling_with_distance_across_the_whole_table(atom: Atom) -> None:
    compiled = CompiledAtoms([spec_with(atom)], [[atom]])
    if atom.predicate == "near":
        moved = [
            replace(START, tool_position_base=np.array([[0.4, d, 0.02]])) for d in np.arange(0.05, 0.85, 0.05)
        ]
    else:
        centre = START.entity_position_base[0, START.entity_names[0].index(atom.args[1])]
        moved = [put(START, CUBE, (centre[0], centre[1] - d, 0.15)) for d in np.arange(0.10, 0.85, 0.05)]
    progress = np.array([compiled.progress(state)[0, 0] for state in moved])
    steps = -np.diff(progress)
    assert (steps > 0.01).all()
    assert steps.max() < 1.5 * steps.min()  # linear, not flat


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-0.6, 0.6), min_size=12, max_size=12),
    st.lists(st.booleans(), min_size=12, max_size=12),
)
@example([0.0, 0.0, 0.5] + 9 * [0.0], 4 * [False] + [True] + 7 * [False])  # weights whose rounded sum misses 1
def test_progress_is_one_exactly_where_truth_is_and_never_leaves_the_unit_interval(
    shift: list[float], flags: list[bool]
) -> None:
    table = [
        Atom(predicate=name, args=NAMES[:2] if predicate.arity == 2 else NAMES[:1])
        for name, predicate in PREDICATES.items()
        if name in COMMON
    ]
    compiled = CompiledAtoms([spec_with(INSIDE)], [table])
    state = START
    for slot in range(4):
        x, y, z = shift[3 * slot : 3 * slot + 3]
        state = put(
            state, slot, (0.5 + x, y, abs(z)), on=OTHER if flags[slot] and slot != OTHER else None, roll=x
        )
    for number, name in enumerate(("grasped", "touched")):
        state = flag(state, name, number) if flags[4 + number] else state
    truth, progress = compiled.evaluate(state), compiled.progress(state)
    assert ((progress >= 0) & (progress <= 1)).all()
    assert ((progress == 1.0) == truth).all()


COMMON = (
    "near",
    "grasped",
    "lifted",
    "above",
    "inside",
    "on",
    "stacked_on",
    "released",
    "clear_of_gripper",
    "upright",
)
LEAVES = [Atom(predicate="released", args=(name,)) for name in NAMES]
TREES = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: AllOf(all_of=tuple(parts))),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: AnyOf(any_of=tuple(parts))),
        inner.map(lambda part: Not(negate=part)),
    ),
    max_leaves=6,
)


def oracle(goal: Goal, truth: dict[str, bool]) -> bool:
    if isinstance(goal, Atom):
        return truth[goal.args[0]]
    if isinstance(goal, Not):
        return not oracle(goal.negate, truth)
    if isinstance(goal, AllOf):
        return all(oracle(part, truth) for part in goal.all_of)
    return any(oracle(part, truth) for part in goal.any_of)


@settings(max_examples=80, deadline=None)
@given(st.lists(TREES, min_size=1, max_size=3), st.integers(0, 15))
def test_goal_trees_agree_with_a_recursive_evaluation(trees: list[Goal], bits: int) -> None:
    wrapped = [AllOf(all_of=(tree, AnyOf(any_of=(INSIDE, Not(negate=INSIDE))))) for tree in trees]
    goals = CompiledGoals([spec_with(goal) for goal in wrapped])
    values = {name: bool(bits >> i & 1) for i, name in enumerate(NAMES)}
    truth = np.zeros((len(trees), goals.width), dtype=bool)
    for i, row in enumerate(goals.atoms):
        for column, atom in enumerate(row):
            if atom.predicate == "released":
                truth[i, column] = values[atom.args[0]]
    expected = [oracle(tree, values) for tree in trees]
    assert goals.satisfied(truth).tolist() == expected
    assert goals.satisfied(np.stack([truth, truth], axis=1)).tolist() == [
        [value, value] for value in expected
    ]


def test_success_must_be_held_and_starts_again_after_a_gap() -> None:
    goals = CompiledGoals([spec_with(INSIDE)])
    yes, no = goals.evaluate(IN_BIN), goals.evaluate(START)
    memory = goals.initial_memory()
    for truth in [yes] * (HOLD_STEPS - 1) + [no] + [yes] * (HOLD_STEPS - 1):
        memory = goals.advance(memory, truth)
        assert not goals.succeeded(memory)[0]
    assert goals.succeeded(goals.advance(memory, yes))[0]


@pytest.mark.parametrize(("order", "kept"), [([0, 1], True), ([1, 0], False)])
def test_an_ordered_goal_is_broken_by_the_wrong_order(order: list[int], kept: bool) -> None:
    other = Atom(predicate="on", args=(NAMES[OTHER], NAMES[PLATE]))
    goals = CompiledGoals([spec_with(AllOf(all_of=(INSIDE, other), ordered=True))])
    truth, memory = np.zeros((1, goals.width), dtype=bool), goals.initial_memory()
    for column in order + [order[-1]] * HOLD_STEPS:
        truth = truth.copy()
        truth[0, column] = True
        memory = goals.advance(memory, truth)
    assert goals.satisfied(truth)[0]
    assert goals.succeeded(memory)[0] == kept


@pytest.mark.parametrize(
    ("atom", "text"),
    [
        (Atom(predicate="within", args=(NAMES[0],)), "no predicate 'within'"),
        (Atom(predicate="inside", args=(NAMES[0],)), "takes 2 arguments"),
        (Atom(predicate="near", args=(NAMES[0],), parameters={"reach": 1.0}), "no parameter 'reach'"),
    ],
)
def test_wrong_atoms_are_errors_that_say_what_exists(atom: Atom, text: str) -> None:
    with pytest.raises(SpecError, match=text):
        CompiledAtoms([spec_with(INSIDE)], [[atom]])


def test_goal_atoms_come_first_and_every_atom_once() -> None:
    goals = CompiledGoals([spec_with(AllOf(all_of=(INSIDE, ON)))])
    names = goals.atom_names[0]
    assert names[:2] == ("inside(red cube, blue bin)", "on(red cube, white plate)")
    assert len(set(names)) == len(names)
    assert len(list(atoms(goals.specs[0].goal))) == 2


def test_scenes_do_not_influence_one_another() -> None:
    one = CompiledGoals([spec_with(INSIDE)])
    many = CompiledGoals([spec_with(INSIDE)] * 3)
    joined = SceneState(
        **{
            f.name: sum((getattr(s, f.name) for s in (START, IN_BIN, START)), ())
            if isinstance(getattr(START, f.name), tuple)
            else np.concatenate([getattr(s, f.name) for s in (START, IN_BIN, START)])
            for f in fields(SceneState)
        }
    )
    np.testing.assert_array_equal(many.evaluate(joined)[1], one.evaluate(IN_BIN)[0])
    np.testing.assert_allclose(many.progress(joined)[0], one.progress(START)[0])
