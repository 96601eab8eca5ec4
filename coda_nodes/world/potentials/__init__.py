"""Potentials: bounded functions of the present state that rise along the way to a goal (``docs/potentials.md``)."""

from __future__ import annotations

from coda_nodes.world.potentials.compiled import CompiledPotential
from coda_nodes.world.potentials.library import MEASURES, Measure
from coda_nodes.world.potentials.merge import merge
from coda_nodes.world.potentials.spec import (
    PotentialPart,
    PotentialSpec,
    PotentialStage,
    TaskPotential,
    read_potential,
    read_task_potential,
)
from coda_nodes.world.potentials.tasks import TASKS, potential_of, task_potential
from coda_nodes.world.potentials.tracing import PotentialTrace, trace_potential

__all__ = [
    "MEASURES",
    "TASKS",
    "CompiledPotential",
    "Measure",
    "PotentialPart",
    "PotentialSpec",
    "PotentialStage",
    "PotentialTrace",
    "TaskPotential",
    "merge",
    "potential_of",
    "read_potential",
    "read_task_potential",
    "task_potential",
    "trace_potential",
]
