"""Frozen configuration dataclasses whose fields carry unit, range and description."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, TypeVar

from coda_nodes.world.errors import ConfigError, unknown

T = TypeVar("T")


def setting(
    default: Any,
    help: str,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """Return a dataclass field with its default, unit, closed range or choices, and description."""
    metadata = {"help": help, "unit": unit, "low": low, "high": high, "choices": choices}
    return dataclasses.field(default=default, metadata=metadata)


def check_settings(config: Any) -> None:
    """Raise ConfigError for the first field of a dataclass outside its stated range or choices.

    Call it from ``__post_init__``, so that an invalid configuration cannot exist.
    """
    for field in dataclasses.fields(config):
        _check_field(type(config).__name__, field, getattr(config, field.name))


def _check_field(owner: str, field: dataclasses.Field[Any], value: Any) -> None:
    meta = field.metadata
    if meta.get("choices") and value not in meta["choices"]:
        raise ConfigError(f"{owner}.{field.name}: {unknown('choice', value, meta['choices'])}")
    low, high = meta.get("low"), meta.get("high")
    if low is None and high is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ConfigError(f"{owner}.{field.name} = {value!r}: expected a finite number {_span(low, high, meta)}")
    if (low is not None and value < low) or (high is not None and value > high):
        raise ConfigError(f"{owner}.{field.name} = {value!r}: expected {_span(low, high, meta)}")


def _span(low: float | None, high: float | None, meta: Mapping[str, Any]) -> str:
    unit = f" {meta['unit']}" if meta.get("unit") else ""
    return f"from {'-inf' if low is None else low} to {'inf' if high is None else high}{unit}"


def from_mapping(kind: type[T], values: Mapping[str, Any]) -> T:
    """Build a configuration from a mapping (YAML, ROS parameters, JSON).

    Raises:
        ConfigError: a key that is no field (the message lists those that are), or a value out of range.
    """
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for key in values:
        if key not in names:
            raise ConfigError(f"{kind.__name__}: {unknown('setting', key, names)}")
    return kind(**dict(values))
