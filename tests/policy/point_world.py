"""A world without physics: a point gripper among named things, and an expert that moves to the one asked
for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coda_nodes.world.episode import Episode
from coda_nodes.world.spec import Atom, EnvironmentSpec, ObjectSpec, Pose, RobotStart
from coda_nodes.world.state import SceneState

SLOTS = 6
SPEED = 0.012  # [m] per control step
REACHED = 0.02  # [m]
TRAIN_COLORS = ("red", "green", "blue", "yellow", "orange", "white")
TRAIN_SHAPES = ("cube", "can", "block")
TRAIN_PHRASES = ("move to the {}", "go to the {}", "touch the {}")


def sample_spec(
    rng: np.random.Generator,
    colors: Sequence[str] = TRAIN_COLORS,
    shapes: Sequence[str] = TRAIN_SHAPES,
    phrases: Sequence[str] = TRAIN_PHRASES,
    count: int = 4,
    reach: float = 0.2,
) -> EnvironmentSpec:
    """``count`` things at random places of a square of half side ``reach`` [m]; one of them is asked for."""
    names = [f"{color} {shape}" for color in colors for shape in shapes]
    chosen = [names[i] for i in rng.choice(len(names), count, replace=False)]
    objects = []
    for name in chosen:
        x, y = 0.5 + rng.uniform(-reach, reach), rng.uniform(-reach, reach)
        half = tuple(rng.uniform(0.015, 0.03, 3))
        pose = Pose.planar(x, y, half[2], rng.uniform(-np.pi, np.pi))
        shape = "cylinder" if name.endswith("can") else "box"
        objects.append(
            ObjectSpec(
                name=name, shape=shape, role="object", half_extents=half, color=name.split()[0], pose=pose
            )
        )
    target = chosen[rng.integers(count)]
    return EnvironmentSpec(
        family="pick_place",
        instruction=phrases[rng.integers(len(phrases))].format(target),
        objects=tuple(objects),
        goal=Atom(predicate="near", args=(target,)),
        robot_start=RobotStart(joint_positions=(0.0,) * 7),
        horizon=160,
    )


class PointWorld:
    """Scenes of ``specs`` stepped together; the only thing that moves is the tool."""

    def __init__(self, specs: Sequence[EnvironmentSpec], rng: np.random.Generator) -> None:
        self.specs, n = tuple(specs), len(specs)
        self.tool = np.stack(
            [rng.uniform(0.35, 0.65, n), rng.uniform(-0.15, 0.15, n), rng.uniform(0.1, 0.3, n)], axis=1
        )
        self.opening = np.ones(n)
        self.target = np.array([spec.entity(spec.goal.args[0]).pose.position for spec in specs])

    def state(self) -> SceneState:
        """What a simulator would give."""
        n = len(self.specs)
        position, quaternion, half = np.zeros((n, SLOTS, 3)), np.zeros((n, SLOTS, 4)), np.zeros((n, SLOTS, 3))
        present = np.zeros((n, SLOTS), dtype=bool)
        for i, spec in enumerate(self.specs):
            for k, entity in enumerate(spec.entities):
                position[i, k], quaternion[i, k] = entity.pose.position, entity.pose.quaternion_xyzw
                half[i, k], present[i, k] = entity.half_extents, True
        none = np.zeros((n, SLOTS), dtype=bool)
        return SceneState(
            joint_positions=np.zeros((n, 7)),
            gripper_opening=self.opening.copy(),
            tool_position_base=self.tool.copy(),
            tool_quaternion_xyzw=np.tile([1.0, 0, 0, 0], (n, 1)),
            entity_position_base=position,
            entity_quaternion_xyzw=quaternion,
            entity_half_extents=half,
            entity_joint_value=np.zeros((n, SLOTS)),
            entity_joint_range=np.zeros((n, SLOTS, 2)),
            present=present,
            entity_names=tuple(spec.entity_names for spec in self.specs),
            instructions=tuple(spec.instruction for spec in self.specs),
            entity_linear_velocity=np.zeros((n, SLOTS, 3)),
            grasped=none,
            touched=none,
            contact=np.zeros((n, SLOTS, SLOTS), dtype=bool),
            on_table=present,
            time=np.zeros(n),
        )

    def expert(self) -> np.ndarray:
        """Straight to the target at SPEED, then close. Shape (n, 8, 7)."""
        way = self.target - self.tool
        distance = np.linalg.norm(way, axis=1, keepdims=True)
        chunk = np.zeros((len(way), 8, 7))
        for step in range(8):
            chunk[:, step, :3] = way * np.minimum(1, SPEED * (step + 1) / np.maximum(distance, 1e-9))
        chunk[..., 6] = distance > REACHED
        return chunk

    def step(self, chunks: np.ndarray) -> None:
        """Execute whole chunks."""
        self.tool = self.tool + chunks[:, -1, :3]
        self.opening = chunks[:, -1, 6].copy()

    def solved(self) -> np.ndarray:
        """Closed on the target. Shape (n,)."""
        return (np.linalg.norm(self.tool - self.target, axis=1) < REACHED) & (self.opening < 0.5)


def demonstrations(
    specs: Sequence[EnvironmentSpec], rng: np.random.Generator, noise: float = 0.02, chunks: int = 10
) -> list[Episode]:
    """Episodes of the expert whose executed chunks are disturbed by ``noise`` [m]; the labels are clean."""
    from coda_nodes.world.state import concatenate

    world = PointWorld(specs, rng)
    states, labels = [world.state()], []
    for _ in range(chunks):
        labels.append(world.expert())
        noisy = labels[-1].copy()
        noisy[..., :3] += rng.normal(0, noise, (len(specs), 1, 3))
        world.step(noisy)
        states.append(world.state())
    return [
        Episode(
            spec=spec,
            seed=i,
            actor="expert",
            outcome="success",
            steps=8 * chunks,
            states=concatenate([state.select([i]) for state in states]),
            chunks=np.stack([label[i] for label in labels]),
            executed=np.full(chunks, 8),
            predicate_names=("near",),
            predicates=np.zeros((8 * chunks, 1), dtype=bool),
        )
        for i, spec in enumerate(specs)
    ]


def success_rate(
    policy, specs: Sequence[EnvironmentSpec], rng: np.random.Generator, chunks: int = 14
) -> float:
    """Share of scenes in which ``policy`` closes on the thing asked for."""
    world = PointWorld(specs, rng)
    policy.reset(len(specs))
    solved = np.zeros(len(specs), dtype=bool)
    for _ in range(chunks):
        world.step(policy.act(world.state().observation()))
        solved |= world.solved()
    return float(solved.mean())
