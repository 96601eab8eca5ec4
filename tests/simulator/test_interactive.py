"""Episodes driven from outside, and batches by stored lists."""

from __future__ import annotations

import json

import numpy as np
import pytest

from coda_nodes.simulator.batches import BatchRequest, run_batch, starts_path, summaries_path
from coda_nodes.simulator.interactive import InteractiveSession
from coda_nodes.simulator.workers import RolloutPool
from coda_nodes.world.action import CONTROL_PERIOD
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.errors import ArtifactError, SimulationError, SpecError
from coda_nodes.world.spec import specs_hash, write_specs
from coda_nodes.world.splits import sample_split

STILL = np.zeros((8, 7))


def scene(seed: int = 0, **changes):
    return sample_split("pick_place", "train", np.random.default_rng(seed)).revise(**changes)


def test_an_episode_ends_at_its_time_limit_inside_a_chunk() -> None:
    session = InteractiveSession()
    session.reset(scene(horizon=11), seed=4, record=True)
    assert session.step_chunk(STILL).steps == 8
    assert session.episode() is None
    last = session.step_chunk(STILL)
    assert (last.steps, last.truncated, last.success, last.over) == (3, True, False, True)
    with pytest.raises(SimulationError, match="the episode has ended"):
        session.step_chunk(STILL)
    episode = session.episode()
    assert episode is not None
    assert (episode.outcome, episode.steps, episode.seed) == ("failure", 11, 4)
    assert episode.executed.tolist() == [8, 3]
    assert episode.physics_states is not None and len(episode.physics_states) == 3


def test_nothing_runs_before_a_reset_and_a_refused_scene_changes_nothing() -> None:
    session = InteractiveSession()
    with pytest.raises(SimulationError, match="reset one first"):
        session.step_chunk(STILL)
    spec = scene()
    session.reset(spec)
    session.step_chunk(STILL, execute=2)
    far = spec.revise(robot_start=spec.robot_start.model_copy(update={"joint_positions": (9.0,) * 7}))
    with pytest.raises(SimulationError):
        session.reset(far)
    assert session.spec is spec
    assert session.step_chunk(STILL, execute=1).steps == 1
    assert session.steps == 3


def test_real_time_counts_steps_by_the_clock_and_outlives_the_episode() -> None:
    session = InteractiveSession()
    begin = session.reset(scene(horizon=10)).joint_positions[0].copy()
    session.advance(100.0)
    goal = begin + np.array([0.1, 0, 0, 0, 0, 0, 0])
    session.command(goal[None], [0.2])
    for k in range(1, 9):
        assert not session.advance(100.0 + k * CONTROL_PERIOD).over
    assert session.steps == 8
    assert session.advance(100.0 + 11 * CONTROL_PERIOD).truncated
    later = session.advance(100.0 + 20 * CONTROL_PERIOD)
    assert np.abs(later.state.joint_positions[0] - goal).max() < 5e-3


@pytest.fixture
def stored(tmp_path):
    """A root with a list of two scenes of four control steps."""
    root, specs = ArtifactRoot(tmp_path), [scene(seed, horizon=4) for seed in range(2)]
    write_specs(root.environments(specs_hash(specs)), specs)
    return root, specs


def test_batch_of_a_stored_list(stored) -> None:
    root, specs = stored
    with RolloutPool(1, root) as pool:
        request = BatchRequest(
            specs_hash(specs), "hold", seed=3, episodes_per_environment=2, record_physics=True
        )
        key, ended = run_batch(request, root, pool)
        listed = [json.loads(line) for line in summaries_path(root, key).read_text().splitlines()]
        assert [item["environment_hash"] for item in listed] == [spec.content_hash for spec in specs] * 2
        assert [item["seed"] for item in listed] == [3, 3, 4, 4]
        assert [summary.steps for summary in ended] == [4] * 4
        starts_path(root, "s").parent.mkdir()
        start = json.dumps({"episode": ended[0].hash, "chunk": 1})
        starts_path(root, "s").write_text(f"{start}\nnull\n")
        _, again = run_batch(BatchRequest(specs_hash(specs), "hold", 3, starts="s"), root, pool)
        assert again[0].hash not in {summary.hash for summary in ended}
        assert again[1].hash == ended[1].hash


def test_wrong_batches_say_what_is_wrong(stored) -> None:
    root, specs = stored
    key, pool = specs_hash(specs), RolloutPool(1, root)
    starts_path(root, "s").parent.mkdir()
    starts_path(root, "one").write_text("null\n")
    starts_path(root, "bad").write_text('{"episode": 1}\n{}\n')
    for request, kind, words in (
        (BatchRequest("absent", "hold", 0), SpecError, "absent"),
        (
            BatchRequest(key, "hold", 0, episodes_per_environment=0),
            SimulationError,
            "0 episodes per environment",
        ),
        (BatchRequest(key, "hold", 0, starts="one"), SimulationError, "1 starts for 2 environments"),
        (BatchRequest(key, "hold", 0, starts="bad"), ArtifactError, "cannot read starts"),
        (BatchRequest(key, "hold", 0, starts="none"), ArtifactError, "none.jsonl"),
    ):
        with pytest.raises(kind, match=words):
            run_batch(request, root, pool)
    assert pool.process_ids == []
