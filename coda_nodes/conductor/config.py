"""Settings of a co-evolution run: the only place of their defaults."""

from __future__ import annotations

from dataclasses import dataclass

from coda_nodes.world.config import check_settings, setting
from coda_nodes.world.errors import ConfigError, unknown
from coda_nodes.world.spec import FAMILIES

REGIMES = ("expert", "no_expert")
CRITICS = ("state", "coda_vlm", "hf", "openai")


@dataclass(frozen=True)
class TrainConfig:
    """One run of the loop. Counts are per family unless stated."""

    families: tuple[str, ...] = setting(FAMILIES, "task families that take part")
    rounds: int = setting(3, "rounds of co-evolution after imitation", low=0, high=1000)
    regime: str = setting("expert", "source of supervision after imitation", choices=REGIMES)
    critic: str = setting("state", "critic that diagnoses failures", choices=CRITICS)
    robot: str = setting("panda", "robot description")
    seed: int = setting(0, "seed of everything random", low=0, high=2**31)
    workers: int = setting(2, "rollout worker processes", low=1, high=256)
    demonstrations: int = setting(110, "expert demonstrations in train scenes", low=1, high=100_000)
    demonstration_noise: float = setting(0.005, "correlated noise on executed demonstration actions", "m", 0.0, 0.05)
    demonstration_execute: int = setting(4, "actions executed of each demonstrated chunk", low=1, high=8)
    execute: int = setting(8, "actions executed of each chunk of the policy", low=1, high=8)
    imitation_steps: int = setting(4000, "gradient steps of imitation, all families together", low=1, high=1_000_000)
    practice_environments: int = setting(60, "train scenes the imitated policy tries in round 0", low=0, high=100_000)
    practice_corrections: int = setting(40, "expert corrections of its failures there, at most", low=0, high=100_000)
    practice_steps: int = setting(2500, "gradient steps of imitation with them, all families together", low=1, high=1_000_000)
    update_steps: int = setting(1000, "gradient steps of each round's update", low=1, high=1_000_000)
    batch_size: int = setting(128, "samples per gradient step", low=8, high=65_536)
    learning_rate: float = setting(1e-3, "peak learning rate of imitation", low=1e-6, high=1e-1)
    update_learning_rate: float = setting(5e-4, "peak learning rate of a round's update", low=1e-6, high=1e-1)
    environments: int = setting(60, "environments generated for rollouts per round", low=1, high=100_000)
    drafts: int = setting(4, "draft programs validated per round", low=0, high=64)
    corrections: int = setting(60, "expert corrections per round (regime expert)", low=0, high=100_000)
    lookaheads: int = setting(40, "failed scenes the policy looks ahead in per round (regime no_expert)", low=0, high=100_000)
    lookahead_branches: int = setting(8, "chunks tried from each state of them", low=2, high=64)
    lookahead_tries: int = setting(1, "tries in a scene until one succeeds, as far as the budget goes", low=1, high=100)
    dev_environments: int = setting(60, "dev scenes measured before and after each round", low=0, high=10_000)
    gate_environments: int = setting(50, "train and rehearsal scenes of the improvement gate", low=1, high=10_000)
    gate_tolerance: float = setting(0.08, "loss of success that the gate tolerates on them, in each family", low=0.0, high=0.99)
    progress_environments: int = setting(8, "environments per program replayed to measure progress", low=1, high=1000)
    held_out_environments: int = setting(50, "held-out scenes per half, opened after the last round", low=0, high=10_000)
    budget_environments: int = setting(0, "environments that all rounds may spend together; 0: no limit", low=0, high=10**9)
    budget_control_steps: int = setting(0, "control steps that all rounds may spend together; 0: no limit", low=0, high=10**12)
    bags_per_round: int = setting(4, "failures written as rosbag2 per round, all families", low=0, high=10_000)

    def __post_init__(self) -> None:
        check_settings(self)
        object.__setattr__(self, "families", tuple(self.families))
        for name in self.families:
            if name not in FAMILIES:
                raise ConfigError(unknown("family", name, FAMILIES))
        if not self.families:
            raise ConfigError(f"no family to train; expected one or more of {', '.join(FAMILIES)}")
