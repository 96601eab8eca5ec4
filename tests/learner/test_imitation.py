"""Imitation: language is read, results repeat, fine-tuning keeps statistics, a diverging loss stops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coda_nodes.learner.imitation import ImitationConfig, TrainingError, train
from coda_nodes.learner.samples import Samples
from coda_nodes.policy.checkpoint import Checkpoint
from coda_nodes.policy.network import NetworkConfig
from coda_nodes.policy.runner import PolicyRunner
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.errors import CheckpointError, ConfigError

SMALL = NetworkConfig(width=32, trunk=96, slots=2, layers=0)
QUICK = ImitationConfig(steps=600)
BRIEF = ImitationConfig(steps=12, batch=64, network=SMALL)


@pytest.fixture(scope="module")
def samples(episodes):
    return Samples.from_episodes(episodes)


@pytest.fixture(scope="module")
def trained(samples, encoder, tmp_path_factory):
    root = ArtifactRoot(tmp_path_factory.mktemp("run"))
    seen = []
    result = train(samples, QUICK, root, seed=0, on_progress=lambda *a: seen.append(a), encoder=encoder)
    return result, seen


@pytest.fixture(scope="module")
def policy(trained, encoder):
    return PolicyRunner(Checkpoint.load(trained[0].folder), encoder)


def test_it_reaches_the_named_thing_in_unseen_scenes(policy, point_world):
    rng = np.random.default_rng(100)
    assert point_world.success_rate(policy, [point_world.sample_spec(rng) for _ in range(200)], rng) >= 0.95


def test_names_and_phrases_never_seen(policy, point_world):
    rng = np.random.default_rng(101)
    new = {"colors": ("purple", "pink", "black", "cyan"), "shapes": ("mug", "ball")}
    phrases = ("please approach the {}", "reach for the {}")
    specs = [point_world.sample_spec(rng, phrases=phrases, **new) for _ in range(200)]
    assert point_world.success_rate(policy, specs, rng) >= 0.9


def test_without_the_instruction_it_is_left_to_chance(policy, point_world):
    """The control: asked for nothing in the scene, the policy finds the target as often as any other."""
    rng = np.random.default_rng(102)
    specs = [point_world.sample_spec(rng).revise(instruction="move on") for _ in range(200)]
    assert point_world.success_rate(policy, specs, rng) < 0.6


def test_progress_and_metrics(trained):
    result, seen = trained
    assert [step for step, *_ in seen] == list(range(50, 601, 50)) and {total for _, total, *_ in seen} == {
        600
    }
    assert seen[-1][3] == pytest.approx(0, abs=0.1) and seen[-1][2] < seen[0][2]
    assert set(result.metrics["loss_per_family"]) == {"pick_place"} and result.metrics["steps"] == 600
    assert result.folder.name == result.checkpoint


def test_same_seed_same_hash(samples, encoder, tmp_path):
    runs = ((0, "first"), (0, "again"), (1, "other"))
    keys = [
        train(samples, BRIEF, ArtifactRoot(tmp_path / n), seed=s, encoder=encoder).checkpoint for s, n in runs
    ]
    assert keys[0] == keys[1] != keys[2]


def test_fine_tuning_keeps_statistics_and_names_its_parent(samples, policy, encoder, tmp_path):
    moved = replace(samples, chunks=samples.chunks * 0.5)
    result = train(moved, BRIEF, ArtifactRoot(tmp_path), parent=policy, encoder=encoder, regime="expert")
    child, parent = Checkpoint.load(result.folder), policy.checkpoint
    assert child.document.parent == parent.content_hash != child.content_hash
    for key, value in parent.normalization.arrays().items():
        assert np.array_equal(child.normalization.arrays()[key], value)
    assert child.document.architecture == parent.document.architecture


def test_diverging_loss_stops_and_writes_nothing(samples, policy, encoder, tmp_path):
    before = {key: value.copy() for key, value in policy.checkpoint.weights.items()}
    wild = replace(BRIEF, learning_rate=1.0, clip=1000.0, steps=400)
    broken = replace(samples, chunks=samples.chunks * 1e38)
    with pytest.raises(TrainingError, match="loss is"):
        train(broken, wild, ArtifactRoot(tmp_path), parent=policy, encoder=encoder)
    assert not (tmp_path / "checkpoints").exists()
    assert all(np.array_equal(policy.checkpoint.weights[key], value) for key, value in before.items())


def test_time_limit_ends_cleanly(samples, encoder, tmp_path):
    config = replace(BRIEF, steps=1_000_000, seconds=1.0)
    result = train(samples, config, ArtifactRoot(tmp_path), encoder=encoder)
    assert result.metrics["steps"] < 1_000_000 and result.metrics["seconds"] < 20
    Checkpoint.load(result.folder)


def test_several_modes(samples, encoder, tmp_path, point_world):
    config = replace(QUICK, steps=1200, network=replace(SMALL, modes=3))
    result = train(samples, config, ArtifactRoot(tmp_path), encoder=encoder)
    rng = np.random.default_rng(103)
    policy = PolicyRunner(Checkpoint.load(result.folder), encoder)
    assert point_world.success_rate(policy, [point_world.sample_spec(rng) for _ in range(100)], rng) >= 0.9


@pytest.mark.parametrize(
    "bad", [{"steps": 0}, {"batch": 0}, {"learning_rate": float("nan")}, {"name_dropout": 1.5}]
)
def test_settings_are_checked(bad):
    with pytest.raises(ConfigError, match=next(iter(bad))):
        ImitationConfig(**bad)


def test_disk_that_refuses(samples, encoder, tmp_path):
    (tmp_path / "checkpoints").write_text("a file where a folder is needed")
    with pytest.raises(CheckpointError, match="cannot write"):
        train(samples, BRIEF, ArtifactRoot(tmp_path), encoder=encoder)
