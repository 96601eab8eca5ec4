"""The one tree of errors; each message states the value, what was expected and what exists."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterable

PASSING = frozenset({
    errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO, errno.ESTALE
})
"""Refusals of a file system that end by themselves or by somebody's help."""
PASSING_SQLITE = ("is locked", "is full", "disk I/O error", "readonly database", "unable to open")
"""Words of SQLite for the same."""


class CodaError(Exception):
    """Base of every error CoDA raises on purpose; caught once, at the edge (command line, node)."""

    passing: bool | None = None
    """Whether the same call can succeed later, where the error itself knows; see ``may_pass``."""


class ConfigError(CodaError):
    """A setting is missing, of the wrong type or outside its range."""


class SpecError(CodaError):
    """An environment specification, or a file of them, is not valid data."""


class ValidityError(CodaError):
    """A well-formed environment is not physically usable (penetration, out of reach, ambiguous)."""


class ProgramError(CodaError):
    """A generation or training program names an unknown operator or a parameter out of range."""


class DiagnosisError(CodaError):
    """A diagnosis is not in the grammar or names what the scene does not hold."""


class SimulationError(CodaError):
    """The simulator cannot be built or was asked for something impossible."""


class CheckpointError(CodaError):
    """A checkpoint is missing, damaged, or was made under other conventions."""


class ArtifactError(CodaError):
    """A stored artifact is missing, half-written or does not match its hash."""


class StoreError(CodaError):
    """The memory cannot be opened, read or written."""


class ClockError(CodaError):
    """The machine's clock shows an earlier time than was seen before."""

    passing = True


class NodeError(CodaError):
    """A ROS node or service did not start, answer or end as expected."""


class NodeLostError(NodeError):
    """A node died or hung while it owed an answer; the same call can be made again once it is back."""


class MessageError(CodaError):
    """A received message holds NaN, names that do not exist, or arrays of another shape than agreed."""


class BudgetError(CodaError):
    """An operation would spend more environments or control steps than its budget holds."""


class NotAvailableError(CodaError):
    """A named feature needs a package or part that is not present here."""


def unknown(kind: str, value: object, existing: Iterable[object]) -> str:
    """Return the message for a name that does not exist: ``no object 'red_cub' in scene: red_cube, bin``."""
    names = ", ".join(str(name) for name in existing)
    return f"no {kind} {str(value)!r}: {names or '(none exist)'}"


def may_pass(error: BaseException | None) -> bool:
    """Tell whether an error comes from outside (disk full, permission lost, memory locked, clock behind) and may pass.

    The answer is that of the first error that knows it, from ``error`` along what it was raised from.
    """
    while error is not None:
        if isinstance(error, CodaError) and error.passing is not None:
            return error.passing
        if isinstance(error, OSError):
            return error.errno in PASSING
        if isinstance(error, sqlite3.OperationalError):
            return any(words in str(error) for words in PASSING_SQLITE)
        error = error.__cause__
    return False
