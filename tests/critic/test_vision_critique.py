"""A recorded failure diagnosed from pictures by a model behind a server, as ``coda critique`` does it."""

from __future__ import annotations

import numpy as np
import pytest
from vision_parts import says, serving

from coda_nodes.cli.main import main
from coda_nodes.conductor.pictures import Illustrator
from coda_nodes.critic.vision.cropping import box_around, crop
from coda_nodes.critic.vision.faults import FAULTS, FaultyExpert
from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.simulator.gl import find_backend
from coda_nodes.simulator.rollout import rollout
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.errors import NotAvailableError
from coda_nodes.world.splits import sample_split

try:
    find_backend()
except NotAvailableError as error:
    pytest.skip(str(error), allow_module_level=True)

ANSWER = "text: It stood still.\nstage: approach\nfailure_mode: no_approach\ncause: unknown\nconfidence: 0.4\n"


@pytest.fixture(scope="module")
def failure():
    """A failed episode of a faulty expert."""
    rng, count = np.random.default_rng(1), 6
    specs = [sample_split("pick_place", "probe", rng) for _ in range(count)]
    episodes = rollout(BatchSimulator("pick_place", count), specs, list(range(count)), FaultyExpert(range(count)), 4)
    return next(episode for episode in episodes if episode.outcome == "failure")


def test_critique_asks_with_the_pictures_of_both_cameras(failure, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    key = failure.save(ArtifactRoot(tmp_path))
    words = ["critique", str(ArtifactRoot(tmp_path).episode(key)), "--critic", "openai", "--model", "m", "--base-url"]
    with serving(says(ANSWER)) as (server, address):
        assert main([*words, address]) == 0 and main([*words, address]) == 0
    said = capsys.readouterr().out
    assert said.count("failure_mode: no_approach") == 2 and "critic: name=openai; version=m" in said
    assert len(server.requests) == 1, "the second answer is the kept one"
    text = str([part.get("text") for part in server.requests[0]["body"]["messages"][1]["content"]])
    assert "camera wrist" in text and "camera scene gripper" in text and failure.spec.instruction in text


def test_the_part_around_a_thing_shows_its_colour_in_the_middle(failure):
    spec = failure.spec
    view = Illustrator()(failure)
    thing = next(item for item in spec.objects if item.role == "object" and item.color in ("red", "green", "blue"))
    middle = crop(view.of("scene")[0].image, box_around(spec.cameras[0], np.array(thing.pose.position)), 64)[28:36, 28:36]
    strongest = int(np.argmax(middle.reshape(-1, 3).mean(axis=0)))
    assert ("red", "green", "blue")[strongest] == thing.color


def test_every_fault_is_meant_for_known_modes_and_families():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    meant = {mode for fault in FAULTS for mode in fault.meant}
    assert len(meant) == 12, "every failure mode of the grammar is injected"
