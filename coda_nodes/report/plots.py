"""Plots of a run as inline SVG, drawn by matplotlib without a display."""

from __future__ import annotations

import io
from collections.abc import Sequence

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from coda_nodes.world.potentials import PotentialTrace
from coda_nodes.world.records import BudgetRecord, Count, RoundRecord, Summary
from coda_nodes.world.statistics import wilson

COLORS = ("#2563eb", "#d97706", "#059669", "#9333ea", "#dc2626", "#0891b2")
BEFORE, AFTER = "#94a3b8", "#2563eb"


def to_svg(figure: Figure) -> str:
    """Return a figure as an SVG element that scales with its container."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg"):]


def success_curves(rounds: Sequence[RoundRecord]) -> str:
    """Dev success per family over rounds with 95 % Wilson bands."""
    figure = Figure(figsize=(7.2, 3.4))
    axes = figure.subplots()
    families = list(rounds[0].families) if rounds else []
    for name, color in zip(families, COLORS, strict=False):
        known = [record for record in rounds if name in record.families]
        _curve(axes, [r.round for r in known], [r.families[name].dev_after for r in known], name, color)
    axes.set(xlabel="round (0 is imitation alone)", ylabel="success on dev [%]", ylim=(-2, 102))
    axes.set_xticks([record.round for record in rounds])
    _tidy(axes)
    if families:
        axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return to_svg(figure)


def _curve(axes: Axes, numbers: list[int], counts: list[Count], label: str, color: str) -> None:
    measured = [(number, count) for number, count in zip(numbers, counts, strict=True) if count.episodes]
    if not measured:
        return
    xs = [number for number, _ in measured]
    bands = [wilson(count.successes, count.episodes) for _, count in measured]
    axes.plot(xs, [100 * count.rate for _, count in measured], marker="o", color=color, label=label)
    axes.fill_between(xs, [100 * band.low for band in bands], [100 * band.high for band in bands], color=color, alpha=0.12)


def before_after(summary: Summary) -> str:
    """Held-out success per family before and after the run, or dev where held-out was not opened."""
    figure = Figure(figsize=(7.2, 3.0))
    axes = figure.subplots()
    names = list(summary.families)
    opened = any(family.held_out_after for family in summary.families.values())
    for shift, color, label, which in ((-0.2, BEFORE, "before", "before"), (0.2, AFTER, "after", "after")):
        counts = [getattr(f, f"held_out_{which}" if opened else f"dev_{which}") for f in summary.families.values()]
        _bars(axes, [index + shift for index in range(len(names))], counts, color, label)
    axes.set_xticks(range(len(names)), names)
    axes.set(ylabel=f"success on {'held-out' if opened else 'dev'} [%]", ylim=(0, 102))
    _tidy(axes)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return to_svg(figure)


def _bars(axes: Axes, xs: list[float], counts: Sequence[Count | None], color: str, label: str) -> None:
    pairs = [(x, count) for x, count in zip(xs, counts, strict=True) if count and count.episodes]
    if not pairs:
        return
    rates = [100 * count.rate for _, count in pairs]
    spans = [wilson(count.successes, count.episodes) for _, count in pairs]
    errors = [[rate - 100 * span.low for rate, span in zip(rates, spans, strict=True)],
              [100 * span.high - rate for rate, span in zip(rates, spans, strict=True)]]
    axes.bar([x for x, _ in pairs], rates, 0.36, color=color, label=label, yerr=[[max(0.0, e) for e in row] for row in errors],
             error_kw={"elinewidth": 1, "capsize": 3, "ecolor": "#334155"})


def budget_bars(budget: BudgetRecord) -> str:
    """Where environments and control steps went, by purpose."""
    figure = Figure(figsize=(7.2, 0.5 + 0.32 * max(1, len(budget.by_purpose))))
    left, right = figure.subplots(1, 2, sharey=True)
    names = sorted(budget.by_purpose, key=lambda name: budget.by_purpose[name][1])
    for axes, index, label in ((left, 0, "environments"), (right, 1, "control steps")):
        axes.barh(names, [budget.by_purpose[name][index] for name in names], color=AFTER)
        axes.set_xlabel(label)
        axes.ticklabel_format(axis="x", style="sci", scilimits=(-3, 4))
        _tidy(axes)
    return to_svg(figure)


def _tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e2e8f0", linewidth=0.8)
    axes.set_axisbelow(True)


def potential_curve(trace: PotentialTrace) -> str:
    """Potential of an episode over time, its stages marked where they begin, with where it stalled as the title."""
    figure = Figure(figsize=(7.2, 3.0))
    axes = figure.subplots()
    axes.step(trace.time, trace.value, where="post", color=AFTER, marker="o", markersize=3)
    for number in sorted(set(trace.stage.tolist())):
        if number < len(trace.words):
            since = trace.time[int(np.argmax(trace.stage == number))]
            axes.axvline(since, color="#e2e8f0", linewidth=0.8)
            axes.annotate(f"{number + 1} {trace.words[number].split(':')[0]}", (since, 1.02), fontsize=7, rotation=30)
    axes.set(xlabel="time [s]", ylabel="potential", ylim=(0, 1.15))
    axes.set_title(trace.stalled, fontsize=9, pad=18)
    _tidy(axes)
    return to_svg(figure)
