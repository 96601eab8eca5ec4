"""The state critic on episodes written by hand: every failure mode, causes, evidence, refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from coda_nodes.critic import CRITICS, StateCritic, create_critic, keyframes
from coda_nodes.world.axes import set_value, values
from coda_nodes.world.diagnosis import check_diagnosis, parse_diagnosis
from coda_nodes.world.episode import Episode
from coda_nodes.world.errors import ConfigError, DiagnosisError, NotAvailableError
from coda_nodes.world.predicates import CompiledGoals
from coda_nodes.world.spec import AllOf, EnvironmentSpec, FixtureSpec, atoms
from coda_nodes.world.splits import sample_split
from coda_nodes.world.state import SceneState

CHUNK = 8
HOME = np.array([0.45, 0.0, 0.35])


class Script:
    """Writes an episode chunk by chunk: where the tool goes, how far the hand opens, what moves with it."""

    def __init__(self, spec: EnvironmentSpec) -> None:
        self.spec = spec
        self.tool, self.opening, self.joints = HOME.copy(), 1.0, {}
        self.position = {e.name: np.array(e.pose.position) for e in spec.entities}
        self.turn = {e.name: np.array(e.pose.quaternion_xyzw) for e in spec.entities}
        self.holding: str | None = None
        self.frames: list[SceneState] = []
        self.commands: list[float] = []
        self.touching: tuple[str, ...] = ()
        self.snap()

    def snap(self) -> None:
        spec, count = self.spec, len(self.spec.entities)
        each = lambda value: np.array([value(e) for e in spec.entities])[None]  # noqa: E731
        joint = lambda e: self.joints.get(e.name, e.joint_value if isinstance(e, FixtureSpec) else 0.0)  # noqa: E731
        held = each(lambda e: e.name == self.holding)
        self.frames.append(
            SceneState(
                joint_positions=np.array(spec.robot_start.joint_positions)[None],
                gripper_opening=np.array([self.opening]),
                tool_position_base=self.tool[None].copy(),
                tool_quaternion_xyzw=np.array([[1.0, 0, 0, 0]]),
                entity_position_base=each(lambda e: self.position[e.name]),
                entity_quaternion_xyzw=each(lambda e: self.turn[e.name]),
                entity_half_extents=each(lambda e: e.half_extents),
                entity_joint_value=each(joint),
                entity_joint_range=each(lambda e: getattr(e, "joint_range", (0.0, 0.0))),
                present=np.ones((1, count), dtype=bool),
                entity_names=(spec.entity_names,),
                instructions=(spec.instruction,),
                entity_linear_velocity=np.zeros((1, count, 3)),
                grasped=held,
                touched=held | each(lambda e: e.name in self.touching),
                contact=np.zeros((1, count, count), dtype=bool),
                on_table=each(lambda e: self.position[e.name][2] < e.half_extents[2] + 0.005),
                time=np.array([0.4 * len(self.frames)]),
            )
        )

    def go(self, where: np.ndarray, opening: float | None = None, steps: int = 2) -> Script:
        """Move the tool there in some chunks, with what it holds."""
        command = self.opening if opening is None else opening
        for left in range(steps, 0, -1):
            shift = (np.asarray(where, dtype=float) - self.tool) / left
            self.tool = self.tool + shift
            if self.holding:
                self.position[self.holding] = self.position[self.holding] + shift
            self.opening = command
            self.commands.append(command)
            self.snap()
        return self

    def to(self, name: str, height: float = 0.0, opening: float | None = None, steps: int = 3) -> Script:
        return self.go(self.position[name] + np.array([0, 0, height]), opening, steps)

    def grasp(self, name: str) -> Script:
        """Close on a thing and hold it."""
        self.to(name)
        self.holding = name
        width = 2 * min(self.spec.entity(name).half_extents[:2]) if name not in ("drawer", "knob") else 0.02
        self.go(self.tool, width / 0.08 * 0.95, 2)
        self.commands[-2:] = [0.0, 0.0]
        return self

    def lose(
        self, opening: float, then: np.ndarray | None = None, travel: tuple[float, float, float] = (0, 0, 0)
    ) -> Script:
        """Lose what is held: it falls to ``then``; the hand moves on by ``travel``."""
        name, self.holding = self.holding, None
        self.position[str(name)] = self.position[str(name)] if then is None else np.asarray(then, dtype=float)
        return self.go(self.tool + np.array(travel), opening, 1)

    def episode(self, outcome: str = "failure") -> Episode:
        chunks = np.zeros((len(self.commands), CHUNK, 7))
        chunks[:, :, 6] = np.array(self.commands)[:, None]
        goals = CompiledGoals([self.spec])
        rows = [goals.evaluate(frame)[0] for frame in self.frames[1:]]
        width = len(goals.atom_names[0])
        predicates = np.repeat(np.array(rows).reshape(-1, width), CHUNK, axis=0)
        merged = {
            k: np.concatenate([getattr(f, k) for f in self.frames])
            for k in vars(self.frames[0])
            if k not in ("entity_names", "instructions")
        }
        states = SceneState(
            **merged,
            entity_names=(self.spec.entity_names,) * len(self.frames),
            instructions=(self.spec.instruction,) * len(self.frames),
        )
        return Episode(
            spec=self.spec,
            seed=0,
            actor="script",
            outcome=outcome,
            steps=len(predicates),
            states=states,
            chunks=chunks,
            executed=np.full(len(chunks), CHUNK),
            predicate_names=goals.atom_names[0],
            predicates=predicates,
            reason="the physics diverged" if outcome == "invalid" else "",
        )


def scene(
    name: str, test: Callable[[EnvironmentSpec], bool] = lambda spec: True, axis: str | None = None
) -> EnvironmentSpec:
    rng = np.random.default_rng(5)
    for _ in range(300):
        spec = sample_split(name, "probe" if axis else "train", rng, axis=axis)
        if test(spec):
            return spec
    raise AssertionError("no such scene")


PICK = scene("pick_place", lambda s: any(e.role == "distractor" for e in s.objects))
OBJECT, PLACE = next(atoms(PICK.goal)).args
OTHER = next(e.name for e in PICK.objects if e.role == "distractor")
OTHER_PLACE = next(e.name for e in PICK.objects if e.role == "receptacle" and e.name != PLACE)
STACK = scene("stack")
UPPER, LOWER = next(atoms(STACK.goal)).args
PUSH = scene(
    "push_insert",
    lambda s: next(atoms(s.goal)).predicate == "at" and any(e.role == "distractor" for e in s.objects),
)
DRAWER = scene("articulated", lambda s: next(atoms(s.goal)).predicate == "opened")
ORDERED = scene("push_insert", lambda s: isinstance(s.goal, AllOf), axis="composition")


def at(name: str, spec: EnvironmentSpec = PICK) -> np.ndarray:
    return np.array(spec.entity(name).pose.position)


def between(share: float, height: float) -> np.ndarray:
    point = at(OBJECT) + share * (at(PLACE) - at(OBJECT))
    return np.array([point[0], point[1], height])


def carried(share: float, height: float = 0.15) -> Script:
    return Script(PICK).grasp(OBJECT).go(at(OBJECT) + np.array([0, 0, 0.12])).go(between(share, height))


def stays_away() -> Script:
    return Script(PICK).go(HOME + np.array([0.0, 0.0, 0.05]), steps=6)


def closes_beside() -> Script:
    return (
        Script(PICK)
        .go(at(OBJECT) + np.array([0.0, 0.05, 0.0]))
        .go(at(OBJECT) + np.array([0.0, 0.05, 0.0]), 0.0)
        .go(HOME, 0.0)
    )


def presses_from_above() -> Script:
    script = Script(PICK).to(OBJECT, 0.02)
    script.holding = OBJECT  # both pads of the closed hand touch it from above
    return script.go(script.tool, 0.02, 3)


def waits_open() -> Script:
    return Script(PICK).to(OBJECT).go(at(OBJECT), 1.0, 6)


def takes_another() -> Script:
    return Script(PICK).grasp(OTHER).go(at(OTHER) + np.array([0, 0, 0.15]))


def topples() -> Script:
    script = Script(PICK).to(OBJECT, 0.1)
    script.position[OBJECT] = at(OBJECT) + np.array([0.02, 0.0, 0.0])
    script.turn[OBJECT] = np.array([0.0, np.sin(0.785), 0.0, np.cos(0.785)])
    return script.go(HOME)


def pushes_away() -> Script:
    script = Script(PICK).to(OBJECT, 0.1)
    script.position[OBJECT] = at(OBJECT) + np.array([0.08, 0.0, 0.0])
    return script.go(HOME)


def strikes_another() -> Script:
    script = Script(PICK).to(OTHER, 0.15)
    script.position[OTHER] = at(OTHER) + np.array([0.06, 0.0, 0.0])
    return script.go(HOME)


def rests_on_the_bin() -> Script:
    script = Script(PICK).to(OTHER_PLACE, 0.05)
    script.touching = (OTHER_PLACE,)
    return script.go(script.tool, steps=6)


def slides_out_lifting() -> Script:
    return (
        Script(PICK)
        .grasp(OBJECT)
        .go(at(OBJECT) + np.array([0, 0, 0.02]), steps=1)
        .lose(0.0, at(OBJECT), (0, 0, 0.1))
        .go(HOME, 0.0)
    )


def slides_out_carrying() -> Script:
    return carried(0.4).lose(0.0, between(0.4, 0.02), (0.05, 0, 0)).go(HOME, 0.0)


def lets_go_on_the_way() -> Script:
    return carried(0.4).lose(1.0, between(0.45, 0.02), (0.06, 0.0, 0.0)).go(HOME, 1.0)


def stops_on_the_way() -> Script:
    return carried(0.4).go(between(0.4, 0.15), steps=6)


def puts_elsewhere() -> Script:
    return (
        carried(0.4)
        .go(at(OTHER_PLACE) + np.array([0, 0, 0.1]))
        .lose(1.0, at(OTHER_PLACE) + np.array([0, 0, 0.01]))
        .go(HOME, 1.0)
    )


def puts_beside() -> Script:
    edge = at(PLACE) + np.array([PICK.entity(PLACE).half_extents[0] + 0.03, 0, 0.1])
    return carried(0.4).go(edge).lose(1.0, edge - np.array([0, 0, 0.09])).go(HOME, 1.0)


def falls_off_the_stack() -> Script:
    base = at(LOWER, STACK)
    script = (
        Script(STACK)
        .grasp(UPPER)
        .go(at(UPPER, STACK) + np.array([0, 0, 0.15]))
        .go(base + np.array([0.03, 0, 0.06]))
    )
    return script.lose(1.0, base + np.array([0.06, 0, 0])).go(HOME, 1.0)


def knocks_the_base_over() -> Script:
    script = falls_off_the_stack()
    frames = script.frames
    slot = STACK.entity_names.index(LOWER)
    frames[-1].entity_position_base[0, slot] += [0.0, 0.1, 0.0]
    return script


def opens_a_little() -> Script:
    script = Script(DRAWER).grasp("drawer")
    for share in (0.1, 0.2, 0.3):
        script.joints["drawer"] = 0.15 * share
        script.go(script.tool - np.array([0.015, 0, 0]), steps=1)
    return script.go(script.tool, steps=5)


def slides_off_the_handle() -> Script:
    script = Script(DRAWER).grasp("drawer")
    script.joints["drawer"] = 0.03
    script.go(script.tool - np.array([0.03, 0, 0]), steps=1)
    script.holding = None
    return script.go(script.tool - np.array([0.1, 0, 0]), 0.0)


def pushed_to(along: float, across: float) -> Callable[[], Script]:
    def script() -> Script:
        thing, goal = next(atoms(PUSH.goal)).args
        way = at(goal, PUSH) - at(thing, PUSH)
        way[2] = 0.0
        side = np.array([-way[1], way[0], 0.0]) / np.linalg.norm(way)
        written = Script(PUSH).go(at(thing, PUSH) - 0.05 * way / np.linalg.norm(way), 0.0)
        written.position[thing] = at(thing, PUSH) + along * way + across * side
        return written.go(written.position[thing] - 0.05 * way / np.linalg.norm(way), 0.0)

    return script


def pushes_another() -> Script:
    other = next(e.name for e in PUSH.objects if e.role == "distractor")
    script = Script(PUSH).to(other, 0.0, 0.0)
    script.position[other] = at(other, PUSH) + np.array([0.1, 0.0, 0.0])
    return script.go(script.tool + np.array([0.08, 0.0, 0.0]), 0.0)


def inserts_first() -> Script:
    peg, slot = next(a for a in atoms(ORDERED.goal) if a.predicate == "inserted").args
    script = (
        Script(ORDERED)
        .grasp(peg)
        .go(at(peg, ORDERED) + np.array([0, 0, 0.2]))
        .go(at(slot, ORDERED) + np.array([0, 0, 0.2]))
    )
    half = ORDERED.entity(peg).half_extents[2]
    return script.lose(1.0, at(slot, ORDERED) * [1, 1, 0] + np.array([0, 0, half + 0.006])).go(HOME, 1.0)


CASES: list[tuple[Callable[[], Script], str, str]] = [
    (stays_away, "approach", "no_approach"),
    (closes_beside, "approach", "missed_grasp"),
    (presses_from_above, "grasp", "missed_grasp"),
    (waits_open, "grasp", "stopped_short"),
    (takes_another, "approach", "wrong_object"),
    (topples, "approach", "knocked_over"),
    (pushes_away, "approach", "knocked_over"),
    (strikes_another, "approach", "collision"),
    (rests_on_the_bin, "approach", "collision"),
    (slides_out_lifting, "lift", "slip"),
    (slides_out_carrying, "transport", "slip"),
    (lets_go_on_the_way, "transport", "dropped"),
    (stops_on_the_way, "transport", "stopped_short"),
    (puts_elsewhere, "transport", "wrong_place"),
    (puts_beside, "transport", "misaligned"),
    (falls_off_the_stack, "place", "misaligned"),
    (knocks_the_base_over, "place", "knocked_over"),
    (opens_a_little, "open", "not_opened"),
    (slides_off_the_handle, "open", "slip"),
    (pushed_to(0.5, 0.0), "push", "stopped_short"),
    (pushed_to(0.9, 0.08), "push", "misaligned"),
    (pushed_to(0.1, 0.12), "push", "wrong_place"),
    (pushes_another, "approach", "wrong_object"),
    (inserts_first, "approach", "wrong_order"),
]


@pytest.mark.parametrize(
    ("write", "stage", "mode"), CASES, ids=lambda value: getattr(value, "__name__", str(value))
)
def test_stage_and_mode_of_episodes_written_by_hand(
    write: Callable[[], Script], stage: str, mode: str
) -> None:
    diagnosis = StateCritic().diagnose(write().episode())
    assert (diagnosis.stage, diagnosis.failure_mode) == (stage, mode), diagnosis.evidence


def test_a_diagnosis_is_sound_and_survives_the_grammar() -> None:
    episode = lets_go_on_the_way().episode()
    diagnosis = StateCritic().diagnose(episode)
    check_diagnosis(diagnosis, episode.spec)
    assert parse_diagnosis(diagnosis.render()) == diagnosis == StateCritic().diagnose(episode)
    assert diagnosis.episode == episode.content_hash and diagnosis.environment == episode.spec.content_hash
    for item in diagnosis.evidence:
        assert item.frame is not None and item.time == pytest.approx(0.4 * item.frame)
        assert 0 <= item.frame < episode.states.n


def test_a_failure_inside_train_has_no_cause_and_says_so() -> None:
    diagnosis = StateCritic().diagnose(stays_away().episode())
    assert diagnosis.cause is None and "noise of the policy" in diagnosis.text
    assert diagnosis.confidence < 0.5


def moved_scene(*changes: tuple[str, str, str, object]) -> EnvironmentSpec:
    spec = PICK
    for axis, thing, parameter, value in changes:
        spec = set_value(spec, axis, thing, parameter, value)
    return spec


def failing(write: Callable[[], Script], spec: EnvironmentSpec) -> Episode:
    return replace(write().episode(), spec=spec)


@pytest.mark.parametrize(
    ("write", "axis"),
    [
        (slides_out_carrying, "dynamics"),
        (closes_beside, "position"),
        (takes_another, "instruction"),
        (puts_elsewhere, "instruction"),
        (stays_away, "instruction"),
    ],
)
def test_the_cause_fits_what_happened(write: Callable[[], Script], axis: str) -> None:
    spec = moved_scene(
        ("position", OBJECT, "object_yaw", 0.8),
        ("dynamics", OBJECT, "friction", 0.6),
        ("instruction", "scene", "phrasing", "goes"),
        ("appearance", "scene", "camera_azimuth", 0.4),
    )
    ranked = StateCritic().diagnoses(failing(write, spec), limit=4)
    assert ranked[0].cause is not None and ranked[0].cause.axis == axis
    assert len({item.cause.axis for item in ranked if item.cause}) == 4
    assert ranked[-1].cause is not None and ranked[-1].cause.axis == "appearance"
    assert [item.confidence for item in ranked] == sorted((item.confidence for item in ranked), reverse=True)


def test_a_cause_can_be_set_to_its_nominal_value() -> None:
    spec = moved_scene(("position", OBJECT, "object_yaw", 0.8))
    cause = StateCritic().diagnose(failing(closes_beside, spec)).cause
    assert cause is not None and cause.observed == pytest.approx(0.8)
    nominal = set_value(spec, cause.axis, cause.object, cause.parameter, cause.nominal)
    assert values(nominal)["position", OBJECT, "object_yaw"] == pytest.approx(cause.nominal)


def test_the_thing_of_the_task_comes_before_bystanders() -> None:
    spec = moved_scene(("dynamics", OTHER, "friction", 0.6), ("dynamics", OBJECT, "friction", 0.6))
    cause = StateCritic().diagnose(failing(slides_out_carrying, spec)).cause
    assert cause is not None and cause.object == OBJECT


@pytest.mark.parametrize("outcome", ["success", "invalid"])
def test_only_failures_are_diagnosed(outcome: str) -> None:
    with pytest.raises(DiagnosisError, match=f"ended as {outcome}"):
        StateCritic().diagnose(stays_away().episode(outcome))


def test_keyframes_are_start_close_lift_release_end() -> None:
    episode = lets_go_on_the_way().episode()
    frames = keyframes(episode)
    reasons = [frame.reason for frame in frames]
    assert reasons[0] == "start" and reasons[-1] == "end" and {"close", "lift", "release"} <= set(reasons)
    assert [f.boundary for f in frames] == sorted({f.boundary for f in frames}) and frames[
        -1
    ].boundary == len(episode.chunks)
    slot = PICK.entity_names.index(OBJECT)
    lift = next(frame for frame in frames if frame.reason == "lift").boundary
    heights = episode.states.entity_position_base[:, slot, 2]
    assert heights[lift] > heights[0] + 0.02 >= heights[lift - 1]
    assert [f.reason for f in keyframes(episode, limit=2)] == ["start", "end"]


def test_keyframes_without_events_are_spread_evenly() -> None:
    frames = keyframes(stays_away().episode(), limit=4)
    assert [frame.reason for frame in frames] == ["start", "between", "between", "end"]
    assert np.diff([frame.boundary for frame in frames]).tolist() == [2, 2, 2]


def test_critics_by_name() -> None:
    assert create_critic("state").info.name == "state"
    for name in set(CRITICS) - {"state"}:
        with pytest.raises(NotAvailableError, match=name):
            create_critic(name)
    with pytest.raises(ConfigError, match="state"):
        create_critic("oracle")
