"""``coda train``: co-evolve environments and a policy, and say what that bought."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from coda_nodes.cli.options import parse, with_help
from coda_nodes.conductor.config import TrainConfig
from coda_nodes.conductor.patience import Patience, PatienceConfig
from coda_nodes.conductor.ports import Report
from coda_nodes.conductor.run import claim, refuse_missing
from coda_nodes.report.run_log import RunLog
from coda_nodes.report.terminal import RunView, summary_table
from coda_nodes.ros.supervision import SupervisionConfig
from coda_nodes.world.artifacts import ArtifactRoot, sweep
from coda_nodes.world.config import from_mapping
from coda_nodes.world.errors import ArtifactError, NotAvailableError
from coda_nodes.world.locks import exclusive
from coda_nodes.world.records import Summary

LEAST_DISK = 500 * 2**20
"""Free disk that a run needs to begin [bytes]."""
LOCK = ".lock"
"""File in the run's folder that the process training there holds."""
Settings = with_help(TrainConfig)
Bearing = with_help(PatienceConfig)
Supervision = with_help(SupervisionConfig)


@dataclass(frozen=True)
class Options:
    """Run the loop; the same command continues a run that was cut short."""

    settings: Annotated[Any, tyro.conf.arg(constructor=Settings)] = field(default_factory=Settings)
    out: Path = Path("runs/train")
    """Folder of the run."""
    simulator: str = "mujoco"
    """mujoco (embedded) or gazebo."""
    domain_id: int | None = None
    """ROS domain id; by default ROS_DOMAIN_ID or a free one."""
    in_process: bool = False
    """Run the same loop in this process without ROS, for debugging."""
    patience: Annotated[Any, tyro.conf.arg(constructor=Bearing)] = field(default_factory=Bearing)
    """What the loop bears."""
    supervision: Annotated[Any, tyro.conf.arg(constructor=Supervision)] = field(default_factory=Supervision)
    """What is done about nodes that die or hang."""
    fresh: bool = False
    """Throw away an earlier run in the folder instead of continuing it."""


def run(words: Sequence[str]) -> int:
    """Run the verb."""
    console = Console()
    console.print("coda: starting", highlight=False)
    options = parse(Options, words, "train", __doc__ or "")
    config = from_mapping(TrainConfig, asdict(options.settings))
    _check(options, config)
    with _folder(options) as root:
        claim(root, config)
        with RunView(console) as view:
            _loop(options, config, root, RunLog(root.path / "logs" / "train.log", view.show))
        if config.held_out_environments:
            _evaluate_final(root, config.workers)
        _finish(root, console)
    return 0


def _check(options: Options, config: TrainConfig) -> None:
    """Refuse what this version cannot do before anything is started."""
    if options.simulator != "mujoco":
        raise NotAvailableError(f"--simulator {options.simulator}: only the embedded simulator (mujoco) is part of this version")
    refuse_missing(config)


@contextlib.contextmanager
def _folder(options: Options) -> Iterator[ArtifactRoot]:
    """The run's folder, made, checked and held by this process alone; with ``--fresh`` emptied.

    Raises:
        ArtifactError: another process trains there, the folder cannot be written, or the disk is nearly full.
    """
    out = options.out
    if options.fresh and out.exists() and not (out / "config.json").exists():
        raise ArtifactError(f"{out} is not the folder of a run (no config.json); nothing was deleted")
    try:
        out.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(out).free
    except OSError as error:
        raise ArtifactError(f"cannot create {out}: {error.strerror or error}") from error
    if free < LEAST_DISK:
        raise ArtifactError(f"{out} has {free // 2**20} MB of disk left; a run needs {LEAST_DISK // 2**20} MB")
    with exclusive(out / LOCK, f"another coda train is running in {out}; wait for it or choose another folder (--out)"):
        if options.fresh:
            _empty(out)
        sweep(out)
        try:
            yield ArtifactRoot(out.resolve())
        finally:
            sweep(out)


def _empty(folder: Path) -> None:
    """Delete everything in a run's folder but its lock."""
    try:
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name != LOCK:
                path.unlink()
    except OSError as error:
        raise ArtifactError(f"cannot delete {error.filename}: {error.strerror}") from error


def _loop(options: Options, config: TrainConfig, root: ArtifactRoot, report: Report) -> None:
    patience = from_mapping(PatienceConfig, asdict(options.patience))
    if options.in_process:
        from coda_nodes.conductor.local import LocalPorts
        from coda_nodes.conductor.run import run as run_loop

        with LocalPorts(root, config.workers, config.seed) as ports:
            run_loop(config, ports, root, report, Patience(root, patience))
        return
    from coda_nodes.ros.graph import GraphConfig
    from coda_nodes.ros.train_client import run_training

    graph = GraphConfig(
        artifact_root=str(root.path),
        simulator=options.simulator,
        workers=config.workers,
        own={"critic": {"critic": config.critic}, "conductor": asdict(patience)},
    )
    supervision = from_mapping(SupervisionConfig, asdict(options.supervision))
    run_training(asdict(config), graph, root.path, options.domain_id, report, supervision)


def _evaluate_final(root: ArtifactRoot, workers: int) -> None:
    """Open held_out in a process of its own, on the frozen checkpoints of the finished run."""
    command = [sys.executable, "-m", "coda_nodes.cli.main", "evaluate", "--final", str(root.path), "--workers", str(workers)]
    status = subprocess.run(command, check=False).returncode
    if status:
        raise ArtifactError(f"the final evaluation ended with status {status}; repeat it: coda evaluate --final {root.path}")


def _finish(root: ArtifactRoot, console: Console) -> None:
    from coda_nodes.report.html import write_report

    summary = Summary.model_validate_json((root.path / "summary.json").read_text())
    console.print(summary_table(summary))
    if summary.held_out_difference:
        mean, low, high = (100 * value for value in summary.held_out_difference)
        interval = f"(95 % interval {low:+.1f} to {high:+.1f})"
        console.print(f"held-out success changed by {mean:+.1f} points {interval}", highlight=False)
    paths = f"summary: {root.path / 'summary.json'}\nreport:  {write_report(root)}"
    console.print(paths, highlight=False, markup=False, soft_wrap=True)
