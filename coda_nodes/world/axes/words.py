"""The words of an instruction: which template it is made of, and the same request by another one."""

from __future__ import annotations

from types import ModuleType

from coda_nodes.world.axes.base import (
    Value,
    movables,
    number,
    task_things,
)
from coda_nodes.world.axes.things import WORDS
from coda_nodes.world.errors import ConfigError, SpecError
from coda_nodes.world.families import articulated, push_insert
from coda_nodes.world.instructions import clause, find_phrasing, sentence
from coda_nodes.world.spec import EnvironmentSpec, atoms

SINGLE = "single"
"""Value of ``steps`` where one task is asked for alone."""
NUMBERED: dict[str, ModuleType] = {"articulated": articulated, "push_insert": push_insert}
"""Families whose templates belong to parts of the task and are numbered."""


def phrasing_of(spec: EnvironmentSpec) -> Value | None:
    """The template behind the instruction: its name or number; None for free words."""
    if spec.family in NUMBERED:
        count = len(next(iter(NUMBERED[spec.family].TEMPLATES.values())))
        numbers = [n for n in range(count) if _worded(spec, float(n)) == spec.instruction]
        return float(numbers[0]) if numbers else None
    return find_phrasing(spec.family, spec.instruction, _names(spec))


def rephrase(spec: EnvironmentSpec, value: Value) -> EnvironmentSpec:
    """The same request by another template. Raises SpecError for a template the family has not."""
    return spec.revise(instruction=_worded(spec, value))


def _names(spec: EnvironmentSpec) -> list[dict[str, str]]:
    return [{"object": atom.args[0], "target": atom.args[-1]} for atom in atoms(spec.goal)]


def _worded(spec: EnvironmentSpec, value: Value) -> str:
    if spec.family not in NUMBERED:
        try:
            return sentence([clause(spec.family, str(value), **names) for names in _names(spec)])
        except ConfigError as error:
            raise SpecError(str(error)) from error
    module = NUMBERED[spec.family]
    parts, index = module.task_parts(spec.goal), int(number(value, "phrase"))
    if not all(0 <= index < len(module.TEMPLATES[part]) for part in parts):
        raise SpecError(f"phrase {value!r}: expected 0 to {len(module.TEMPLATES[parts[0]]) - 1}")
    return str(module.instruction(parts, index, *subjects(spec)))


def subjects(spec: EnvironmentSpec) -> tuple[str, ...]:
    """The thing that numbered templates name, and the peg where the family has one."""
    asked = [name for name in (*task_things(spec), *_ordered_objects(spec)) if name in movables(spec)]
    things = [name for name in asked if name in WORDS["object"](spec)]
    if spec.family != "push_insert":
        return tuple(things[:1])
    return (*things[:1], *[name for name in asked if name in WORDS["peg"](spec)][:1])


def _ordered_objects(spec: EnvironmentSpec) -> list[str]:
    """Objects, those with the role ``object`` first."""
    return [entity.name for entity in sorted(spec.objects, key=lambda entity: entity.role != "object")]
