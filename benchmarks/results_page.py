"""``docs/results.md`` from the result files in ``benchmarks/results``.

    python benchmarks/results_page.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from coda_nodes.world.records import Count
from coda_nodes.world.statistics import wilson

ROOT = Path(__file__).resolve().parent.parent
TARGETS = {
    "batch_vs_mj_step": "at least 1.5", "ros_lockstep_vs_in_process": "at least 0.8", "inference_ms_p50": "under 5",
    "inference_ms_p99": "under 10", "rollout_200_episodes_s": "under 60", "node_rss_mb": "each under 500",
}


def about(result: dict[str, Any]) -> str:
    """Where a result comes from, in one paragraph."""
    machine = result["machine"]
    versions = ", ".join(f"{name} {text}" for name, text in sorted(result["versions"].items()))
    return (
        f"`{result['command']}`, seeds {', '.join(map(str, result['seeds']))}, commit `{result['commit']}`, "
        f"{machine['cores']} cores ({machine['processor']}), load {machine['load']} at the start; {versions}."
    )


def rate(count: dict[str, int] | None) -> str:
    """``41 % [36, 46]`` with the Wilson interval."""
    if not count or not count["episodes"]:
        return "-"
    found = wilson(count["successes"], count["episodes"])
    return f"{100 * found.mean:.0f} % [{100 * found.low:.0f}, {100 * found.high:.0f}]"


def points(interval: dict[str, float]) -> str:
    """A difference in percentage points with its interval."""
    return "{:+.1f} [{:+.1f}, {:+.1f}]".format(*(100 * interval[key] for key in ("mean", "low", "high")))


def gain(result: dict[str, Any]) -> list[str]:
    """Tables of the held-out gain."""
    lines = [
        "## What co-evolution buys", "", about(result), "",
        "Commit and load are those of the moment when the figures were collected from the finished runs.", "",
        f"Held-out success after minus before, all seeds pooled: **{points(result['difference'])} points** (95 %, paired "
        "bootstrap over seeds and scenes). `before` is imitation of the train split alone, trained by the same run.", "",
        "| seed | before | after | difference [points] | near before -> after | far before -> after "
        "| minutes of the loop | environments |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in result["runs"]:
        halves = [f"{rate(one['halves']['before'][half])} -> {rate(one['halves']['after'][half])}" for half in ("near", "far")]
        lines.append(
            f"| {one['seed']} | {rate(one['before'])} | {rate(one['after'])} | {points(one['difference'])} | {halves[0]} "
            f"| {halves[1]} | {one['seconds'] / 60:.1f} | {one['budget']['environments']} |"
        )
    lines += ["", "| family | dev before | dev after | held-out before | held-out after |", "|---|---|---|---|---|"]
    for family in result["runs"][0]["families"]:
        cells = [pooled(result["runs"], family, key) for key in ("dev_before", "dev_after", "held_out_before", "held_out_after")]
        lines.append(f"| {family} | " + " | ".join(map(rate, cells)) + " |")
    lines += ["", "Success of imitation (with practice) on 50 fixed train scenes per family, before the first round:", ""]
    families = list(result["runs"][0]["families"])
    lines += ["| seed | " + " | ".join(families) + " |", "|---" * (len(families) + 1) + "|"]
    for one in result["runs"]:
        cells = [f"{one['imitation'][name]['successes']} of {one['imitation'][name]['episodes']}" for name in families]
        lines.append(f"| {one['seed']} | " + " | ".join(cells) + " |")
    for one in result.get("controls", []):
        steps, seed = one["gradient_steps"], one["seed"]
        words = f"Control: {one['name']} with {steps} gradient steps (seed {seed}, no rounds)"
        lines += ["", f"{words}: held-out {rate(one['held_out'])}."]
    made, validated = (sum(one["diagnoses"][key] for one in result["runs"]) for key in ("made", "validated"))
    return [*lines, "", f"Diagnoses made {made}, causes validated {validated}; regime `{result['runs'][0]['regime']}`, critic "
            f"`{result['runs'][0]['critic']}`, {result['runs'][0]['rounds']} rounds.", ""]


def pooled(runs: list[dict[str, Any]], family: str, key: str) -> dict[str, int]:
    """Counts of one family over all seeds."""
    total = Count(successes=0, episodes=0)
    for one in runs:
        if one["families"][family][key]:
            total = total.plus(Count(**one["families"][family][key]))
    return total.model_dump()


def throughput(result: dict[str, Any]) -> list[str]:
    """Table of speed."""
    lines = ["## Speed", "", about(result), "", "| figure | measured | asked for |", "|---|---|---|"]
    for name, target in TARGETS.items():
        value = result[name]
        shown = ", ".join(f"{key} {number:.0f}" for key, number in value.items()) if isinstance(value, dict) else f"{value:.2f}"
        lines.append(f"| `{name}` | {shown} | {target} |")
    per_family = ", ".join(f"{key} {number:.2f}" for key, number in result["batch_vs_mj_step_per_family"].items())
    timed = result.get("checkpoint", "not stated")
    return [*lines, "", f"`batch_vs_mj_step` is the lowest of the families: {per_family}. Checkpoint that is timed: {timed}.", ""]


def paths(result: dict[str, Any]) -> list[str]:
    """Agreement of the batch and the interactive path."""
    return [
        "## Batch path and interactive path", "", about(result), "",
        "The same checkpoint, scene and seed in worker processes and over ROS, a service call per chunk: first chunks differ "
        f"by at most {result['first_chunk_difference_max']:.1e}, outcomes agree in {result['outcomes_equal']} of "
        f"{result['episodes']} dev scenes (asked for: 1e-6, and 98 of 100).", "",
    ]


def coevolution(result: dict[str, Any]) -> list[str]:
    """Where the comparison of methods is shown."""
    return ["## Methods at equal budget", "", "Tables and plot: [coevolution.md](coevolution.md).", ""]


PAGES = {"coevolution": coevolution, "gain": gain, "paths": paths, "throughput": throughput}


def main() -> None:
    """Write the page."""
    lines = ["# Results", "", "Made by `python benchmarks/results_page.py` from `benchmarks/results/*.json`.", ""]
    for path in sorted((ROOT / "benchmarks" / "results").glob("*.json")):
        lines += PAGES[path.stem.partition("-")[0]](json.loads(path.read_text()))
    (ROOT / "docs" / "results.md").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
