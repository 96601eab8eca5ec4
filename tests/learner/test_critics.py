"""Chunk critics against exact tabular solutions, what is made of them, and how they are kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import brentq

from coda_nodes.learner.critic_network import RELATIVE, CriticNetworkConfig, ValueNetwork
from coda_nodes.learner.critics import ChunkCritics
from coda_nodes.learner.extraction import ExtractionConfig, advantage_weights, weighted_samples
from coda_nodes.learner.imitation import TrainingError
from coda_nodes.learner.replay import ChunkReplay, Transitions
from coda_nodes.learner.valuing import CriticConfig, fit_critics
from coda_nodes.policy.features import FeatureEncoder
from coda_nodes.policy.network import NetworkInput
from coda_nodes.world.errors import CheckpointError, ConfigError
from coda_nodes.world.potentials import TaskPotential, task_potential
from coda_nodes.world.state import concatenate

PLACES, STRIDE, DISCOUNT, EXPECTILE = 6, 0.06, 0.97, 0.8
SMALL = CriticNetworkConfig(members=2, width=24, slots=2, trunk=64)
CONFIG = CriticConfig(
    steps=600, batch=64, learning_rate=3e-3, discount=DISCOUNT, expectile=EXPECTILE, pessimism=0.0, target_rate=0.05,
    network=SMALL,
)


@pytest.fixture(scope="module")
def line(point_world):
    """Six places on a straight way to the thing asked for, the last a true end; from each: back, stay, on."""
    rng = np.random.default_rng(0)
    spec = point_world.sample_spec(rng)
    world = point_world.PointWorld([spec], rng)
    states = []
    for i in range(PLACES):
        world.tool = world.target + np.array([[-STRIDE * (PLACES - 1 - i), 0.0, 0.0]])
        states.append(world.state())
    before, after, chunks, executed = [], [], [], []
    for i in range(PLACES - 1):
        for move in (-1, 0, 1):
            chunk = np.zeros((8, 7))
            chunk[:, 0] = STRIDE * move * np.arange(1, 9) / 8
            before.append(i), after.append(min(max(i + move, 0), PLACES - 1)), chunks.append(chunk)
            executed.append(rng.integers(3, 9))
    ids = np.array(after)
    transitions = Transitions(np.array(before), ids, np.array(chunks), np.array(executed), ids == PLACES - 1)
    return ChunkReplay.of(concatenate(states), [spec] * PLACES, transitions)


def expectile(values: np.ndarray) -> float:
    """Where the weighted pulls of the values balance, found by bisection."""
    pull = lambda v: EXPECTILE * np.maximum(values - v, 0).sum() - (1 - EXPECTILE) * np.maximum(v - values, 0).sum()  # noqa: E731
    return values[0] if np.ptp(values) == 0 else brentq(pull, values.min(), values.max())


def tabular(line: ChunkReplay) -> tuple[np.ndarray, np.ndarray]:
    """The unshaped fixed point, by sweeps over the table: value of each transition and of each place."""
    t, value = line.transitions, np.zeros(PLACES)
    for _ in range(400):
        power = DISCOUNT ** t.executed.astype(float)
        chunk = np.where(t.terminal, power / DISCOUNT, power * value[t.after])
        value = np.array([*(expectile(chunk[t.before == i]) for i in range(PLACES - 1)), 0.0])
    return chunk, value


@pytest.fixture(scope="module")
def plain(line, encoder):
    return fit_critics(line, replace(CONFIG, shaped=False), seed=1, encoder=encoder)


@pytest.fixture(scope="module")
def shaped(line, encoder):
    return fit_critics(line, CONFIG, seed=1, encoder=encoder)


def test_learned_values_are_those_of_the_table(line, plain):
    chunk, value = tabular(line)
    seen = line.states.observation().select(line.transitions.before)
    learned = plain[0].chunk_values(seen, line.transitions.chunks)
    assert learned.shape == (2, line.transitions.n)
    np.testing.assert_allclose(learned, np.tile(chunk, (2, 1)), atol=0.05)
    np.testing.assert_allclose(plain[0].state_values(line.states.observation())[:-1], value[:-1], atol=0.05)


def test_shaped_values_are_lower_by_the_potential_and_advantages_equal(line, plain, shaped):
    chunk, value = tabular(line)
    t, seen = line.transitions, line.states.observation().select(line.transitions.before)
    assert np.ptp(line.phi) > 0.2
    np.testing.assert_allclose(shaped[0].chunk_values(seen, t.chunks).mean(0) + line.phi[t.before], chunk, atol=0.05)
    exact = chunk - value[t.before]
    for critics, _ in (plain, shaped):
        advantage = critics.advantages(seen, t.chunks)
        np.testing.assert_allclose(advantage, exact, atol=0.06)
        assert (advantage.reshape(-1, 3).argmax(1) == 2).all()


def test_samples_weigh_as_their_advantage_says(line, shaped):
    chunk, value = tabular(line)
    config = ExtractionConfig(temperature=1.0)
    samples = weighted_samples(line, shaped[0], config)
    exact = chunk - value[line.transitions.before]
    np.testing.assert_allclose(samples.weights, advantage_weights(exact, config), rtol=0.5)
    assert (samples.weights.reshape(-1, 3).argmax(1) == 2).all() and (samples.robot, samples.n) == ("panda", line.transitions.n)


def test_metrics_tell_error_worth_and_spread(line, plain, shaped):
    chunk, value = tabular(line)
    t = line.transitions
    for _, metrics in (plain, shaped):
        assert metrics["td_error"] < 0.05 and metrics["steps"] == CONFIG.steps
        assert metrics["advantage_spread"] == pytest.approx(np.std(chunk - value[t.before]), abs=0.03)
        assert (metrics["transitions"], metrics["positive"]) == (t.n, 1)


def test_value_at_start_is_that_of_states_no_chunk_leads_to(line, encoder):
    onward = line.transitions.select(line.transitions.after > line.transitions.before)
    replay = ChunkReplay.of(line.states, line.specs, onward)
    critics, metrics = fit_critics(replay, replace(CONFIG, steps=60), encoder=encoder)
    first = critics.state_values(line.states.observation().select([0]))[0] + line.phi[0]
    assert metrics["value_at_start"] == pytest.approx(first, abs=1e-5)


def test_values_of_another_problem_are_not_gone_on_from(line, plain, shaped, encoder):
    first, *rest = task_potential("near").stages
    other = TaskPotential(predicate="near", stages=(first.model_copy(update={"close": 0.5}), *rest))
    for parent, replay, config, word in (
        (shaped[0], line.relabelled([other]), CONFIG, "potentials"),
        (plain[0], line, CONFIG, "shaped"),
        (shaped[0], line, replace(CONFIG, discount=0.9), "discount"),
    ):
        with pytest.raises(ConfigError, match=f"the parent's values are of {word}"):
            fit_critics(replay, replace(config, steps=1), parent=parent, encoder=encoder)


def test_going_on_keeps_the_parent_and_its_statistics(line, shaped, encoder):
    seen = line.states.observation()
    before = shaped[0].state_values(seen)
    child, metrics = fit_critics(line, replace(CONFIG, steps=5), parent=shaped[0], encoder=encoder)
    np.testing.assert_array_equal(shaped[0].state_values(seen), before)
    assert metrics["td_error"] < 0.06 and torch.equal(child.chunk_networks.entity_mean, shaped[0].chunk_networks.entity_mean)


def test_same_seed_same_values(line, encoder):
    few = replace(CONFIG, steps=20)
    seen = line.states.observation()
    runs = [fit_critics(line, few, seed=s, encoder=encoder)[0].state_values(seen) for s in (3, 3, 4)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert np.abs(runs[0] - runs[2]).max() > 1e-4


def test_members_are_computed_together_as_each_alone(line, encoder):
    torch.manual_seed(5)
    many = ValueNetwork(SMALL, 7, 3, chunked=True)
    scene = NetworkInput.from_features(FeatureEncoder(encoder).encode(line.states.observation()))
    chunks = torch.randn(PLACES, 8, 7)
    together = many(scene, chunks)
    for member in range(3):
        alone = ValueNetwork(SMALL, 7, 1, chunked=True)
        mine = {key: value[member : member + 1] for key, value in many.named_parameters()}
        alone.load_state_dict({**many.state_dict(), **mine})
        torch.testing.assert_close(alone(scene, chunks)[0], together[member])
    assert (together[0] - together[1]).abs().max() > 1e-3
    torch.testing.assert_close(many(scene.select(torch.tensor([4])), chunks[4:5]), together[:, 4:5])


def test_the_network_finds_entities_where_the_features_put_them(line, encoder):
    observation = line.states.observation()
    features = FeatureEncoder(encoder).encode(observation)
    expected = observation.entity_position_base - observation.tool_position_base[:, None]
    where = observation.present
    np.testing.assert_allclose(features.entity[..., RELATIVE][where], expected[where], atol=1e-6)


def test_what_is_never_executed_does_not_count(line, encoder):
    half = replace(line.transitions, executed=np.minimum(line.transitions.executed, 4))
    critics, _ = fit_critics(ChunkReplay.of(line.states, line.specs, half), replace(CONFIG, steps=3), encoder=encoder)
    seen, chunks = line.states.observation().select(half.before), half.chunks
    other = chunks.copy()
    other[:, 4:] = np.random.default_rng(0).normal(size=other[:, 4:].shape)
    np.testing.assert_array_equal(critics.chunk_values(seen, other), critics.chunk_values(seen, chunks))
    other[:, 3] += 0.05
    assert np.abs(critics.chunk_values(seen, other) - critics.chunk_values(seen, chunks)).max() > 1e-4


def test_critics_are_kept_without_pickle_and_damage_is_noticed(line, shaped, encoder, tmp_path):
    key = shaped[0].save(tmp_path)
    again = ChunkCritics.load(tmp_path / key, encoder)
    seen = line.states.observation().select(line.transitions.before)
    np.testing.assert_array_equal(
        again.cautious(seen, line.transitions.chunks), shaped[0].cautious(seen, line.transitions.chunks)
    )
    assert again.save(tmp_path / "second") == key
    file = tmp_path / key / "critics.safetensors"
    file.write_bytes(file.read_bytes()[:-4] + b"abcd")
    with pytest.raises(CheckpointError, match="does not match the hash"):
        ChunkCritics.load(tmp_path / key, encoder)
    with pytest.raises(CheckpointError, match="cannot read critics"):
        ChunkCritics.load(tmp_path / "absent", encoder)


@pytest.mark.parametrize("field", ["convention", "observation_layout"])
def test_critics_of_another_convention_are_refused(shaped, encoder, tmp_path, field):
    key = shaped[0].save(tmp_path)
    file = tmp_path / key / "critics.json"
    file.write_text(file.read_text().replace(str(getattr(shaped[0].document, field)), "another"))
    with pytest.raises(CheckpointError, match=field):
        ChunkCritics.load(tmp_path / key, encoder)


def test_a_loss_that_is_not_finite_stops(line, encoder):
    wild = replace(line, phi=np.full_like(line.phi, np.nan))
    with pytest.raises(TrainingError, match="loss of the critics is nan at step 1"):
        fit_critics(wild, replace(CONFIG, steps=3), encoder=encoder)


def test_nothing_to_learn_from_is_said(line, encoder):
    with pytest.raises(ConfigError, match="0 transitions of arms panda"):
        fit_critics(ChunkReplay.of(line.states, line.specs, line.transitions.select(slice(0))), CONFIG, encoder=encoder)
