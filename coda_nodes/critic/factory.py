"""Critics by name."""

from __future__ import annotations

from pathlib import Path

from coda_nodes.critic.protocol import Critic
from coda_nodes.critic.state import StateCritic
from coda_nodes.critic.vision.options import VisionOptions
from coda_nodes.critic.vision.view import ViewSource
from coda_nodes.world.diagnosis import CriticInfo
from coda_nodes.world.errors import ConfigError, NotAvailableError, unknown
from coda_nodes.world.splits import Splits

CRITICS = ("state", "coda_vlm", "hf", "openai")
"""Names of all critics."""


def create_critic(
    name: str,
    splits: Splits | None = None,
    options: VisionOptions | None = None,
    views: ViewSource | None = None,
    cache: Path | None = None,
) -> Critic:
    """Return the critic called ``name``.

    Args:
        options: settings of the vision-language critics.
        views: where their pictures come from.
        cache: folder in which answers of models are kept by content hash.

    Raises:
        ConfigError: no such critic (the message lists them), or a setting that it needs is missing.
        NotAvailableError: a vision-language critic without pictures, or whose package or weights are not there.
    """
    if name == "state":
        return StateCritic(splits)
    if name not in CRITICS:
        raise ConfigError(unknown("critic", name, CRITICS))
    if views is None:
        raise NotAvailableError(f"critic {name}: there is nothing here that gives pictures of episodes; use the critic 'state'")
    return _vision(name, options or VisionOptions(), views, cache)


def _vision(name: str, options: VisionOptions, views: ViewSource, cache: Path | None) -> Critic:
    # torch and transformers are loaded only where a model is asked for
    if name == "coda_vlm":
        raise NotAvailableError("the vision-language critic 'coda_vlm' is not part of this version")
    from coda_nodes.critic.vision.asking import AskingCritic

    if name == "openai":
        from coda_nodes.critic.vision.openai import OpenAIModel as Kind
    else:
        from coda_nodes.critic.vision.huggingface import HuggingFaceModel as Kind  # type: ignore[assignment]
    return AskingCritic(CriticInfo(name=name, version=label(options.model)), Kind(options), views, options, cache)


def label(model: str) -> str:
    """A model's name or folder as the version of a critic: the last 80 signs, others than a label may hold left out."""
    kept = "".join(sign if sign.isascii() and (sign.isalnum() or sign in " _.:/+-") else "_" for sign in model)[-80:]
    return kept.lstrip(" _.:/+-") or "unnamed"
