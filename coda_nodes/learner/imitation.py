"""Imitation: fits the chunk head to labelled chunks, from scratch or from a parent checkpoint."""

from __future__ import annotations

import copy
import importlib.metadata
import logging
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from coda_nodes.learner.samples import Samples
from coda_nodes.policy.checkpoint import Checkpoint
from coda_nodes.policy.features import FeatureEncoder, Features
from coda_nodes.policy.language import SentenceEncoder, save_if_possible
from coda_nodes.policy.network import NetworkConfig, NetworkInput, PolicyNetwork, chunk_loss
from coda_nodes.policy.normalization import POSE_SIZE, Normalization
from coda_nodes.policy.preparation import prepare_sentences
from coda_nodes.policy.runner import PolicyRunner
from coda_nodes.world.artifacts import ArtifactRoot
from coda_nodes.world.config import check_settings, setting
from coda_nodes.world.errors import CheckpointError, CodaError, ConfigError
from coda_nodes.world.spec import FAMILIES

logger = logging.getLogger(__name__)

OnProgress = Callable[[int, int, float, float], None]
"""Called with step, steps, running loss, seconds left."""
_REPORT_EVERY = 50


class TrainingError(CodaError):
    """Training cannot go on (the loss is not finite); nothing was written and the parent stays as it was."""


@dataclass(frozen=True)
class ImitationConfig:
    """Settings of one training run."""

    steps: int = setting(2500, "gradient steps", low=1, high=10_000_000)
    batch: int = setting(128, "samples per step", low=1, high=65536)
    learning_rate: float = setting(1e-3, "peak learning rate", low=1e-7, high=1.0)
    warmup: int = setting(100, "steps of linear warm-up", low=0, high=100_000)
    weight_decay: float = setting(1e-4, "AdamW weight decay", low=0.0, high=1.0)
    ema: float = setting(0.998, "decay of the averaged weights per step", low=0.0, high=0.99999)
    clip: float = setting(1.0, "largest norm of the gradient", low=1e-3, high=1e3)
    gripper_weight: float = setting(0.5, "weight of the gripper against the pose", low=0.0, high=100.0)
    name_dropout: float = setting(0.2, "share of scenes whose entity names are hidden", low=0.0, high=1.0)
    seconds: float = setting(
        3600.0, "time limit; training ends cleanly when it is reached", unit="s", low=1.0, high=1e6
    )
    threads: int = setting(1, "torch threads", low=1, high=64)
    network: NetworkConfig = field(
        default_factory=NetworkConfig, metadata={"help": "sizes; those of the parent when fine-tuning"}
    )

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class TrainingResult:
    """A new checkpoint and the figures of its training."""

    checkpoint: str
    """Content hash."""
    folder: Path
    metrics: dict[str, Any]
    """``loss`` (mean of the last steps), ``loss_per_family``, ``steps``, ``seconds``, ``cpu_seconds``,
    ``samples``."""


def train(
    samples: Samples,
    config: ImitationConfig,
    root: ArtifactRoot,
    parent: PolicyRunner | None = None,
    seed: int = 0,
    on_progress: OnProgress | None = None,
    regime: str = "expert",
    encoder: SentenceEncoder | None = None,
) -> TrainingResult:
    """Fit a policy to ``samples`` and store it under ``root``.

    Same samples, settings, seed and machine give the same checkpoint, as long as the time limit is not
    reached. A parent gives its weights, network sizes and normalization.

    Raises:
        ConfigError: the parent is of another arm.
        TrainingError: the loss is not finite.
        CheckpointError: the checkpoint cannot be written.
    """
    trainer = _Trainer(samples, config, parent, seed, encoder)
    trainer.run(on_progress)
    checkpoint = trainer.checkpoint(regime)
    key = checkpoint.save_under(root)
    save_if_possible(trainer.encoder.cache)
    return TrainingResult(key, root.checkpoint(key), trainer.metrics())


class _Trainer:
    def __init__(
        self,
        samples: Samples,
        config: ImitationConfig,
        parent: PolicyRunner | None,
        seed: int,
        encoder: SentenceEncoder | None,
    ) -> None:
        self.samples, self.config, self.parent, self.seed = samples, config, parent, seed
        if encoder is None:
            prepare_sentences(
                zip(samples.observation.instructions, samples.observation.entity_names, strict=True)
            )
        self.encoder = encoder or (parent.features.encoder if parent else SentenceEncoder())
        if parent is not None and parent.robot != samples.robot:
            raise ConfigError(f"parent checkpoint is for {parent.robot}, samples are of {samples.robot}")
        torch.set_num_threads(config.threads)
        torch.manual_seed(seed)
        self.rng = np.random.default_rng(seed)
        features = FeatureEncoder(self.encoder).encode(samples.observation).compact()
        self.normalization = (
            parent.checkpoint.normalization if parent else Normalization.fit(features, samples.chunks)
        )
        self.network = self._build(features)
        self.average = copy.deepcopy(self.network)
        self.scene = NetworkInput.from_features(features)
        self.pose, self.gripper = self._targets()
        self.optimizer = torch.optim.AdamW(
            self.network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay, foreach=True
        )
        self.done, self.loss, self.seconds, self.cpu_seconds = 0, math.nan, 0.0, 0.0

    def _build(self, features: Features) -> PolicyNetwork:
        if self.parent is not None:
            return self.parent.checkpoint.network().train()
        network = PolicyNetwork(self.config.network, self.samples.observation.joint_positions.shape[1])
        network.set_normalization(self.normalization)
        return network

    def _targets(self) -> tuple[torch.Tensor, torch.Tensor]:
        scaled = (
            self.samples.chunks[..., :POSE_SIZE] - self.normalization.action_mean
        ) / self.normalization.action_std
        opening = np.clip(self.samples.chunks[..., POSE_SIZE], 0, 1)
        return torch.from_numpy(scaled.astype(np.float32)), torch.from_numpy(opening.astype(np.float32))

    def run(self, on_progress: OnProgress | None) -> None:
        """Take the gradient steps."""
        started, cpu = time.monotonic(), time.process_time()
        draws = self._draws()
        for step in range(self.config.steps):
            loss = self._step(step, torch.from_numpy(next(draws)))
            self.loss = loss if step == 0 else 0.98 * self.loss + 0.02 * loss
            self.done = step + 1
            self.seconds = time.monotonic() - started
            if on_progress and (self.done % _REPORT_EVERY == 0 or self.done == self.config.steps):
                on_progress(self.done, self.config.steps, self.loss, self._seconds_left())
            if self.seconds > self.config.seconds:
                logger.warning(
                    "training stopped by its time limit after %d of %d steps", self.done, self.config.steps
                )
                break
        self.cpu_seconds = time.process_time() - cpu

    def _seconds_left(self) -> float:
        left = self.seconds / self.done * (self.config.steps - self.done)
        return min(left, max(self.config.seconds - self.seconds, 0.0))

    def _draws(self):
        """Endless batches of sample indices, drawn in proportion to the weights, low in repeats: systematic
        resampling of a whole epoch, shuffled."""
        share = np.cumsum(self.samples.weights / self.samples.weights.sum())
        size = max(self.samples.n, self.config.batch)
        while True:
            points = (np.arange(size) + self.rng.random()) / size
            order = self.rng.permutation(np.minimum(np.searchsorted(share, points), self.samples.n - 1))
            for start in range(0, size - self.config.batch + 1, self.config.batch):
                yield order[start : start + self.config.batch]

    def _step(self, step: int, ids: torch.Tensor) -> float:
        keep = torch.from_numpy(
            (self.rng.random((len(ids), 1, 1)) >= self.config.name_dropout).astype(np.float32)
        )
        proposal = self.network(self.scene.select(ids), keep)
        loss = chunk_loss(proposal, self.pose[ids], self.gripper[ids], self.config.gripper_weight).mean()
        value = loss.item()
        if not math.isfinite(value):
            raise TrainingError(
                f"the loss is {value} at step {step + 1}: training stopped, nothing was written"
            )
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.config.clip, foreach=True)
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.learning_rate * _schedule(step, self.config)
        self.optimizer.step()
        self._average(step)
        return value

    @torch.no_grad()
    def _average(self, step: int) -> None:
        decay = min(self.config.ema, (1 + step) / (10 + step)) if self.parent is None else self.config.ema
        mine = list(self.average.parameters())
        torch._foreach_lerp_(mine, list(self.network.parameters()), 1 - decay)

    def checkpoint(self, regime: str) -> Checkpoint:
        """Snapshot of the averaged weights. Raises TrainingError when they are not finite."""
        if not all(torch.isfinite(value).all() for value in self.average.state_dict().values()):
            raise TrainingError("the weights are not finite after training; nothing was written")
        parent = self.parent.checkpoint.content_hash if self.parent else ""
        opening = self.samples.chunks[..., POSE_SIZE]
        binary = (
            bool(np.isin(opening, (0.0, 1.0)).all())
            if not self.parent
            else self.parent.checkpoint.document.binary_gripper
        )
        settings = {
            **asdict(self.config),
            "seed": self.seed,
            "samples": self.samples.n,
            "steps_done": self.done,
        }
        return Checkpoint.of(
            self.average,
            self.normalization,
            self.samples.robot,
            self.samples.joint_names,
            regime=regime,
            parent=parent,
            training=settings,
            binary_gripper=binary,
            versions={name: importlib.metadata.version(name) for name in ("torch", "numpy")},
        )

    @torch.no_grad()
    def metrics(self) -> dict[str, Any]:
        """Figures of the run; losses of the averaged weights over all samples."""
        each = torch.cat(
            [
                chunk_loss(
                    self.average(self.scene.select(ids)),
                    self.pose[ids],
                    self.gripper[ids],
                    self.config.gripper_weight,
                )
                for ids in torch.arange(self.samples.n).split(2048)
            ]
        ).numpy()
        return {
            "loss": self.loss,
            "steps": self.done,
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "samples": self.samples.n,
            "loss_per_family": {
                FAMILIES[f]: float(each[self.samples.family == f].mean())
                for f in np.unique(self.samples.family)
            },
        }


def _schedule(step: int, config: ImitationConfig) -> float:
    """Linear warm-up, then half a cosine to 2 % of the peak."""
    if step < config.warmup:
        return (step + 1) / config.warmup
    done = (step - config.warmup) / max(config.steps - config.warmup, 1)
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


__all__ = ["CheckpointError", "ImitationConfig", "TrainingError", "TrainingResult", "train"]
