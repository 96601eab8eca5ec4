"""How much the loop bears before it ends: settings of what a lost node costs."""

from __future__ import annotations

from dataclasses import dataclass

from coda_nodes.world.config import check_settings, setting


@dataclass(frozen=True)
class PatienceConfig:
    """What the loop does about what goes wrong outside of it."""

    step_repeats: int = setting(10, "times a step is done again in which a node was lost", low=0, high=1000)

    def __post_init__(self) -> None:
        check_settings(self)
