"""Finished steps are not run again, unfinished ones are."""

import pytest

from coda_nodes.conductor.journal import Journal
from coda_nodes.world.errors import ArtifactError, SimulationError


def test_a_finished_step_is_not_run_again(tmp_path):
    ran = []
    first = Journal(tmp_path / "1").step("rollout", lambda: ran.append(1) or {"episodes": [1, 2]})
    again = Journal(tmp_path / "1")
    assert again.step("rollout", lambda: ran.append(2)) == first == {"episodes": [1, 2]}
    assert ran == [1] and again.resumed == ["rollout"]


def test_a_step_that_fails_leaves_nothing_and_runs_again(tmp_path):
    journal = Journal(tmp_path)

    def fail():
        raise SimulationError("a worker died")

    with pytest.raises(SimulationError):
        journal.step("rollout", fail)
    assert not journal.done("rollout") and list(tmp_path.iterdir()) == []
    assert journal.step("rollout", lambda: 3) == 3


def test_results_are_what_json_makes_of_them_also_in_the_first_run(tmp_path):
    """A resumed run must see the same types as the one that was not interrupted."""
    assert Journal(tmp_path).step("pairs", lambda: [("a", 1)]) == [["a", 1]]


def test_a_damaged_step_is_named(tmp_path):
    (tmp_path / "train.json").write_text("{half")
    with pytest.raises(ArtifactError, match=r"train\.json.*delete it"):
        Journal(tmp_path).step("train", lambda: 1)


def test_the_same_step_of_another_round_is_another_step(tmp_path):
    assert Journal(tmp_path / "1").step("plan", lambda: 1) == 1
    assert Journal(tmp_path / "2").step("plan", lambda: 2) == 2
