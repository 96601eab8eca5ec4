"""What a person sees in the terminal, in a log and live."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from coda_nodes.report.terminal import RunView, duration, percent, summary_table
from coda_nodes.world.records import BudgetRecord, Count, DiagnosisCounts, FamilySummary, Summary

FAMILY = {
    "event": "family", "round": 2, "family": "stack", "before": [25, 50], "after": [0, 0],
    "text": "60 generated; 12 failures diagnosed: missed grasp by position (4); 2 validated, 1 refuted, 1 inconclusive [x]",
}


def phase(fraction: float, name: str = "rollout", **changes: object) -> dict[str, object]:
    event = {"event": "phase", "round": 1, "phase": name, "fraction": fraction, "text": "60 of 240 episodes"}
    return {**event, "seconds_left": 65.4, **changes}


def logged(*events: dict[str, object]) -> list[str]:
    """Lines a run prints where there is no terminal."""
    stream = io.StringIO()
    with RunView(Console(file=stream, width=80, force_terminal=False)) as view:
        for event in events:
            view.show(event)
    return stream.getvalue().splitlines()


def summary(**changes: object) -> Summary:
    def row(*successes: int) -> FamilySummary:
        counts = [Count(successes=number, episodes=50) for number in successes]
        names = ("dev_before", "dev_after", "held_out_before", "held_out_after")
        return FamilySummary(**dict(zip(names, counts, strict=False)))

    return Summary(**{
        "regime": "expert", "critic": "state", "seed": 0, "budget": BudgetRecord(), "diagnoses": DiagnosisCounts(), "programs": 1,
        "rounds": 3, "seconds": 61.0, "checkpoints": {},
        "families": {"stack": row(10, 20, 5, 25), "push_insert": row(0, 50, 5, 25)}, **changes,
    })


def table_text(found: Summary) -> str:
    stream = io.StringIO()
    Console(file=stream, width=120).print(summary_table(found))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("count", "shown"),
    [((25, 50), "50 % [37, 63]"), ((0, 10), "0 % [0, 28]"), ((10, 10), "100 % [72, 100]"), ((0, 0), "not measured")],
)
def test_success_with_its_wilson_interval(count, shown) -> None:
    """0 of 10 excludes rates above z^2 / (10 + z^2) = 0.278; 10 of 10 mirrors it; 25 of 50: 0.5 +- 0.134."""
    assert percent(Count(successes=count[0], episodes=count[1])) == shown


@pytest.mark.parametrize(("seconds", "shown"), [(65.4, "1:05"), (0.4, "0:00"), (3600, "60:00"), (-1.0, "?")])
def test_durations(seconds, shown) -> None:
    assert duration(seconds) == shown


def test_a_log_has_one_line_per_event_whatever_its_length() -> None:
    lines = logged({"event": "note", "text": "logs in /runs/[red]/logs " + "x" * 90}, phase(0.25), FAMILY)
    assert lines[0] == "logs in /runs/[red]/logs " + "x" * 90
    assert lines[1] == "round 1 · rollout  25 %  60 of 240 episodes  (left 1:05)"
    assert lines[2] == f"round 2  stack        dev 50 % [37, 63] -> not measured  {FAMILY['text']}"
    assert len(lines) == 3


def test_a_log_does_not_repeat_a_phase_at_every_step() -> None:
    lines = logged(*(phase(i / 100) for i in range(100)), phase(0.0, "solvability"))
    assert [line.split("  ")[0] for line in lines] == ["round 1 · rollout", "round 1 · solvability"]


def test_an_event_of_another_kind_is_shown_by_its_text() -> None:
    assert logged({"event": "done", "text": "finished 3 rounds"}, {"event": "unheard of"}) == ["finished 3 rounds"]


def test_a_terminal_shows_the_phase_live_and_families_stay() -> None:
    stream = io.StringIO()
    with RunView(Console(file=stream, width=100, force_terminal=True)) as view:
        for event in (phase(0.25), phase(0.5, text="[half] of it"), FAMILY):
            view.show(event)
        view._progress.refresh()
    text = stream.getvalue()
    assert "round 1 · rollout" in text and "1:05" in text and "50 % [37, 63]" in text


def test_the_last_table_pools_the_families() -> None:
    text = table_text(summary())
    assert "3 rounds (expert, critic state)" in text
    (pooled,) = [line for line in text.splitlines() if " all " in line]
    assert [cell.split("%")[0].strip() for cell in pooled.split("│")[2:6]] == ["10", "70", "10", "50"]


def test_held_out_that_was_not_opened_is_not_measured() -> None:
    row = FamilySummary(dev_before=Count(successes=1, episodes=4), dev_after=Count(successes=2, episodes=4))
    assert table_text(summary(families={"stack": row})).count("not measured") == 4
