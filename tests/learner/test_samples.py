"""Samples from episodes: what is taken, whole labels, weights, slots."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coda_nodes.learner.samples import Samples, pad_slots
from coda_nodes.world.errors import ConfigError
from coda_nodes.world.spec import FAMILIES
from coda_nodes.world.state import concatenate


def test_every_boundary_with_its_whole_label(episodes):
    short = replace(episodes[0], executed=np.full(10, 3))
    samples = Samples.from_episodes([short, episodes[1]])
    assert samples.n == 20 and samples.observation.n == 20
    assert np.array_equal(samples.chunks[:10], short.chunks)
    assert np.array_equal(samples.observation.tool_position_base[:10], short.states.tool_position_base[:10])
    assert samples.observation.instructions[:10] == (short.spec.instruction,) * 10


def test_invalid_and_empty_episodes_are_left_out(episodes):
    invalid = replace(episodes[0], outcome="invalid", reason="NaN")
    empty = replace(
        episodes[2],
        chunks=np.zeros((0, 8, 7)),
        executed=np.zeros(0),
        states=concatenate([episodes[2].states.select([0])]),
    )
    assert Samples.from_episodes([invalid, episodes[1], empty]).n == 10
    with pytest.raises(ConfigError, match="0 of arms"):
        Samples.from_episodes([invalid])


def test_weights_per_episode_and_family(episodes):
    other = replace(episodes[1], spec=episodes[1].spec.revise(family="stack"))
    samples = Samples.from_episodes([episodes[0], episodes[2], other], [1, 3, 1])
    assert samples.weights.tolist() == [1] * 10 + [3] * 10 + [1] * 10
    balanced = samples.balanced({"pick_place": 1.0, "stack": 1.0})
    total = [balanced.weights[balanced.family == FAMILIES.index(f)].sum() for f in ("pick_place", "stack")]
    assert np.allclose(total, 15) and np.isclose(balanced.weights[10], 3 * balanced.weights[0])
    with pytest.raises(ConfigError, match="stack has samples and no positive weight"):
        samples.balanced({"pick_place": 1.0})
    with pytest.raises(ConfigError, match="positive"):
        Samples.from_episodes([episodes[0]], [0.0])
    with pytest.raises(ConfigError, match="2 weights for 1"):
        Samples.from_episodes([episodes[0]], [1.0, 1.0])


def test_labels_that_are_not_finite_are_refused(episodes):
    chunks = episodes[0].chunks.copy()
    chunks[3, 2, 1] = np.nan
    with pytest.raises(ConfigError, match="not finite"):
        Samples.from_episodes([replace(episodes[0], chunks=chunks)])


def test_padding_and_joining(episodes):
    few, many = Samples.from_episodes(episodes[:1]), Samples.from_episodes(episodes[1:2])
    many = replace(many, observation=pad_slots(many.observation, 9))
    both = Samples.join([few, many])
    assert both.n == 20 and both.observation.present.shape == (20, 9)
    assert not both.observation.present[:10, 6:].any()
    assert np.array_equal(
        both.observation.entity_position_base[:10, :6], few.observation.entity_position_base
    )
