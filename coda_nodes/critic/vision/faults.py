"""An expert with one fault each: what it sees, what it is asked and what it sends can be spoilt, all at random strength."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from coda_nodes.world.axes import retarget
from coda_nodes.world.errors import SpecError
from coda_nodes.world.experts import ExpertActor
from coda_nodes.world.spec import AllOf, EnvironmentSpec, FixtureSpec, atoms
from coda_nodes.world.splits import load_splits
from coda_nodes.world.state import SceneState

Array = NDArray[np.float64]
ANY: tuple[str, ...] = ()


@dataclass
class Plot:
    """One scene, its fault with its strength, and what the fault remembers."""

    fault: Fault
    spec: EnvironmentSpec
    rng: np.random.Generator

    def __post_init__(self) -> None:
        goal, names = next(atoms(self.spec.goal)), self.spec.entity_names
        self.target, self.place = names.index(goal.args[0]), names.index(goal.args[-1])
        self.share = float(self.rng.uniform(0.1, 0.8))
        angle, size = self.rng.uniform(-np.pi, np.pi), self.rng.uniform(0.025, 0.09)
        self.offset = size * np.array([np.cos(angle), np.sin(angle), 0.0])
        self.memory = 0
        self.start: Array | None = None


@dataclass(frozen=True)
class Scene:
    """What a fault looks at: row ``i`` of a state."""

    state: SceneState
    i: int

    def at(self, slot: int) -> Array:
        """Position of an entity [m]."""
        return self.state.entity_position_base[self.i, slot]

    @property
    def tool(self) -> Array:
        """[m]"""
        return self.state.tool_position_base[self.i]

    def held(self, slot: int) -> bool:
        """Whether both fingers touch it."""
        return bool(self.state.grasped[self.i, slot])


Change = Callable[[Plot, Scene, Array], Array]
Seen = Callable[[Plot, Scene], tuple[int, Array] | None]
Asked = Callable[[EnvironmentSpec, np.random.Generator], EnvironmentSpec | None]


def _unchanged(plot: Plot, scene: Scene, chunk: Array) -> Array:
    return chunk


@dataclass(frozen=True)
class Fault:
    """A fault: the families it can happen in, the failure modes it is meant to bring about (others make a hard case)."""

    name: str
    families: tuple[str, ...]
    meant: tuple[str, ...]
    change: Change = _unchanged
    seen: Seen = lambda plot, scene: None
    """Slot and position [m] of an entity that is seen elsewhere."""
    asked: Asked = lambda spec, rng: spec
    """The task as the expert understands it; None: this scene has no other."""
    weight: float = 1.0
    """How readily it is drawn."""


def _still(chunk: Array, opening: float) -> Array:
    result = chunk.copy()
    result[:, :6], result[:, 6] = 0.0, opening
    return result


def _freeze(when: Callable[[Plot, Scene], bool], opening: float) -> Change:
    """From the first time ``when`` holds: stand still with the hand at ``opening``."""

    def change(plot: Plot, scene: Scene, chunk: Array) -> Array:
        plot.memory = max(plot.memory, int(when(plot, scene)))
        return _still(chunk, opening) if plot.memory else chunk

    return change


def _way(plot: Plot, scene: Scene) -> float:
    """How far the target has come to its place, as a share of the way on the table."""
    assert plot.start is not None
    begin, goal = plot.start[plot.target, :2], scene.at(plot.place)[:2]
    return 1.0 - float(np.linalg.norm(scene.at(plot.target)[:2] - goal) / max(np.linalg.norm(begin - goal), 1e-6))


def _joint(plot: Plot, scene: Scene) -> float:
    """How far the joint of the target has moved, as a share of its range."""
    assert plot.start is not None
    low, high = scene.state.entity_joint_range[scene.i, plot.target]
    begin = plot.spec.entity(plot.spec.entity_names[plot.target])
    before = begin.joint_value if isinstance(begin, FixtureSpec) else 0.0
    return abs(float(scene.state.entity_joint_value[scene.i, plot.target]) - before) / max(float(high - low), 1e-6)


def _carried(plot: Plot, scene: Scene) -> bool:
    """Held, up, and past a share of the way."""
    return scene.held(plot.target) and scene.at(plot.target)[2] > 0.05 and _way(plot, scene) > 0.7 * plot.share


def _let_go(plot: Plot, scene: Scene, chunk: Array) -> Array:
    """Open on the way while moving on for that chunk, then stand still."""
    if plot.memory:
        return _still(chunk, 1.0)
    if not _carried(plot, scene):
        return chunk
    plot.memory, result = 1, chunk.copy()
    result[:, 6] = 1.0
    return result


def _close_early(plot: Plot, scene: Scene, chunk: Array) -> Array:
    """Close above the target and keep the hand closed."""
    plot.memory = max(plot.memory, int(scene.tool[2] < 0.12 + 0.15 * plot.share))
    result = chunk.copy()
    result[:, 6] = 0.0 if plot.memory else 1.0
    return result


def _never(opening: float) -> Change:
    """The hand is never told anything but ``opening``, once it has held something where that is closed."""

    def change(plot: Plot, scene: Scene, chunk: Array) -> Array:
        plot.memory = max(plot.memory, int(scene.held(plot.target)))
        result = chunk.copy()
        if opening > 0.5 or plot.memory:
            result[:, 6] = opening
        return result

    return change


def _weak(plot: Plot, scene: Scene, chunk: Array) -> Array:
    """Close hardly further than the target is wide."""
    width = 2 * scene.state.entity_half_extents[scene.i, plot.target, 0] / 0.08
    result = chunk.copy()
    closing = result[:, 6] < 0.5
    result[closing, 6] = np.clip(width - 0.01 - 0.03 * plot.share, 0.0, 0.495)
    return result


def _sweep(slot_of: Callable[[Plot], int]) -> Change:
    """Bring the closed hand down beside a thing, push through it along y, then stand still."""

    def change(plot: Plot, scene: Scene, chunk: Array) -> Array:
        assert plot.start is not None
        thing = plot.start[slot_of(plot)]
        sign = -1.0 if thing[1] > 0 else 1.0
        beside, past = thing + np.array([0, 0.09 * sign, 0.01]), thing + np.array([0, -0.06 * sign, 0.01])
        goal = (beside + np.array([0, 0, 0.15]), beside, past, past)[plot.memory]
        way = goal - scene.tool
        length = max(float(np.linalg.norm(way)), 1e-9)
        plot.memory = min(plot.memory + int(length < 0.02), 3)
        result = np.zeros_like(chunk)
        if plot.memory < 3:
            result[:, :3] = (way * min(0.08, length) / length) * (np.arange(1, 9) / 8)[:, None]
        return result

    return change


def _other(plot: Plot) -> int:
    """A movable thing that is not the target; the target where there is none."""
    names = [item.name for item in plot.spec.objects if item.role in ("object", "distractor")]
    slots = [plot.spec.entity_names.index(name) for name in names]
    return next((slot for slot in slots if slot != plot.target), plot.target)


def _shake(plot: Plot, scene: Scene, chunk: Array) -> Array:
    """Large steady disturbances."""
    result = chunk.copy()
    result[:, :3] += plot.rng.normal(size=3) * (0.01 + 0.03 * plot.share) * (np.arange(1, 9) / 8)[:, None]
    return result


def _target_aside(plot: Plot, scene: Scene) -> tuple[int, Array]:
    return plot.target, scene.at(plot.target) + plot.offset


def _place_aside(plot: Plot, scene: Scene) -> tuple[int, Array]:
    return plot.place, scene.at(plot.place) + 1.4 * plot.offset


def _target_as_in_train(plot: Plot, scene: Scene) -> tuple[int, Array] | None:
    """The target seen at the nearest place it can have in train, until it is moved."""
    train, position = load_splits().ranges(plot.spec.family, "train"), scene.at(plot.target).copy()
    for axis, name in enumerate(("object_x", "object_y")):
        if name not in train["position"]:
            return None
        place = train.allowed("position", name)
        position[axis] = np.clip(position[axis], place.low, place.high)
    return plot.target, position


def _other_object(spec: EnvironmentSpec, rng: np.random.Generator) -> EnvironmentSpec | None:
    atom = next(atoms(spec.goal))
    others = [e.name for e in spec.objects if e.role == "distractor" and not e.name.endswith("peg") and e.name not in atom.args]
    if not others:
        return None
    other = str(rng.choice(others))
    if spec.family in ("pick_place", "stack"):
        return retarget(spec, atom.args[0], other, atom.args[1])
    return spec.revise(goal=atom.model_copy(update={"args": (other, *atom.args[1:])}))


def _other_place(spec: EnvironmentSpec, rng: np.random.Generator) -> EnvironmentSpec | None:
    atom = next(atoms(spec.goal))
    role = "receptacle" if spec.family == "pick_place" else "distractor"
    others = [item.name for item in spec.objects if item.role == role and item.name not in atom.args]
    return retarget(spec, atom.args[0], atom.args[0], str(rng.choice(others))) if others else None


def _reversed(spec: EnvironmentSpec, rng: np.random.Generator) -> EnvironmentSpec | None:
    if not isinstance(spec.goal, AllOf) or not spec.goal.ordered:
        return None
    return spec.revise(goal=AllOf(all_of=tuple(reversed(spec.goal.all_of)), ordered=True))


GRASPING, MOVING = ("pick_place", "stack", "articulated", "push_insert"), ("pick_place", "stack", "push_insert")
"""Families."""
FAULTS = (
    Fault("none", GRASPING, ANY),
    Fault("stands still", GRASPING, ("no_approach",), _freeze(lambda p, s: True, 1.0), weight=0.4),
    Fault(
        "stops on the way there", GRASPING, ("no_approach", "stopped_short"),
        _freeze(lambda p, s: s.tool[2] < 0.3 - 0.2 * p.share, 1.0), weight=0.6,
    ),
    Fault("closes early", GRASPING, ("missed_grasp",), _close_early),
    Fault("grasps beside", GRASPING, ("missed_grasp", "knocked_over", "collision"), seen=_target_aside),
    Fault("never closes", GRASPING, ("stopped_short", "no_approach"), _never(1.0)),
    Fault("never lets go", ("pick_place", "stack", "articulated"), ("stopped_short",), _never(0.0)),
    Fault("takes another", MOVING, ("wrong_object",), asked=_other_object),
    Fault("other place", ("pick_place", "stack"), ("wrong_place",), asked=_other_place, weight=1.4),
    Fault("other order", GRASPING, ("wrong_order",), asked=_reversed, weight=6.0),
    Fault("lets go on the way", GRASPING, ("dropped",), _let_go, weight=1.6),
    Fault("stops while carrying", GRASPING, ("stopped_short",), _freeze(_carried, 0.0)),
    Fault("grips weakly", GRASPING, ("slip", "missed_grasp"), _weak, weight=1.8),
    Fault("sweeps the target away", MOVING, ("knocked_over", "wrong_place"), _sweep(lambda p: p.target)),
    Fault("sweeps another away", MOVING, ("collision", "knocked_over"), _sweep(_other)),
    Fault("puts beside", GRASPING, ("misaligned", "wrong_place"), seen=_place_aside, weight=1.6),
    Fault(
        "stops while moving a joint", ("articulated",), ("not_opened",),
        _freeze(lambda p, s: _joint(p, s) > 0.7 * p.share, 0.0),
    ),
    Fault("stops while pushing", ("push_insert",), ("stopped_short",), _freeze(lambda p, s: _way(p, s) > 0.8 * p.share, 0.0)),
    Fault("sees train only", GRASPING, ANY, seen=_target_as_in_train, weight=1.6),
    Fault("shakes", GRASPING, ANY, _shake),
)
"""Every fault; the same name may mean to bring about several modes."""


def draw_plot(spec: EnvironmentSpec, rng: np.random.Generator) -> tuple[Plot, EnvironmentSpec]:
    """A fault that this scene can have, and the task as the faulty expert understands it."""
    known = [fault for fault in FAULTS if spec.family in fault.families]
    weights = np.array([fault.weight for fault in known])
    for index in rng.choice(len(known), len(known), replace=False, p=weights / weights.sum()):
        try:
            asked = known[index].asked(spec, rng)
        except (SpecError, StopIteration, KeyError):
            continue
        if asked is not None:
            return Plot(known[index], spec, rng), asked
    return Plot(FAULTS[0], spec, rng), spec


class FaultyExpert:
    """A rollout actor: the family's expert with one plot per scene."""

    def __init__(self, seeds: Sequence[int]) -> None:
        """``seeds``: one per scene of ``begin``; they decide fault and strength."""
        self.name, self._seeds = "faulty", list(seeds)

    def begin(self, specs: Sequence[EnvironmentSpec]) -> None:
        """Draw the plots of new scenes."""
        drawn = [draw_plot(spec, np.random.default_rng(seed)) for spec, seed in zip(specs, self._seeds, strict=True)]
        self.plots = [plot for plot, _ in drawn]
        self._expert = ExpertActor([asked for _, asked in drawn])

    def act(self, state: SceneState, active: NDArray[np.int_]) -> Array:
        """Chunks (n, 8, 7)."""
        position = state.entity_position_base.copy()
        for i, plot in enumerate(self.plots):
            if plot.start is None:
                plot.start = state.entity_position_base[i].copy()
            aside = plot.fault.seen(plot, Scene(state, i))
            if aside is not None:
                position[i, aside[0]] = aside[1]
        chunks = self._expert.act(replace(state, entity_position_base=position)).copy()
        for i in active:
            chunks[i] = self.plots[i].fault.change(self.plots[i], Scene(state, int(i)), chunks[i])
        return chunks
