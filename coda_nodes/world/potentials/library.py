"""The library of measures: what a stage misses, 0 where it is done, in the unit of the measure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from coda_nodes.world.errors import unknown
from coda_nodes.world.predicates.articulated import joint_share
from coda_nodes.world.predicates.base import PREDICATES, Array, AtomContext, Mask, Predicate
from coda_nodes.world.predicates.common import highest, horizontal, lowest, tilt

PLACEMENTS = ("inside", "on", "stacked_on", "in_drawer", "inserted")
"""Goals that bring one thing to another: their first term is the horizontal way, their second the height [m]."""


@dataclass(frozen=True)
class MeasureContext:
    """Stages of one measure whose parts have goals of one predicate: their own arguments, and those of the goals."""

    own: AtomContext
    goal: AtomContext
    predicate: Predicate

    def goal_missing(self, term: int) -> Array:
        """What a term of the goal misses beyond its tolerance. Shape (m,)."""
        return np.maximum(self.predicate.terms(self.goal)[term].residual, 0.0)

    def apart(self) -> Array:
        """Horizontal way of the goal's first thing to where it may be lowered [m]; infinite where the goal has none."""
        if self.predicate.name not in PLACEMENTS:
            return np.full(len(self.goal.scene), np.inf)
        if self.predicate.name == "in_drawer":
            return np.maximum(PREDICATES["over_drawer"].terms(drawer_context(self.goal))[0].residual, 0.0)
        return self.goal_missing(0)

    def engaged(self) -> Mask:
        """Whether the first argument is held, or let go over its destination and not on the table. Shape (m,)."""
        state = self.own.state
        landing = (self.apart() <= 0) & ~self.own.entity(state.on_table)
        return self.own.entity(state.grasped) | (landing & (self.own.slots[:, 0] == self.goal.slots[:, 0]))


def drawer_context(context: AtomContext) -> AtomContext:
    """The same atoms with the parameters of ``over_drawer``."""
    return AtomContext(context.geometry, context.scene, context.slots, {"height": np.zeros(len(context.scene))}, context.cylinder)


@dataclass(frozen=True)
class Measure:
    """A named measure: number of arguments, unit, defaults and units of its parameters, formula in words."""

    name: str
    arity: int
    unit: str
    parameters: dict[str, float]
    units: dict[str, str]
    missing: Callable[[MeasureContext], Array]
    doc: str


MEASURES: dict[str, Measure] = {}


def measure(name: str, arity: int, unit: str, **parameters: tuple[float, str]) -> Callable[[Callable], Callable]:
    """Register a function of a MeasureContext as measure ``name``; ``parameters``: default and unit."""

    def register(function: Callable[[MeasureContext], Array]) -> Callable[[MeasureContext], Array]:
        defaults, units = ({key: pair[i] for key, pair in parameters.items()} for i in (0, 1))
        MEASURES[name] = Measure(name, arity, unit, defaults, units, function, " ".join((function.__doc__ or "").split()))
        return function

    return register


def check_measure(name: str, arguments: int, parameters: Mapping[str, float]) -> None:
    """Raises ValueError that lists what exists: unknown measure or parameter, wrong number of arguments."""
    if name not in MEASURES:
        raise ValueError(unknown("measure", name, sorted(MEASURES)))
    known = MEASURES[name]
    if arguments != known.arity:
        raise ValueError(f"{name} takes {known.arity} arguments, got {arguments}")
    for key in parameters:
        if key not in known.parameters:
            raise ValueError(unknown(f"parameter of {name}", key, known.parameters))


@measure("over_object", 1, "m", distance=(0.03, "m"), height=(0.02, "m"))
def over_object(context: MeasureContext) -> Array:
    """Horizontal distance of the tool from the centre beyond ``distance``, and how far the tool is below ``height`` over the
    top while apart; 0 once held or let go over the destination."""
    own = context.own
    apart = np.maximum(horizontal(own.tool() - own.position()) - own.parameters["distance"], 0.0)
    low = np.minimum(np.maximum(highest(own) + own.parameters["height"] - own.tool()[:, 2], 0.0), apart)
    return np.where(context.engaged(), 0.0, np.hypot(apart, low))


@measure("reach", 1, "m", distance=(0.01, "m"))
def reach(context: MeasureContext) -> Array:
    """Distance of the tool from the box of half the size about the centre (at grasp height), beyond ``distance``; 0 once held
    or let go over the destination."""
    own = context.own
    gap = np.maximum(np.abs(own.in_frame(own.tool(), 0)) - 0.5 * own.half_extents(), 0.0)
    missing = np.maximum(np.linalg.norm(gap, axis=1) - own.parameters["distance"], 0.0)
    return np.where(context.engaged(), 0.0, missing)


@measure("reach_handle", 1, "m", distance=(0.02, "m"))
def reach_handle(context: MeasureContext) -> Array:
    """Distance of the tool from the centre of a drawer's handle or a knob's grip, beyond ``distance``; 0 while held."""
    own = context.own
    missing = np.linalg.norm(own.tool() - own.position(), axis=1) - own.parameters["distance"]
    return np.where(own.entity(own.state.grasped), 0.0, np.maximum(missing, 0.0))


@measure("reach_behind", 2, "m", distance=(0.05, "m"))
def reach_behind(context: MeasureContext) -> Array:
    """Distance of the tool from the low region beyond the first as seen from the second, within ``distance`` of its outline;
    0 where the first has arrived."""
    own = context.own
    along, across, low = (np.maximum(term.residual, 0.0) for term in PREDICATES["behind"].terms(own))
    arrived = PREDICATES["at"].terms(at_context(own))[0].residual <= 0
    return np.where(arrived, 0.0, np.sqrt(along**2 + across**2 + low**2))


def at_context(context: AtomContext) -> AtomContext:
    """The same atoms with the parameters of ``at``."""
    return AtomContext(context.geometry, context.scene, context.slots, {"slack": np.zeros(len(context.scene))}, context.cylinder)


@measure("hand_open", 1, "share", opening=(0.8, "share"))
def hand_open(context: MeasureContext) -> Array:
    """How much the gripper is less open than ``opening``; 0 once held or let go over the destination."""
    own = context.own
    missing = np.maximum(own.parameters["opening"] - own.state.gripper_opening[own.scene], 0.0)
    return np.where(context.engaged(), 0.0, missing)


@measure("grasp", 1, "flag")
def grasp(context: MeasureContext) -> Array:
    """0 where both finger pads touch it, or where it was let go over its destination and is not on the table; else 1."""
    return np.where(context.engaged(), 0.0, 1.0)


@measure("lift", 2, "m", clearance=(0.0, "m"))
def lift(context: MeasureContext) -> Array:
    """How far the lowest point of the first is below ``clearance`` over the top of the second, or, where that is less, its
    horizontal way: what is over its destination may be lowered."""
    own = context.own
    rise = highest(own, 1) + own.parameters["clearance"] - lowest(own)
    return np.minimum(np.maximum(rise, 0.0), context.apart())


@measure("transport", 2, "m")
def transport(context: MeasureContext) -> Array:
    """Horizontal way of the first to where the goal's tolerance about the second begins."""
    return context.apart()


@measure("lower", 2, "m")
def lower(context: MeasureContext) -> Array:
    """How much too high (or low) the first is for the goal with the second."""
    return context.goal_missing(1)


@measure("offset", 2, "m", x=(0.0, "m"), y=(0.0, "m"), distance=(0.01, "m"))
def offset(context: MeasureContext) -> Array:
    """Horizontal distance of the first from the way between the point (x, y) off the second along the axes of the base and the
    second itself, beyond ``distance``; 0 where the goal's horizontal way is done."""
    own = context.own
    way = np.stack([own.parameters["x"], own.parameters["y"]], -1)
    apart = (own.position(0) - own.position(1))[:, :2]
    share = np.clip((apart * way).sum(1) / np.maximum((way * way).sum(1), 1e-12), 0.0, 1.0)
    missing = np.linalg.norm(apart - share[:, None] * way, axis=1) - own.parameters["distance"]
    return np.where(context.apart() <= 0, 0.0, np.maximum(missing, 0.0))


@measure("joint", 1, "share", fraction=(0.85, "share"), rising=(1.0, "sign"))
def joint(context: MeasureContext) -> Array:
    """Share of its range that a drawer or knob is short of ``fraction``, or beyond it where ``rising`` is -1."""
    own = context.own
    return np.maximum((own.parameters["fraction"] - joint_share(own)) * np.sign(own.parameters["rising"]), 0.0)


@measure("push", 2, "m")
def push(context: MeasureContext) -> Array:
    """How far the outline of the first is from lying on the marked disc of the second."""
    return np.maximum(PREDICATES["at"].terms(at_context(context.own))[0].residual, 0.0)


@measure("level", 1, "rad", tilt=(0.15, "rad"))
def level(context: MeasureContext) -> Array:
    """Angle between the vertical and the axis nearest to it, beyond ``tilt``."""
    return np.maximum(tilt(context.own) - context.own.parameters["tilt"], 0.0)


@measure("settle", 1, "share")
def settle(context: MeasureContext) -> Array:
    """1 less the progress of the goal's own predicate: 0 exactly where it is true (placed, let go, at rest)."""
    return 1.0 - context.predicate.progress(context.goal)
