"""A whole run in miniature on real physics and a real policy, cut short and continued."""

import json

import numpy as np
import pytest

from coda_nodes.conductor.config import TrainConfig
from coda_nodes.conductor.journal import Journal
from coda_nodes.conductor.local import LocalPorts
from coda_nodes.conductor.run import run
from coda_nodes.report.html import read_rounds
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.episode import Episode
from coda_nodes.world.errors import NodeError
from coda_nodes.world.records import Summary
from coda_nodes.world.splits import sample_split

CONFIG = TrainConfig(
    families=("stack",), rounds=1, workers=1, demonstrations=10, imitation_steps=40, update_steps=10, batch_size=32,
    practice_environments=4, practice_corrections=3, practice_steps=10, environments=8, drafts=1, corrections=4,
    dev_environments=3, gate_environments=3, progress_environments=1,
)
STEPS = ("rehearsal scenes", "plan", "generation", "rollout", "solvability", "diagnosis", "compilation", "validation",
         "supervision")


class Interrupted(LocalPorts):
    """Ports that fail at the first validation episode, as when the simulator node is killed there."""

    def run_episodes(self, request, report=None):
        if request.purpose in ("counterfactual", "recreation"):
            raise NodeError("action /coda/simulator/run_episodes: its node ended before it answered")
        return super().run_episodes(request, report)


def comparable(summary: Summary) -> dict:
    return summary.model_dump(exclude={"seconds"})


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that lost its simulator in the middle of a round, and was started again."""
    root = ArtifactRoot(tmp_path_factory.mktemp("run"))
    events = []
    with Interrupted(root, 1, 0) as ports, pytest.raises(NodeError):
        run(CONFIG, ports, root, events.append)
    cut = sorted(path.stem for path in (root.path / "journal" / "1").glob("*.json"))
    with LocalPorts(root, 1, 0) as ports:
        summary = run(CONFIG, ports, root, events.append)
    return root, summary, events, cut


def test_the_run_was_cut_inside_the_round(finished):
    assert set(finished[3]) == set(STEPS) - {"validation", "supervision"}


def test_the_summary_holds_the_agreed_keys(finished):
    root, _, _, _ = finished
    written = json.loads((root.path / "summary.json").read_text())
    assert {"regime", "critic", "families", "budget", "diagnoses", "programs", "seconds"} <= set(written)
    assert set(written["budget"]) >= {"environments", "control_steps"}
    assert set(written["diagnoses"]) == {"made", "validated", "refuted", "inconclusive"}
    assert set(written["families"]["stack"]["dev_before"]) == {"successes", "episodes"}


def test_nothing_is_counted_twice_after_the_interruption(finished, tmp_path):
    """Budget and checkpoints equal those of the same run without an interruption."""
    root = ArtifactRoot(tmp_path)
    with LocalPorts(root, 1, 0) as ports:
        whole = run(CONFIG, ports, root, lambda event: None)
    assert comparable(whole) == comparable(finished[1])
    assert sorted(root.episode_keys()) == sorted(finished[0].episode_keys())


def test_round_0_practises_on_the_train_split_and_learns_from_the_experts_corrections(finished):
    root, _, _, _ = finished
    journal = Journal(root.path / "journal" / "0")
    practised, corrected = journal.step("practice", list)["result"], journal.step("corrections", list)["result"]
    assert len(practised) == 4 and 0 < len(corrected) <= 3
    specs = [Episode.load(root.episode(item["hash"])).spec for item in [*practised, *corrected]]
    assert {spec.provenance for spec in specs} == {sample_split("stack", "train", np.random.default_rng(0)).provenance}
    solved = [item for item in corrected if item["outcome"] == "success"]
    record = read_rounds(root)[0].families["stack"]
    assert record.rollouts.episodes == 4 and record.supervision == 10 + len(solved)
    assert f"{len(solved)} corrections in practice" in record.text


def test_every_budgeted_environment_is_an_episode_on_disk(finished):
    root, summary, _, _ = finished
    assert len(list(root.episode_keys())) == summary.budget.environments


def test_records_tell_what_happened(finished):
    root, summary, events, _ = finished
    rounds = read_rounds(root)
    assert [record.round for record in rounds] == [0, 1]
    family = rounds[1].families["stack"]
    assert family.diagnoses.made > 0 and "failures diagnosed" in family.text
    assert rounds[1].budget.environments == summary.budget.environments
    kinds = {event["event"] for event in events}
    assert {"phase", "family", "done"} <= kinds
    fractions = [event["fraction"] for event in events if event["event"] == "phase"]
    assert all(0 <= fraction <= 1 for fraction in fractions)
