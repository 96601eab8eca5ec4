"""ROS parameters declared from a configuration dataclass.

Description, unit and range come from its fields.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.exceptions import (
    InvalidParameterTypeException,
    InvalidParameterValueException,
    ParameterImmutableException,
)
from rclpy.node import Node
from rclpy.parameter import Parameter

from coda_nodes.world.config import from_mapping
from coda_nodes.world.errors import CodaError, ConfigError

T = TypeVar("T")
_INT64_LOW, _INT64_HIGH = -(2**63), 2**63 - 1


class Parameters(Generic[T]):
    """The parameters of a node as one validated configuration; ``value`` follows ``ros2 param set``."""

    def __init__(self, node: Node, kind: type[T]) -> None:
        """Declare every field of ``kind``.

        Raises ConfigError for a start value of a wrong type or out of range.
        """
        self._kind = kind
        self._names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
        values = {name: value for name, value in _declare(node, kind)}
        self.value: T = from_mapping(kind, values)
        self._watchers: list[Callable[[T], None]] = []
        node.add_on_set_parameters_callback(self._check)
        node.add_post_set_parameters_callback(self._apply)

    def watch(self, callback: Callable[[T], None]) -> None:
        """Call ``callback`` with the new configuration after each accepted change."""
        self._watchers.append(callback)

    def _changed(self, parameters: list[Parameter[Any]]) -> T:
        kinds = typing.get_type_hints(self._kind)
        changes = {p.name: _from_ros(p.value, kinds[p.name]) for p in parameters if p.name in self._names}
        return dataclasses.replace(self.value, **changes)  # type: ignore[type-var]

    def _check(self, parameters: list[Parameter[Any]]) -> SetParametersResult:
        try:
            self._changed(parameters)
        except CodaError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def _apply(self, parameters: list[Parameter[Any]]) -> None:
        changed = self._changed(parameters)
        if changed != self.value:
            self.value = changed
            for watcher in self._watchers:
                watcher(changed)


def _declare(node: Node, kind: type[Any]) -> list[tuple[str, Any]]:
    kinds, values = typing.get_type_hints(kind), []
    for field in dataclasses.fields(kind):
        default = _to_ros(kind, field, kinds[field.name])
        try:
            declared = node.declare_parameter(field.name, default, descriptor(field, kinds[field.name]))
        except (
            InvalidParameterTypeException,
            InvalidParameterValueException,
            ParameterImmutableException,
        ) as error:
            raise ConfigError(
                f"parameter {field.name} of node {node.get_name()}: {error}{_hint(kinds[field.name])}"
            ) from error
        values.append((field.name, _from_ros(declared.value, kinds[field.name])))
    return values


def _hint(kind: Any) -> str:
    return "; write a number with a decimal point, as 5.0" if kind is float else ""


def _to_ros(owner: type[Any], field: dataclasses.Field[Any], kind: Any) -> Any:
    if kind in (str, int, float, bool):
        return kind(field.default)
    if kind == tuple[str, ...]:
        return list(field.default)
    raise ConfigError(
        f"{owner.__name__}.{field.name}: a ROS parameter is str, int, float, bool or strings, not {kind}"
    )


def _from_ros(value: Any, kind: Any) -> Any:
    return tuple(value) if kind == tuple[str, ...] else value


def descriptor(field: dataclasses.Field[Any], kind: Any) -> ParameterDescriptor:
    """Description with unit, numeric range and choices of one configuration field."""
    meta = field.metadata
    unit = f" [{meta['unit']}]" if meta.get("unit") else ""
    made = ParameterDescriptor(name=field.name, description=f"{meta.get('help', '')}{unit}")
    if meta.get("choices"):
        made.additional_constraints = "one of: " + ", ".join(meta["choices"])
    low, high = meta.get("low"), meta.get("high")
    if (low is not None or high is not None) and kind is float:
        made.floating_point_range = [
            FloatingPointRange(from_value=_or(low, -math.inf), to_value=_or(high, math.inf))
        ]
    elif (low is not None or high is not None) and kind is int:
        made.integer_range = [
            IntegerRange(
                from_value=_INT64_LOW if low is None else int(low),
                to_value=_INT64_HIGH if high is None else int(high),
            )
        ]
    return made


def _or(value: float | None, default: float) -> float:
    return float(default) if value is None else float(value)
