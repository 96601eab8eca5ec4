"""``coda results check``: benchmark results against their JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
from rich.console import Console

from coda_nodes.cli.options import parse
from coda_nodes.world.errors import ConfigError, unknown


@dataclass(frozen=True)
class Options:
    """Check every result file of a folder."""

    folder: Path = Path("benchmarks/results")
    """Folder with result files (*.json)."""


def run(words: Sequence[str]) -> int:
    """Run the verb."""
    if words and words[0] in ("-h", "--help"):
        Console().print("coda results check [--folder FOLDER]   (default: benchmarks/results)", markup=False)
        return 0
    if not words or words[0] != "check":
        raise ConfigError(unknown("action of coda results", words[0] if words else "", ["check"]))
    options = parse(Options, words[1:], "results check", __doc__ or "")
    paths = sorted(options.folder.glob("*.json"))
    if not paths:
        raise ConfigError(f"no result file (*.json) in {options.folder}")
    for path in paths:
        check(path)
        Console(soft_wrap=True).print(f"{path}: fits its schema", highlight=False, markup=False)
    return 0


def schema(name: str) -> dict[str, Any]:
    """JSON Schema of one kind of result: what all have in common, and its own figures.

    What follows a hyphen in a name tells results of one kind apart.

    Raises:
        ConfigError: there is no such kind of result.
    """
    document = json.loads(resources.files("coda_nodes.cli").joinpath("results_schema.json").read_text())
    kinds, name = document["kinds"], name.partition("-")[0]
    if name not in kinds:
        raise ConfigError(unknown("kind of result", name, kinds))
    return {"allOf": [document["common"], kinds[name]], "$defs": document["defs"]}


def check(path: Path) -> None:
    """Raise ConfigError naming the first place of a result file that does not fit."""
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error
    errors = sorted(jsonschema.Draft202012Validator(schema(path.stem)).iter_errors(data), key=lambda e: list(map(str, e.path)))
    if errors:
        place = "/".join(map(str, errors[0].path)) or "top level"
        raise ConfigError(f"{path}: {place}: {errors[0].message}")
