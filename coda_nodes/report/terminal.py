"""What a person sees in the terminal while a run goes on: one live line with time left, one line per family and round."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from coda_nodes.world.records import Count, Summary
from coda_nodes.world.statistics import wilson

PLAIN_INTERVAL = 5.0
"""Without a terminal, seconds between two lines of the same phase [s]."""


def percent(count: Count) -> str:
    """``42 % [31, 54]``: success with its 95 % Wilson interval."""
    if not count.episodes:
        return "not measured"
    interval = wilson(count.successes, count.episodes)
    return f"{100 * count.rate:.0f} % [{100 * interval.low:.0f}, {100 * interval.high:.0f}]"


def duration(seconds: float) -> str:
    """``3:05`` from seconds; ``?`` while unknown (negative)."""
    if seconds < 0:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


class RunView:
    """Shows progress events of a run (see ``conductor.events``) on a console.

    On a terminal the running phase is one live line; elsewhere each phase prints a line now and then.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()
        self._progress = Progress(
            TextColumn("[bold]{task.fields[title]}"), BarColumn(bar_width=24), TextColumn("{task.fields[detail]}"),
            TimeElapsedColumn(), TextColumn("left {task.fields[left]}"), console=self.console, transient=True,
        )
        self._unbroken = not self.console.is_terminal  # a log keeps one line per event
        self._task: TaskID | None = None
        self._last: tuple[str, float] = ("", 0.0)

    def __enter__(self) -> RunView:
        if self.console.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            self._progress.stop()

    def show(self, event: dict[str, Any]) -> None:
        """Show one event; an unknown kind is shown as its text."""
        kind = event.get("event")
        if kind == "phase":
            self._phase(event)
        elif kind == "family":
            self._family(event)
        elif event.get("text"):
            style = "dim" if kind == "note" else ""
            self.console.print(event["text"], style=style, highlight=False, markup=False, soft_wrap=self._unbroken)

    def _phase(self, event: dict[str, Any]) -> None:
        title = f"round {event['round']} · {event['phase']}" if event.get("round") else event["phase"]
        detail, left = event.get("text", ""), duration(event.get("seconds_left", -1.0))
        if not self.console.is_terminal:
            self._plain(title, detail, event.get("fraction", 0.0), left)
            return
        if self._task is None:
            self._task = self._progress.add_task("", total=1.0, title=title, detail=detail, left=left)
        self._progress.update(self._task, completed=event.get("fraction", 0.0), title=title, detail=detail, left=left)

    def _plain(self, title: str, detail: str, fraction: float, left: str) -> None:
        shown, when = self._last
        now = time.monotonic()
        if title != shown or now - when > PLAIN_INTERVAL:
            line = f"{title}  {100 * fraction:.0f} %  {detail}  (left {left})"
            self.console.print(line, highlight=False, markup=False, soft_wrap=True)
            self._last = (title, now)

    def _family(self, event: dict[str, Any]) -> None:
        before, after = (Count(successes=pair[0], episodes=pair[1]) for pair in (event["before"], event["after"]))
        self.console.print(
            f"round {event['round']}  [bold]{event['family']:<12}[/bold] dev {percent(before)} -> {percent(after)}  "
            f"{escape(event.get('text', ''))}", highlight=False, soft_wrap=self._unbroken,
        )


def summary_table(summary: Summary) -> Table:
    """Final table: success per family before and after on dev and held-out scenes."""
    table = Table(title=f"Success before and after {summary.rounds} rounds ({summary.regime}, critic {summary.critic})")
    table.add_column("family")
    for column in ("dev before", "dev after", "held-out before", "held-out after"):
        table.add_column(column, justify="right")
    zero = Count(successes=0, episodes=0)
    total = [zero, zero, zero, zero]
    for name, family in summary.families.items():
        cells = [family.dev_before, family.dev_after, family.held_out_before or zero, family.held_out_after or zero]
        total = [so_far.plus(cell) for so_far, cell in zip(total, cells, strict=True)]
        table.add_row(name, *map(percent, cells))
    table.add_section()
    table.add_row("all", *map(percent, total), style="bold")
    return table
