"""Result file, tables and plot of the benchmark; all made again from raw results by one call."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib.figure import Figure

from coda_nodes.cli.provenance import provenance
from coda_nodes.cli.results import check
from coda_nodes.report.cells import figures, read_cells
from coda_nodes.world.artifacts import write_atomic
from coda_nodes.world.errors import ConfigError

BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
"""What stands between them in the page is made from results."""
RESULTS, PAGE = Path("benchmarks/results"), Path("docs/coevolution.md")
COMMAND = "coda benchmark coevolution --collect"


def write_all(folder: Path) -> list[Path]:
    """Write figures, tables and plot of the raw results in ``folder``.

    Of held_out: ``benchmarks/results/coevolution.json``, the marked part of ``docs/coevolution.md``, and its plot. Of dev:
    ``coevolution.json``, ``.md`` and ``.svg`` in ``folder`` itself.

    Raises:
        ConfigError: no raw results, or not those of one split.
    """
    cells = read_cells(folder)
    found = figures(cells)
    final = found["split"] == "held_out"
    command = f"{COMMAND} --split {found['split']}"
    about = provenance(command, sorted({cell["seed"] for cell in cells}))
    about["commits"] = sorted({cell["commit"] for cell in cells})
    document = {**about, **found, "budget": cells[0]["budget"]["limits"], "rounds": cells[0]["rounds"]}
    result, page = (RESULTS, PAGE) if final else (folder, folder / "coevolution.md")
    paths = [result / "coevolution.json", page, page.with_suffix(".svg")]
    write_atomic(paths[0], json.dumps(document, indent=1, sort_keys=True).encode())
    check(paths[0])
    write_atomic(paths[1], _placed(paths[1], tables(document)).encode())
    plot(document, paths[2])
    return paths


def _placed(page: Path, text: str) -> str:
    """The page with its marked part replaced. Raises ConfigError when a page has no such part."""
    if not page.exists():
        return f"{BEGIN}\n{text}\n{END}\n"
    old = page.read_text(encoding="utf-8")
    if BEGIN not in old or END not in old:
        raise ConfigError(f"{page} has no part between {BEGIN} and {END}")
    return f"{old.split(BEGIN)[0]}{BEGIN}\n{text}\n{END}{old.split(END, 1)[1]}"


def tables(document: Mapping[str, Any]) -> str:
    """Markdown tables of all regimes."""
    machine, split, commits = document["machine"], document["split"], ", ".join(document["commits"])
    lines = [
        f"`{document['command']}`, seeds {', '.join(map(str, document['seeds']))}, cells of commit {commits}, "
        f"{machine['cores']} cores ({machine['processor']}), {document['rounds']} rounds, measured on {split}. "
        "Success in percent with its 95 % interval (bootstrap over seeds and scenes).", "",
    ]
    for regime, found in document["regimes"].items():
        lines += [f"### Regime {regime}", "", *_methods(found, split), "", *_parts(found, split, "per_family"), "",
                  *_parts(found, split, "per_axis"), "", *_differences(found), ""]
    return "\n".join(lines)


def _methods(found: Mapping[str, Any], split: str) -> list[str]:
    halves = [half for half in ("near", "far") if half in found["before"][split]]
    head = ["method", split, *halves, "environments", "control steps", "gradient steps", "updates accepted", "CPU minutes"]
    before = found["before"][split]
    rows = [["round 0", _rate(before), *(_rate(before[half]) for half in halves), "", "", "", "", ""]]
    for name, row in found["methods"].items():
        success = row[split]
        rows.append([
            f"`{name}`", _rate(success), *(_rate(success[half]) for half in halves),
            f"{row['environments']:,} of {row['limits']['environments']:,}",
            f"{row['control_steps']:,} of {row['limits']['control_steps']:,}", f"{row['gradient_steps']:,}",
            ", ".join(map(str, row["accepted"])), str(row["cpu_minutes"] or "-"),
        ])
    return _table(head, rows)


def _parts(found: Mapping[str, Any], split: str, key: str) -> list[str]:
    names = list(found["before"][split][key])
    rows = [["round 0", *(_rate(found["before"][split][key][name]) for name in names)]]
    rows += [[f"`{name}`", *(_rate(row[split][key].get(part)) for part in names)] for name, row in found["methods"].items()]
    return _table([{"per_family": "family", "per_axis": "axis moved"}[key], *names], rows)


def _differences(found: Mapping[str, Any]) -> list[str]:
    rows = []
    for name, row in found["differences"].items():
        mean, low, high = (100 * row[key] for key in ("mean", "low", "high"))
        rows.append([f"`{name}`", f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]", str(row["seeds"])])
    return _table(["difference", "points", "seeds"], rows) if rows else []


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


def _rate(row: Mapping[str, float] | None) -> str:
    return "{:.1f} [{:.1f}, {:.1f}]".format(*(100 * row[key] for key in ("mean", "low", "high"))) if row else "-"


def plot(document: Mapping[str, Any], path: Path) -> None:
    """Success of every method with its interval, one panel a regime."""
    split, regimes = document["split"], document["regimes"]
    figure = Figure(figsize=(8.0, 0.6 + 0.4 * max(len(found["methods"]) for found in regimes.values())))
    for axes, (regime, found) in zip(figure.subplots(1, len(regimes), squeeze=False)[0], regimes.items(), strict=True):
        names = list(found["methods"])[::-1]
        rows = [found["methods"][name][split] for name in names]
        means = [100 * row["mean"] for row in rows]
        spans = [[100 * (row["mean"] - row["low"]) for row in rows], [100 * (row["high"] - row["mean"]) for row in rows]]
        colors = ["#2563eb" if name == "coda" else "#94a3b8" for name in names]
        axes.barh(names, means, xerr=spans, color=colors, ecolor="#334155")
        axes.axvline(100 * found["before"][split]["mean"], color="#d97706", linestyle="--", linewidth=1)
        axes.set(title=regime, xlabel=f"success on {split} [%] (dashed: round 0)", xlim=(0, 100))
    figure.tight_layout()
    with matplotlib.rc_context({"svg.hashsalt": "coda"}):
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
