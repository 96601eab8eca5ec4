"""The batch simulator: tracking, grasps, goals at every step, divergence, snapshots, independence of rows."""

from __future__ import annotations

import numpy as np
import pytest

from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.world.errors import SimulationError
from coda_nodes.world.spec import Atom

SHAPES = ("cube", "block", "can", "puck")


def test_the_tool_follows_a_chunk_and_stays(make_spec) -> None:
    simulator = BatchSimulator("pick_place", 1)
    start = simulator.reset([make_spec(y=-0.25)])
    chunk = np.zeros((1, 8, 7))
    way = np.array([0.05, -0.06, -0.05])
    chunk[0, :, :3] = way * (np.arange(1, 9) / 8)[:, None]
    chunk[0, :, 6] = 1.0
    for k in range(4):
        simulator.restore(simulator.snapshot())  # restoring where it is changes nothing
        simulator.step_chunk(np.zeros((1, 8, 7)), execute=0) if k else simulator.step_chunk(chunk)
    reached = simulator.state().tool_position_base - start.tool_position_base
    np.testing.assert_allclose(reached[0], way, atol=1.5e-3)
    simulator.step_chunk(np.concatenate([np.zeros((1, 8, 6)), np.ones((1, 8, 1))], axis=2))
    np.testing.assert_allclose(
        simulator.state().tool_position_base[0], start.tool_position_base[0] + way, atol=1.5e-3
    )


def test_each_shape_is_lifted_and_held_for_three_seconds(make_spec, move_to) -> None:
    specs = [
        make_spec(shape, friction=friction, mass=mass)
        for shape in SHAPES
        for friction, mass in ((0.5, 0.1), (1.0, 0.4))
    ]
    simulator = BatchSimulator("pick_place", len(specs))
    place = simulator.reset(specs).entity_position_base[:, 0].copy()
    above, at = place.copy(), place.copy()
    above[:, 2], at[:, 2] = 0.2, np.maximum(place[:, 2], 0.016)
    move_to(simulator, above, 1.0, chunks=3)
    move_to(simulator, at, 1.0, chunks=3)
    assert not simulator.state().grasped.any()
    move_to(simulator, at, 0.0)
    assert simulator.state().grasped[:, 0].all()
    move_to(simulator, above, 0.0, chunks=4)
    begin = simulator.state()
    held = begin.entity_position_base[:, 0] - begin.tool_position_base
    for _ in range(8):  # 3.2 s
        move_to(simulator, above, 0.0)
    end = simulator.state()
    assert end.grasped[:, 0].all() and (end.entity_position_base[:, 0, 2] > 0.17).all()
    slip = np.linalg.norm(end.entity_position_base[:, 0] - end.tool_position_base - held, axis=1)
    assert slip.max() < 2e-3
    np.testing.assert_allclose(
        end.entity_quaternion_xyzw[:, 0, 3] ** 2 + end.entity_quaternion_xyzw[:, 0, 2] ** 2, 1, atol=2e-3
    )


def test_closed_fingers_that_push_do_not_grasp(make_spec, move_to) -> None:
    simulator = BatchSimulator("pick_place", 1)
    place = simulator.reset([make_spec(y=-0.1)]).entity_position_base[:, 0]
    move_to(simulator, place + np.array([-0.06, 0.0, 0.1]), 0.0, chunks=3)
    move_to(simulator, place + np.array([-0.06, 0.0, 0.0]), 0.0, chunks=2)
    move_to(simulator, place + np.array([0.03, 0.0, 0.0]), 0.0, chunks=2)
    state = simulator.state()
    assert state.entity_position_base[0, 0, 0] > place[0, 0] + 0.02
    assert state.touched[0, 0] and not state.grasped[0, 0]


def test_success_is_seen_inside_a_chunk_and_ends_it(make_spec) -> None:
    """The cube falls into the bin during the first chunk: not yet at the start, held for its time before the
    end."""
    specs = [make_spec(x=0.5, y=0.25, z=0.09), make_spec(x=0.5, y=0.0)]
    specs = [spec.revise(goal=Atom(predicate="inside", args=("red cube", "blue bin"))) for spec in specs]
    simulator = BatchSimulator("pick_place", 2)
    simulator.reset(specs)
    steps = 0
    for _ in range(4):
        result = simulator.step_chunk(np.zeros((2, 8, 7)))
        steps += result.executed
        if result.success[0]:
            break
    assert result.success.tolist() == [True, False]
    assert 0 < result.executed[0] < 8 and result.executed[1] == 8
    column = simulator.predicate_names[0].index("inside(red cube, blue bin)")
    assert result.predicates[0, result.executed[0] - 1, column]
    assert not result.predicates[0, result.executed[0] :].any()
    again = simulator.step_chunk(np.zeros((2, 8, 7)))
    assert again.executed.tolist() == [0, 8] and again.success[0]
    assert simulator.control_steps == steps.sum() + 8


def test_divergence_invalidates_one_row_and_leaves_the_others_alone(make_spec) -> None:
    specs = [make_spec(x=0.45 + 0.03 * i) for i in range(3)]
    chunk = np.zeros((3, 8, 7))
    chunk[..., 2], chunk[..., 6] = -0.02, 1.0
    calm, broken = BatchSimulator("pick_place", 3), BatchSimulator("pick_place", 3)
    calm.reset(specs)
    broken.reset(specs)
    bad = broken.snapshot()
    qpos_end = 1 + calm.scene.model.nq
    bad[1, qpos_end] = np.nan  # a joint velocity
    broken.restore(bad[1:2], [1])
    first, second = calm.step_chunk(chunk), broken.step_chunk(chunk)
    assert second.invalid.tolist() == [False, True, False] and "not finite" in second.reasons[1]
    assert not second.success.any() and second.executed.tolist() == [8, 0, 8]
    np.testing.assert_array_equal(calm.snapshot([0, 2]), broken.snapshot([0, 2]))
    assert np.isfinite(broken.state().entity_position_base).all()
    assert broken.step_chunk(chunk).executed.tolist() == [8, 0, 8]
    assert first.executed.tolist() == [8, 8, 8]
    broken.reset(specs)
    assert not broken.step_chunk(chunk).invalid.any()


def test_divergence_writes_no_log_file_where_the_process_runs(make_spec, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    simulator = BatchSimulator("pick_place", 1)
    simulator.reset([make_spec()])
    row = simulator.snapshot()
    row[0, 1 + simulator.scene.model.nq] = np.nan
    simulator.restore(row)
    assert simulator.step_chunk(np.zeros((1, 8, 7))).invalid[0]
    assert list(tmp_path.iterdir()) == []


def test_runaway_speed_is_divergence_too(make_spec) -> None:
    simulator = BatchSimulator("pick_place", 1)
    simulator.reset([make_spec()])
    row = simulator.snapshot()
    row[0, 1 + simulator.scene.model.nq + simulator.scene.slots[0].dof + 2] = 1e4
    simulator.restore(row)
    result = simulator.step_chunk(np.zeros((1, 8, 7)))
    assert result.invalid[0] and "speed" in result.reasons[0]


def test_a_restored_snapshot_continues_the_same(make_spec, move_to) -> None:
    simulator = BatchSimulator("pick_place", 2)
    place = simulator.reset([make_spec("cube"), make_spec("can", x=0.55)]).entity_position_base[:, 0].copy()
    move_to(simulator, place + np.array([0, 0, 0.1]), 1.0, chunks=2)
    move_to(simulator, place, 1.0, chunks=2)
    row = simulator.snapshot()
    runs = []
    for _ in range(2):
        simulator.restore(row)
        move_to(simulator, place, 0.0)
        move_to(simulator, place + np.array([0, 0, 0.1]), 0.0, chunks=2)
        runs.append(simulator.snapshot())
    np.testing.assert_array_equal(runs[0], runs[1])
    with pytest.raises(SimulationError, match="snapshot of shape"):
        simulator.restore(row[:, :20])


def test_a_row_does_not_depend_on_batch_capacity_or_threads(train_specs) -> None:
    specs = train_specs("stack", 4)
    chunks = np.cumsum(np.random.default_rng(0).normal(0, 0.012, (3, 4, 8, 7)), axis=2)
    together, alone = BatchSimulator("stack", 7, threads=2), BatchSimulator("stack", 1)
    together.reset(specs)
    for part in chunks:
        together.step_chunk(part)
    rows = together.snapshot()
    for i in (0, 3):
        alone.reset([specs[i]])
        for part in chunks:
            alone.step_chunk(part[i : i + 1])
        width = alone.snapshot_width(0)
        np.testing.assert_array_equal(alone.snapshot()[0, :width], rows[i, :width])


def test_chunks_are_checked(make_spec) -> None:
    simulator = BatchSimulator("pick_place", 1)
    simulator.reset([make_spec()])
    with pytest.raises(SimulationError, match=r"expected \(1, 8, 7\)"):
        simulator.step_chunk(np.zeros((1, 4, 7)))
    bad = np.zeros((1, 8, 7))
    bad[0, 3, 2] = np.inf
    with pytest.raises(SimulationError, match="environment 0 holds a number that is not finite"):
        simulator.step_chunk(bad)
    with pytest.raises(SimulationError, match="execute = 9"):
        simulator.step_chunk(np.zeros((1, 8, 7)), execute=9)
