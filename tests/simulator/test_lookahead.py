"""Lookahead against brute force in fresh simulators, and its place in plans, workers and budget."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.simulator.guidance import ascend, moved
from coda_nodes.simulator.lookahead import Lookahead, LookaheadConfig, Proposals
from coda_nodes.simulator.plans import PREFIX, LookaheadPlan
from coda_nodes.simulator.single import SingleSimulator
from coda_nodes.world.action import ACTION_SIZE, CHUNK_STEPS
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.episode import Episode
from coda_nodes.world.errors import ArtifactError, ConfigError, SimulationError
from coda_nodes.world.potentials import CompiledPotential, task_potential
from coda_nodes.world.splits import sample_split

CONFIG = LookaheadConfig(branches=6, perturbed=1, depth=1, margin=0.002)


class Approach:
    """Goes straight towards the first thing it sees, some way each chunk, with an open hand."""

    def reset(self, n):
        pass

    def act(self, observation):
        way = observation.entity_position_base[:, 0] + (0.02, 0.0, 0.1) - observation.tool_position_base
        way *= np.minimum(1.0, 0.06 / np.maximum(np.linalg.norm(way, axis=1), 1e-9))[:, None]
        chunks = np.zeros((observation.n, CHUNK_STEPS, ACTION_SIZE))
        chunks[..., :3] = way[:, None] * (np.arange(1, CHUNK_STEPS + 1) / CHUNK_STEPS)[:, None]
        chunks[..., 6] = 1.0
        return chunks


def scenes(count, horizon=24):
    rng = np.random.default_rng(3)
    return [sample_split("stack", "train", rng).revise(horizon=horizon) for _ in range(count)]


def search(specs, seeds, config=CONFIG, capacity=12):
    simulators = BatchSimulator("stack", 4), BatchSimulator("stack", capacity)
    looked = Lookahead(*simulators, Approach(), "lookahead:test", (), config)
    return looked.run(specs, seeds, [None] * len(specs), [""] * len(specs))


@pytest.fixture(scope="module")
def found():
    specs = scenes(3)
    return specs, search(specs, [5, 6, 7])


def test_the_chunk_committed_first_is_the_best_by_brute_force(found):
    """Each proposal in a fresh simulator of its own, from the reset: the same potentials, the same choice."""
    chosen = []
    for spec, seed, episode in zip(found[0], (5, 6, 7), found[1], strict=True):
        state = SingleSimulator().reset(spec)
        way = ascend(CompiledPotential([spec]), state, CONFIG.reach)
        tried = Proposals(CONFIG, Approach(), [seed]).draw(state, np.array([0]), way)[0]
        scores = []
        for chunk in tried:
            simulator = SingleSimulator()
            simulator.reset(spec)
            simulator.step_chunk(chunk)
            scores.append(float(CompiledPotential([spec])(simulator.state)[0]))
        scores[0] += CONFIG.margin
        np.testing.assert_allclose(episode.chunks[0], tried[int(np.argmax(scores))], atol=1e-12)
        chosen.append(int(np.argmax(scores)))
    assert any(chosen), "the policy's own chunk was best everywhere: nothing was chosen"


def test_what_is_recorded_is_what_was_done(found):
    """The recorded chunks, executed again without any branch, lead through the same states."""
    for spec, episode in zip(*found, strict=True):
        simulator = SingleSimulator()
        simulator.reset(spec)
        for chunk, executed in zip(episode.chunks, episode.executed, strict=True):
            simulator.step_chunk(chunk, int(executed))
        np.testing.assert_allclose(simulator.state.tool_position_base[0], episode.states.tool_position_base[-1], atol=1e-9)


def test_every_step_of_every_branch_is_counted(found):
    for episode in found[1]:
        assert episode.outcome == "failure" and episode.steps == 24
        assert episode.branch_steps == 6 * CHUNK_STEPS * len(episode.chunks)
        assert episode.steps + episode.branch_steps <= CONFIG.steps_paid * 24


def test_deeper_branches_cost_as_much_more():
    (episode,) = search(scenes(1), [5], LookaheadConfig(branches=4, perturbed=0, depth=3))
    assert episode.branch_steps == 3 * 4 * CHUNK_STEPS * len(episode.chunks)


def test_it_comes_further_than_the_policy_alone(found):
    specs, episodes = found
    alone = BatchSimulator("stack", 3)
    alone.reset(specs)
    for _ in range(3):
        alone.step_chunk(Approach().act(alone.state().observation()))
    ends = [CompiledPotential([spec])(episode.states.select([-1]))[0] for spec, episode in zip(specs, episodes, strict=True)]
    assert np.mean(ends) > CompiledPotential(specs)(alone.state()).mean() + 0.005


def test_an_episode_does_not_depend_on_those_beside_it(found):
    specs, episodes = found
    (alone,) = search(specs[1:2], [6])
    np.testing.assert_allclose(alone.chunks, episodes[1].chunks, atol=1e-9)
    again = search(specs, [5, 6, 7])
    for first, second in zip(episodes, again, strict=True):
        np.testing.assert_array_equal(first.chunks, second.chunks)


def test_another_seed_tries_other_chunks(found):
    drawn = LookaheadConfig(branches=6, perturbed=1, depth=1, guided=False, margin=0.0)
    one, other = (search(found[0][:1], [seed], drawn)[0] for seed in (5, 99))
    assert one.chunks.shape != other.chunks.shape or not np.allclose(one.chunks, other.chunks)


def test_the_slope_of_the_potential_leads_to_the_thing_and_no_further(found):
    """Against a search over random displacements of the hand: none is better by more than the last step's length."""
    specs = found[0]
    state = BatchSimulator("stack", 3).reset(specs)
    potential, rng = CompiledPotential(specs), np.random.default_rng(0)
    way = ascend(potential, state, 0.1)
    assert (np.linalg.norm(way, axis=1) <= 0.1 + 1e-12).all()
    here, there = potential(state), potential(moved(state, way))
    drawn = rng.normal(size=(3000, 3))
    drawn *= (0.1 * rng.random(3000) ** (1 / 3) / np.linalg.norm(drawn, axis=1))[:, None]
    best = np.max([potential(moved(state, np.tile(one, (3, 1)))) for one in drawn], axis=0)
    assert (there > here).all()
    assert ((there - here) >= 0.95 * (best - here)).all()


def test_what_the_hand_holds_goes_with_it_and_the_rest_stays(found):
    state = BatchSimulator("stack", 3).reset(found[0])
    held = state.grasped.copy()
    held[:, 1] = True
    after = moved(replace(state, grasped=held), np.full((3, 3), 0.02))
    shift = after.entity_position_base - state.entity_position_base
    np.testing.assert_allclose(shift[:, 1], 0.02)
    np.testing.assert_allclose(np.delete(shift, 1, axis=1), 0.0)


def test_where_nothing_raises_the_potential_there_is_no_way(found):
    """A potential that does not move."""
    state = BatchSimulator("stack", 3).reset(found[0])
    np.testing.assert_array_equal(ascend(lambda at: np.full(at.n, 0.5), state, 0.1), np.zeros((3, 3)))


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"branches": 1}, "branches = 1"), ({"branches": 4, "perturbed": 3}, "5 perturbed or guided of 4 branches")],
)
def test_settings_are_checked(settings, words):
    with pytest.raises((ConfigError, SimulationError), match=words):
        LookaheadConfig(**settings)


@pytest.mark.parametrize("branches", [2, 3, 4, 5, 6, 64])
def test_any_number_of_branches_that_a_run_may_ask_for_fits(branches):
    assert LookaheadConfig.of(branches).branches == branches


def test_too_few_simulations_for_one_episode_is_an_error():
    with pytest.raises(SimulationError, match="3 simulations cannot hold 6 branches"):
        search(scenes(1), [0], capacity=3)


def test_a_plan_comes_back_as_it_was_stored(tmp_path):
    root = ArtifactRoot(tmp_path)
    plan = LookaheadPlan("c0ffee", (task_potential("inside"),), LookaheadConfig(branches=5, perturbed=1))
    actor = plan.save(root)
    assert actor.startswith(PREFIX) and LookaheadPlan.load(root, actor) == plan
    assert LookaheadPlan("c0ffee").save(root) != actor == plan.save(root)


@pytest.mark.parametrize("change", [
    lambda text: text[:-3],
    lambda text: text.replace("inside", "inside_out"),
    lambda text: text.replace('"branches": 8', '"branches": 1'),
    lambda text: json.dumps([text]),
    lambda text: "",
])
def test_a_damaged_plan_is_an_error_that_names_its_file(tmp_path, change):
    root = ArtifactRoot(tmp_path)
    actor = LookaheadPlan("c0ffee", (task_potential("inside"),)).save(root)
    (path,) = (tmp_path / "plans").iterdir()
    path.write_text(change(path.read_text()))
    with pytest.raises(ArtifactError, match=f"plan of '{actor}' from .*{path.name}"):
        LookaheadPlan.load(root, actor)


def test_episodes_keep_what_their_branches_cost(tmp_path, found):
    root = ArtifactRoot(tmp_path)
    episode = found[1][0]
    assert Episode.load(root.episode(episode.save(root))).branch_steps == episode.branch_steps > 0
