"""What CoDA asks of a policy, so that people can bring theirs."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from coda_nodes.world.state import ObservationBatch


@runtime_checkable
class ChunkPolicy(Protocol):
    """Maps observations with their instructions to action chunks (convention: ``world/action.py``)."""

    def reset(self, n: int) -> None:
        """Forget any state kept between calls; ``n`` scenes start anew."""

    def act(self, observation: ObservationBatch) -> NDArray[np.float64]:
        """One chunk per scene. Shape (n, 8, 7)."""
