"""Training programs: what is read, and what is refused before any step is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from coda_nodes.learner.training import Weighted, read_dataset, run_program
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.errors import ArtifactError, CodaError, ConfigError, NotAvailableError
from coda_nodes.world.programs import TRAIN_SPLIT, Regime, Share, StoppingRule, TrainingProgram


def program(**changes) -> TrainingProgram:
    settings = {
        "regime": Regime.EXPERT,
        "environments": (Share(program_id=TRAIN_SPLIT, share=1.0),),
        "supervision": ("demonstrations",),
        "steps": 1,
        "learning_rate": 1e-3,
    }
    return TrainingProgram(**{**settings, **changes})


def test_a_data_set_is_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text('{"episode": "ab", "weight": 0.5}\n{"episode": "cd", "weight": 2}\n')
    assert read_dataset(path) == [Weighted("ab", 0.5), Weighted("cd", 2.0)]
    path.write_text('{"episode": "ab", "weight": 0.5}\n{"episode": "cd"}\n')
    with pytest.raises(ArtifactError, match=r"line 2: expected an episode and its weight"):
        read_dataset(path)
    with pytest.raises(ArtifactError, match="cannot read data set"):
        read_dataset(tmp_path / "absent.jsonl")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"chunk_length": 4}, "chunks of 4 actions"),
        ({"stopping": StoppingRule(patience=5)}, "stopping early"),
    ],
)
def test_what_is_not_built_is_said(tmp_path: Path, changes: dict, words: str) -> None:
    with pytest.raises(NotAvailableError, match=words):
        run_program(program(**changes), [Weighted("ab")], ArtifactRoot(tmp_path))


def test_no_data_and_missing_episodes_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no episode"):
        run_program(program(), [], ArtifactRoot(tmp_path))
    with pytest.raises(CodaError, match="ab.npz"):
        run_program(program(), [Weighted("ab")], ArtifactRoot(tmp_path))
    assert not (tmp_path / "checkpoints").exists()
