"""How well a policy does on one program, once: the rows from which learning progress is computed."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from coda_nodes.world.spec import Data, Family

Count = Annotated[int, Field(ge=0)]


class Measurement(Data):
    """Success of one checkpoint on environments of one program; invalid episodes are in neither number."""

    program_id: Annotated[str, Field(pattern=r"^[0-9a-f]{8,64}$")]
    family: Family
    round: Count
    checkpoint: str = ""
    """Content hash of the policy."""
    successes: Count
    episodes: Count
    environments: Count = 0
    """Budget spent on the program since its measurement before: resets to a specification."""
    control_steps: Count = 0
    """Budget spent on the program since its measurement before: simulated control steps."""

    @model_validator(mode="after")
    def _possible(self) -> Measurement:
        if self.successes > self.episodes:
            raise ValueError(f"{self.successes} successes of {self.episodes} episodes")
        return self
