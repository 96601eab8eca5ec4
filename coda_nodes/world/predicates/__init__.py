"""Predicates over scenes: truth and smooth progress, vectorised over all environments and atoms."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from coda_nodes.world.predicates.base import PREDICATES, AtomContext, Predicate, Term, predicate
from coda_nodes.world.predicates.compiled import HOLD_STEPS, CompiledAtoms, CompiledGoals, atom_text

__all__ = [
    "HOLD_STEPS",
    "PREDICATES",
    "AtomContext",
    "CompiledAtoms",
    "CompiledGoals",
    "Predicate",
    "Term",
    "atom_text",
    "predicate",
]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
