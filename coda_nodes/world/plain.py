"""Reading plain data (mappings, JSON text) into validated models, with errors that name the wrong field."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from coda_nodes.world.artifacts import content_hash
from coda_nodes.world.errors import CodaError

M = TypeVar("M", bound=BaseModel)


def read_model(kind: type[M], data: Any, error: type[CodaError], what: str) -> M:
    """Validate a mapping or JSON text as ``kind``. Raises ``error`` naming place and value of the fault."""
    try:
        if isinstance(data, (str, bytes)):
            return kind.model_validate_json(data)
        return kind.model_validate(data)
    except ValidationError as failure:
        raise error(f"{what}: {first_fault(failure)}") from failure


def first_fault(failure: ValidationError) -> str:
    """The first fault of a failed validation in one line: ``operators.0.kind: reason (got 'value')``."""
    fault = failure.errors()[0]
    place = ".".join(str(part) for part in fault["loc"])
    reason = fault["msg"].removeprefix("Value error, ")
    return f"{place + ': ' if place else ''}{reason} (got {str(fault.get('input'))[:80]!r})"


def canonical_json(data: Any) -> str:
    """One line of JSON with sorted keys, equal for equal data."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def data_hash(data: Any) -> str:
    """Content hash of plain data (16 hex digits)."""
    return content_hash(canonical_json(data).encode())
