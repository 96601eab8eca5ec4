"""From programs and what each was allotted to a training program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coda_nodes.world.errors import ProgramError
from coda_nodes.world.potentials import TaskPotential, merge
from coda_nodes.world.programs import (
    TRAIN_SPLIT,
    Regime,
    Share,
    Source,
    StagePotential,
    TrainingProgram,
)

SUPERVISION: dict[Regime, tuple[Source, ...]] = {
    Regime.EXPERT: ("demonstrations", "corrections"),
    Regime.NO_EXPERT: ("demonstrations", "own_successes"),
}
"""Sources of supervision of each regime; demonstrations of ``no_expert`` are those of the train split."""


def compile_training(
    allocation: Mapping[str, float],
    regime: Regime,
    steps: int,
    learning_rate: float,
    train_share: float = 0.5,
    batch_size: int = 256,
    weights: Mapping[Source, float] | None = None,
    potential: Sequence[StagePotential] = (),
    task_potentials: Sequence[TaskPotential] = (),
) -> TrainingProgram:
    """Training program on the train split and on programs in proportion to what each was allotted.

    Args:
        allocation: program id -> environments (or any weight of at least 0); those with 0 are left out.
        regime: decides the sources of supervision.
        steps: gradient steps.
        learning_rate: peak learning rate.
        train_share: share of the train split; all of it where nothing is allotted.
        batch_size: samples per gradient step.
        weights: weight of a sample by source; 1 where left out.
        potential: stages of a potential.
        task_potentials: what validated diagnoses made of the stages of their tasks; several of one kind of goal are merged.

    Raises:
        ProgramError: a negative weight, or values outside what a training program may hold.
    """
    if any(weight < 0 for weight in allocation.values()) or not 0 < train_share <= 1:
        raise ProgramError(
            f"allocation {dict(allocation)}, train share {train_share}: expected 0 or more, and 0 to 1"
        )
    total = sum(allocation.values())
    rest = (1.0 - train_share) / total if total else 0.0
    shares = [
        Share(program_id=key, share=weight * rest) for key, weight in allocation.items() if weight * rest > 0
    ]
    shares.insert(0, Share(program_id=TRAIN_SPLIT, share=1.0 - sum(item.share for item in shares)))
    sources = SUPERVISION[regime]
    try:
        return TrainingProgram(
            regime=regime,
            environments=tuple(shares),
            supervision=sources,
            steps=steps,
            learning_rate=learning_rate,
            batch_size=batch_size,
            potential=tuple(potential),
            task_potentials=tuple(merge(task_potentials)) if task_potentials else (),
            weights={s: (weights or {}).get(s, 1.0) for s in sources},
        )
    except ValueError as error:
        raise ProgramError(f"training program: {error}") from error
