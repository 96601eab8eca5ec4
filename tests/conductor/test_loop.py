"""Budget and seeds of the loop survive interruption: what was spent is counted once."""

import dataclasses

import numpy as np
import pytest

from coda_nodes.conductor.config import TrainConfig
from coda_nodes.conductor.loop import Loop
from coda_nodes.conductor.patience import Patience, PatienceConfig
from coda_nodes.conductor.ports import EpisodesRequest
from coda_nodes.conductor.run import claim
from coda_nodes.conductor.scenes import draw_valid, keep, recall
from coda_nodes.generator.validity import static_rejections
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.episode import EpisodeSummary
from coda_nodes.world.errors import ArtifactError, BudgetError, ConfigError, NodeError, NodeLostError


class HalfHorizonPorts:
    """Ends every episode after half its horizon; enough of a simulator to count steps with."""

    def __init__(self):
        self.calls = 0

    def run_episodes(self, request, report=None):
        self.calls += 1
        if report:
            report({"fraction": 0.5, "text": "half", "seconds_left": 1.0})
        return [
            EpisodeSummary(hash="0" * 16, environment_hash=spec.content_hash, family=spec.family, outcome="success",
                           steps=spec.horizon // 2, seed=request.seed, actor=request.actor)
            for spec in request.specs
        ]


@pytest.fixture
def specs():
    return draw_valid("stack", "train", 3, np.random.default_rng(0))


def loop_at(path, ports, **settings):
    loop = Loop(TrainConfig(**settings), ports, ArtifactRoot(path), lambda event: None)
    loop.open_round(1)
    return loop


def spend(loop, specs):
    return loop.step("rollout", lambda: len(loop.episodes(EpisodesRequest(specs, "expert", 0, "rollout"))))


def test_steps_not_run_are_given_back(tmp_path, specs):
    loop = loop_at(tmp_path, HalfHorizonPorts())
    spend(loop, specs)
    assert loop.budget.environments == 3
    assert loop.budget.control_steps == sum(spec.horizon // 2 for spec in specs)


def test_a_resumed_step_is_paid_for_once(tmp_path, specs):
    spend(first := loop_at(tmp_path, HalfHorizonPorts()), specs)
    again = loop_at(tmp_path, ports := HalfHorizonPorts())
    spend(again, specs)
    assert ports.calls == 0
    assert again.budget.record() == first.budget.record()


def test_a_budget_too_small_stops_before_anything_runs(tmp_path, specs):
    loop = loop_at(tmp_path, ports := HalfHorizonPorts(), budget_environments=2)
    with pytest.raises(BudgetError, match="rollout needs 3 environments; 2 of 2 are left"):
        spend(loop, specs)
    assert ports.calls == 0 and not loop.journal.done("rollout")


def test_seeds_differ_by_label_and_round_and_repeat(tmp_path):
    loop, twin = loop_at(tmp_path, HalfHorizonPorts()), loop_at(tmp_path, HalfHorizonPorts())
    assert loop.seed("rollout") == twin.seed("rollout") != loop.seed("training")
    twin.open_round(2)
    assert loop.seed("rollout") != twin.seed("rollout")


def test_a_folder_is_continued_only_with_the_settings_it_was_begun_with(tmp_path):
    root = ArtifactRoot(tmp_path)
    claim(root, TrainConfig(seed=1))
    claim(root, TrainConfig(seed=1, rounds=9, workers=1))
    with pytest.raises(ConfigError, match="seed = 1, asked for is 2"):
        claim(root, TrainConfig(seed=2))


def test_every_setting_out_of_range_is_refused():
    for field in dataclasses.fields(TrainConfig):
        for bound, beyond in ((field.metadata.get("low"), -1), (field.metadata.get("high"), 1)):
            if bound is not None:
                with pytest.raises(ConfigError, match=field.name):
                    TrainConfig(**{field.name: bound + beyond})


def test_drawn_scenes_are_valid_and_kept_scenes_come_back(tmp_path, specs):
    assert all(not static_rejections(spec) for spec in specs)
    root = ArtifactRoot(tmp_path)
    assert recall(root, keep(root, specs)) == specs
    assert recall(root, keep(root, [])) == []


def test_scenes_that_were_changed_on_disk_are_refused(tmp_path, specs):
    root = ArtifactRoot(tmp_path)
    key = keep(root, specs)
    lines = root.environments(key).read_text().splitlines()
    root.environments(key).write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(ArtifactError, match="does not match its hash"):
        recall(root, key)


@pytest.mark.parametrize(("purpose", "shown"), [("progress", "dev"), ("recreation", "recreation")])
def test_progress_is_shown_under_the_name_of_its_step_where_the_purpose_says_little(tmp_path, specs, purpose, shown):
    events = []
    loop = Loop(TrainConfig(), HalfHorizonPorts(), ArtifactRoot(tmp_path), events.append)
    loop.open_round(2)
    loop.step("dev", lambda: len(loop.episodes(EpisodesRequest(specs, "expert", 0, purpose))))
    assert [(event["phase"], event["fraction"], event["round"]) for event in events] == [("dev", 0.0, 2), (shown, 0.5, 2)]


class Lossy(HalfHorizonPorts):
    """A simulator that is lost in each second of its first calls."""

    def __init__(self, lost):
        super().__init__()
        self.lost = lost

    def run_episodes(self, request, report=None):
        ended = super().run_episodes(request, report)
        if self.calls % 2 == 0 and self.calls <= 2 * self.lost:
            raise NodeLostError("action /coda/simulator/run_episodes: its node ended before it answered")
        return ended


def twice(loop, specs):
    """Two batches in one step: the first is paid for when the second is lost."""
    request = EpisodesRequest(specs, "expert", 0, "rollout")
    return loop.step("rollout", lambda: [len(loop.episodes(request)), len(loop.episodes(request))])


def test_a_step_in_which_a_node_was_lost_is_done_again_and_counted_once(tmp_path, specs):
    told = []
    loop = loop_at(tmp_path, ports := Lossy(lost=2))
    loop.report = told.append
    assert twice(loop, specs) == [3, 3] and ports.calls == 6
    whole = loop_at(tmp_path / "whole", HalfHorizonPorts())
    twice(whole, specs)
    assert loop.budget.record() == whole.budget.record()
    assert loop_at(tmp_path, ports).budget.plus(loop.journal.step("rollout", list)["spent"]).record() == whole.budget.record()
    notes = [event["text"] for event in told if event["event"] == "note"]
    assert len(notes) == 2 and all("step rollout of round 1 is done again" in note for note in notes)


def test_a_step_is_not_done_again_for_ever_nor_after_a_refusal(tmp_path, specs):
    root = ArtifactRoot(tmp_path)
    patience = Patience(root, PatienceConfig(step_repeats=2))
    loop = Loop(TrainConfig(), ports := Lossy(lost=100), root, lambda event: None, patience)
    with pytest.raises(NodeLostError):
        twice(loop, specs)
    assert ports.calls == 6 and loop.budget.environments == 3 and not loop.journal.done("rollout")
    called = []

    def refuse():
        called.append(1)
        raise NodeError("/coda/simulator/run_episodes refused: no checkpoint")

    with pytest.raises(NodeError):
        loop.step("rollout", refuse)
    assert called == [1]


def test_a_resumed_run_tells_what_was_finished_before(tmp_path, specs):
    spend(loop_at(tmp_path, HalfHorizonPorts()), specs)
    told = []
    again = loop_at(tmp_path, HalfHorizonPorts())
    again.report = told.append
    spend(again, specs)
    again.step("diagnosis", list)
    again.step("compilation", list)
    notes = [event["text"] for event in told if event["event"] == "note"]
    assert notes == ["resumed: 1 steps were finished before; goes on with diagnosis of round 1"]
