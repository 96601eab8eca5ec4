"""Labelled failures and successes for the vision-language critic: scenes, actors, counterfactuals and pictures put together.

A shard is decided by its seed alone: family, part (``train`` or ``test``), number. Scenes of ``train`` come from the splits
train and probe, those of ``test`` from dev: other values, phrasings and things.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from coda_nodes.conductor.pictures import Illustrator
from coda_nodes.critic.state import StateCritic
from coda_nodes.critic.vision.encoding import encode
from coda_nodes.critic.vision.faults import FaultyExpert
from coda_nodes.critic.vision.labels import Label, label_of
from coda_nodes.policy.language import SentenceEncoder, save_if_possible
from coda_nodes.policy.runner import PolicyRunner
from coda_nodes.simulator.actors import PolicyActor, RolloutActor
from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.simulator.rollout import rollout
from coda_nodes.world.artifacts import pack_arrays, unpack_arrays, write_atomic
from coda_nodes.world.axes import set_value
from coda_nodes.world.config import check_settings, setting
from coda_nodes.world.episode import Episode
from coda_nodes.world.errors import ArtifactError, SpecError, ValidityError
from coda_nodes.world.spec import FAMILIES, EnvironmentSpec
from coda_nodes.world.splits import load_splits, sample_split

PARTS = ("train", "test")
EXECUTE = 4
"""Actions executed of each chunk of the faulty expert: it reacts at 5 Hz."""
SUCCESSES = 0.34
"""Most successes kept, as a share of the failures of a shard."""


@dataclass(frozen=True)
class DataConfig:
    """How much data is made."""

    families: tuple[str, ...] = setting(FAMILIES, "task families")
    shards: int = setting(20, "shards of training scenes per family", low=1, high=10_000)
    test_shards: int = setting(6, "shards of test scenes per family", low=0, high=10_000)
    scenes: int = setting(40, "scenes of a shard", low=4, high=1000)
    policy_scenes: int = setting(100, "scenes of a shard in which a policy acts: most of them end well", low=4, high=1000)
    seed: int = setting(0, "seed of everything random", low=0, high=2**31)
    checkpoints: tuple[str, ...] = setting((), "folders of policies whose own failures are in every other shard of train")
    test_checkpoints: tuple[str, ...] = setting((), "the same for test; empty: those of train")

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class Job:
    """One shard."""

    family: str
    part: str
    number: int

    def path(self, folder: Path) -> Path:
        """Its file."""
        return folder / f"{self.part}-{self.family}-{self.number:04d}.npz"


def jobs(config: DataConfig) -> list[Job]:
    """All shards, families by turns, so that what is there after an interruption is balanced."""
    counts = {"train": config.shards, "test": config.test_shards}
    return [Job(family, part, n) for part in PARTS for n in range(counts[part]) for family in config.families]


class Workshop:
    """Makes shards. Simulators, policies and pictures are kept between them."""

    def __init__(self, config: DataConfig) -> None:
        """Raises NotAvailableError when no OpenGL works, CheckpointError for a folder that holds no policy."""
        self._config, self._encoder, self._critic = config, SentenceEncoder(), StateCritic()
        self._illustrate = Illustrator(self._encoder)
        folders = dict.fromkeys((*config.checkpoints, *config.test_checkpoints))
        self._policies = {folder: PolicyRunner.load(Path(folder)) for folder in folders}
        self._simulators: dict[str, BatchSimulator] = {}

    def make(self, job: Job, folder: Path) -> bool:
        """Make a shard unless it is there; return whether it was made."""
        path = job.path(folder)
        if path.exists():
            try:
                unpack_arrays(path)
                return False
            except ArtifactError:
                path.unlink()
        rng = np.random.default_rng([self._config.seed, FAMILIES.index(job.family), PARTS.index(job.part), job.number])
        specs = self._scenes(job, rng)
        seeds = [int(s) for s in rng.integers(2**31, size=len(specs))]
        episodes, labels, actor = self._tried(job, specs, seeds)
        labels = self._confirmed(labels, episodes, seeds, actor)
        write_atomic(path, self._packed(job, _chosen(labels), episodes, labels, rng))
        save_if_possible(self._encoder.cache)
        return True

    def _scenes(self, job: Job, rng: np.random.Generator) -> list[EnvironmentSpec]:
        found: list[EnvironmentSpec] = []
        while len(found) < (self._config.policy_scenes if self._folders(job) else self._config.scenes):
            split = "dev" if job.part == "test" else "train" if rng.random() < 0.2 else "probe"
            axis = None if split == "train" or rng.random() < 0.4 else str(rng.choice(list(load_splits().axes(job.family))))
            try:
                found.append(sample_split(job.family, split, rng, axis=axis))
            except ValidityError:
                continue
        return found

    def _folders(self, job: Job) -> tuple[str, ...]:
        """Policies of a shard: none in every other one."""
        if job.number % 2 == 0:
            return ()
        return (self._config.test_checkpoints if job.part == "test" else ()) or self._config.checkpoints

    def _actor(self, job: Job, seeds: Sequence[int]) -> RolloutActor:
        folders = self._folders(job)
        if not folders:
            return FaultyExpert(seeds)
        folder = folders[(job.number // 2) % len(folders)]
        return PolicyActor(self._policies[folder], "policy")

    def _tried(self, job: Job, specs: list[EnvironmentSpec], seeds: list[int]) -> tuple[list[Episode], list[Label], RolloutActor]:
        actor = self._actor(job, seeds)
        episodes = self._run(specs, seeds, actor)
        if isinstance(actor, FaultyExpert):
            faults = [(plot.fault.name, plot.fault.meant) for plot in actor.plots]
        else:
            faults = [("", ())] * len(episodes)
        kept = [k for k, episode in enumerate(episodes) if episode.outcome != "invalid"]
        labels = [label_of(episodes[k], self._critic, actor.name, *faults[k]) for k in kept]
        seeds[:] = [seeds[k] for k in kept]
        return [episodes[k] for k in kept], labels, actor

    def _run(self, specs: Sequence[EnvironmentSpec], seeds: Sequence[int], actor: RolloutActor) -> list[Episode]:
        family = specs[0].family
        if family not in self._simulators:
            self._simulators[family] = BatchSimulator(family, self._config.scenes)
        execute = EXECUTE if isinstance(actor, FaultyExpert) else 8
        return rollout(self._simulators[family], specs, list(seeds), actor, execute)

    def _confirmed(self, labels: list[Label], episodes: list[Episode], seeds: list[int], actor: RolloutActor) -> list[Label]:
        """Try the causes: the same actor in the same scene, with only the cause at its nominal value."""
        labels = list(labels)
        for rank in range(max((len(label.candidates) for label in labels), default=0)):
            open_ones = []
            for k, label in enumerate(labels):
                if not label.cause_known and rank < len(label.candidates):
                    cause = label.candidates[rank]
                    try:
                        nominal = set_value(episodes[k].spec, cause.axis, cause.object, cause.parameter, cause.nominal)
                    except SpecError:
                        continue
                    open_ones.append((k, nominal))
            if not open_ones:
                continue
            again = FaultyExpert([seeds[k] for k, _ in open_ones]) if isinstance(actor, FaultyExpert) else actor
            tried = self._run([spec for _, spec in open_ones], [seeds[k] for k, _ in open_ones], again)
            for (k, _), episode in zip(open_ones, tried, strict=True):
                if episode.success:
                    labels[k] = replace(labels[k], cause=labels[k].candidates[rank], cause_known=True)
        injected = {k for k, label in enumerate(labels) if label.fault not in ("", "none", "sees train only")}
        # what fails whatever the scene is like has its cause in the injected fault
        return [replace(label, cause_known=True) if k in injected else label for k, label in enumerate(labels)]

    def _packed(
        self, job: Job, chosen: list[int], episodes: list[Episode], labels: list[Label], rng: np.random.Generator
    ) -> bytes:
        rows, records = [], []
        for k in chosen:
            view = self._illustrate(_relit(episodes[k], rng, job.part))
            rows.append(encode(view, self._encoder.similarity))
            label = asdict(replace(labels[k], candidates=()))
            label["cause"] = labels[k].cause.model_dump(mode="json") if labels[k].cause else None
            records.append({"label": label, "instruction": view.instruction, "things": view.things, "family": view.family})
        arrays = {name: np.stack([row[name] for row in rows]) for name in rows[0]} if rows else {}
        return pack_arrays(arrays, {"records": records, "job": asdict(job), "seed": self._config.seed})


def _chosen(labels: list[Label]) -> list[int]:
    """All failures, and of the successes no more than SUCCESSES of their number, those against an injection first."""
    failed = [k for k, label in enumerate(labels) if label.failed]
    well = sorted((k for k, label in enumerate(labels) if not label.failed), key=lambda k: not labels[k].hard)
    return failed + well[: max(3, round(SUCCESSES * len(failed)))]


def _relit(episode: Episode, rng: np.random.Generator, part: str) -> Episode:
    """The same episode under another light, seen by another camera, in seven of ten cases."""
    if rng.random() > 0.7:
        return episode
    try:
        other = sample_split(episode.spec.family, "dev" if part == "test" else "probe", rng, axis="appearance")
    except ValidityError:
        return episode
    return replace(episode, spec=episode.spec.revise(cameras=other.cameras, light=other.light))


def read_shard(path: Path) -> tuple[dict[str, np.ndarray], list[dict]]:
    """Arrays and records of a shard. Raises ArtifactError when it is missing or damaged."""
    arrays, document = unpack_arrays(path)
    return arrays, json.loads(json.dumps(document["records"]))
