"""A whole run: imitation, rounds, summary; the same folder and configuration continue a run that was cut short."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from coda_nodes.conductor.config import TrainConfig
from coda_nodes.conductor.imitation import imitate
from coda_nodes.conductor.learning import run_round
from coda_nodes.conductor.loop import Loop
from coda_nodes.conductor.patience import Patience
from coda_nodes.conductor.ports import Ports, Report
from coda_nodes.conductor.state import LoopState
from coda_nodes.conductor.strategy import CODA, Strategy
from coda_nodes.world.artifacts import ArtifactRoot, write_atomic
from coda_nodes.world.config import from_mapping
from coda_nodes.world.errors import ConfigError, NotAvailableError
from coda_nodes.world.locks import exclusive
from coda_nodes.world.records import BudgetRecord, FamilySummary, RoundRecord, Summary
from coda_nodes.world.robots import robot

GROWS = ("rounds", "workers", "bags_per_round")
"""Settings that may change when a run is continued."""
LOCK = ".rounds.lock"
"""File in the run's folder that the process running its rounds holds."""
PREDECESSOR = 20.0
"""How long to wait for the conductor of a killed run to end [s]."""


def run(
    config: TrainConfig, ports: Ports, root: ArtifactRoot, report: Report, patience: Patience | None = None,
    strategy: Strategy = CODA,
) -> Summary:
    """Run the loop to its last round and write ``summary.json``.

    Raises:
        ConfigError: the folder holds a run with another configuration (the message names the first difference).
        NotAvailableError: the configuration asks for a part that this version has not.
        ArtifactError: another process runs rounds in the folder.
        CodaError: a node failed; what is finished stays, and the same call continues from there.
    """
    refuse_missing(config)
    with exclusive(root.path / LOCK, f"another process runs the rounds in {root.path}; wait for it to end", PREDECESSOR):
        claim(root, config)
        calm = patience or Patience(root)
        calm.tell = lambda text: report({"event": "note", "text": text})
        # what is refused outside of a step makes the loop begin again, from its journal
        return calm.bear(lambda: _run_rounds(Loop(config, ports, root, report, calm, strategy)))


def _run_rounds(loop: Loop) -> Summary:
    state = imitate(loop)
    for number in range(1, loop.config.rounds + 1):
        state = run_round(loop, state, number)
    summary = summarise(loop, state)
    loop.write(loop.root.path / "summary.json", summary.model_dump_json(indent=1).encode())
    loop.report({"event": "done", "round": loop.round, "text": f"finished {loop.config.rounds} rounds"})
    return summary


def refuse_missing(config: TrainConfig) -> None:
    """Raise NotAvailableError for what a configuration may name but this version cannot do, before anything runs.

    An unknown robot raises ConfigError.
    """
    if config.critic != "state":
        raise NotAvailableError(f"critic {config.critic}: only the state critic is part of this version")
    robot(config.robot)


def claim(root: ArtifactRoot, config: TrainConfig) -> None:
    """Write the configuration into a new folder, or check that it is the one the folder was begun with."""
    path = root.path / "config.json"
    if path.exists():
        begun = read_config(path)
        for name, value in asdict(begun).items():
            if name not in GROWS and value != getattr(config, name):
                raise ConfigError(
                    f"{root.path} holds a run with {name} = {value!r}, asked for is {getattr(config, name)!r}; "
                    "continue it with the same settings or choose another folder"
                )
    write_atomic(path, json.dumps(asdict(config), indent=1).encode())


def read_config(path: Path) -> TrainConfig:
    """Read ``config.json`` of a run. Raises ConfigError when it is damaged."""
    try:
        data = json.loads(path.read_text())
        return from_mapping(TrainConfig, {**data, "families": tuple(data["families"])})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error


def summarise(loop: Loop, state: LoopState) -> Summary:
    """Summary of a finished run; held-out success is added by the final evaluation."""
    records = [
        RoundRecord.model_validate_json((loop.root.path / "rounds" / f"{number}.json").read_text())
        for number in range(loop.config.rounds + 1)
    ]
    families = {
        name: FamilySummary(dev_before=records[0].families[name].dev_after, dev_after=state.dev[name])
        for name in loop.config.families
    }
    return Summary(
        regime=loop.config.regime, critic=loop.config.critic, seed=loop.config.seed, families=families,
        budget=BudgetRecord(**loop.budget.record()), diagnoses=state.diagnoses, programs=len(state.programs),
        rounds=loop.config.rounds,
        seconds=round(sum(sum(record.seconds.values()) for record in records), 1),
        checkpoints={"before": state.first_checkpoint, "after": state.checkpoint}, versions=software_versions(),
    )


def software_versions() -> dict[str, str]:
    """Versions of what decides about results; absent packages are left out."""
    found = {}
    for name in ("coda_nodes", "mujoco", "torch", "transformers", "numpy", "rclpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
