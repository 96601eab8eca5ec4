"""Regime no_expert: which scenes the policy looks ahead in, what it learns from, what that costs; a run without an expert."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from coda_nodes.conductor.config import TrainConfig
from coda_nodes.conductor.improvement import WEIGHT, improve, refined_potentials
from coda_nodes.conductor.local import LocalPorts
from coda_nodes.conductor.loop import Loop
from coda_nodes.conductor.run import run
from coda_nodes.critic.state import StateCritic
from coda_nodes.report.html import read_rounds
from coda_nodes.simulator.plans import LookaheadPlan
from coda_nodes.simulator.single import SingleSimulator
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.episode import Episode, EpisodeSummary
from coda_nodes.world.potentials import task_potential
from coda_nodes.world.splits import sample_split
from coda_nodes.world.state import concatenate

FAMILIES = ("pick_place", "stack")


class SearchingPorts:
    """Plays the simulator: every second search succeeds, each with 100 steps of its own and 3,000 of its branches."""

    def __init__(self):
        self.requests = []

    def run_episodes(self, request, report=None):
        self.requests.append(request)
        return [
            EpisodeSummary(
                f"{i:016x}", spec.content_hash, spec.family, ("success", "failure")[i % 2], 100, 0, request.actor, "", 3000
            )
            for i, spec in enumerate(request.specs)
        ]


@pytest.fixture
def root(tmp_path):
    return ArtifactRoot(tmp_path)


@pytest.fixture(scope="module")
def still():
    """An episode per family in which nothing moved."""
    made = {}
    for family in FAMILIES:
        spec = sample_split(family, "train", np.random.default_rng(1))
        state = SingleSimulator().reset(spec)
        made[family] = Episode(
            spec=spec, seed=0, actor="abc", outcome="failure", steps=16, states=concatenate([state] * 3),
            chunks=np.zeros((2, 8, 7)), executed=np.full(2, 8), predicate_names=("p",), predicates=np.zeros((16, 1), bool),
        )
    return made


def failures(root, episode, scenes):
    """Failures in so many scenes."""
    ended = []
    for i in range(scenes):
        spec = episode.spec.revise(seed=i, provenance={**episode.spec.provenance.model_dump(), "program_id": f"{i:08x}"})
        one = replace(episode, spec=spec)
        one.save(root)
        ended.append(EpisodeSummary.of(one))
    return ended


def loop_of(root, ports, **settings):
    loop = Loop(TrainConfig(families=FAMILIES, regime="no_expert", **settings), ports, root, lambda event: None)
    loop.open_round(1)
    return loop


def test_the_first_scenes_of_each_family_are_searched_and_what_succeeds_is_learned(root, still):
    ended = [summary for family in FAMILIES for summary in failures(root, still[family], 7)]
    ports = SearchingPorts()
    loop = loop_of(root, ports, lookaheads=4, lookahead_branches=5)
    tasks = [task_potential("inside")]
    lessons = improve(loop, "c0ffee", [*ended, *ended[:3]], tasks)
    (request,) = ports.requests
    assert Counter(spec.family for spec in request.specs) == dict.fromkeys(FAMILIES, 4)
    assert len({spec.content_hash for spec in request.specs}) == 8
    plan = LookaheadPlan.load(root, request.actor)
    assert (plan.checkpoint, list(plan.tasks), plan.config.branches) == ("c0ffee", tasks, 5)
    assert [lesson.episode for lesson in lessons] == [f"{i:016x}" for i in range(0, 8, 2)]
    assert {lesson.weight for lesson in lessons} == {WEIGHT}
    assert [lesson.program_id for lesson in lessons] == [request.specs[i].provenance.program_id for i in range(0, 8, 2)]


def test_branches_are_paid_for(root, still):
    ports = SearchingPorts()
    loop = loop_of(root, ports)
    improve(loop, "c0ffee", failures(root, still["stack"], 3), [])
    assert loop.budget.record()["by_purpose"] == {"lookahead": (3, 3 * 3100)}


def test_a_budget_that_cannot_pay_for_the_branches_is_not_passed(root, still):
    horizon = still["stack"].spec.horizon
    loop = loop_of(root, ports := SearchingPorts(), budget_control_steps=4 * horizon)
    assert improve(loop, "c0ffee", failures(root, still["stack"], 3), []) == []
    assert ports.requests == []


def test_scenes_are_searched_in_waves_as_far_as_the_budget_goes_and_again_where_that_failed(root, still):
    """A wave may hold what is surely affordable; its episodes cost 3,100 steps each of at most 33 horizons."""
    horizon = still["stack"].spec.horizon
    worst = 33 * horizon
    loop = loop_of(root, ports := SearchingPorts(), budget_control_steps=4 * worst, lookahead_tries=3)
    improve(loop, "c0ffee", failures(root, still["stack"], 3), [])
    waves = [len(request.specs) for request in ports.requests]
    assert waves[:2] == [3, 1]  # one of the three failed, and is tried again
    assert loop.budget.control_steps == 3100 * sum(waves) <= 4 * worst
    assert len({request.seed for request in ports.requests}) == len(waves)


def test_nothing_failed_nothing_searched(root):
    assert improve(loop_of(root, ports := SearchingPorts()), "c0ffee", [], []) == []
    assert ports.requests == []


def test_a_diagnosis_that_cannot_be_grounded_refines_nothing_and_is_told(still, caplog):
    episode = still["stack"]
    good = StateCritic().diagnose(episode)
    strange = good.model_copy(update={"text": "The banana slid 3 inches off the plate."})
    alone = refined_potentials([(good, episode.spec)])
    assert len(alone) == 1 and refined_potentials([(good, episode.spec), (strange, episode.spec)]) == alone
    assert "refines no potential: cannot ground" in caplog.text
    assert refined_potentials([(strange, episode.spec)]) == []


def test_a_run_without_an_expert_shows_it_nothing_after_round_0(tmp_path):
    """Real physics and a real policy in miniature: the expert only says which scenes are solvable."""
    config = TrainConfig(
        families=("stack",), rounds=1, workers=1, regime="no_expert", demonstrations=10, imitation_steps=40, update_steps=10,
        batch_size=32, practice_environments=0, environments=8, drafts=1, lookaheads=2, lookahead_branches=4,
        dev_environments=2, gate_environments=2, progress_environments=1,
    )
    root = ArtifactRoot(tmp_path)
    with LocalPorts(root, 1, 0) as ports:
        summary = run(config, ports, root, lambda event: None)
    first, second = (record.budget.by_purpose for record in read_rounds(root))
    assert second["demonstration"] == first["demonstration"] and second["solvability"] > first["solvability"]
    assert summary.regime == "no_expert"
