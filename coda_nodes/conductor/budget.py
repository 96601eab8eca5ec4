"""The two numbers that every method spends alike: environments and simulated control steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coda_nodes.world.errors import BudgetError, unknown

PURPOSES = ("rollout", "solvability", "counterfactual", "recreation", "progress", "demonstration", "lookahead")
"""What budget may be spent on."""

Ledger = dict[str, tuple[int, int]]
"""Purpose -> (environments, control steps)."""


class Budget:
    """Counts environments (resets to a specification) and control steps, in all and by purpose.

    ``reserve`` what is about to run, with its whole horizon, then ``spend`` what ran: so no limit is ever
    passed and nothing that ran goes uncounted. A limit of None or 0 is none.
    """

    def __init__(self, environments: int | None = None, control_steps: int | None = None) -> None:
        self.limits = (environments or None, control_steps or None)
        if any(limit is not None and limit < 0 for limit in self.limits):
            raise BudgetError(f"limits {environments} environments, {control_steps} control steps: below 0")
        self._ledger: Ledger = {}
        self._held = (0, 0)

    @property
    def environments(self) -> int:
        """Environments spent."""
        return sum(row[0] for row in self._ledger.values())

    @property
    def control_steps(self) -> int:
        """Control steps spent."""
        return sum(row[1] for row in self._ledger.values())

    @property
    def left(self) -> tuple[float, float]:
        """Environments and control steps still to spend, without what is held back; infinite without a limit."""
        taken = (self.environments + self._held[0], self.control_steps + self._held[1])
        return tuple(  # type: ignore[return-value]
            float("inf") if limit is None else max(0, limit - used)
            for limit, used in zip(self.limits, taken, strict=True)
        )

    def holding(self, environments: int, control_steps: int) -> Budget:
        """The same budget with so much held back for later, in place of what was held back before.

        Raises:
            BudgetError: a negative amount.
        """
        if min(environments, control_steps) < 0:
            raise BudgetError(f"cannot hold back {environments} environments, {control_steps} control steps: below 0")
        same = self.plus({})
        same._held = (environments, control_steps)
        return same

    @property
    def held(self) -> tuple[int, int]:
        """Environments and control steps held back for later."""
        return self._held

    def reserve(self, purpose: str, environments: int, control_steps: int = 0) -> None:
        """Check, before running, that so much is left; nothing is booked.

        Raises:
            BudgetError: more than is left, a negative amount, or an unknown purpose.
        """
        _check(purpose, environments, control_steps)
        wanted = {"environments": environments, "control steps": control_steps}
        for (name, amount), left, limit in zip(wanted.items(), self.left, self.limits, strict=True):
            if amount > left:
                raise BudgetError(f"{purpose} needs {amount} {name}; {left:.0f} of {limit} are left")

    def spend(self, purpose: str, environments: int = 0, control_steps: int = 0) -> None:
        """Book what ran. Raises BudgetError as ``reserve`` does, and then books nothing."""
        self.reserve(purpose, environments, control_steps)
        row = self._ledger.get(purpose, (0, 0))
        self._ledger[purpose] = (row[0] + environments, row[1] + control_steps)

    def affordable(self, horizons: Sequence[int]) -> int:
        """How many episodes of ``horizons`` [control steps], taken in order, surely fit into what is left."""
        count = steps = 0
        for horizon in horizons:
            steps += horizon
            if count + 1 > self.left[0] or steps > self.left[1]:
                break
            count += 1
        return count

    def ledger(self) -> Ledger:
        """What was spent, by purpose."""
        return dict(self._ledger)

    def since(self, before: Mapping[str, Sequence[int]]) -> Ledger:
        """What was spent since the ledger was ``before``, by purpose."""
        change: Ledger = {}
        for purpose, (environments, steps) in self._ledger.items():
            old = before.get(purpose, (0, 0))
            if (environments, steps) != tuple(old):
                change[purpose] = (environments - old[0], steps - old[1])
        return change

    def plus(self, spent: Mapping[str, Sequence[int]]) -> Budget:
        """A budget that has spent ``spent`` more, limits or not: what a resumed run had already used."""
        total = Budget(*self.limits)
        total._ledger, total._held = self.ledger(), self._held
        for purpose, (environments, steps) in spent.items():
            _check(purpose, environments, steps)
            row = total._ledger.get(purpose, (0, 0))
            total._ledger[purpose] = (row[0] + environments, row[1] + steps)
        return total

    def record(self) -> dict[str, Any]:
        """Fields of a ``BudgetRecord``."""
        total = {"environments": self.environments, "control_steps": self.control_steps}
        return {**total, "by_purpose": self.ledger()}

    def to_dict(self) -> dict[str, Any]:
        """Plain data with limits and ledger; ``from_dict`` reads it."""
        return {"limits": list(self.limits), "spent": {name: list(row) for name, row in self._ledger.items()}}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Budget:
        """Inverse of ``to_dict``. Raises BudgetError when the data is something else."""
        try:
            return Budget(*data["limits"]).plus(data["spent"])
        except (KeyError, TypeError, ValueError) as error:
            raise BudgetError(f"not a stored budget: {str(data)[:80]!r} ({error})") from error


def _check(purpose: str, environments: int, control_steps: int) -> None:
    if purpose not in PURPOSES:
        raise BudgetError(unknown("budget purpose", purpose, PURPOSES))
    if environments < 0 or control_steps < 0:
        raise BudgetError(f"{purpose}: {environments} environments, {control_steps} control steps: below 0")
