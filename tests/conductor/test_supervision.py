"""What is taught: capped per family, the most telling failures first, only what the expert solves."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from coda_nodes.conductor.config import TrainConfig
from coda_nodes.conductor.loop import Loop
from coda_nodes.conductor.practice import STARTS
from coda_nodes.conductor.supervision import WEIGHT, correct, supervise
from coda_nodes.simulator.single import SingleSimulator
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.episode import Episode, EpisodeSummary
from coda_nodes.world.splits import sample_split
from coda_nodes.world.state import concatenate

FAMILIES = ("pick_place", "stack")


class RecordingPorts:
    """Plays the simulator: remembers the request; the expert solves all but every ``fails``-th start."""

    def __init__(self, root: ArtifactRoot, fails: int = 10**6):
        self.root, self.fails, self.requests = root, fails, []

    def run_episodes(self, request, report=None):
        self.requests.append(request)
        ended = []
        for index, (spec, start) in enumerate(zip(request.specs, request.starts, strict=True)):
            outcome = "failure" if index % self.fails == self.fails - 1 else "success"
            variant = f"start={start.episode}:{start.chunk}"
            ended.append(saved(self.root, spec, index, actor="expert", outcome=outcome, variant=variant))
        return ended


def saved(root, spec, seed, actor="abc", outcome="failure", variant="", physics=True):
    """An episode of three chunks in which nothing moved, on disk."""
    episode = replace(STILL[spec.family], spec=spec, seed=seed, actor=actor, outcome=outcome, variant=variant)
    if not physics:
        episode = replace(episode, physics_states=None)
    episode.save(root)
    return EpisodeSummary.of(episode)


def still(spec) -> Episode:


    state = SingleSimulator().reset(spec)
    return Episode(
        spec=spec, seed=0, actor="abc", outcome="failure", steps=24, states=concatenate([state] * 4),
        chunks=np.zeros((3, 8, 7)), executed=np.full(3, 8), predicate_names=("p",), predicates=np.zeros((24, 1), bool),
        physics_states=np.zeros((4, 5)),
    )


STILL: dict[str, Episode] = {}


@pytest.fixture(scope="module", autouse=True)
def _scenes():
    for family in FAMILIES:
        STILL[family] = still(sample_split(family, "train", np.random.default_rng(1)))


@pytest.fixture
def root(tmp_path) -> ArtifactRoot:
    return ArtifactRoot(tmp_path)


def loop_of(root, ports, **settings) -> Loop:
    loop = Loop(TrainConfig(families=FAMILIES, **settings), ports, root, lambda event: None)
    loop.open_round(1)
    return loop


def episodes(root, family, number, outcome="failure", **changes):
    """Episodes in a scene each, so that every one has an environment of its own."""
    base = STILL[family].spec
    scenes = [
        base.revise(seed=i, provenance={**base.provenance.model_dump(), "program_id": f"{i:08x}"}) for i in range(number)
    ]
    return [saved(root, scene, 0, outcome=outcome, **changes) for scene in scenes]


@pytest.mark.parametrize(("shown", "expected"), [(0, (0, 6)), (2, (2, 4)), (20, (3, 3))])
def test_at_most_so_many_per_family_half_of_them_shown_whole(root, shown, expected):
    """Of six, at most three are demonstrations that solvability has paid for; corrections fill up."""
    solved = [end for family in FAMILIES for end in episodes(root, family, shown, "success", actor="expert")]
    failures = [end for family in FAMILIES for end in episodes(root, family, 9)]
    ports = RecordingPorts(root)
    taught = supervise(loop_of(root, ports, corrections=6), failures, solved)
    assert Counter(lesson.family for lesson in taught) == dict.fromkeys(FAMILIES, 6)
    keys = {end.hash for end in solved}
    for family in FAMILIES:
        mine = [lesson.episode in keys for lesson in taught if lesson.family == family]
        assert (sum(mine), len(mine) - sum(mine)) == expected


def test_the_first_failures_are_corrected_by_the_expert_from_their_own_states(root):
    failures = [end for family in FAMILIES for end in episodes(root, family, 9)]
    ports = RecordingPorts(root)
    loop = loop_of(root, ports, corrections=4)
    supervise(loop, failures, [])
    (request,) = ports.requests
    first = {end.hash for family in FAMILIES for end in [f for f in failures if f.family == family][:4]}
    assert {start.episode for start in request.starts} == first and len(request.starts) == 8
    assert request.actor == "expert" and all(0 <= start.chunk < 3 for start in request.starts)
    for spec, start in zip(request.specs, request.starts, strict=True):
        assert Episode.load(root.episode(start.episode)).spec == spec
    assert loop.budget.record()["by_purpose"]["demonstration"][0] == 8


def test_only_what_the_expert_solves_is_taught_with_weight_and_program(root):
    ports = RecordingPorts(root, fails=2)
    taught = supervise(loop_of(root, ports, corrections=4), episodes(root, "stack", 4), [])
    assert len(taught) == 2
    for lesson in taught:
        episode = Episode.load(root.episode(lesson.episode))
        assert episode.success and lesson.weight == WEIGHT
        assert lesson.program_id == episode.spec.provenance.program_id != ""


def test_failures_that_cannot_be_restored_do_not_push_another_family_over_its_cap(root):
    failures = [*episodes(root, "pick_place", 4, physics=False), *episodes(root, "stack", 4)]
    ports = RecordingPorts(root)
    taught = supervise(loop_of(root, ports, corrections=4), failures, [])
    assert Counter(lesson.family for lesson in taught) == {"stack": 4}


def test_an_expert_episode_that_failed_is_not_shown(root):
    failed = episodes(root, "stack", 3, "failure", actor="expert")
    assert supervise(loop_of(root, ports := RecordingPorts(root), corrections=6), [], failed) == []
    assert ports.requests == []


def test_few_failures_give_several_starts_each_and_no_family_more_than_its_limit(root):
    failures = [*episodes(root, "pick_place", 2), *episodes(root, "stack", 9)]
    ports = RecordingPorts(root)
    solved = correct(loop_of(root, ports), failures, dict.fromkeys(FAMILIES, 5), STARTS)
    assert Counter(summary.family for summary in solved) == dict.fromkeys(FAMILIES, 5)
    (request,) = ports.requests
    assert len({(start.episode, start.chunk) for start in request.starts}) == 10


@pytest.mark.parametrize("limit", [0, 5])
def test_without_failures_or_corrections_allowed_nothing_is_run(root, limit):
    failures = [] if limit else episodes(root, "stack", 3)
    assert correct(loop_of(root, ports := RecordingPorts(root)), failures, {"stack": limit}) == []
    assert ports.requests == []
