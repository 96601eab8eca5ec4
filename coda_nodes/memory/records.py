"""What the memory holds: kinds of records, how each is validated, identified and found again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pydantic import BaseModel

from coda_nodes.world.diagnosis import read_diagnosis
from coda_nodes.world.errors import CodaError, StoreError, unknown
from coda_nodes.world.plain import data_hash, read_model
from coda_nodes.world.programs import read_program
from coda_nodes.world.progress import Measurement
from coda_nodes.world.records import FailureRecord
from coda_nodes.world.spec import parse_spec
from coda_nodes.world.validation import ValidationRecord

FIELDS = (
    "family", "axis", "parameter", "object", "stage", "failure_mode", "state", "verdict", "diagnosis_id",
    "program_id", "episode", "environment", "round", "critic",
)  # fmt: skip
"""Columns by which records are found; each kind fills those that it has."""


@dataclass(frozen=True)
class Record:
    """One row: identity, searchable fields, the sentence compared by meaning, the data, and what made it."""

    id: str
    kind: str
    data: dict[str, Any]
    fields: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    """``software``, ``simulator``, ``model``."""
    created: float = 0.0
    """Seconds since 1970 by the clock of the machine that stored it first (or changed its state last)."""


@dataclass(frozen=True)
class Kind:
    """How records of one kind are read, named, indexed and put into words."""

    read: Callable[[Any], BaseModel]
    identify: Callable[[Any], str]
    index: Callable[[Any], dict[str, Any]]
    say: Callable[[Any], str]
    changes: bool = False
    """Whether a record with the same identity may come again with another state."""


def _program_fields(program: Any) -> dict[str, Any]:
    axis = program.axes[0] if program.axes else ""
    return {
        "family": program.family,
        "axis": axis,
        "state": program.state,
        "diagnosis_id": program.diagnosis_id,
    }


def _diagnosis_fields(diagnosis: Any) -> dict[str, Any]:
    found = {
        name: getattr(diagnosis, name)
        for name in ("family", "stage", "failure_mode", "episode", "environment")
    }
    cause = diagnosis.cause
    if cause is not None:
        found |= {"axis": cause.axis, "parameter": cause.parameter, "object": cause.object}
    return {**found, "family": diagnosis.family or "", "critic": diagnosis.critic.name}


def _pick(*names: str) -> Callable[[Any], dict[str, Any]]:
    return lambda item: {name: getattr(item, name) for name in names}


def _hash(item: BaseModel) -> str:
    return data_hash(item.model_dump(mode="json"))


KINDS: dict[str, Kind] = {
    "environment": Kind(
        parse_spec, lambda spec: spec.content_hash,
        lambda spec: {
            "family": spec.family, "program_id": spec.provenance.program_id,
            "diagnosis_id": spec.provenance.diagnosis_id,
        },
        lambda spec: spec.instruction,
    ),
    "program": Kind(
        read_program, lambda program: program.program_id, _program_fields, lambda program: program.sentence,
        changes=True,
    ),
    "failure": Kind(
        lambda data: read_model(FailureRecord, data, StoreError, "failure"), _hash,
        _pick("family", "episode", "diagnosis_id", "program_id"),
        lambda item: f"{item.instruction}. {item.diagnosis}",
    ),
    "diagnosis": Kind(
        read_diagnosis, lambda item: item.diagnosis_id, _diagnosis_fields, lambda item: item.sentence
    ),
    "validation": Kind(
        lambda data: read_model(ValidationRecord, data, StoreError, "validation"), _hash,
        _pick("diagnosis_id", "program_id", "verdict"), lambda item: item.words,
    ),
    "progress": Kind(
        lambda data: read_model(Measurement, data, StoreError, "progress"), _hash,
        _pick("family", "program_id", "round"), lambda item: "",
    ),
}  # fmt: skip
"""Every kind of record, by name."""

GROUPS = {
    "environments": ("environment", "program"),
    "failures": ("failure", "diagnosis", "validation"),
    "progress": ("progress",),
}
"""The three kinds of memory."""


def kind_of(name: str) -> Kind:
    """The kind called ``name``. Raises StoreError that lists those there are."""
    if name not in KINDS:
        raise StoreError(unknown("kind of record", name, KINDS))
    return KINDS[name]


def make_record(kind: str, data: Any, versions: Mapping[str, str], created: float) -> Record:
    """Validate data as a record of a kind.

    Raises:
        StoreError: unknown kind, or data that is not of that kind (the message names the first wrong field).
    """
    described = kind_of(kind)
    try:
        item = described.read(data)
    except StoreError:
        raise
    except CodaError as error:
        raise StoreError(f"not a {kind}: {error}") from error
    found = {name: value for name, value in described.index(item).items() if value not in (None, "")}
    text = described.say(item)
    return Record(
        described.identify(item), kind, item.model_dump(mode="json"), found, text, dict(versions), created
    )


def installed_versions(model: str = "") -> dict[str, str]:
    """Versions that go into every row: this software, the simulator, and ``model`` (critic or checkpoint)."""
    return {"software": _version("coda_nodes"), "simulator": f"mujoco {_version('mujoco')}", "model": model}


@lru_cache(maxsize=8)
def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "source tree"
