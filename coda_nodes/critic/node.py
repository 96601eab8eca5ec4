"""The critic as a node: serves /coda/critic/diagnose."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from coda_interfaces.srv import Diagnose

from coda_nodes.critic.factory import CRITICS, create_critic
from coda_nodes.ros import names
from coda_nodes.ros.base import CodaNode, NodeSettings
from coda_nodes.ros.node_main import run_node
from coda_nodes.world.config import setting
from coda_nodes.world.episode import Episode


@dataclass(frozen=True)
class CriticSettings(NodeSettings):
    """Parameters of the critic."""

    critic: str = setting("state", "critic that diagnoses failures", choices=CRITICS)


class CriticNode(CodaNode[CriticSettings]):
    """Diagnoses recorded episodes."""

    def __init__(self) -> None:
        super().__init__("critic", CriticSettings)
        self._critic = create_critic(self.settings.critic)
        self.serve(Diagnose, names.DIAGNOSE, self._diagnose)

    def _diagnose(self, request: Diagnose.Request, response: Diagnose.Response) -> Any:
        response.diagnoses_json = [self._one(key) for key in request.episode_hashes]
        response.accepted = True
        return response

    def _one(self, key: str) -> str:
        """Diagnosis of an episode as JSON; empty for one that did not fail."""
        episode = Episode.load(self.root.episode(key))
        return self._critic.diagnose(episode).model_dump_json() if episode.outcome == "failure" else ""


def main() -> int:
    """Run the critic."""
    return run_node(CriticNode)


if __name__ == "__main__":
    sys.exit(main())
