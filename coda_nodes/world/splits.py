"""Train, probe, dev and held-out: one file states every range; sampling and the guard of the held-out half
live here."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from coda_nodes.world.errors import CodaError, ConfigError, ValidityError, unknown
from coda_nodes.world.families import family as family_definition
from coda_nodes.world.ranges import AXES, Allowed, FamilyRanges, Range, parse_allowed
from coda_nodes.world.spec import EnvironmentSpec

COLUMNS = ("train", "probe", "dev", "near", "far")
"""Columns of the file; ``near`` and ``far`` are the two halves of ``held_out``."""
COMBINATIONS = 10
"""Combinations of axes tried for one scene."""
SPLITS = ("train", "probe", "dev", "held_out")


class HeldOutError(CodaError):
    """Held-out ranges were asked for by a process that has not opened them."""


@dataclass(frozen=True)
class Parameter:
    """One sampled parameter: unit, meaning, allowed values per column."""

    unit: str
    help: str
    columns: Mapping[str, Allowed]


_opened = False


def open_held_out(log_path: Path | str, reason: str) -> None:
    """Let this process sample held-out scenes; append one JSON line (time, reason) to the log of openings.

    Raises:
        HeldOutError: no reason given, or the log cannot be written.
    """
    global _opened
    if not reason.strip():
        raise HeldOutError("opening held_out needs a reason; none was given")
    line = json.dumps({"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "reason": reason})
    try:
        Path(log_path).parent.mkdir(parents=True, exist_ok=True)
        with Path(log_path).open("a", encoding="utf-8") as log:
            log.write(line + "\n")
    except OSError as error:
        raise HeldOutError(f"cannot log the opening of held_out in {log_path}: {error}") from error
    _opened = True


def close_held_out() -> None:
    """Forbid held-out sampling in this process again."""
    global _opened
    _opened = False


def _require_open(column: str) -> None:
    if column in ("near", "far") and not _opened:
        raise HeldOutError(
            "held_out is closed in this process; only the final evaluation opens it, and is logged"
        )


@dataclass(frozen=True)
class Splits:
    """Family -> axis -> parameter, and how many axes leave train at once per column."""

    families: Mapping[str, Mapping[str, Mapping[str, Parameter]]]
    moved: Mapping[str, tuple[int, ...]]
    weights: Mapping[str, float]
    """How readily an axis is among those that move, 1 where absent."""

    def axes(self, family: str) -> Mapping[str, Mapping[str, Parameter]]:
        """The table of one family. Raises ConfigError that lists those there are."""
        if family not in self.families:
            raise ConfigError(unknown("family", family, self.families))
        return self.families[family]

    def ranges(self, family: str, split: str, half: str | None = None) -> FamilyRanges:
        """Ranges of a split with every axis in that split's column.

        Raises:
            ConfigError: unknown family, split or half.
            HeldOutError: held_out while closed.
        """
        return self.mixed(family, dict.fromkeys(self.axes(family), column_of(split, half)))

    def mixed(self, family: str, columns: Mapping[str, str]) -> FamilyRanges:
        """Ranges with each axis taken from its own column (``columns``: axis -> column; train where
        absent)."""
        table: dict[str, dict[str, Allowed]] = {}
        for axis, parameters in self.axes(family).items():
            column = columns.get(axis, "train")
            _require_open(column)
            table[axis] = {name: parameter.columns[column] for name, parameter in parameters.items()}
        return FamilyRanges(family, table)


def column_of(split: str, half: str | None = None) -> str:
    """Column of a split. Raises ConfigError for an unknown split, or held_out without its half."""
    if split not in SPLITS:
        raise ConfigError(unknown("split", split, SPLITS))
    if split != "held_out":
        return split
    if half not in ("near", "far"):
        raise ConfigError(unknown("half of held_out", half, ("near", "far")))
    return half


def sample_split(
    family: str,
    split: str,
    rng: np.random.Generator,
    axis: str | None = None,
    half: str | None = None,
    splits: Splits | None = None,
) -> EnvironmentSpec:
    """Draw one scene of a split; ``axis`` moves only that axis out of train.

    ``half`` of held_out is ``near`` or ``far``; left out, it is drawn. Provenance names split and moved
    axes. A
    combination of axes that leaves no room for a scene is drawn anew.

    Raises:
        ConfigError: unknown family, split, half or axis.
        HeldOutError: held_out while closed.
        ValidityError: no room for a scene, with COMBINATIONS combinations tried where ``axis`` is left out.
    """
    splits = splits or load_splits()
    if split == "held_out" and half is None:
        half = ("near", "far")[int(rng.integers(2))]
    column = column_of(split, half)
    last = COMBINATIONS - 1 if axis is None else 0
    for attempt in range(last + 1):
        columns = _moved_columns(splits, family, column, rng, axis)
        try:
            spec = family_definition(family).sample(splits.mixed(family, columns), rng)
            break
        except ValidityError:
            if attempt == last:
                raise
    name = split if split != "held_out" else f"held_out_{half}"
    return spec.revise(provenance=spec.provenance.model_copy(update={"split": name, "axes": tuple(columns)}))


def _moved_columns(
    splits: Splits, family: str, column: str, rng: np.random.Generator, axis: str | None
) -> dict[str, str]:
    """Axis -> column for the axes that leave train, in the order of AXES."""
    names = list(splits.axes(family))
    if axis is not None and axis not in names:
        raise ConfigError(unknown(f"axis of {family}", axis, names))
    if column == "train":
        return {}
    if axis is not None:
        return {axis: column}
    count = min(int(rng.choice(splits.moved[column])), len(names))
    weights = np.array([splits.weights.get(name, 1.0) for name in names])
    chosen = [str(name) for name in rng.choice(names, size=count, replace=False, p=weights / weights.sum())]
    columns = dict.fromkeys(chosen, column)
    if column == "far":
        columns.update(dict.fromkeys(chosen[1:], "near"))
    return {name: columns[name] for name in names if name in columns}


@lru_cache(maxsize=1)
def load_splits() -> Splits:
    """Read ``splits.yaml`` of the installed package."""
    text = resources.files("coda_nodes.world").joinpath("splits.yaml").read_text(encoding="utf-8")
    return parse_splits(yaml.safe_load(text))


def parse_splits(document: Mapping[str, Any]) -> Splits:
    """Build Splits from the file's content. Raises ConfigError naming the first wrong place."""
    families = {
        family: {axis: _parse_axis(f"{family}.{axis}", table) for axis, table in axes.items()}
        for family, axes in document["families"].items()
    }
    for family, axes in families.items():
        for axis in axes:
            if axis not in AXES:
                raise ConfigError(f"{family}: {unknown('axis', axis, AXES)}")
    moved = {column: tuple(counts) for column, counts in document["moved"].items()}
    return Splits(families, moved, dict(document.get("weights", {})))


def _parse_axis(place: str, table: Mapping[str, Any]) -> dict[str, Parameter]:
    result = {}
    for name, entry in table.items():
        missing = [column for column in COLUMNS if column not in entry]
        if missing:
            raise ConfigError(f"splits.yaml: {place}.{name} states no {', '.join(missing)}")
        columns = {column: parse_allowed(entry[column]) for column in COLUMNS}
        if len({isinstance(allowed, Range) for allowed in columns.values()}) > 1:
            raise ConfigError(f"splits.yaml: {place}.{name} mixes ranges and choices")
        result[name] = Parameter(entry.get("unit", ""), entry.get("help", ""), columns)
    return result


def describe(splits: Splits | None = None) -> str:
    """Markdown tables of every range: per family and axis, one row per parameter."""
    splits = splits or load_splits()
    lines: list[str] = []
    for family, axes in splits.families.items():
        lines += [f"## {family}", "", "| axis | parameter | unit | " + " | ".join(COLUMNS) + " | meaning |"]
        lines.append("|" + "---|" * (len(COLUMNS) + 4))
        for axis, table in axes.items():
            for name, parameter in table.items():
                cells = " | ".join(str(parameter.columns[column]).replace("|", "or") for column in COLUMNS)
                lines.append(f"| {axis} | {name} | {parameter.unit} | {cells} | {parameter.help} |")
        lines.append("")
    return "\n".join(lines)
