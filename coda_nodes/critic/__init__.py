"""Critics: from a recorded failure to a diagnosis."""

from __future__ import annotations

from coda_nodes.critic.factory import CRITICS, create_critic
from coda_nodes.critic.keyframes import Keyframe, keyframes
from coda_nodes.critic.protocol import Critic
from coda_nodes.critic.state import StateCritic

__all__ = ["CRITICS", "Critic", "Keyframe", "StateCritic", "create_critic", "keyframes"]
