"""Checkpoints: round trip, identity, and every way in which a wrong one is refused."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from coda_nodes.policy.checkpoint import DOCUMENT_FILE, WEIGHTS_FILE, Checkpoint
from coda_nodes.policy.runner import PolicyRunner
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.errors import CheckpointError


@pytest.fixture()
def folder(checkpoint, tmp_path):
    return checkpoint.save(tmp_path / "policy")


@pytest.fixture()
def observation(point_world):
    rng = np.random.default_rng(5)
    return point_world.PointWorld([point_world.sample_spec(rng) for _ in range(7)], rng).state().observation()


def _edit_document(folder, **changes):
    path = folder / DOCUMENT_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def _edit_weights(folder, edit):
    import hashlib

    tensors = load_file(folder / WEIGHTS_FILE)
    edit(tensors)
    save_file(tensors, folder / WEIGHTS_FILE)
    _edit_document(folder, weights_sha256=hashlib.sha256((folder / WEIGHTS_FILE).read_bytes()).hexdigest())


def test_round_trip(checkpoint, folder, encoder, observation):
    loaded = Checkpoint.load(folder)
    assert loaded.content_hash == checkpoint.content_hash and loaded.document.regime == "expert"
    before, after = (
        PolicyRunner(checkpoint, encoder).act(observation),
        PolicyRunner(loaded, encoder).act(observation),
    )
    assert np.array_equal(before, after) and before.shape == (7, 8, 7) and before.dtype == np.float64


def test_hash_follows_content(checkpoint):
    document = checkpoint.document.model_copy(update={"parent": "0123"})
    assert (
        Checkpoint(document, checkpoint.weights, checkpoint.normalization).content_hash
        != checkpoint.content_hash
    )
    weights = {key: value.copy() for key, value in checkpoint.weights.items()}
    weights["head.bias"][0] += 1e-6
    assert (
        Checkpoint(checkpoint.document, weights, checkpoint.normalization).content_hash
        != checkpoint.content_hash
    )


def test_saved_under_its_hash_once(checkpoint, tmp_path):
    root = ArtifactRoot(tmp_path)
    key = checkpoint.save_under(root)
    assert checkpoint.save_under(root) == key == checkpoint.content_hash
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == [key]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"convention": "absolute tool poses, world frame"}, "convention.*absolute"),
        ({"observation_layout": "flat vector v0"}, "observation_layout.*flat"),
        ({"sentence_encoder": "other"}, "sentence_encoder"),
        ({"chunk": [16, 7]}, "chunk"),
        ({"schema_version": 2}, "schema_version"),
        ({"architecture": {"width": 32, "hats": 2}}, "hats"),
        ({"architecture": {"width": -4}}, "width"),
        ({"architecture": {"width": 66, "heads": 4}}, "heads"),
        ({"surprise": 1}, "surprise"),
        ({"joint_names": ["a", "b"]}, "float32"),
    ],
)
def test_other_assumptions_are_refused(folder, change, said):
    _edit_document(folder, **change)
    with pytest.raises(CheckpointError, match=said):
        Checkpoint.load(folder)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda t: t.pop("normalization.action_std"), "action_std.*missing"),
        (lambda t: t["normalization.action_std"].__setitem__(0, 0), "action_std.*positive"),
        (lambda t: t["normalization.robot_mean"].__setitem__(0, np.nan), "robot_mean"),
        (lambda t: t.update({"normalization.entity_mean": np.zeros(3, np.float32)}), r"entity_mean.*\(3,\)"),
        (lambda t: t["network.head.bias"].__setitem__(0, np.inf), "head.bias.*finite"),
        (lambda t: t.update({"network.head.bias": np.zeros(3, np.float32)}), "head.bias"),
        (lambda t: t.update({"network.head.bias": t["network.head.bias"].astype(np.float64)}), "float64"),
        (lambda t: t.pop("network.head.bias"), "head.bias"),
    ],
)
def test_wrong_weights_and_statistics_are_refused(folder, edit, said):
    _edit_weights(folder, edit)
    with pytest.raises(CheckpointError, match=said):
        Checkpoint.load(folder)


def test_weights_of_another_checkpoint_are_refused(folder):
    tensors = load_file(folder / WEIGHTS_FILE)
    tensors["network.head.bias"] += 1
    save_file(tensors, folder / WEIGHTS_FILE)
    with pytest.raises(CheckpointError, match="digest"):
        Checkpoint.load(folder)


def test_half_written_and_missing(folder, tmp_path):
    whole = (folder / WEIGHTS_FILE).read_bytes()
    (folder / WEIGHTS_FILE).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CheckpointError, match="safetensors"):
        Checkpoint.load(folder)
    (folder / DOCUMENT_FILE).write_text('{"schema_version": 1')
    with pytest.raises(CheckpointError, match=DOCUMENT_FILE):
        Checkpoint.load(folder)
    with pytest.raises(CheckpointError, match="absent"):
        Checkpoint.load(tmp_path / "absent")


def test_a_pickle_is_never_run(folder, tmp_path):
    proof = tmp_path / "executed"

    class Bomb:
        def __reduce__(self):
            return (open, (str(proof), "w"))

    for dump in (lambda p: p.write_bytes(pickle.dumps(Bomb())), lambda p: torch.save({"w": Bomb()}, p)):
        dump(folder / WEIGHTS_FILE)
        with pytest.raises(CheckpointError, match="pickled"):
            Checkpoint.load(folder)
    assert not proof.exists()


def test_disk_that_refuses(checkpoint, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot write"):
        checkpoint.save(tmp_path / "file" / "policy")
