"""Command-line options made from configuration dataclasses, so that each setting has one home."""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

import tyro

T = TypeVar("T")


def parse(kind: type[T], words: Sequence[str], verb: str, description: str) -> T:
    """Read a dataclass of options from the command line. Ends the process with usage when words are wrong."""
    config = (tyro.conf.OmitArgPrefixes,)
    description = description.replace("``", "`")
    return tyro.cli(kind, args=list(words), prog=f"coda {verb}", description=description, config=config)


def with_help(kind: type[Any]) -> type[Any]:
    """Return a dataclass with the fields of a settings dataclass whose help, unit and range tyro shows."""
    hints = typing.get_type_hints(kind, localns=vars(sys.modules[kind.__module__]))
    columns = []
    for field in dataclasses.fields(kind):
        annotated = Annotated[hints[field.name], tyro.conf.arg(help=_help(field))]
        columns.append((field.name, annotated, dataclasses.field(default=field.default)))
    return dataclasses.make_dataclass(kind.__name__, columns, frozen=True)


def _help(field: dataclasses.Field[Any]) -> str:
    meta = field.metadata
    unit = f" [{meta['unit']}]" if meta.get("unit") else ""
    if meta.get("choices"):
        return f"{meta['help']}: {', '.join(meta['choices'])}"
    low, high = meta.get("low"), meta.get("high")
    span = f", {low} to {high}" if low is not None and high is not None else ""
    return f"{meta.get('help', '')}{unit}{span}"
