"""How the default potentials rise over expert episodes, and where failures end: the table of ``docs/potentials.md``.

    python benchmarks/potentials.py --scenes 16 --seed 3

The failures are those of the same expert disturbed: displacement noise, and a hand that opens by chance.
"""

from __future__ import annotations

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

from coda_nodes.simulator.actors import ScriptedActor
from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.simulator.rollout import rollout
from coda_nodes.world.episode import Episode
from coda_nodes.world.potentials import trace_potential
from coda_nodes.world.spec import FAMILIES, EnvironmentSpec
from coda_nodes.world.splits import sample_split

NOISE, OPENS, FALL = 0.02, 0.25, 1e-3
"""Displacement noise [m], share of chunks in which the hand opens, and the fall of Phi that counts as one."""


class Clumsy(ScriptedActor):
    """The expert with a hand that opens by chance."""

    def begin(self, specs: list[EnvironmentSpec]) -> None:
        """New episodes start."""
        super().begin(specs)
        self._rng = np.random.default_rng(0)

    def act(self, state, active):
        """Chunks of the expert, some with an open hand. Shape (n, 8, 7)."""
        chunks = super().act(state, active).copy()
        chunks[self._rng.random(len(chunks)) < OPENS, :, 6] = 1.0
        return chunks


def row(episodes: list[Episode], disturbed: list[Episode]) -> list[str]:
    """Cells of one family and split."""
    values = [trace_potential(episode).value for episode in episodes if episode.success]
    ranks = [spearmanr(np.arange(len(value)), value)[0] for value in values]
    falls = np.concatenate([np.diff(value) < -FALL for value in values])
    ends = [trace_potential(episode).value[-1] for episode in disturbed if episode.outcome == "failure"]
    reached = sum(value[-1] == 1.0 for value in values)
    return [
        f"{len(values)} of {len(episodes)}", f"{reached}", f"{np.mean([value[0] for value in values]):.2f}",
        f"{np.mean(ranks):.3f} ({min(ranks):.3f})", f"{100 * falls.mean():.1f} %", f"{len(ends)}",
        f"{np.mean(ends):.2f} ({max(ends):.2f})" if ends else "-",
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenes", type=int, default=16)
    parser.add_argument("--seed", type=int, default=3)
    options = parser.parse_args()
    names = ("family", "split", "solved", "end at 1", "start", "Spearman (lowest)", "falls", "failures", "their end (highest)")
    table = Table(*names)
    for name in FAMILIES:
        for split in ("train", "dev"):
            rng = np.random.default_rng(options.seed)
            specs = [sample_split(name, split, rng) for _ in range(options.scenes)]
            simulator, seeds = BatchSimulator(name, options.scenes), range(options.scenes)
            calm = rollout(simulator, specs, seeds, ScriptedActor())
            table.add_row(name, split, *row(calm, rollout(simulator, specs, seeds, Clumsy(), noise=NOISE)))
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
