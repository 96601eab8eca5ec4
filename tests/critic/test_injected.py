"""The state critic against failures made on the real simulator: the expert with one fault each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from coda_nodes.critic import StateCritic
from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.simulator.rollout import rollout
from coda_nodes.world.axes import deviations, retarget, set_value
from coda_nodes.world.episode import Episode
from coda_nodes.world.errors import SpecError
from coda_nodes.world.experts import ExpertActor
from coda_nodes.world.families import FAMILIES
from coda_nodes.world.spec import AllOf, EnvironmentSpec, atoms
from coda_nodes.world.splits import load_splits, sample_split
from coda_nodes.world.state import SceneState, concatenate

PER_FAULT = 3
SPLITS = load_splits()
PLACES = ("object_x", "object_y", "object_xy")
WEAK = 0.02
"""Width that a weak grip closes beyond what it holds, as a share of the full opening."""
ENOUGH = 130
"""Control steps by which every single fault has shown."""
Array = np.ndarray


class FaultyExpert:
    """The expert asked for ``asked`` and seeing ``seen``, whose chunks ``change`` spoils. ``memory`` (n,) is
    the fault's."""

    def __init__(self, fault: Fault, specs: Sequence[EnvironmentSpec]) -> None:
        self.fault, self.specs = fault, list(specs)
        self.asked = [fault.asked(spec) for spec in specs]
        self.memory = np.zeros(len(specs))
        goals = [next(atoms(spec.goal)) for spec in specs]
        self.target = np.array(
            [spec.entity_names.index(goal.args[0]) for spec, goal in zip(specs, goals, strict=True)]
        )
        self.place = np.array(
            [spec.entity_names.index(goal.args[-1]) for spec, goal in zip(specs, goals, strict=True)]
        )
        self.rows = np.arange(len(specs))
        self.start: Array | None = None

    def see(self, state: SceneState) -> SceneState:
        if self.start is None:
            self.start = state.entity_position_base.copy()
        return self.fault.seen(self, state)

    def held(self, state: SceneState) -> Array:
        return state.grasped[self.rows, self.target]

    def position(self, state: SceneState, slot: Array) -> Array:
        return state.entity_position_base[self.rows, slot]


Seen = Callable[[FaultyExpert, SceneState], SceneState]
Change = Callable[[FaultyExpert, SceneState, Array], Array]


@dataclass(frozen=True)
class Fault:
    """What is done wrong, in which family, and what a critic has to say of it."""

    name: str
    family: str
    modes: tuple[str, ...]
    stages: tuple[str, ...]
    change: Change = lambda actor, state, chunks: chunks
    seen: Seen = lambda actor, state: state
    asked: Callable[[EnvironmentSpec], EnvironmentSpec] = lambda spec: spec
    scene: Callable[[EnvironmentSpec], EnvironmentSpec | None] = lambda spec: spec
    axis: str | None = None
    execute: int = 8


def moved(state: SceneState, rows: Array, slots: Array, offset: Array) -> SceneState:
    """The state with one entity per scene seen elsewhere."""
    position = state.entity_position_base.copy()
    position[rows, slots] += offset
    return replace(state, entity_position_base=position)


def still(state: SceneState, chunks: Array, where: Array, opening: float | Array) -> Array:
    """Chunks that stand still in some scenes."""
    result = chunks.copy()
    result[where, :, :6] = 0.0
    result[where, :, 6] = opening if np.isscalar(opening) else np.asarray(opening)[where, None]
    return result


def see_target_away_from_others(actor: FaultyExpert, state: SceneState) -> SceneState:
    """The target seen 5 cm beside where it is, on the side away from its nearest neighbour."""
    position = state.entity_position_base.copy()
    target = actor.position(state, actor.target)
    apart = np.where(state.present, np.linalg.norm(position - target[:, None], axis=2), np.inf)
    apart[actor.rows, actor.target] = np.inf
    away = target - position[actor.rows, apart.argmin(1)]
    away[:, 2] = 0.0
    away /= np.maximum(np.linalg.norm(away, axis=1, keepdims=True), 1e-9)
    return moved(state, actor.rows, actor.target, 0.05 * away)


def see_place_beside(offset: tuple[float, float, float]) -> Seen:
    return lambda actor, state: moved(state, actor.rows, actor.place, np.array(offset))


def once_then_still(start: Callable[[FaultyExpert, SceneState], Array], opening: float) -> Change:
    """From the first time ``start`` holds: stand still with the hand at ``opening``."""

    def change(actor: FaultyExpert, state: SceneState, chunks: Array) -> Array:
        actor.memory = np.maximum(actor.memory, start(actor, state))
        return still(state, chunks, actor.memory > 0, opening)

    return change


def lifted_and_away(actor: FaultyExpert, state: SceneState) -> Array:
    """Up, and on the way: in the first half of it."""
    position, goal = actor.position(state, actor.target), actor.position(state, actor.place)
    begin = actor.start[actor.rows, actor.target]
    share = np.linalg.norm((position - begin)[:, :2], axis=1) / np.linalg.norm((goal - begin)[:, :2], axis=1)
    far = np.linalg.norm((position - goal)[:, :2], axis=1) > 0.075
    return actor.held(state) & (position[:, 2] > 0.05) & (share > 0.08) & far


def let_go_moving(actor: FaultyExpert, state: SceneState, chunks: Array) -> Array:
    """Open on the way, moving on for that chunk, then stand still."""
    result = still(state, chunks, actor.memory > 0, 1.0)
    now = lifted_and_away(actor, state) & (actor.memory == 0)
    result[now, :, 6] = 1.0
    actor.memory = np.maximum(actor.memory, now)
    return result


def close_above(actor: FaultyExpert, state: SceneState, chunks: Array) -> Array:
    """Close the hand on the way down, above the target, and keep it closed."""
    result = chunks.copy()
    result[:, :, 6] = 0.0
    high = state.tool_position_base[:, 2] > 0.22
    result[high & (actor.memory == 0), :, 6] = 1.0
    actor.memory = np.maximum(actor.memory, ~high)
    return result


def never_close(actor: FaultyExpert, state: SceneState, chunks: Array) -> Array:
    result = chunks.copy()
    result[:, :, 6] = 1.0
    return result


def let_go_over_the_edge(actor: FaultyExpert, state: SceneState) -> Array:
    """Brought down beside the middle of the thing it is to stand on."""
    position, goal = actor.position(state, actor.target), actor.position(state, actor.place)
    return (
        actor.held(state)
        & (np.linalg.norm((position - goal)[:, :2], axis=1) < 0.045)
        & (position[:, 2] < 0.095)
    )


def sweep(slot_of: Callable[[FaultyExpert], Array]) -> Change:
    """Bring the closed hand down beside a thing, then push through it along y, then stand still."""

    def change(actor: FaultyExpert, state: SceneState, chunks: Array) -> Array:
        slot = slot_of(actor)
        thing = actor.start[actor.rows, slot]
        sign = np.where(thing[:, 1] > 0, -1.0, 1.0)
        beside = thing + np.stack([0 * sign, 0.09 * sign, 0 * sign + 0.01], 1)
        above = beside + np.array([0, 0, 0.15])
        past = thing + np.stack([0 * sign, -0.05 * sign, 0 * sign + 0.01], 1)
        tool = state.tool_position_base
        goals = [above, beside, past, past]
        goal = np.choose(actor.memory.astype(int)[:, None], goals)
        reached = np.linalg.norm(goal - tool, axis=1) < 0.02
        actor.memory = np.minimum(actor.memory + reached, 3)
        way = goal - tool
        length = np.linalg.norm(way, axis=1, keepdims=True)
        step = way * np.minimum(0.08, length) / np.maximum(length, 1e-9)
        result = np.zeros_like(chunks)
        result[:, :, :3] = step[:, None] * (np.arange(1, 9) / 8)[None, :, None]
        return still(state, result, actor.memory == 3, 0.0)

    return change


def other_movable(actor: FaultyExpert) -> Array:
    names = [next(e.name for e in spec.objects if e.role == "distractor") for spec in actor.specs]
    return np.array([spec.entity_names.index(name) for spec, name in zip(actor.specs, names, strict=True)])


def spread_out(spec: EnvironmentSpec) -> EnvironmentSpec | None:
    """Scenes in which the first thing of the task and a distractor stand well apart from all other
    movables."""
    if with_distractor(spec) is None:
        return None
    places = {
        e.name: np.array(e.pose.position[:2]) for e in spec.objects if e.role in ("object", "distractor")
    }
    ours = [next(atoms(spec.goal)).args[0], next(e.name for e in spec.objects if e.role == "distractor")]
    gaps = [np.linalg.norm(places[a] - places[b]) for a in ours for b in places if a != b]
    return spec if min(gaps) > 0.13 else None


def with_distractor(spec: EnvironmentSpec) -> EnvironmentSpec | None:
    return spec if any(e.role == "distractor" and not e.name.endswith("peg") for e in spec.objects) else None


def ask_other_object(spec: EnvironmentSpec) -> EnvironmentSpec:
    atom = next(atoms(spec.goal))
    other = next(
        e.name
        for e in spec.objects
        if e.role == "distractor" and not e.name.endswith("peg") and e.name not in atom.args
    )
    if spec.family in ("pick_place", "stack"):
        return retarget(spec, atom.args[0], other, atom.args[1])
    return spec.revise(goal=atom.model_copy(update={"args": (other, *atom.args[1:])}))


def ask_other_place(spec: EnvironmentSpec) -> EnvironmentSpec:
    atom = next(atoms(spec.goal))
    role = "receptacle" if spec.family == "pick_place" else "distractor"
    other = next(e.name for e in spec.objects if e.role == role and e.name not in atom.args)
    return retarget(spec, atom.args[0], atom.args[0], other)


def ask_reversed(spec: EnvironmentSpec) -> EnvironmentSpec:
    assert isinstance(spec.goal, AllOf)
    return spec.revise(goal=AllOf(all_of=tuple(reversed(spec.goal.all_of)), ordered=True))


def ordered(spec: EnvironmentSpec) -> EnvironmentSpec | None:
    parts = list(atoms(spec.goal))
    return (
        spec
        if isinstance(spec.goal, AllOf)
        and spec.goal.ordered
        and [p.predicate for p in parts] != ["in_drawer", "closed"]
        else None
    )


def only(task: str) -> Callable[[EnvironmentSpec], EnvironmentSpec | None]:
    predicates = {
        "push": "at",
        "insert": "inserted",
        "open": "opened",
        "turn": "turned_on",
        "put_in": "in_drawer",
    }
    return lambda spec: spec if [a.predicate for a in atoms(spec.goal)] == [predicates[task]] else None


def slippery(spec: EnvironmentSpec) -> EnvironmentSpec | None:
    target = next(atoms(spec.goal)).args[0]
    heavy = set_value(set_value(spec, "dynamics", target, "friction", 0.1), "dynamics", target, "mass", 0.5)
    return heavy if spec.entity(target).half_extents[0] < 0.0202 else None


def grip_weakly(actor: FaultyExpert, state: SceneState, chunks: Array) -> Array:
    """Close hardly further than the target is wide."""
    result = chunks.copy()
    width = 2 * state.entity_half_extents[actor.rows, actor.target, 0] / 0.08
    weak = np.broadcast_to((width - WEAK)[:, None], result[:, :, 6].shape)
    result[:, :, 6] = np.where(result[:, :, 6] < 0.5, np.minimum(weak, 0.495), result[:, :, 6])
    return result


def joint_share(actor: FaultyExpert, state: SceneState) -> Array:
    low, high = np.moveaxis(state.entity_joint_range[actor.rows, actor.target], -1, 0)
    return (state.entity_joint_value[actor.rows, actor.target] - low) / np.maximum(high - low, 1e-9)


def progressed(share: float) -> Callable[[FaultyExpert, SceneState], Array]:
    return lambda actor, state: joint_share(actor, state) > share


def pushed(share: float) -> Callable[[FaultyExpert, SceneState], Array]:
    def test(actor: FaultyExpert, state: SceneState) -> Array:
        begin, goal = actor.start[actor.rows, actor.target], actor.position(state, actor.place)
        done = np.linalg.norm((actor.position(state, actor.target) - begin)[:, :2], axis=1)
        return done > share * np.linalg.norm((goal - begin)[:, :2], axis=1)

    return test


always = lambda actor, state: np.ones(state.n, dtype=bool)  # noqa: E731
held_high = lambda actor, state: actor.held(state) & (actor.position(state, actor.target)[:, 2] > 0.07)  # noqa: E731
REACH, CARRY = ("approach", "grasp"), ("transport", "place", "release")

FAULTS = [
    *[
        Fault("stands still", f, ("no_approach",), ("approach",), once_then_still(always, 1.0))
        for f in ("pick_place", "stack", "articulated", "push_insert")
    ],
    *[
        Fault(name, f, modes, stages, change, seen, asked, scene, execute=4)
        for f in ("pick_place", "stack")
        for name, modes, stages, change, seen, asked, scene in [
            ("closes early", ("missed_grasp",), REACH, close_above, Fault.seen, Fault.asked, Fault.scene),
            (
                "grasps beside",
                ("missed_grasp",),
                REACH,
                Fault.change,
                see_target_away_from_others,
                Fault.asked,
                Fault.scene,
            ),
            (
                "never closes",
                ("stopped_short",),
                ("grasp",),
                never_close,
                Fault.seen,
                Fault.asked,
                Fault.scene,
            ),
            (
                "takes another",
                ("wrong_object",),
                REACH,
                Fault.change,
                Fault.seen,
                ask_other_object,
                with_distractor,
            ),
            (
                "lets go on the way",
                ("dropped",),
                ("transport",),
                let_go_moving,
                Fault.seen,
                Fault.asked,
                Fault.scene,
            ),
            (
                "stops while carrying",
                ("stopped_short",),
                ("transport",),
                once_then_still(lifted_and_away, 0.0),
                Fault.seen,
                Fault.asked,
                Fault.scene,
            ),
            (
                "slippery",
                ("slip", "missed_grasp"),
                ("grasp", "lift", "transport"),
                grip_weakly,
                Fault.seen,
                Fault.asked,
                slippery,
            ),
            (
                "sweeps the target away",
                ("knocked_over",),
                REACH,
                sweep(lambda actor: actor.target),
                Fault.seen,
                Fault.asked,
                spread_out,
            ),
            (
                "sweeps another thing away",
                ("collision",),
                ("approach",),
                sweep(other_movable),
                Fault.seen,
                Fault.asked,
                spread_out,
            ),
        ]
    ],
    Fault("other receptacle", "pick_place", ("wrong_place",), CARRY, asked=ask_other_place),
    Fault("puts beside", "pick_place", ("misaligned",), CARRY, seen=see_place_beside((0.085, 0.0, 0.0))),
    Fault(
        "puts over the edge",
        "stack",
        ("misaligned",),
        CARRY,
        once_then_still(let_go_over_the_edge, 1.0),
        see_place_beside((0.028, 0.0, 0.0)),
    ),
    Fault(
        "stops while pulling",
        "articulated",
        ("not_opened",),
        ("open",),
        once_then_still(progressed(0.4), 0.0),
        scene=only("open"),
    ),
    Fault(
        "stops while turning",
        "articulated",
        ("not_opened",),
        ("turn",),
        once_then_still(progressed(0.4), 0.0),
        scene=only("turn"),
    ),
    Fault(
        "lets go on the way to the drawer",
        "articulated",
        ("dropped",),
        ("transport",),
        let_go_moving,
        scene=only("put_in"),
        execute=4,
    ),
    Fault(
        "pushes another",
        "push_insert",
        ("wrong_object",),
        ("approach", "push"),
        asked=ask_other_object,
        scene=lambda s: with_distractor(s) if only("push")(s) else None,
    ),
    Fault(
        "stops while pushing",
        "push_insert",
        ("stopped_short",),
        ("push",),
        once_then_still(pushed(0.35), 0.0),
        scene=only("push"),
    ),
    Fault(
        "pushes aside",
        "push_insert",
        ("misaligned", "wrong_place"),
        ("push",),
        seen=see_place_beside((0.0, 0.09, 0.0)),
        scene=only("push"),
    ),
    Fault(
        "misses the hole",
        "push_insert",
        ("misaligned",),
        ("align", "insert"),
        seen=see_place_beside((0.025, 0.0, 0.0)),
        scene=only("insert"),
    ),
    Fault(
        "stops with the peg",
        "push_insert",
        ("stopped_short",),
        ("align",),
        once_then_still(held_high, 0.0),
        scene=only("insert"),
    ),
    Fault(
        "other order",
        "push_insert",
        ("wrong_order",),
        ("approach", "grasp", "push", "lift", "align", "insert"),
        asked=ask_reversed,
        scene=ordered,
        axis="composition",
    ),
    Fault(
        "other order",
        "articulated",
        ("wrong_order",),
        ("approach", "grasp", "open", "close", "turn", "lift", "transport", "place"),
        asked=ask_reversed,
        scene=ordered,
        axis="composition",
    ),
]


def draw(fault: Fault, count: int, seed: int = 0) -> list[EnvironmentSpec]:
    """Scenes of train (or of a moved axis) that the fault can happen in."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(200 * count):
        spec = fault.scene(
            sample_split(fault.family, "probe" if fault.axis else "train", rng, axis=fault.axis)
        )
        try:
            if spec is not None and fault.asked(spec):
                found.append(spec if fault.axis else spec.revise(horizon=min(spec.horizon, ENOUGH)))
        except (SpecError, StopIteration):
            continue
        if len(found) == count:
            break
    return found


class Mixed:
    """One faulty expert per fault, each for its own scenes of a batch."""

    name = "faulty"

    def __init__(self, drawn: Sequence[tuple[Fault, list[EnvironmentSpec]]]) -> None:
        self.drawn = drawn

    def begin(self, specs: Sequence[EnvironmentSpec]) -> None:
        self.actors = [FaultyExpert(fault, group) for fault, group in self.drawn]
        ends = np.cumsum([len(actor.specs) for actor in self.actors])
        self.rows = np.split(np.arange(ends[-1]), ends[:-1])
        self.expert = ExpertActor([spec for actor in self.actors for spec in actor.asked])

    def act(self, state: SceneState, active: Array) -> Array:
        parts = [state.select(rows) for rows in self.rows]
        seen = [actor.see(part) for actor, part in zip(self.actors, parts, strict=True)]
        chunks = self.expert.act(concatenate(seen))
        changed = [
            actor.fault.change(actor, part, chunks[rows])
            for actor, part, rows in zip(self.actors, parts, self.rows, strict=True)
        ]
        return np.concatenate(changed)


def failures(faults: Sequence[Fault], count: int, seed: int = 0) -> list[tuple[Fault, Episode]]:
    """Failed episodes of the faulty expert, with their fault; all faults of one family and chunk length
    together."""
    drawn = [(fault, group) for fault in faults if (group := draw(fault, count, seed))]
    specs = [spec for _, group in drawn for spec in group]
    simulator = BatchSimulator(faults[0].family, len(specs))
    episodes = rollout(simulator, specs, list(range(len(specs))), Mixed(drawn), faults[0].execute)
    causes = [fault for fault, group in drawn for _ in group]
    return [
        (fault, episode)
        for fault, episode in zip(causes, episodes, strict=True)
        if episode.outcome == "failure"
    ]


def judged(name: str, count: int, seed: int = 0) -> list[tuple[Fault, str, str]]:
    """Fault, stage and mode of every injected failure of a family."""
    critic, found = StateCritic(), []
    for execute in (8, 4):
        group = [fault for fault in FAULTS if fault.family == name and fault.execute == execute]
        for fault, episode in failures(group, count, seed) if group else []:
            diagnosis = critic.diagnose(episode)
            found.append((fault, diagnosis.stage, diagnosis.failure_mode))
    return found


@pytest.mark.parametrize("name", list(FAMILIES))
def test_stage_and_mode_of_injected_failures(name: str) -> None:
    found = judged(name, PER_FAULT)
    right = [mode in fault.modes and stage in fault.stages for fault, stage, mode in found]
    wrong = Counter(
        (f.name, stage, mode) for (f, stage, mode), ok in zip(found, right, strict=True) if not ok
    )
    assert len(found) >= 2 * len({fault.name for fault, _, _ in found}) >= 8
    assert np.mean(right) >= 0.9, wrong


def see_target_in_train(actor: FaultyExpert, state: SceneState) -> SceneState:
    """The target seen at the nearest place it can have in train."""
    position = state.entity_position_base.copy()
    for row, (spec, slot) in enumerate(zip(actor.specs, actor.target, strict=True)):
        for axis, name in enumerate(("object_x", "object_y")):
            place = SPLITS.ranges(spec.family, "train").allowed("position", name)
            position[row, slot, axis] = np.clip(position[row, slot, axis], place.low, place.high)
    return replace(state, entity_position_base=position)


def far_out(spec: EnvironmentSpec) -> EnvironmentSpec | None:
    """Scenes whose first thing stands well outside train, among other values outside."""
    target, found = next(atoms(spec.goal)).args[0], deviations(spec)
    place = [item for item in found if item.object == target and item.parameter in PLACES]
    beside = any(abs(np.subtract(item.observed, item.nominal)).max() > 0.05 for item in place)
    return spec if beside and len(found) > 2 else None


def test_the_cause_is_the_place_when_the_hand_goes_where_things_stand_in_train() -> None:
    fault = Fault(
        "sees train only", "pick_place", (), (), seen=see_target_in_train, scene=far_out, axis="position"
    )
    critic, right = StateCritic(), []
    for _, episode in failures([fault], 10):
        cause = critic.diagnose(episode).cause
        target = next(atoms(episode.spec.goal)).args[0]
        right.append(cause is not None and cause.object == target and cause.parameter in PLACES)
    assert len(right) >= 8 and np.mean(right) >= 0.8
