"""One cell of the benchmark: a method, a regime and a seed, from the shared first checkpoint to raw results per scene."""

from __future__ import annotations

import json
import logging
import os
import resource
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from coda_nodes.cli.held_out import evaluate_dev
from coda_nodes.cli.provenance import provenance
from coda_nodes.conductor.config import TrainConfig
from coda_nodes.conductor.local import LocalPorts
from coda_nodes.conductor.methods import method
from coda_nodes.conductor.run import run
from coda_nodes.simulator.worker import die_with_parent
from coda_nodes.world.artifacts import ArtifactRoot, write_atomic
from coda_nodes.world.config import from_mapping
from coda_nodes.world.errors import ArtifactError, CodaError
from coda_nodes.world.locks import exclusive
from coda_nodes.world.records import RoundRecord, Summary

log = logging.getLogger(__name__)
SHARED = ("episodes", "environments", "checkpoints", "journal", "rounds")
"""Folders of round 0 that a cell begins with."""


@dataclass(frozen=True)
class Cell:
    """What is run, and where it lies."""

    regime: str
    method: str
    seed: int
    settings: TrainConfig
    """Regime, seed and budget of it are set by the cell."""
    environments: int
    """Budget of each round."""
    control_steps: int
    """Budget of each round."""
    split: str
    """``dev`` or ``held_out``."""
    scenes: int
    """Scenes measured in at the end, per family (of held_out: and half)."""
    work: str
    """Folder of runs."""
    out: str
    """Folder of results."""
    command: str
    """What a person types to get this cell."""

    @property
    def base(self) -> Path:
        """Run of round 0, one for all methods and regimes of a seed."""
        return Path(self.work) / f"round0-{self.seed}"

    @property
    def folder(self) -> Path:
        """Run of the cell."""
        return Path(self.work) / self.regime / f"{self.method}-{self.seed}"

    @property
    def result(self) -> Path:
        """Raw results."""
        return Path(self.out) / self.regime / f"{self.method}-{self.seed}.json"

    def base_config(self) -> TrainConfig:
        """Configuration of round 0."""
        held_out = self.scenes if self.split == "held_out" else 0
        return replace(
            self.settings, regime="no_expert", seed=self.seed, rounds=0, workers=1, budget_environments=0,
            budget_control_steps=0, dev_environments=0, held_out_environments=held_out,
        )

    def config(self, spent: tuple[int, int]) -> TrainConfig:
        """Configuration of the cell, whose round 0 has ``spent`` environments and control steps."""
        rounds = self.settings.rounds
        return replace(
            self.base_config(), regime=self.regime, rounds=rounds,
            budget_environments=spent[0] + rounds * self.environments,
            budget_control_steps=spent[1] + rounds * self.control_steps,
        )

    def to_json(self) -> str:
        """One line; ``from_json`` reads it."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Cell:
        """Inverse of ``to_json``."""
        data = json.loads(text)
        settings = data.pop("settings")
        return Cell(settings=from_mapping(TrainConfig, {**settings, "families": tuple(settings["families"])}), **data)


def run_base(cell: Cell) -> None:
    """Imitation, practice and the fixed train scenes of a seed; continues where it was cut short.

    Raises:
        ArtifactError: another process works there.
    """
    root = ArtifactRoot(cell.base.resolve())
    if not (root.path / "summary.json").exists():
        with LocalPorts(root, 1, cell.seed) as ports:
            run(cell.base_config(), ports, root, _tell)


def run_cell(cell: Cell) -> None:
    """Run a cell to its result file; a finished one is left as it is, an unfinished one goes on.

    Raises:
        ConfigError: no such method in this regime.
        ArtifactError: another process works on it, or the evaluation ended badly.
    """
    chosen = method(cell.method, cell.regime)
    if cell.result.exists():
        return
    root = ArtifactRoot(cell.folder.resolve())
    with exclusive(root.path / ".cell.lock", f"another process works on {root.path}; wait for it to end"):
        fresh = not (root.path / "config.json").exists()
        before = _cpu_seconds()
        about = provenance(cell.command, [cell.seed])
        base = Summary.model_validate_json((cell.base / "summary.json").read_text())
        _begin(cell, root)
        config = cell.config((base.budget.environments, base.budget.control_steps))
        with LocalPorts(root, 1, cell.seed, retrieval=chosen.strategy.retrieves) as ports:
            summary = run(config, ports, root, _tell, strategy=chosen.strategy)
        learned = _cpu_seconds() - before
        rows = _measured(cell, root)
        document = {
            **about, "regime": cell.regime, "method": cell.method, "seed": cell.seed, "split": cell.split,
            "rounds": config.rounds, "families": list(config.families), "settings": asdict(config),
            "strategy": asdict(chosen.strategy), "budget": _budget(cell, base, summary), "gradient_steps": _gradient_steps(root),
            "checkpoints": summary.checkpoints, "diagnoses": summary.diagnoses.model_dump(), "seconds": summary.seconds,
            "cpu_seconds": round(learned, 1) if fresh else None, "gates": _gates(root, config.rounds), "scenes": rows,
        }
        write_atomic(cell.result, json.dumps(document, indent=1, sort_keys=True).encode())
        shutil.rmtree(root.path / "episodes", ignore_errors=True)


def _begin(cell: Cell, root: ArtifactRoot) -> None:
    """Give the cell the files of round 0 (hard links: nothing is written into them). Done last thing first, by rename."""
    for name in SHARED:
        if not (root.path / name).exists():
            partial = root.path / f".{name}.part"
            shutil.rmtree(partial, ignore_errors=True)
            shutil.copytree(cell.base / name, partial, copy_function=os.link)
            partial.rename(root.path / name)


def _measured(cell: Cell, root: ArtifactRoot) -> list[dict[str, Any]]:
    """Outcome per scene before and after; held_out is opened in a process of its own, once per cell."""
    path = root.path / f"{cell.split}.json"
    if not path.exists():
        if cell.split == "held_out":
            command = [sys.executable, "-m", "coda_nodes.cli.main", "evaluate", "--final", str(root.path), "--workers", "1"]
            status = subprocess.run(command, check=False).returncode
            if status:
                raise ArtifactError(f"the final evaluation of {root.path} ended with status {status}")
        else:
            evaluate_dev(root.path, cell.scenes, 1)
    return json.loads(path.read_text())


def _budget(cell: Cell, base: Summary, summary: Summary) -> dict[str, Any]:
    """What the rounds were allowed and what they spent; round 0 is the same for all methods of a seed."""
    spent = {
        name: getattr(summary.budget, name) - getattr(base.budget, name) for name in ("environments", "control_steps")
    }
    rounds = cell.settings.rounds
    limits = {"environments": rounds * cell.environments, "control_steps": rounds * cell.control_steps}
    return {
        "limits": limits, "spent": spent, "round0": base.budget.model_dump(include={"environments", "control_steps"}),
        "by_purpose": summary.budget.by_purpose,
    }


def _gradient_steps(root: ArtifactRoot) -> int:
    """Gradient steps that led to candidates, round 0 included."""
    steps = 0
    for name in ("imitation", "imitation 2", "training"):
        for path in root.path.glob(f"journal/*/{name}.json"):
            steps += json.loads(path.read_text())["result"]["program"]["steps"]
    return steps


def _gates(root: ArtifactRoot, rounds: int) -> list[str]:
    paths = (root.path / "rounds" / f"{number}.json" for number in range(1, rounds + 1))
    return [RoundRecord.model_validate_json(path.read_text()).gate for path in paths]


def _cpu_seconds() -> float:
    """Of this process and of children that have ended [s]."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def _tell(event: dict[str, Any]) -> None:
    if event["event"] == "note":
        log.info(event["text"])


def main() -> int:
    """Entry of a cell's process: ``base`` or ``cell`` as argument, the cell as JSON on standard input."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    die_with_parent(int(sys.argv[2]))
    cell = Cell.from_json(sys.stdin.readline())
    try:
        (run_base if sys.argv[1] == "base" else run_cell)(cell)
    except CodaError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
