"""Data for the vision-language critic: made on the real simulator, decided by its seed, labelled by what happened."""

from __future__ import annotations

import numpy as np
import pytest

from coda_nodes.conductor.critic_data import DataConfig, Workshop, jobs, read_shard
from coda_nodes.simulator.gl import find_backend
from coda_nodes.world.diagnosis import FAILURE_MODES, STAGES
from coda_nodes.world.errors import NotAvailableError

try:
    find_backend()
except NotAvailableError as error:
    pytest.skip(str(error), allow_module_level=True)


def test_a_shard_is_made_once_and_again_the_same(tmp_path):
    config = DataConfig(families=("pick_place",), shards=1, test_shards=0, scenes=10, seed=3)
    (job,) = jobs(config)
    workshop = Workshop(config)
    assert workshop.make(job, tmp_path / "a") and not workshop.make(job, tmp_path / "a")
    arrays, records = read_shard(job.path(tmp_path / "a"))
    job.path(tmp_path / "a").write_bytes(b"PK half a shard")
    assert workshop.make(job, tmp_path / "a"), "a damaged shard is made anew"
    again, same = read_shard(job.path(tmp_path / "a"))
    assert records == same and all(np.array_equal(arrays[name], again[name]) for name in arrays)
    failed = [record["label"] for record in records if record["label"]["failed"]]
    assert len(failed) >= 4
    assert all(label["stage"] in STAGES and label["mode"] in FAILURE_MODES for label in failed)
    assert len({label["mode"] for label in failed}) >= 2
    assert arrays["images"].shape == (len(records), 6, 5, 64, 64, 3)
    assert arrays["seen"][:, 0].all(axis=1).mean() > 0.7 and arrays["images"].std() > 20


def test_parts_and_families_take_turns():
    listed = jobs(DataConfig(families=("stack", "push_insert"), shards=2, test_shards=1))
    assert [(job.family, job.part, job.number) for job in listed] == [
        ("stack", "train", 0), ("push_insert", "train", 0), ("stack", "train", 1), ("push_insert", "train", 1),
        ("stack", "test", 0), ("push_insert", "test", 0),
    ]  # fmt: skip
