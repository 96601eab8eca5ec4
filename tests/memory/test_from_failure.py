"""From real failures to drafts: simulator, critic and memory together."""

from __future__ import annotations

import numpy as np
import pytest

from coda_nodes.critic.state import StateCritic
from coda_nodes.generator.sampling import draw_valid
from coda_nodes.memory.service import MemoryService
from coda_nodes.simulator.actors import HoldActor
from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.simulator.rollout import rollout
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.diagnosis import read_diagnosis
from coda_nodes.world.programs import BaseDistribution, GenerationProgram
from coda_nodes.world.spec import FAMILIES
from coda_nodes.world.splits import load_splits

SPLITS = load_splits()
AXES = ("position", "objects", "dynamics", "composition")


@pytest.mark.parametrize("name", FAMILIES)
def test_every_diagnosed_cause_becomes_a_draft_that_draws_scenes(name, tmp_path):
    specs = []
    for axis in AXES:
        exploring = GenerationProgram(family=name, base=BaseDistribution(probe_axes=(axis,)))
        specs += draw_valid(exploring, 2, np.random.default_rng(0), SPLITS).specs
    root = ArtifactRoot(tmp_path)
    episodes = rollout(BatchSimulator(name, len(specs)), specs, list(range(len(specs))), HoldActor())
    failed = [episode for episode in episodes if episode.outcome == "failure"]
    for episode in failed:
        episode.save(root)
    found = [StateCritic().diagnose(episode) for episode in failed]
    service = MemoryService(root, retrieval=False)
    service.store("diagnosis", [diagnosis.model_dump(mode="json") for diagnosis in found])
    known = [read_diagnosis(record) for record in service.query("diagnosis", {"family": name})]
    blamed = [diagnosis for diagnosis in known if diagnosis.cause is not None]
    assert len(blamed) >= len(AXES)
    for diagnosis in blamed:
        draft = service.compile(diagnosis)
        assert draft is not None, diagnosis.cause
        assert draft.diagnosis_id == diagnosis.diagnosis_id and draft.family == name
        drawn = draw_valid(draft, 2, np.random.default_rng(1), SPLITS)
        assert drawn.specs, drawn.rejections
        assert drawn.specs[0].provenance.diagnosis_id == diagnosis.diagnosis_id
    service.close()
