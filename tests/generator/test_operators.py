"""Operators on real scenes: each does what it says and nothing else, and nothing at magnitude zero."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coda_nodes.generator.sampling import draw_valid, sample
from coda_nodes.generator.validity import static_rejections
from coda_nodes.policy.kinematics import Kinematics
from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.world.axes import deviations
from coda_nodes.world.errors import ProgramError, ValidityError
from coda_nodes.world.families import family
from coda_nodes.world.operators import OPERATORS
from coda_nodes.world.programs import GenerationProgram, read_program
from coda_nodes.world.robots import robot
from coda_nodes.world.spec import FAMILIES, EnvironmentSpec, Provenance, atoms
from coda_nodes.world.splits import load_splits

SPLITS = load_splits()
SHARED = [
    {"kind": "perturb_camera", "camera_azimuth": [0.3, 0.4], "light_intensity": [0.6, 0.7]},
    {
        "kind": "offset_start",
        "base_yaw": [0.2, 0.3],
        "joint_offset": [0.08, 0.12],
        "gripper_opening": [0.3, 0.4],
    },
    {"kind": "rephrase"},
    {"kind": "redraw", "of": "dynamics", "parameter": "mass", "span": [0.2, 0.25]},
    {"kind": "reweigh", "damping_scale": [1.5, 1.8]},
]
EXAMPLES: dict[str, list[dict]] = {
    "pick_place": [
        {"kind": "shift_region", "x": [0.54, 0.58], "y": [0.15, 0.2], "yaw": [0.5, 0.7]},
        {"kind": "swap_roles"},
        {"kind": "add_distractor", "relation": "near", "gap": [0.03, 0.05]},
        {"kind": "add_distractor", "relation": "similar", "gap": [0.03, 0.05], "count": 2},
        {"kind": "rescale", "half_width": [0.023, 0.026]},
        {"kind": "recolor", "colors": ["purple", "orange"]},
        {"kind": "reshape", "shapes": ["can", "block"]},
        {"kind": "reweigh", "mass": [0.2, 0.25], "friction": [0.6, 0.7]},
        {"kind": "rephrase", "templates": ["goes"]},
        {"kind": "retarget"},
        {"kind": "occlude"},
        {"kind": "start_past_stage", "stage": "grasp"},
        {"kind": "compose"},
    ],
    "stack": [
        {"kind": "shift_region", "role": "base", "x": [0.54, 0.58]},
        {"kind": "reshape", "shapes": ["block"]},
        {"kind": "compose", "steps": [3.0]},
        {"kind": "redraw", "of": "composition", "parameter": "base", "values": ["plate"]},
    ],
    "articulated": [
        {"kind": "shift_region", "role": "drawer", "x": [0.6, 0.68]},
        {"kind": "recolor", "role": "knob", "colors": ["orange"]},
        {"kind": "reweigh", "role": "drawer", "damping": [4, 6], "friction": [1.0, 1.4]},
        {"kind": "rephrase", "templates": [2.0, 3.0]},
        {"kind": "start_past_stage", "stage": "approach"},
        {"kind": "compose", "steps": ["put_in+close"]},
    ],
    "push_insert": [
        {"kind": "shift_region", "role": "marker", "y": [-0.02, 0.02]},
        {"kind": "rescale", "role": "peg", "half_width": [0.016, 0.017]},
        {"kind": "recolor", "role": "slot", "colors": ["brown"]},
        {"kind": "add_distractor", "role": "peg"},
        {"kind": "compose"},
    ],
}
CASES = [(name, op) for name in FAMILIES for op in EXAMPLES[name] + SHARED]


def program(name: str, *operators: dict, **fields) -> GenerationProgram:
    return read_program({"family": name, "operators": list(operators), **fields})


def without_origin(spec: EnvironmentSpec) -> EnvironmentSpec:
    return spec.revise(provenance=Provenance())


def drawn(made: GenerationProgram, seed: int) -> tuple[EnvironmentSpec, EnvironmentSpec]:
    """The first scene the program gives from ``seed`` on, and its base scene."""
    for offset in range(80):
        try:
            changed = sample(made, np.random.default_rng(seed + offset), SPLITS)
        except ValidityError as error:
            assert str(error)
            continue
        return changed, sample(made.without_operators(), np.random.default_rng(seed + offset), SPLITS)
    raise AssertionError(f"80 draws of {made.sentence} were all rejected")


def test_every_operator_has_an_example():
    assert {op["kind"] for _, op in CASES} == set(OPERATORS)


@settings(max_examples=60, deadline=None)
@given(case=st.sampled_from(CASES), seed=st.integers(0, 10_000))
def test_zero_magnitude_changes_nothing(case, seed):
    name, op = case
    idle, plain = program(name, {**op, "magnitude": 0.0}), program(name)
    changed, base = (sample(item, np.random.default_rng(seed), SPLITS) for item in (idle, plain))
    assert without_origin(changed) == without_origin(base)


@settings(max_examples=60, deadline=None)
@given(case=st.sampled_from(CASES), seed=st.integers(0, 10_000), magnitude=st.floats(0.01, 1.0))
def test_every_sample_is_valid_data_or_rejected_with_a_reason(case, seed, magnitude):
    name, op = case
    try:
        spec = sample(program(name, {**op, "magnitude": magnitude}), np.random.default_rng(seed), SPLITS)
    except ValidityError as error:
        assert len(str(error)) > 10
        return
    assert EnvironmentSpec.model_validate_json(spec.to_json()) == spec
    assert all(reason.message for reason in static_rejections(spec))
    roles = family(name).roles(spec)
    assert set(roles.values()) <= set(spec.entity_names)


@pytest.mark.parametrize(
    ("name", "op"), CASES, ids=[f"{name}-{op['kind']}-{i}" for i, (name, op) in enumerate(CASES)]
)
def test_operators_change_their_axis_and_leave_the_probe_bounds_alone(name, op):
    """Oracle: what the scene's own deviations from train say, and the ranges of the probe column."""
    made = program(name, op)
    changed, base = drawn(made, 0)
    assert without_origin(changed) != without_origin(base)
    assert changed.provenance.program_id == made.program_id and changed.provenance.axes == made.axes
    probe = SPLITS.ranges(name, "probe")
    exempt = {"start_past_stage"}  # its posture is where the thing stands, not a draw around home
    for deviation in deviations(changed, SPLITS):
        if deviation.axis not in ("start_pose", "clutter") and isinstance(deviation.observed, float):
            assert probe.allowed(deviation.axis, deviation.parameter).contains(deviation.observed), deviation
    if op["kind"] not in exempt | {"rephrase", "retarget", "swap_roles", "add_distractor", "occlude"}:
        assert made.axes[0] in {deviation.axis for deviation in deviations(changed, SPLITS)}


@pytest.mark.parametrize("name", FAMILIES)
def test_instruction_names_what_the_goal_names(name):
    for op in EXAMPLES[name] + SHARED:
        for spec in draw_valid(program(name, op), 4, np.random.default_rng(2), SPLITS).specs:
            movable = [entity.name for entity in spec.objects if entity.role == "object"]
            asked = {arg for atom in atoms(spec.goal) for arg in atom.args}
            for thing in asked & set(movable):
                assert thing in spec.instruction
            for entity in spec.objects:
                if entity.role == "distractor":
                    assert entity.name not in spec.instruction and entity.name not in asked


def test_shift_region_moves_the_named_thing_only():
    made = program("pick_place", {"kind": "shift_region", "x": [0.55, 0.56], "yaw": [0.6, 0.6]})
    changed, base = drawn(made, 3)
    target = family("pick_place").roles(base)["object"]
    x, y, _ = changed.entity(target).pose.position
    assert 0.55 <= x <= 0.56 and y == base.entity(target).pose.position[1]
    assert changed.entity(target).pose.yaw == pytest.approx(0.6)
    assert all(changed.entity(n) == base.entity(n) for n in base.entity_names if n != target)


@pytest.mark.parametrize("magnitude", [0.25, 0.5, 1.0])
def test_magnitude_moves_numbers_that_share_of_the_way(magnitude):
    op = {"kind": "reweigh", "mass": [0.25, 0.25], "magnitude": magnitude}
    changed, base = drawn(program("pick_place", op), 4)
    target = family("pick_place").roles(base)["object"]
    before, after = base.entity(target).mass, changed.entity(target).mass
    assert after == pytest.approx(before + magnitude * (0.25 - before))


def test_magnitude_is_the_share_of_scenes_changed_by_words():
    half = program("stack", {"kind": "rephrase", "templates": ["goes"], "magnitude": 0.5})
    rng = np.random.default_rng(5)
    share = np.mean([" goes " in sample(half, rng, SPLITS).instruction for _ in range(200)])
    assert abs(share - 0.5) < 4 * 0.5 / np.sqrt(200)


def test_values_stay_out_of_the_gaps_of_the_probe_bounds():
    """receptacle_y may be -0.30 .. -0.16 or 0.16 .. 0.30: halfway between the two sides is no place for
    it."""
    op = {"kind": "shift_region", "role": "receptacle", "y": [-0.3, 0.3], "magnitude": 0.5}
    allowed = SPLITS.ranges("pick_place", "probe").allowed("position", "receptacle_y")
    for seed in range(30):
        changed, _ = drawn(program("pick_place", op), seed)
        target = family("pick_place").roles(changed)["receptacle"]
        assert allowed.contains(changed.entity(target).pose.position[1])


def test_recolour_renames_everywhere():
    changed, base = drawn(program("pick_place", {"kind": "recolor", "colors": ["purple"]}), 6)
    old, new = family("pick_place").roles(base)["object"], family("pick_place").roles(changed)["object"]
    assert new == f"purple {old.split()[1]}" and changed.entity(new).color == "purple"
    assert changed.instruction == base.instruction.replace(old, new)
    assert old not in changed.entity_names


def test_reshape_keeps_the_thing_on_the_table():
    changed, base = drawn(program("pick_place", {"kind": "reshape", "shapes": ["can"]}), 7)
    new = changed.entity(family("pick_place").roles(changed)["object"])
    assert new.shape == "cylinder" and new.name.endswith("can")
    assert new.pose.position[2] == pytest.approx(new.half_extents[2])
    assert new.half_extents[0] == pytest.approx(
        base.entity(family("pick_place").roles(base)["object"]).half_extents[0]
    )


def test_retarget_asks_for_another_thing_where_everything_stands_still():
    changed, base = drawn(program("pick_place", {"kind": "retarget"}), 8)
    old, new = family("pick_place").roles(base)["object"], family("pick_place").roles(changed)["object"]
    assert old != new and new in changed.instruction and old not in changed.instruction
    assert changed.entity(old).role == "distractor" and changed.entity(new).role == "object"
    assert [entity.pose for entity in changed.objects] == [entity.pose for entity in base.objects]


def test_swap_roles_exchanges_places():
    changed, base = drawn(program("pick_place", {"kind": "swap_roles"}), 9)
    target = family("pick_place").roles(base)["object"]
    place = {entity.name: entity.pose.position[:2] for entity in base.objects}
    now = {entity.name: entity.pose.position[:2] for entity in changed.objects}
    (other,) = [name for name in now if now[name] != place[name] and name != target]
    assert now[target] == place[other] and now[other] == place[target]
    assert changed.instruction == base.instruction and changed.goal == base.goal


def test_distractors_stand_beside_and_scenes_never_overflow():
    rng = np.random.default_rng(10)
    similar = program(
        "pick_place", {"kind": "add_distractor", "relation": "similar", "gap": [0.03, 0.04], "count": 3}
    )
    for spec in draw_valid(similar, 10, rng, SPLITS).specs:
        target = spec.entity(family("pick_place").roles(spec)["object"])
        movable = [entity for entity in spec.objects if entity.role in ("object", "distractor")]
        assert len(movable) <= 5
        alike = [e for e in movable if e.name != target.name and e.half_extents == target.half_extents]
        gaps = [np.hypot(*np.subtract(e.pose.position, target.pose.position)[:2]) for e in alike]
        radius = np.hypot(*target.half_extents[:2])
        assert min(gaps) <= 2 * radius + 0.04 + 1e-9 and min(gaps) >= 2 * radius + 0.03 - 1e-9


def test_an_occluder_stands_on_the_line_to_the_camera():
    changed, base = drawn(program("pick_place", {"kind": "occlude"}), 11)
    target = np.array(changed.entity(family("pick_place").roles(base)["object"]).pose.position)
    (added,) = [entity for entity in changed.objects if entity.name not in base.entity_names]
    way = np.array(changed.cameras[0].position)[:2] - target[:2]
    offset = np.array(added.pose.position)[:2] - target[:2]
    cosine = way @ offset / np.linalg.norm(way) / np.linalg.norm(offset)
    assert cosine > np.cos(0.35) and added.half_extents[2] > 0.03


def test_composition_asks_for_two_steps_and_gives_time_for_them():
    changed, base = drawn(program("pick_place", {"kind": "compose"}), 12)
    assert len(list(atoms(changed.goal))) == 2 and ", then " in changed.instruction
    assert changed.horizon > base.horizon


def test_tasks_of_the_base_hold_for_the_matched_program_too():
    made = program(
        "articulated", {"kind": "rescale", "half_width": [0.023, 0.025]}, base={"tasks": ["put_in"]}
    )
    for one in (made, made.without_operators()):
        specs = draw_valid(one, 8, np.random.default_rng(13), SPLITS).specs
        assert {spec.provenance.task for spec in specs} == {"put_in"}
    with pytest.raises(ProgramError, match="no value within the probe bounds 'dance': open"):
        sample(program("articulated", base={"tasks": ["dance"]}), np.random.default_rng(0), SPLITS)
    with pytest.raises(ProgramError, match="no parameter of stack.instruction 'task'"):
        sample(program("stack", base={"tasks": ["open"]}), np.random.default_rng(0), SPLITS)


def test_matched_programs_give_the_same_base_scenes():
    made = program("pick_place", {"kind": "reweigh", "mass": [0.2, 0.2]})
    ours, bare = np.random.default_rng(14), np.random.default_rng(14)
    for _ in range(5):
        heavy, light = sample(made, ours, SPLITS), sample(made.without_operators(), bare, SPLITS)
        target = family("pick_place").roles(light)["object"]
        assert heavy.replace_entity(light.entity(target)) == heavy.revise(objects=light.objects)
        assert heavy.entity(target).pose == light.entity(target).pose


def test_operators_do_not_disturb_one_another():
    """Taking one operator away does not change what another one draws."""
    heavy, turned = (
        {"kind": "reweigh", "mass": [0.2, 0.25]},
        {"kind": "perturb_camera", "camera_azimuth": [0.1, 0.4]},
    )
    both, one = (
        sample(program("stack", *operators), np.random.default_rng(15), SPLITS)
        for operators in ((heavy, turned), (turned,))
    )
    assert both.cameras == one.cameras


def test_same_seed_same_scene_other_seed_other_scene():
    made = program("push_insert", {"kind": "add_distractor", "role": "peg"}, base={"tasks": ["insert"]})
    first, again, other = (drawn(made, seed)[0] for seed in (16, 16, 1600))
    assert first == again and first != other


def test_outside_the_probe_bounds_is_refused_with_the_bounds():
    with pytest.raises(ProgramError, match=r"0.5 to 0.9: outside the probe bounds 0.36 .. 0.6"):
        sample(program("stack", {"kind": "shift_region", "x": [0.5, 0.9]}), np.random.default_rng(0), SPLITS)
    with pytest.raises(ProgramError, match="'can': cube, block"):
        sample(program("stack", {"kind": "reshape", "shapes": ["can"]}), np.random.default_rng(0), SPLITS)


def test_rejections_are_kept_with_their_reason():
    never = program("stack", {"kind": "start_past_stage", "stage": "open"})
    result = draw_valid(never, 2, np.random.default_rng(0), SPLITS, attempts=3)
    assert result.specs == [] and len(result.rejections) == 6
    assert result.rejections[0].startswith("no stage 'open' in the first step: approach, grasp, lift")


def _first_things(specs: list[EnvironmentSpec]) -> list[int]:
    stages = [next(item for item in family(spec.family).stages(spec) if item.part == 0) for spec in specs]
    return [spec.entity_names.index(stage.atom.args[0]) for spec, stage in zip(specs, stages, strict=True)]


@pytest.mark.parametrize("name", ["pick_place", "push_insert"])
def test_a_start_past_grasp_holds_the_thing_in_physics(name):
    tasks = {"tasks": ["insert"]} if name == "push_insert" else {}
    made = program(name, {"kind": "start_past_stage", "stage": "grasp"}, base=tasks)
    specs = draw_valid(made, 6, np.random.default_rng(17), SPLITS).specs
    simulator, rows, slots = BatchSimulator(name, len(specs)), np.arange(len(specs)), _first_things(specs)
    before = simulator.reset(specs).entity_position_base[rows, slots]
    chunks = np.zeros((len(specs), 8, 7))
    simulator.step_chunk(chunks)
    chunks[..., 2] = np.linspace(0.01, 0.08, 8)
    simulator.step_chunk(chunks)
    state = simulator.state()
    assert state.grasped[rows, slots].all()
    assert (state.entity_position_base[rows, slots] - before)[:, 2] == pytest.approx(0.08, abs=0.01)


def test_a_start_past_approach_hovers_over_the_thing():
    changed, base = drawn(program("pick_place", {"kind": "start_past_stage", "stage": "approach"}), 18)
    joints = np.array(changed.robot_start.joint_positions)[None]
    tool, _ = Kinematics(robot("panda")).forward(joints)
    x, y, z = base.entity(family("pick_place").roles(base)["object"]).pose.position
    assert tool[0, :2] == pytest.approx([x, y], abs=0.004) and 0.04 < tool[0, 2] - z < 0.1
    assert changed.objects == base.objects
