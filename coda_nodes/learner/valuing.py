"""Learns chunk values from a replay."""

from __future__ import annotations

import copy
import math
import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from coda_nodes.learner.critic_network import CriticNetworkConfig
from coda_nodes.learner.critics import ChunkCritics, CriticDocument
from coda_nodes.learner.imitation import OnProgress, TrainingError
from coda_nodes.learner.replay import ChunkReplay
from coda_nodes.policy.features import FeatureEncoder
from coda_nodes.policy.language import SentenceEncoder
from coda_nodes.policy.network import NetworkInput
from coda_nodes.policy.normalization import Normalization
from coda_nodes.world.config import check_settings, setting
from coda_nodes.world.errors import ConfigError

Array = NDArray[np.float64]
_REPORT_EVERY = 50


@dataclass(frozen=True)
class CriticConfig:
    """Settings of one training of critics."""

    steps: int = setting(2000, "gradient steps", low=1, high=10_000_000)
    batch: int = setting(256, "transitions per step", low=1, high=65536)
    learning_rate: float = setting(5e-4, "peak learning rate", low=1e-7, high=1.0)
    weight_decay: float = setting(1e-4, "AdamW weight decay", low=0.0, high=1.0)
    clip: float = setting(1.0, "largest norm of the gradient", low=1e-3, high=1e3)
    discount: float = setting(0.99, "per control step", low=0.01, high=0.99999)
    shaped: bool = field(default=True, metadata={"help": "whether the potential counts; without it the same code learns plain"})
    expectile: float = setting(0.8, "expectile of the chunk values that V is; 0.5 is their mean", low=0.5, high=0.99)
    pessimism: float = setting(0.5, "standard deviations of the ensemble taken off its mean", low=0.0, high=10.0)
    target_rate: float = setting(0.01, "how fast the averaged critics, which V is learned from, follow", low=1e-5, high=1.0)
    threads: int = setting(1, "torch threads", low=1, high=64)
    network: CriticNetworkConfig = field(default_factory=CriticNetworkConfig, metadata={"help": "sizes; those of the parent"})

    def __post_init__(self) -> None:
        check_settings(self)


def fit_critics(
    replay: ChunkReplay,
    config: CriticConfig = CriticConfig(),
    seed: int = 0,
    parent: ChunkCritics | None = None,
    normalization: Normalization | None = None,
    encoder: SentenceEncoder | None = None,
    on_progress: OnProgress | None = None,
) -> tuple[ChunkCritics, dict[str, Any]]:
    """Learn values from all of a replay; return them with the figures of ``Valuing.metrics``.

    Same replay, settings and seed give the same values.

    Args:
        replay: transitions and the potential of their states.
        config: settings.
        seed: of the first weights and of the order of transitions.
        parent: values to go on from, of the same potentials.
        normalization: of features and actions; by default that of the replay. A parent keeps its own.
        encoder: of sentences; by default one with the user's cache.
        on_progress: called now and then with step, steps, loss, seconds left.

    Raises:
        ConfigError: no transitions, scenes of several arms, or a parent of other potentials, discount or arm: its values
            are those of another problem.
        TrainingError: the loss is not finite.
    """
    trainer = Valuing(replay, config, seed, parent, normalization, encoder)
    trainer.run(on_progress)
    return trainer.critics, trainer.metrics()


class Valuing:
    """One training of critics."""

    def __init__(
        self,
        replay: ChunkReplay,
        config: CriticConfig,
        seed: int,
        parent: ChunkCritics | None = None,
        normalization: Normalization | None = None,
        encoder: SentenceEncoder | None = None,
    ) -> None:
        robots = sorted({spec.robot for spec in replay.specs})
        if not replay.transitions.n or len(robots) != 1:
            found = f"{replay.transitions.n} transitions of arms {', '.join(robots) or '(none)'}"
            raise ConfigError(f"{found}: expected at least one transition, all of one arm")
        if parent is not None:
            _check_parent(parent, replay, config, robots[0])
        torch.set_num_threads(config.threads)
        torch.manual_seed(seed)
        self.replay, self.config, self.rng = replay, config, np.random.default_rng(seed)
        encoder = encoder or (parent.features.encoder if parent else SentenceEncoder())
        features = FeatureEncoder(encoder).encode(replay.states.observation()).compact()
        self.scene = NetworkInput.from_features(features)
        t = replay.transitions
        if parent is not None:
            self.critics = _continued(parent, int(t.executed.max()))
        else:
            normalization = normalization or Normalization.fit(features.select(t.before), t.chunks)
            self.critics = ChunkCritics.new(_document(replay, config, seed), normalization, encoder)
        self.chunks = torch.from_numpy(self.critics.read(t.chunks).astype(np.float32))
        self.before, self.after = torch.from_numpy(t.before), torch.from_numpy(t.after)
        self.average = copy.deepcopy(self.critics.chunk_networks).requires_grad_(False)
        self.weights = [*self.critics.chunk_networks.parameters(), *self.critics.state_network.parameters()]
        self.optimizer = torch.optim.AdamW(
            self.weights, lr=config.learning_rate, weight_decay=config.weight_decay, foreach=True
        )
        self.done, self.loss, self.seconds = 0, math.nan, 0.0

    def run(self, on_progress: OnProgress | None = None) -> None:
        """Take the gradient steps. Raises TrainingError when the loss is not finite."""
        started, n = time.monotonic(), self.replay.transitions.n
        for step in range(self.config.steps):
            for group in self.optimizer.param_groups:
                group["lr"] = self.config.learning_rate * _schedule(step / self.config.steps)
            loss = self._step(self.rng.integers(n, size=self.config.batch))
            if not math.isfinite(loss):
                raise TrainingError(f"the loss of the critics is {loss} at step {step + 1}: training stopped")
            self.loss = loss if step == 0 else 0.98 * self.loss + 0.02 * loss
            self.done, self.seconds = step + 1, time.monotonic() - started
            if on_progress and (self.done % _REPORT_EVERY == 0 or self.done == self.config.steps):
                left = self.seconds / self.done * (self.config.steps - self.done)
                on_progress(self.done, self.config.steps, self.loss, left)

    def _step(self, ids: NDArray[np.int_]) -> float:
        rows = torch.from_numpy(ids)
        scene, chunks = self.scene.select(self.before[rows]), self.chunks[rows]
        values = self.critics.chunk_networks(scene, chunks)
        target = torch.from_numpy(self.targets(ids).astype(np.float32))
        chunk_loss = (values - target).square().mean(1).sum()  # members share no weight: a sum trains each as if alone
        with torch.no_grad():
            each = self.average(scene, chunks)
            goal = each.mean(0) - self.config.pessimism * each.std(0, unbiased=False)
        state_loss = _expectile_loss(goal - self.critics.state_network(scene)[0], self.config.expectile)
        self.optimizer.zero_grad(set_to_none=True)
        (chunk_loss + state_loss).backward()
        torch.nn.utils.clip_grad_norm_(self.weights, self.config.clip, foreach=True)
        self.optimizer.step()
        networks = list(self.average.parameters()), list(self.critics.chunk_networks.parameters())
        torch._foreach_lerp_(*networks, self.config.target_rate)
        return float(chunk_loss.detach()) / len(values)

    @torch.no_grad()
    def targets(self, ids: NDArray[np.int_]) -> Array:
        """Targets of transitions ``ids`` under the present ``V``. Shape (m,)."""
        value = self.critics.state_network(self.scene.select(self.after[torch.from_numpy(ids)]))[0].numpy().astype(float)
        return self.replay.targets(self._possible(value, ids), self.config.discount, ids, self.config.shaped)

    def _possible(self, value: Array, ids: NDArray[np.int_]) -> Array:
        """``V`` within what values can be: a task is worth 0 to 1, so the shaped one -Phi to 1 - Phi."""
        phi = self.replay.phi[self.replay.transitions.after[ids]] if self.config.shaped else 0.0
        return np.clip(value, -phi, 1 - phi)

    @torch.no_grad()
    def metrics(self) -> dict[str, Any]:
        """Figures over the whole replay.

        ``td_error``: root mean square of target minus mean of the members. ``value_at_start``: what the task is thought to
        be worth (``V + Phi``, between 0 and 1) where episodes begin: in states that no transition leads to.
        ``advantage_spread``: standard deviation of the advantages. ``disagreement``: mean standard deviation of the members.
        ``positive``: transitions that end in success.
        """
        t = self.replay.transitions
        parts = torch.arange(t.n).split(2048)
        each = torch.cat([self.critics.chunk_networks(self.scene.select(self.before[p]), self.chunks[p]) for p in parts], dim=1)
        state = torch.cat([self.critics.state_network(self.scene.select(self.before[p]))[0] for p in parts])
        error = np.concatenate([self.targets(p.numpy()) for p in parts]) - each.mean(0).numpy()
        advantage = each.mean(0) - self.config.pessimism * each.std(0, unbiased=False) - state
        starts = ~np.isin(t.before, t.after)
        starts = starts if starts.any() else np.ones(t.n, dtype=bool)
        worth = state.numpy() + (self.replay.phi[t.before] if self.config.shaped else 0.0)
        return {
            "loss": self.loss,
            "steps": self.done,
            "seconds": self.seconds,
            "transitions": t.n,
            "positive": int(t.terminal.sum()),
            "td_error": float(np.sqrt(np.square(error).mean())),
            "value_at_start": float(worth[starts].mean()),
            "advantage_spread": float(advantage.std(unbiased=False)),
            "disagreement": float(each.std(0, unbiased=False).mean()),
        }


def _schedule(done: float) -> float:
    """Half a cosine to 5 % of the peak."""
    return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * done))


def _expectile_loss(error: Tensor, expectile: float) -> Tensor:
    """Asymmetric squares (Newey and Powell 1987): errors above count ``expectile``, those below the rest."""
    return (torch.where(error > 0, expectile, 1 - expectile) * error.square()).mean()


def _document(replay: ChunkReplay, config: CriticConfig, seed: int) -> CriticDocument:
    return CriticDocument(
        robot=replay.specs[0].robot, discount=config.discount, shaped=config.shaped, tasks=replay.tasks,
        reads=int(replay.transitions.executed.max()), pessimism=config.pessimism, architecture=asdict(config.network),
        training={**asdict(config), "seed": seed},
    )


def _continued(parent: ChunkCritics, reads: int) -> ChunkCritics:
    """A copy to train on; it reads no less of a chunk than before."""
    document = parent.document.model_copy(update={"reads": max(reads, parent.document.reads)})
    return replace(
        parent, document=document, chunk_networks=copy.deepcopy(parent.chunk_networks),
        state_network=copy.deepcopy(parent.state_network),
    )


def _check_parent(parent: ChunkCritics, replay: ChunkReplay, config: CriticConfig, robot: str) -> None:
    pairs = {
        "potentials": (parent.document.tasks, replay.tasks),
        "discount": (parent.document.discount, config.discount),
        "shaped": (parent.document.shaped, config.shaped),
        "robot": (parent.document.robot, robot),
    }
    for name, (have, want) in pairs.items():
        if have != want:
            raise ConfigError(f"the parent's values are of {name} {str(have)[:80]!r}, not {str(want)[:80]!r}: learn them anew")
