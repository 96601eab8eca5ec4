"""Held-out gain of finished runs, one per seed, into ``benchmarks/results``.

    python benchmarks/collect_gain.py runs/seed0 runs/seed1 runs/seed2

Each run was made by ``make train SEED=n OUT=runs/seedn`` and holds ``summary.json`` and ``held_out.json``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from coda_nodes.cli.provenance import provenance
from coda_nodes.cli.results import check
from coda_nodes.world.artifacts import write_atomic
from coda_nodes.world.records import Count, Summary
from coda_nodes.world.statistics import paired_bootstrap

RESULTS = Path(__file__).resolve().parent / "results"


def outcomes(folder: Path) -> tuple[list[float], list[float]]:
    """Success before and after in each held-out scene that was valid both times."""
    rows = json.loads((folder / "held_out.json").read_text())
    valid = [row for row in rows if "invalid" not in (row["before"], row["after"])]
    return [float(row["before"] == "success") for row in valid], [float(row["after"] == "success") for row in valid]


def row(folder: Path) -> dict[str, Any]:
    """Figures of one run."""
    summary = Summary.model_validate_json((folder / "summary.json").read_text())
    before, after = outcomes(folder)
    mean, low, high = summary.held_out_difference or (float("nan"),) * 3
    return {
        "seed": summary.seed, "regime": summary.regime, "critic": summary.critic, "rounds": summary.rounds,
        "before": count(before), "after": count(after), "difference": {"mean": mean, "low": low, "high": high},
        "seconds": summary.seconds, "budget": summary.budget.model_dump(include={"environments", "control_steps"}),
        "diagnoses": summary.diagnoses.model_dump(), "programs": summary.programs,
        "families": {name: family.model_dump() for name, family in summary.families.items()},
        "halves": summary.model_dump()["held_out_halves"], "imitation": imitation(folder),
    }


def imitation(folder: Path) -> dict[str, dict[str, int]]:
    """Success of imitation on fixed train scenes, by family."""
    families = json.loads((folder / "rounds" / "0.json").read_text())["families"]
    return {name: Count.model_validate(record["train_after"]).model_dump() for name, record in families.items()}


def control(folder: Path) -> dict[str, Any]:
    """Held-out success of imitation alone, from a run with ``--rounds 0``."""
    summary = Summary.model_validate_json((folder / "summary.json").read_text())
    config = json.loads((folder / "config.json").read_text())
    steps = config["imitation_steps"] + config["practice_steps"]
    return {"name": "imitation alone", "seed": summary.seed, "gradient_steps": steps, "held_out": count(outcomes(folder)[1])}


def count(results: list[float]) -> dict[str, int]:
    """Counts as result files hold them."""
    return Count(successes=int(sum(results)), episodes=len(results)).model_dump()


def main() -> None:
    """Write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--controls", nargs="*", type=Path, default=[], help="runs with --rounds 0 and more gradient steps")
    parser.add_argument("--name", default="gain", help="name of the result, 'gain' or 'gain-WORD'")
    args = parser.parse_args()
    folders = args.runs
    runs = [row(folder) for folder in folders]
    before, after = (np.concatenate(parts) for parts in zip(*map(outcomes, folders), strict=True))
    seeds = [one["seed"] for one in runs for _ in range(one["before"]["episodes"])]
    pooled = paired_bootstrap(after, before, np.random.default_rng(0), groups=seeds)
    command = "make train SEED=n OUT=runs/seedn; python benchmarks/collect_gain.py runs/seed*"
    about = provenance(command, [one["seed"] for one in runs])
    controls = [control(folder) for folder in args.controls]
    figures = {"runs": runs, "controls": controls, "difference": pooled.as_dict()}
    out = RESULTS / f"{args.name}.json"
    write_atomic(out, json.dumps({**about, **figures}, indent=1, sort_keys=True).encode())
    check(out)


if __name__ == "__main__":
    main()
