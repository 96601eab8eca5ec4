"""The memory as its node offers it: plain data in and out."""

from __future__ import annotations

import numpy as np
import pytest

from coda_nodes.memory.service import MemoryService
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.axes import deviations
from coda_nodes.world.diagnosis import Cause, CriticInfo, read_diagnosis
from coda_nodes.world.errors import NotAvailableError, StoreError
from coda_nodes.world.programs import read_program
from coda_nodes.world.splits import load_splits, sample_split

from .histories import diagnosis, program, remember


def absent(texts):
    raise NotAvailableError("no sentence encoder: not installed")


@pytest.fixture
def service(tmp_path):
    opened = MemoryService(ArtifactRoot(tmp_path), absent)
    yield opened
    opened.close()


def test_store_and_query(service):
    two = [diagnosis(), diagnosis("It fell.", critic=CriticInfo(name="hf", version="some/model"))]
    ids = service.store("diagnosis", [item.model_dump(mode="json") for item in two])
    assert ids == [item.diagnosis_id for item in two]
    assert [read_diagnosis(item) for item in service.query("diagnosis", {"ids": [ids[1]]})] == [two[1]]
    assert len(service.query("diagnosis", {})) == 2
    assert service.query("diagnosis", {"critic": "hf", "limit": 5}) == [two[1].model_dump(mode="json")]
    assert service.query("diagnosis", {"similar_to": "fell down", "limit": 1}) == [
        two[1].model_dump(mode="json")
    ]
    assert service.records.get(ids[1]).versions["model"] == "hf some/model"
    assert service.records.get(ids[0]).versions["model"] == "state 1.0"


def test_all_or_none_and_refusals(service):
    with pytest.raises(StoreError):
        service.store("diagnosis", [diagnosis().model_dump(mode="json"), {}])
    assert service.query("diagnosis", {}) == []
    with pytest.raises(StoreError, match="no field of the memory 'colour'"):
        service.query("program", {"colour": "red"})
    with pytest.raises(StoreError, match="limit -1"):
        service.query("program", {"limit": -1})


def test_a_second_service_sees_what_the_first_one_stored(service, tmp_path):
    service.store("program", [program().model_dump(mode="json")])
    other = MemoryService(ArtifactRoot(tmp_path), absent)
    assert [read_program(item) for item in other.query("program", {})] == [program()]
    other.close()


def test_compile_with_the_scene_from_the_memory_and_a_cure_from_another_family(service):
    rng = np.random.default_rng(0)
    found: list = []
    while not found:
        spec = sample_split("pick_place", "probe", rng, axis="position")
        found = [
            d
            for d in deviations(spec, load_splits())
            if d.parameter == "object_x" and d.object in spec.instruction
        ]
    seen = found[0]
    cause = Cause(
        axis=seen.axis,
        object=seen.object,
        parameter=seen.parameter,
        observed=seen.observed,
        nominal=seen.nominal,
    )
    failed = diagnosis(environment=spec.content_hash).model_copy(update={"cause": cause})
    plain = service.compile(failed)
    assert plain.operators[0].kind == "shift_region" and plain.operators[0].role == "object"
    service.store("environment", [spec.model_dump(mode="json")])
    cured = remember(
        service.records,
        diagnosis(family="stack"),
        program("stack", {"kind": "shift_region", "x": [0.4, 0.6]}),
    )
    seeded = service.compile(failed)
    assert cured.program_id in seeded.explanation
    width = [np.ptp(item.operators[0].x) for item in (plain, seeded)]
    assert width[1] > width[0]
    off = MemoryService(service.root, absent, retrieval=False)
    assert off.compile(failed) == plain
    off.close()
