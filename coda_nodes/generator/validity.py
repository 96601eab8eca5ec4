"""Whether a specification is a usable scene: geometry and words first, then settling and solvability."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from coda_nodes.generator.at_rest import goal_holds
from coda_nodes.world.config import check_settings, setting
from coda_nodes.world.errors import ValidityError
from coda_nodes.world.solids import Solid, entity_position, overlap_depth, solids
from coda_nodes.world.spec import EnvironmentSpec, FixtureSpec, ObjectSpec, atoms

Array = NDArray[np.float64]
Bodies = dict[str, tuple[Solid, ...]]


@dataclass(frozen=True)
class ValidityLimits:
    """What a usable scene may look like."""

    penetration: float = setting(0.001, "depth two bodies may share", "m", 0.0, 0.01)
    support_gap: float = setting(0.006, "height a movable may hang over its support", "m", 0.0, 0.05)
    reach_low: float = setting(0.26, "nearest distance from the base a hand works at", "m", 0.0, 0.5)
    reach_high: float = setting(0.78, "farthest horizontal distance", "m", 0.3, 1.5)
    table_low: float = setting(0.15, "nearest x of an entity on the table", "m", 0.0, 0.5)
    table_high: float = setting(0.95, "farthest x", "m", 0.5, 2.0)
    table_side: float = setting(0.6, "largest |y|", "m", 0.2, 2.0)
    density_low: float = setting(20.0, "lightest material", "kg/m^3", 1.0, 1000.0)
    density_high: float = setting(20000.0, "heaviest material", "kg/m^3", 1000.0, 30000.0)
    size_low: float = setting(0.002, "smallest half extent", "m", 0.0005, 0.02)
    settle_displacement: float = setting(0.01, "how far a movable may drift while settling", "m", 0.0, 0.1)
    settle_speed: float = setting(0.02, "speed at which it counts as settled", "m/s", 0.0, 0.5)

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class Rejection:
    """Why a scene is not usable: the check that failed, the entity, one sentence."""

    check: str
    entity: str
    message: str


@dataclass(frozen=True)
class SettleReport:
    """What a simulator saw when it let a scene come to rest without moving the arm.

    ``displacement`` [m] and ``speed`` [m/s] per movable name; ``goal_true``: the goal already holds at rest;
    ``problem``: divergence, or empty.
    """

    displacement: dict[str, float]
    speed: dict[str, float]
    goal_true: bool = False
    problem: str = ""


Settle = Callable[[Sequence[EnvironmentSpec]], Sequence[SettleReport]]
"""Lets scenes come to rest; one report per scene."""
Solve = Callable[[Sequence[EnvironmentSpec]], Sequence[bool]]
"""Whether each scene was solved by the scripted expert."""
GoalTrue = Callable[[EnvironmentSpec], bool]
"""Whether the goal holds in the scene as specified."""
Judge = Callable[[Sequence[EnvironmentSpec]], list[tuple[Rejection, ...]]]


def check_validity(
    specs: Sequence[EnvironmentSpec],
    goal_true: GoalTrue | None = goal_holds,
    settle: Settle | None = None,
    solve: Solve | None = None,
    limits: ValidityLimits = ValidityLimits(),
) -> list[tuple[Rejection, ...]]:
    """Return the rejections of each scene (none: usable); dear checks see only what passed the cheap ones."""
    found = [static_rejections(spec, goal_true, limits) for spec in specs]
    for judge in (_settled(settle, limits), _solved(solve)):
        alive = [i for i, rejections in enumerate(found) if not rejections]
        for i, rejections in zip(alive, judge([specs[i] for i in alive]) if alive else [], strict=True):
            found[i] = rejections
    return found


def require_valid(spec: EnvironmentSpec, goal_true: GoalTrue | None = goal_holds) -> None:
    """Raise ValidityError that joins every static rejection of a scene."""
    rejections = static_rejections(spec, goal_true)
    if rejections:
        raise ValidityError("; ".join(f"{r.check}: {r.message}" for r in rejections))


def static_rejections(
    spec: EnvironmentSpec, goal_true: GoalTrue | None = goal_holds, limits: ValidityLimits = ValidityLimits()
) -> tuple[Rejection, ...]:
    """Return what geometry, masses and words alone tell against a scene.

    ``goal_true`` decides whether it is solved before it starts (None: not looked at).
    """
    bodies = {entity.name: solids(entity) for entity in spec.entities}
    found = [
        *_inertia(spec, limits), *_joints(spec), *_reach(spec, limits), *_penetration(spec, bodies, limits),
        *_support(spec, bodies, limits), *_instruction(spec),
    ]
    if not found and goal_true is not None and goal_true(spec):
        found.append(Rejection("goal", "", "the goal already holds at the start"))
    return tuple(found)


def check_inertia(body: str, mass: float, moments: Array) -> Rejection | None:
    """Reject a mass or principal moments [kg m^2] that no rigid body has (A + B < C); names the body."""
    moments = np.sort(np.asarray(moments, dtype=float))
    if not np.isfinite(mass) or mass <= 0:
        return Rejection("inertia", body, f"{body} has mass {mass} kg, expected more than 0")
    if not np.all(np.isfinite(moments)) or moments[0] <= 0:
        message = f"{body} has moments of inertia {moments.tolist()}, expected positive numbers"
        return Rejection("inertia", body, message)
    if moments[0] + moments[1] < moments[2] * (1 - 1e-6):
        message = f"{body} has moments of inertia {moments.tolist()}: A + B < C is no rigid body"
        return Rejection("inertia", body, message)
    return None


def box_inertia(mass: float, half_extents: Sequence[float]) -> Array:
    """Principal moments [kg m^2] of a uniform box of half extents [m] (Goldstein, rigid body)."""
    square = np.asarray(half_extents, dtype=float) ** 2
    return mass / 3.0 * (square.sum() - square)


def _inertia(spec: EnvironmentSpec, limits: ValidityLimits) -> Iterator[Rejection]:
    for entity in spec.entities:
        if getattr(entity, "role", "") != "marker" and min(entity.half_extents) < limits.size_low:
            thin = 2 * min(entity.half_extents)
            message = f"{entity.name} is {thin:.4f} m thin, expected {2 * limits.size_low} m or more"
            yield Rejection("inertia", entity.name, message)
    for body in _movables(spec):
        rejection = check_inertia(body.name, body.mass, box_inertia(body.mass, body.half_extents))
        density = body.mass / (8 * float(np.prod(body.half_extents)))
        if rejection is None and not limits.density_low <= density <= limits.density_high:
            span = f"{limits.density_low:.0f} to {limits.density_high:.0f}"
            message = f"{body.name} has density {density:.0f} kg/m^3, expected {span}"
            rejection = Rejection("inertia", body.name, message)
        if rejection is not None:
            yield rejection


def _joints(spec: EnvironmentSpec) -> Iterator[Rejection]:
    for fixture in spec.fixtures:
        low, high = fixture.joint_range
        if low >= high or not low - 1e-9 <= fixture.joint_value <= high + 1e-9:
            message = f"{fixture.name} is at {fixture.joint_value:.3f}, outside {low:.3f} to {high:.3f}"
            yield Rejection("joint", fixture.name, message)


def _reach(spec: EnvironmentSpec, limits: ValidityLimits) -> Iterator[Rejection]:
    wanted = {arg for atom in atoms(spec.goal) for arg in atom.args}
    for entity in spec.entities:
        x, y, _ = entity.pose.position
        if not (limits.table_low <= x <= limits.table_high and abs(y) <= limits.table_side):
            yield Rejection("reach", entity.name, f"{entity.name} at ({x:.2f}, {y:.2f}) m is off the table")
        elif entity.name in wanted:
            distances = map(_distance, _handled_places(entity))
            far = [d for d in distances if not limits.reach_low <= d <= limits.reach_high]
            if far:
                span = f"{limits.reach_low} to {limits.reach_high} m"
                message = f"{entity.name} is handled {far[0]:.2f} m from the base, expected {span}"
                yield Rejection("reach", entity.name, message)


def _distance(place: Array) -> float:
    """Horizontal distance from the base [m]."""
    return float(np.hypot(place[0], place[1]))


def _handled_places(entity: ObjectSpec | FixtureSpec) -> Iterator[Array]:
    """Where a hand must get to: an object's centre; a fixture's handle at both ends of its joint."""
    if isinstance(entity, ObjectSpec):
        yield entity_position(entity)[0]
    else:
        for value in entity.joint_range:
            yield entity_position(entity.model_copy(update={"joint_value": value}))[0]


def _penetration(spec: EnvironmentSpec, bodies: Bodies, limits: ValidityLimits) -> Iterator[Rejection]:
    for body in _movables(spec):
        lowest = min(solid.low for solid in bodies[body.name])
        if lowest < -limits.penetration:
            message = f"{body.name} is {-lowest * 1000:.1f} mm inside the table"
            yield Rejection("penetration", body.name, message)
    for first, second in combinations(spec.entity_names, 2):
        depth = 2 * max((overlap_depth(a, b) for a in bodies[first] for b in bodies[second]), default=0.0)
        if depth > limits.penetration:
            yield Rejection("penetration", first, f"{first} and {second} share {depth * 1000:.1f} mm")


def _support(spec: EnvironmentSpec, bodies: Bodies, limits: ValidityLimits) -> Iterator[Rejection]:
    for body in _movables(spec):
        (solid,) = bodies[body.name]
        if solid.low <= limits.support_gap:
            continue
        others = (other for name, group in bodies.items() if name != body.name for other in group)
        if not any(abs(o.high - solid.low) <= limits.support_gap and o.shadows(solid.centre) for o in others):
            message = f"{body.name} hangs {solid.low * 1000:.0f} mm over the table, nothing under its centre"
            yield Rejection("support", body.name, message)


def _instruction(spec: EnvironmentSpec) -> Iterator[Rejection]:
    text = spec.instruction.lower()
    for name in dict.fromkeys(arg for atom in atoms(spec.goal) for arg in atom.args):
        if not mentions(text, name):
            message = f"the instruction {spec.instruction!r} does not name {name!r}"
            yield Rejection("instruction", name, message)
            continue
        words = set(name.split())
        for other in spec.entity_names:
            if other != name and words <= set(other.split()) and not mentions(text, other):
                message = f"{name!r} in the instruction could also mean {other!r}"
                yield Rejection("instruction", name, message)


def mentions(text: str, name: str) -> bool:
    """Whether ``text`` holds ``name`` as whole words."""
    return re.search(rf"(?<![a-z0-9]){re.escape(name.lower())}(?![a-z0-9])", text.lower()) is not None


def _movables(spec: EnvironmentSpec) -> list[ObjectSpec]:
    return [item for item in spec.objects if item.role in ("object", "distractor")]


def _settled(settle: Settle | None, limits: ValidityLimits) -> Judge:
    def judge(specs: Sequence[EnvironmentSpec]) -> list[tuple[Rejection, ...]]:
        if settle is None:
            return [()] * len(specs)
        return [_settle_rejections(report, limits) for report in settle(specs)]

    return judge


def _settle_rejections(report: SettleReport, limits: ValidityLimits) -> tuple[Rejection, ...]:
    if report.problem:
        return (Rejection("settle", "", report.problem),)
    found = []
    for name, drift in report.displacement.items():
        if drift > limits.settle_displacement or report.speed.get(name, 0.0) > limits.settle_speed:
            speed = report.speed.get(name, 0.0)
            message = f"{name} moved {drift * 1000:.0f} mm and still has {speed:.3f} m/s"
            found.append(Rejection("settle", name, message))
    if not found and report.goal_true:
        found.append(Rejection("goal", "", "the goal holds once the scene has settled"))
    return tuple(found)


def _solved(solve: Solve | None) -> Judge:
    failed = (Rejection("solvability", "", "the scripted expert did not solve the scene"),)

    def judge(specs: Sequence[EnvironmentSpec]) -> list[tuple[Rejection, ...]]:
        return [()] * len(specs) if solve is None else [() if solved else failed for solved in solve(specs)]

    return judge
