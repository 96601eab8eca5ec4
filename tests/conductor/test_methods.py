"""Methods of the benchmark: what each generates and learns from, and that none gets more than another."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest

from coda_nodes.conductor.baselines import DomainRandomization
from coda_nodes.conductor.config import TrainConfig
from coda_nodes.conductor.curricula import LevelReplay
from coda_nodes.conductor.journal import Journal
from coda_nodes.conductor.level_values import ScoreConfig
from coda_nodes.conductor.local import LocalPorts
from coda_nodes.conductor.methods import ABLATIONS, EXPERT, METHODS, method
from coda_nodes.conductor.mutation import mutate
from coda_nodes.conductor.ports import Trained
from coda_nodes.conductor.run import run
from coda_nodes.critic.state import StateCritic
from coda_nodes.memory.service import MemoryService
from coda_nodes.simulator.single import SingleSimulator
from coda_nodes.world.artifacts import ArtifactRoot, content_hash
from coda_nodes.world.axes import values
from coda_nodes.world.axes.deviation import LOWER_ONLY
from coda_nodes.world.episode import Episode, EpisodeSummary
from coda_nodes.world.errors import ConfigError, NodeError
from coda_nodes.world.programs import check_bounds
from coda_nodes.world.spec import FAMILIES
from coda_nodes.world.splits import load_splits, sample_split
from coda_nodes.world.state import concatenate

ROUNDS = 2
LIMITS = {"environments": 70, "control_steps": 90_000}
"""Of each round."""
CONFIG = TrainConfig(
    families=("stack",), rounds=ROUNDS, demonstrations=3, practice_environments=0, environments=12, drafts=2, corrections=5,
    lookaheads=1000, lookahead_tries=3, dev_environments=0, gate_environments=4, progress_environments=2,
)


class DearPorts(LocalPorts):
    """Plays the simulator and the learner: every episode costs all that it may, the policy solves about a third."""

    def __init__(self, root: ArtifactRoot, retrieval: bool) -> None:
        self.root, self.memory, self.critic = root, MemoryService(root, retrieval=retrieval), StateCritic()
        self.trained: list[int] = []

    def run_episodes(self, request, report=None):
        ended = []
        for number, spec in enumerate(request.specs):
            luck = int(content_hash(f"{spec.content_hash} {request.seed} {request.actor}".encode()), 16) % 3
            solved = request.actor == "expert" or luck == 0
            start = request.starts[number].episode if request.starts else ""
            episode = Episode(
                spec=spec, seed=request.seed, actor=request.actor, outcome="success" if solved else "failure",
                steps=spec.horizon, states=still(spec), chunks=np.zeros((2, 8, 7)), executed=np.full(2, 8),
                predicate_names=("p",), predicates=np.zeros((16, 1), bool), physics_states=np.zeros((3, 4)),
                variant=start, branch_steps=spec.horizon * (request.steps_paid - 1),
            )
            episode.save(self.root)
            ended.append(EpisodeSummary.of(episode))
        return ended

    def train(self, program, dataset, parent, seed, report=None):
        self.trained.append(program.steps)
        return Trained(content_hash(f"{program.training_id} {parent} {seed}".encode()), {})


SIMULATOR = SingleSimulator()


def still(spec):
    """A scene in which nothing moves."""
    return concatenate([SIMULATOR.reset(spec)] * 3)


def spent(path, name: str, regime: str):
    """Budget and gradient steps of a miniature run, and the limits it had."""
    strategy, root = METHODS[name].strategy, ArtifactRoot(path)
    if isinstance(strategy, LevelReplay):
        strategy = type(strategy)(scoring=ScoreConfig(steps=2))
    base = (3 + 6, (3 + 6) * 1000)  # more than enough for round 0: demonstrations and the scenes of the gate
    config = TrainConfig(**{
        **asdict(CONFIG), "regime": regime, "budget_environments": base[0] + 4 + ROUNDS * LIMITS["environments"],
        "budget_control_steps": base[1] + ROUNDS * LIMITS["control_steps"],
    })
    ports = DearPorts(root, strategy.retrieves)
    summary = run(config, ports, root, lambda event: None, strategy=strategy)
    return config, summary.budget, ports.trained, root


CELLS = [("no_expert", name) for name in METHODS] + [("expert", name) for name in EXPERT]


@pytest.mark.parametrize(("regime", "name"), CELLS)
def test_no_method_gets_more_environments_control_steps_or_gradient_steps(tmp_path, regime, name):
    config, budget, trained, root = spent(tmp_path, name, regime)
    assert budget.environments <= config.budget_environments and budget.control_steps <= config.budget_control_steps
    assert budget.environments == len(list(root.episode_keys()))  # nothing ran beside the books
    steps = trained[1:]
    if not METHODS[name].control:
        assert steps == [config.update_steps] * len(steps) and len(steps) <= ROUNDS
    else:
        assert trained[0] + sum(steps) == pytest.approx(2 * (trained[0] + ROUNDS * config.update_steps), abs=2)
    if not name.startswith("sft") and (regime, name) != ("expert", "coda"):  # luck confirms no cause: nothing to correct
        assert "rollout" in budget.by_purpose and len(steps) == ROUNDS
        teaching = "lookahead" if regime == "no_expert" else "demonstration"
        assert budget.by_purpose[teaching][0] > 3 * (regime == "expert")
    if regime == "no_expert":
        assert budget.by_purpose["demonstration"][0] == 3  # those of round 0


class Interrupted(DearPorts):
    """Lost when the second round looks ahead."""

    def run_episodes(self, request, report=None):
        if request.purpose == "lookahead" and len(self.trained) == 2:
            raise NodeError("action /coda/simulator/run_episodes: its node ended before it answered")
        return super().run_episodes(request, report)


@pytest.mark.parametrize("name", ["failure_curriculum", "mutation_curriculum"])
def test_a_curriculum_that_was_cut_short_goes_on_with_the_same_levels(tmp_path, name):
    strategy = type(METHODS[name].strategy)(scoring=ScoreConfig(steps=2))
    config = replace(CONFIG, regime="no_expert", budget_environments=160, budget_control_steps=200_000)
    ends = []
    for folder, kinds in (("whole", [DearPorts]), ("cut", [Interrupted, DearPorts])):
        root = ArtifactRoot(tmp_path / folder)
        for kind in kinds:
            try:
                summary = run(config, kind(root, False), root, lambda event: None, strategy=strategy)
            except NodeError:
                assert kind is Interrupted
        ends.append((summary.model_dump(exclude={"seconds"}), sorted(root.episode_keys())))
    assert ends[0] == ends[1]


def test_rounds_share_the_budget(tmp_path):
    """What the first round may spend does not eat into the second's share."""
    config, budget, _, root = spent(tmp_path, "domain_randomization", "no_expert")
    by_round = []
    for number in (1, 2):
        journal = Journal(root.path / "journal" / str(number))
        steps = [journal.step(path.stem, list)["spent"] for path in journal.folder.glob("*.json")]
        by_round.append(sum(row[1] for step in steps for row in step.values()))
    before = budget.control_steps - sum(by_round)
    assert by_round[0] <= (config.budget_control_steps - before) / 2 and by_round[1] > 0.5 * by_round[0]


def test_each_ablation_switches_one_part_of_coda_off():
    whole = asdict(METHODS["coda"].strategy)
    changed = []
    for name in ABLATIONS:
        mine = asdict(METHODS[name].strategy)
        (key,) = [key for key in whole if mine[key] != whole[key]]
        changed.append(key)
    assert changed == ["validates", "grounds", "tracks", "retrieves"]


def test_an_unknown_method_is_told_with_those_there_are():
    with pytest.raises(ConfigError, match="no method of regime expert 'mutation_curriculum': sft, domain_randomization"):
        method("mutation_curriculum", "expert")
    assert method("mutation_curriculum") is METHODS["mutation_curriculum"]


@pytest.mark.parametrize("family", FAMILIES)
def test_randomized_scenes_move_as_many_axes_as_asked_within_the_probe_bounds(family):
    plan = DomainRandomization(moved=(2, 3)).fresh(family, 40, np.random.default_rng(0))
    assert sum(count for _, count in plan) == 40
    assert {len(program.base.probe_axes) for program, _ in plan} == {2, 3}
    for program, _ in plan:
        check_bounds(program, load_splits().ranges(family, "probe"))
    everything = DomainRandomization(moved=(9, 9)).fresh(family, 5, np.random.default_rng(0))
    assert [(set(program.base.probe_axes), count) for program, count in everything] == [(set(load_splits().axes(family)), 5)]


@pytest.mark.parametrize("family", FAMILIES)
def test_an_edit_changes_a_few_values_within_the_probe_bounds(family):
    rng, probe = np.random.default_rng(1), load_splits().ranges(family, "probe")
    for _ in range(6):
        spec = sample_split(family, "train", rng)
        edited = mutate(spec, 1, rng)
        before, after = values(spec), values(edited)
        moved = {key for key in before.keys() & after.keys() if before[key] != after[key]}
        assert moved or before.keys() != after.keys()
        for axis, thing, name in moved:
            if name in LOWER_ONLY:  # follows from where things stand
                continue
            value = after[axis, thing, name]
            parts = [abs(part) for part in value] if isinstance(value, tuple) else [value]
            assert all(probe.allowed(axis, name).contains(part) for part in parts), (axis, thing, name, value)
