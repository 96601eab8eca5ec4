"""The four task families; each module defines ``DEFINITION``."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from coda_nodes.world.errors import ConfigError, NotAvailableError, unknown
from coda_nodes.world.families.base import FamilyDefinition, Stage
from coda_nodes.world.spec import FAMILIES as FAMILY_NAMES

__all__ = ["FAMILIES", "FAMILY_NAMES", "FamilyDefinition", "Stage", "family"]

FAMILIES: dict[str, FamilyDefinition] = {
    name: import_module(f"{__name__}.{name}").DEFINITION
    for name in FAMILY_NAMES
    if find_spec(f"{__name__}.{name}")
}


def family(name: str) -> FamilyDefinition:
    """Return the definition of a family.

    Raises:
        ConfigError: no such family (the message lists those there are).
        NotAvailableError: a family of the contract that this installation does not hold.
    """
    if name not in FAMILY_NAMES:
        raise ConfigError(unknown("family", name, FAMILY_NAMES))
    if name not in FAMILIES:
        raise NotAvailableError(
            f"the family {name!r} is not part of this installation: {', '.join(FAMILIES)}"
        )
    return FAMILIES[name]
