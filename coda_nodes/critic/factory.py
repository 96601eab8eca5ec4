"""Critics by name."""

from __future__ import annotations

from coda_nodes.critic.protocol import Critic
from coda_nodes.critic.state import StateCritic
from coda_nodes.world.errors import ConfigError, NotAvailableError, unknown
from coda_nodes.world.splits import Splits

CRITICS = ("state", "coda_vlm", "hf", "openai")
"""Names of all critics."""


def create_critic(name: str, splits: Splits | None = None) -> Critic:
    """Return the critic called ``name``.

    Raises:
        ConfigError: no such critic (the message lists them).
        NotAvailableError: a vision-language critic, which this version does not hold.
    """
    if name == "state":
        return StateCritic(splits)
    if name in CRITICS:
        raise NotAvailableError(
            f"the vision-language critic {name!r} is not part of this version; use the critic 'state'"
        )
    raise ConfigError(unknown("critic", name, CRITICS))
