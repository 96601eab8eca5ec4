"""Edits of a scene: a few of its values changed at random within the probe bounds."""

from __future__ import annotations

import numpy as np

from coda_nodes.generator.validity import static_rejections
from coda_nodes.generator.values import nearest
from coda_nodes.world.axes import set_value, values
from coda_nodes.world.errors import SpecError, ValidityError
from coda_nodes.world.ranges import Allowed, Range
from coda_nodes.world.spec import EnvironmentSpec
from coda_nodes.world.splits import load_splits

STEP = 0.2
"""Standard deviation of the change of a number, in widths of its probe range."""
ATTEMPTS = 8
"""Edits tried per edit wanted, and scenes tried per scene wanted."""
Value = object


def mutate(spec: EnvironmentSpec, edits: int, rng: np.random.Generator) -> EnvironmentSpec | None:
    """A valid scene that differs from ``spec`` by up to ``edits`` values; None where no attempt gave one."""
    for _ in range(ATTEMPTS):
        edited = _edited(spec, edits, rng)
        if edited.content_hash != spec.content_hash and not static_rejections(edited):
            return edited
    return None


def _edited(spec: EnvironmentSpec, edits: int, rng: np.random.Generator) -> EnvironmentSpec:
    probe, done = load_splits().ranges(spec.family, "probe"), 0
    for _ in range(ATTEMPTS * edits):
        if done == edits:
            break
        present = values(spec)
        keys = sorted(present)
        axis, thing, name = keys[int(rng.integers(len(keys)))]
        now = present[axis, thing, name]
        try:
            spec = set_value(spec, axis, thing, name, _changed(now, probe.allowed(axis, name), rng))
        except (SpecError, ValidityError):
            continue  # this scene cannot have that value
        done += 1
    return spec


def _changed(now: Value, allowed: Allowed, rng: np.random.Generator) -> Value:
    """A number moved a little, each of several by itself; another of the words."""
    if not isinstance(allowed, Range):
        others = [word for word in allowed.values if word != now]
        return others[int(rng.integers(len(others)))] if others else now
    width = STEP * (allowed.high - allowed.low)
    if isinstance(now, tuple):  # sizes of either sign
        return tuple(float(np.copysign(nearest(allowed, abs(part + width * rng.normal())), part)) for part in now)
    return nearest(allowed, float(now) + width * float(rng.normal()))
