"""Constructed histories for the tests of the memory."""

from __future__ import annotations

from typing import Any

from coda_nodes.memory.store import MemoryStore
from coda_nodes.world.diagnosis import Cause, CriticInfo, Diagnosis
from coda_nodes.world.programs import GenerationProgram, read_program
from coda_nodes.world.progress import Measurement
from coda_nodes.world.validation import ValidationRecord


def diagnosis(text: str = "The gripper closed beside the cube.", **changes: Any) -> Diagnosis:
    """A missed grasp because a cube of pick_place stands far out."""
    cause = {
        "axis": "position",
        "object": "red cube",
        "parameter": "object_x",
        "observed": 0.58,
        "nominal": 0.51,
    }
    fields = {
        "text": text,
        "stage": "grasp",
        "failure_mode": "missed_grasp",
        "cause": Cause(**{**cause, **changes.pop("cause", {})}),
        "confidence": 0.8,
        "critic": CriticInfo(name="state", version="1.0"),
        "family": "pick_place",
    }
    return Diagnosis(**{**fields, **changes})


def program(family: str = "pick_place", *operators: dict[str, Any], **fields: Any) -> GenerationProgram:
    """A program that moves the object out, unless operators are given."""
    shift = {"kind": "shift_region", "x": [0.55, 0.6]}
    return read_program({"family": family, "operators": list(operators) or [shift], **fields})


def remember(
    store: MemoryStore,
    found: Diagnosis,
    made: GenerationProgram,
    verdict: str = "validated",
    successes: tuple[int, ...] = (1, 9),
) -> GenerationProgram:
    """Store a diagnosis, its program, the verdict, and one measurement (of ten episodes) per round."""
    made = made.model_copy(update={"diagnosis_id": found.diagnosis_id, "state": "validated"})
    validation = ValidationRecord(
        diagnosis_id=found.diagnosis_id, program_id=made.program_id, verdict=verdict, words=f"it is {verdict}"
    )
    rows = [
        Measurement(program_id=made.program_id, family=made.family, round=i, successes=s, episodes=10)
        for i, s in enumerate(successes, start=1)
    ]
    store.put("diagnosis", [found.model_dump(mode="json")])
    store.put("program", [made.model_dump(mode="json")])
    store.put("validation", [validation.model_dump(mode="json")])
    store.put("progress", [row.model_dump(mode="json") for row in rows])
    return made
