"""Figures of the benchmark from the raw results of its cells."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coda_nodes.conductor.methods import CLOSED_LOOPS, METHODS
from coda_nodes.world.errors import ConfigError
from coda_nodes.world.ranges import AXES
from coda_nodes.world.spec import FAMILIES
from coda_nodes.world.statistics import paired_bootstrap

Scene = dict[str, Any]
Outcomes = dict[tuple[int, str], tuple[float, Scene]]
"""(seed, environment) -> success (1 or 0) and the scene, of valid episodes."""
Wanted = Callable[[Scene], bool]
RESAMPLES = 10_000


def read_cells(folder: Path) -> list[dict[str, Any]]:
    """Raw results below ``folder``, regime by regime.

    Raises:
        ConfigError: there are none, one is damaged, or they are not of one split.
    """
    cells = []
    for path in sorted(folder.glob("*/*.json")):
        try:
            cells.append(json.loads(path.read_text()))
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot read {path}: {error}") from error
    if not cells:
        raise ConfigError(f"no raw results in {folder}; coda benchmark coevolution makes them")
    splits = sorted({cell["split"] for cell in cells})
    if len(splits) > 1:
        raise ConfigError(f"{folder} holds results of {' and '.join(splits)}: expected one split")
    return cells


def outcomes(cells: Sequence[Mapping[str, Any]], when: str = "after") -> Outcomes:
    """Valid results of cells of one method, before or after."""
    return {
        (cell["seed"], scene["environment"]): (float(scene[when] == "success"), scene)
        for cell in cells for scene in cell["scenes"] if scene[when] != "invalid"
    }


def figures(cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """``regimes.<regime>.methods.<method>.<split>`` and ``.differences.<a>-<b>`` (see docs/coevolution.md)."""
    regimes: dict[str, Any] = {}
    for regime in sorted({cell["regime"] for cell in cells}, key=("no_expert", "expert").index):
        mine = [cell for cell in cells if cell["regime"] == regime]
        by_method = {name: [cell for cell in mine if cell["method"] == name] for name in METHODS}
        by_method = {name: group for name, group in by_method.items() if group}
        regimes[regime] = _regime(by_method, cells[0]["split"])
    return {"split": cells[0]["split"], "regimes": regimes}


def _regime(by_method: Mapping[str, list[dict[str, Any]]], split: str) -> dict[str, Any]:
    found = {name: outcomes(group) for name, group in by_method.items()}
    methods = {
        name: {split: _success(found[name]), **_spent(group), "words": METHODS[name].words} for name, group in by_method.items()
    }
    differences = {f"coda-{name}": difference(found["coda"], found[name]) for name in found if name != "coda"} if (
        "coda" in found) else {}
    loops = [name for name in CLOSED_LOOPS if name in found]
    best = max(loops, key=lambda name: methods[name][split]["mean"]) if loops else ""
    first = outcomes([cell for group in by_method.values() for cell in group], "before")
    return {
        "methods": methods, "differences": {key: value for key, value in differences.items() if value},
        "best_other_closed_loop": best, "before": {split: _success(first)},
    }


def _success(found: Outcomes) -> dict[str, Any]:
    """Mean with interval, over all scenes and over parts of them; parts without a scene are left out."""
    parts = {name: _mean(found, lambda scene, name=name: scene["family"] == name) for name in FAMILIES}
    axes = {name: _mean(found, lambda scene, name=name: name in scene["axes"]) for name in AXES}
    halves = {half: _mean(found, lambda scene, half=half: scene["half"] == half) for half in ("near", "far")}
    return {
        **(_mean(found, lambda scene: True) or {}), "per_family": {key: value for key, value in parts.items() if value},
        "per_axis": {key: value for key, value in axes.items() if value},
        **{key: value for key, value in halves.items() if value},
    }


def _mean(found: Outcomes, wanted: Wanted) -> dict[str, Any] | None:
    keys = sorted(key for key, (_, scene) in found.items() if wanted(scene))
    return _bootstrapped([found[key][0] for key in keys], [0.0] * len(keys), [seed for seed, _ in keys])


def difference(first: Outcomes, second: Outcomes, wanted: Wanted = lambda scene: True) -> dict[str, Any] | None:
    """Success of ``first`` minus that of ``second`` over pairs (seed, scene) valid in both; None without a pair."""
    keys = sorted(key for key in first.keys() & second.keys() if wanted(first[key][1]))
    return _bootstrapped([first[key][0] for key in keys], [second[key][0] for key in keys], [seed for seed, _ in keys])


def _bootstrapped(one: Sequence[float], other: Sequence[float], seeds: Sequence[int]) -> dict[str, Any] | None:
    """Mean difference with its 95 % interval: seeds are drawn, then scenes within each."""
    if not one:
        return None
    estimate = paired_bootstrap(one, other, np.random.default_rng(0), resamples=RESAMPLES, groups=list(seeds))
    return {**estimate.as_dict(), "n": len(one), "seeds": len(set(seeds))}


def _spent(group: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Most that any cell spent against its limits, gradient steps, and time."""
    timed = [cell["cpu_seconds"] for cell in group if cell["cpu_seconds"]]
    return {
        "environments": max(cell["budget"]["spent"]["environments"] for cell in group),
        "control_steps": max(cell["budget"]["spent"]["control_steps"] for cell in group),
        "limits": group[0]["budget"]["limits"], "gradient_steps": max(cell["gradient_steps"] for cell in group),
        "cpu_minutes": round(max(timed) / 60, 1) if timed else None, "seeds": sorted(cell["seed"] for cell in group),
        "accepted": [sum(gate.startswith("accepted") for gate in cell["gates"]) for cell in group],
    }
