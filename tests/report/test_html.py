"""The report page, rebuilt from records and shown by a real browser."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from coda_nodes.report.html import write_report
from coda_nodes.simulator.actors import HoldActor
from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.simulator.rollout import rollout
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.errors import ArtifactError
from coda_nodes.world.records import (
    BudgetRecord,
    Count,
    DiagnosisCounts,
    FailureRecord,
    FamilyRecord,
    FamilySummary,
    ProgramRecord,
    RoundRecord,
    Summary,
)
from coda_nodes.world.splits import sample_split

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
NOTHING = Count(successes=0, episodes=0)


def family_record(number: int) -> FamilyRecord:
    return FamilyRecord(
        family="stack", dev_before=Count(successes=3, episodes=20) if number else NOTHING,
        dev_after=Count(successes=3 + 4 * number, episodes=20), train_before=NOTHING, train_after=NOTHING,
        rollouts=Count(successes=5, episodes=20), diagnoses=DiagnosisCounts(made=15, validated=1),
        text="15 failures <b>diagnosed</b>",
    )


def round_record(number: int) -> RoundRecord:
    program = ProgramRecord(
        program_id="abc123def4567890", family="stack", text="stack: shift region", state="validated", diagnosis_id="d0",
        environments=9, before=Count(successes=1, episodes=9), after=Count(successes=7, episodes=9), reason="validated: 9 of 12",
    )
    failure = FailureRecord(
        episode="0" * 16, family="stack", instruction='stack the "red" cube', diagnosis_id="d0",
        diagnosis="stage: grasp\nfailure_mode: missed_grasp", verdict="validated", program_id=program.program_id,
    )
    return RoundRecord(
        round=number, families={"stack": family_record(number)}, programs=[program] if number else [],
        failures=[failure] if number else [], checkpoint="c", accepted=True, gate="accepted: train 20 to 20",
        budget=BudgetRecord(environments=70, control_steps=9000, by_purpose={"rollout": (50, 7000), "progress": (20, 2000)}),
    )


@pytest.fixture
def run(tmp_path) -> ArtifactRoot:
    (tmp_path / "rounds").mkdir()
    for number in range(3):
        (tmp_path / "rounds" / f"{number}.json").write_text(round_record(number).model_dump_json())
    return ArtifactRoot(tmp_path)


def finish(run: ArtifactRoot) -> None:
    row = FamilySummary(
        dev_before=Count(successes=3, episodes=20), dev_after=Count(successes=11, episodes=20),
        held_out_before=Count(successes=10, episodes=50), held_out_after=Count(successes=25, episodes=50),
    )
    summary = Summary(
        regime="expert", critic="state", seed=0, families={"stack": row}, budget=BudgetRecord(), programs=1, rounds=2,
        diagnoses=DiagnosisCounts(made=30), seconds=61.0, checkpoints={"before": "a", "after": "b"},
        held_out_difference=(0.3, 0.12, 0.46),
    )
    (run.path / "summary.json").write_text(summary.model_dump_json())


def test_a_running_run_has_a_page_and_a_finished_one_adds_held_out(run):
    page = write_report(run).read_text()
    assert "Before and after" not in page and "shift region" in page
    finish(run)
    page = write_report(run).read_text()
    assert "+30.0 points" in page and "50 % [37, 63]" in page  # Wilson interval of 25 of 50, from a table


def test_text_from_a_run_cannot_become_markup(run):
    page = write_report(run).read_text()
    assert "<b>diagnosed</b>" not in page and "&lt;b&gt;diagnosed" in page


def test_a_kept_failure_shows_where_it_stalled(run):
    spec = sample_split("pick_place", "train", np.random.default_rng(0)).revise(horizon=16)
    episode, = rollout(BatchSimulator("pick_place", 1), [spec], [0], HoldActor())
    record = round_record(1)
    kept = record.failures[0].model_copy(update={"episode": episode.save(run)})
    (run.path / "rounds" / "1.json").write_text(record.model_copy(update={"failures": [kept]}).model_dump_json())
    page = write_report(run).read_text()
    assert page.count("where it stalled") == 1 and re.search(r"stalled at stage 1 of 6 'approach': Phi 0\.1", page)


def test_the_page_needs_nothing_from_elsewhere(run):
    page = write_report(run).read_text()
    outside = [link for link in re.findall(r'(?:src|href)="([^"#][^"]*)', page) if not link.startswith("data:")]
    assert outside == [] and "<script" not in page


def test_a_folder_without_a_finished_round_is_told(tmp_path):
    with pytest.raises(ArtifactError, match="no finished round"):
        write_report(ArtifactRoot(tmp_path))


def test_a_damaged_record_is_named(run):
    (run.path / "rounds" / "1.json").write_text(json.dumps({"round": 1}))
    with pytest.raises(ArtifactError, match=r"1\.json"):
        write_report(run)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on this machine: the page cannot be shown")
@pytest.mark.parametrize("width", [1200, 390])
def test_a_browser_shows_the_page_without_complaint(run, width, tmp_path):
    finish(run)
    path = write_report(run)
    picture = tmp_path / "page.png"
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
         "--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr",
         f"--window-size={width},1500", f"--screenshot={picture}", path.as_uri()],
        capture_output=True, text=True, timeout=120, check=False,
    )
    assert picture.exists() and picture.stat().st_size > 20_000, done.stderr[-500:]
    assert "CONSOLE" not in done.stderr
