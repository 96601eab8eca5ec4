"""The numpy forward pass against PyTorch's, layer for layer the same function."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from coda_nodes.policy.architecture import NetworkConfig, weight_shapes
from coda_nodes.policy.features import FeatureEncoder
from coda_nodes.policy.inference import NumpyNetwork
from coda_nodes.policy.network import NetworkInput, PolicyNetwork

SIZES = [
    NetworkConfig(),
    NetworkConfig(width=32, heads=2, layers=2, slots=3, trunk=48, depth=3, words=8, modes=4),
    NetworkConfig(width=16, heads=1, layers=1, slots=1, trunk=32, depth=1, words=4, modes=2),
]


@pytest.fixture()
def features(point_world, encoder):
    rng = np.random.default_rng(8)
    specs = [point_world.sample_spec(rng) for _ in range(21)]
    return FeatureEncoder(encoder).encode(point_world.PointWorld(specs, rng).state().observation())


def _random_network(config: NetworkConfig, joints: int) -> PolicyNetwork:
    """Every weight and buffer drawn, so that none is left at the 0 or 1 it starts with."""
    torch.manual_seed(0)
    network = PolicyNetwork(config, joints).eval()
    for key, value in network.state_dict().items():
        value.copy_(torch.rand_like(value) + 0.5 if key.endswith("_std") else torch.randn_like(value) / 8)
    return network


def _widened(features) -> NetworkInput:
    scene = NetworkInput.from_features(features)
    fields = {key: getattr(scene, key) for key in NetworkInput.__dataclass_fields__}
    return NetworkInput(
        **{key: value.double() if value.is_floating_point() else value for key, value in fields.items()}
    )


@pytest.mark.parametrize("config", SIZES)
def test_it_is_the_function_that_was_trained(config, features):
    network = _random_network(config, 7)
    plain = NumpyNetwork(config, 7, {key: value.numpy() for key, value in network.state_dict().items()})
    with torch.inference_mode():
        expected = network.double()(_widened(features))
        best = expected.best()
    for ours, theirs in zip(plain.propose(features), (expected.pose, expected.gripper, expected.mode), strict=True):
        assert ours.shape == tuple(theirs.shape) and theirs.abs().max() > 0.01
        assert np.abs(ours - theirs.numpy()).max() < 1e-9
    for ours, theirs in zip(plain.best(features), best, strict=True):
        assert np.abs(ours - theirs.numpy()).max() < 1e-9


@pytest.mark.parametrize("config", SIZES)
@pytest.mark.parametrize("joints", [5, 7])
def test_shapes_are_those_of_the_network(config, joints):
    state = PolicyNetwork(config, joints).state_dict()
    assert weight_shapes(config, joints) == {key: tuple(value.shape) for key, value in state.items()}


def test_new_sentences_are_noticed(features, encoder):
    network = _random_network(SIZES[0], 7)
    plain = NumpyNetwork(SIZES[0], 7, {key: value.numpy() for key, value in network.state_dict().items()})
    before = plain.propose(features)[0]
    other = type(features)(**{**vars(features), "table": features.table[::-1].copy()})
    assert np.abs(plain.propose(other)[0] - before).max() > 1e-3
    assert np.array_equal(plain.propose(features)[0], before)
