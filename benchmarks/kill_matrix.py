"""Kills each node, a worker, the command and the whole tree in the middle of every step of a round; the run must not care.

    python benchmarks/kill_matrix.py
    python benchmarks/kill_matrix.py --victims simulator tree --steps validation training --out kills.json
    python benchmarks/kill_matrix.py --kills conductor:rollout simulator:validation tree:training --out kills.json

Several runs per victim (the last form: one run for all): a step that passes while the victim of the one before is being
started anew is left to the next run. In each step of round 1, half of its usual time after it began, the
victim gets SIGKILL. A node is started anew by the command; the command and the tree are started again here, with the same
words. At the end the run has to be the one that nobody disturbed, which is made in a single process first: the same result
of every step, the same episodes, each counted once, the same budget; nothing left running, no lock held, no half-written
file, and a note of every restart.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from coda_nodes.cli.provenance import provenance
from coda_nodes.cli.results import check
from coda_nodes.ros.graph import GRAPHS
from coda_nodes.world.artifacts import write_atomic

RESULT = Path(__file__).resolve().parent / "results" / "kill_matrix.json"
MINIATURE = {
    "families": "articulated", "regime": "no_expert", "rounds": 1, "workers": 1, "seed": 5, "held-out-environments": 0,
    "demonstrations": 10, "imitation-steps": 60, "batch-size": 64, "practice-environments": 3, "practice-corrections": 2,
    "practice-steps": 10, "environments": 6, "drafts": 1, "lookaheads": 4, "lookahead-branches": 4, "update-steps": 10,
    "dev-environments": 2, "gate-environments": 2, "gate-tolerance": 0.99, "progress-environments": 2, "node-restarts": 1000,
}
"""Settings of ``coda train`` with which every step of a round has something to do."""
NODES = GRAPHS["train"]
VICTIMS = (*NODES, "worker", "command", "tree")
ENDS_ALL = ("command", "tree")
"""Victims with which everything ends, so that the command has to be given again."""
SHARE = 0.5
"""Share of a step's usual time after which its victim is killed."""
PATIENCE = 240.0
"""Longest wait for anything [s]."""
GONE = 20.0
"""Time in which everything has to end after the command was killed [s]; the reaper gives nodes 3 s."""


def settings() -> list[str]:
    """The miniature as words of a command line."""
    return [word for name, value in MINIATURE.items() for word in (f"--{name}", str(value))]


def coda_train(out: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start ``coda train`` on the miniature in a session of its own."""
    command = [sys.executable, "-m", "coda_nodes.cli.main", "train", *settings(), "--out", str(out), *words]
    with open(out.parent / f"{out.name}.log", "ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)


def wait(condition: Callable[[], Any], what: str, limit: float = PATIENCE, pause: float = 0.001) -> None:
    """Wait until a condition holds. Raises TimeoutError that says ``what`` did not come."""
    until = time.monotonic() + limit
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(f"not within {limit:g} s: {what}")
        time.sleep(pause)


def results_of(run: Path, number: int = 1) -> dict[str, dict[str, Any]]:
    """Finished steps of a round, in the order in which they ended."""
    paths = sorted((run / "journal" / str(number)).glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    return {path.stem: json.loads(path.read_text()) for path in paths}


def outcome(run: Path) -> dict[str, Any]:
    """All that has to be the same in every run: results and budget of the steps, episodes, records, summary, memory."""
    untimed = [{k: v for k, v in json.loads((run / name).read_text()).items() if k not in ("seconds", "versions")}
               for name in ("rounds/0.json", "rounds/1.json", "summary.json")]
    steps = {f"{n}/{name}": _untimed(step) for n in (0, 1) for name, step in results_of(run, n).items()}
    with contextlib.closing(sqlite3.connect(run / "memory.sqlite")) as memory:
        rows = memory.execute("SELECT kind, id, state FROM records ORDER BY kind, id").fetchall()
    return {"steps": steps, "records": untimed, "episodes": sorted(p.name for p in run.glob("episodes/*.npz")), "memory": rows}


def _untimed(step: dict[str, Any]) -> dict[str, Any]:
    result = step["result"]
    if isinstance(result, dict) and "metrics" in result:
        timeless = {name: value for name, value in result["metrics"].items() if "seconds" not in name}
        result = {**result, "metrics": timeless}
    return {"result": result, "spent": step["spent"]}


class Run:
    """One run of the miniature whose processes are killed on the way."""

    def __init__(self, out: Path, usual: dict[str, float]) -> None:
        """``usual``: time of each step of round 1 in the order of the steps [s]."""
        self.out, self.usual = out, usual
        self.command = coda_train(out)
        self.seen: dict[int, psutil.Process] = {}
        self.starts = 1

    def begun(self, step: str) -> Path:
        """File whose appearance says that a step of round 1 begins."""
        before = list(self.usual)[list(self.usual).index(step) - 1] if step != next(iter(self.usual)) else ""
        return self.out / "journal" / "1" / f"{before}.json" if before else self.out / "rounds" / "0.json"

    def processes(self) -> list[psutil.Process]:
        """The command and all that descends from it; remembered, to see later that it is gone."""
        with contextlib.suppress(psutil.NoSuchProcess):
            top = psutil.Process(self.command.pid)
            for process in (top, *top.children(recursive=True)):
                self.seen.setdefault(process.pid, process)
        return [process for process in self.seen.values() if _alive(process)]

    def targets(self, victim: str) -> list[psutil.Process]:
        """The processes to kill; empty while the victim is not there (being started anew, or a worker not needed yet)."""
        if victim in ENDS_ALL:
            return self.processes() if victim == "tree" else [psutil.Process(self.command.pid)]
        module = f"coda_nodes.{'simulator.worker' if victim == 'worker' else f'{victim}.node'}"
        return [process for process in self.processes() if module in _words(process)]

    def kill(self, victim: str, step: str) -> dict[str, Any]:
        """Kill a victim in the middle of a step; return what was hit and how long that step then took to end [s].

        Nothing is killed where the step is over already, or the victim is still being started anew.
        """
        path, own = self.begun(step), self.out / "journal" / "1" / f"{step}.json"
        wait(lambda: path.exists() or self.command.poll() is not None, f"{step}, in which {victim} is to be killed")
        if own.exists() or self.command.poll() is not None:
            return {"victim": victim, "step": step, "hit": "", "killed": 0, "seconds": 0.0}
        time.sleep(SHARE * self.usual[step])
        targets = self.targets(victim)
        for process in targets:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        killed, finished = time.monotonic(), results_of(self.out)
        hit = next((name for name in self.usual if name not in finished), "end")
        cell: dict[str, Any] = {"victim": victim, "step": step, "hit": hit, "killed": len(targets)}
        if victim in ENDS_ALL:
            cell |= self._start_again()
        file = self.out / "journal" / "1" / f"{hit}.json" if hit != "end" else self.out / "summary.json"
        wait(lambda: file.exists() or self.command.poll() is not None, f"the end of {hit} after {victim} was killed", pause=0.01)
        return {**cell, "seconds": round(time.monotonic() - killed, 2)}

    def _start_again(self) -> dict[str, Any]:
        self.command.wait()
        begun = time.monotonic()
        with contextlib.suppress(TimeoutError):
            wait(lambda: not self.processes() and not locks(self.out), "the end of all processes and locks", GONE, 0.01)
        told, to_do = self._resumptions(), len(results_of(self.out)) < len(self.usual)
        gone = round(time.monotonic() - begun, 2)
        left = {"to_do": to_do, "orphans": len(self.processes()), "locks": locks(self.out), "gone": gone}
        self.command = coda_train(self.out)
        self.starts += 1
        # the next kill is to hit a run at work, not one that starts: the dying nodes may have finished this step yet
        wait(lambda: self.command.poll() is not None or self._resumptions() > told, "a note of what was resumed", pause=0.01)
        return left

    def _resumptions(self) -> int:
        log = self.out / "logs" / "train.log"
        return _count(log.read_text().splitlines(), "resumed:") if log.exists() else 0

    def end(self) -> None:
        """Wait for the end of the run. Raises RuntimeError where it ended with an error."""
        self.processes()  # to see later that they are gone
        wait(lambda: self.command.poll() is not None, "the end of the run", pause=0.05)
        if self.command.returncode:
            log = (self.out.parent / f"{self.out.name}.log").read_text()
            raise RuntimeError(f"the run ended with status {self.command.returncode}: {log[-800:]}")

    def close(self) -> None:
        """End whatever still runs."""
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.command.wait()


def _alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _words(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        return process.cmdline()
    return []


def locks(run: Path) -> list[str]:
    """Locks of a run that somebody holds: its two lock files and the memory's."""
    held = []
    for name in (".lock", ".rounds.lock"):
        if (run / name).exists():
            with open(run / name) as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    held.append(name)
    if (run / "memory.sqlite").exists():
        with contextlib.closing(sqlite3.connect(run / "memory.sqlite", timeout=0, isolation_level=None)) as memory:
            try:
                memory.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                held.append("memory.sqlite")
    return held


def compared(run: Run, whole: dict[str, Any], cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What is the same, and what is left behind, after a run was killed in several steps."""
    mine = outcome(run.out)
    with contextlib.suppress(TimeoutError):
        wait(lambda: not run.processes(), "the end of all processes", GONE, 0.05)
    told = (run.out / "logs" / "train.log").read_text().splitlines()
    different = [key for key, step in whole["steps"].items() if mine["steps"].get(key) != step]
    return {
        "same_episodes": mine["episodes"] == whole["episodes"], "same_records": mine["records"] == whole["records"],
        "same_memory": mine["memory"] == whole["memory"], "different_steps": different, "orphans": len(run.processes()),
        "locks": locks(run.out), "half_written": len(list(run.out.rglob(".*.part"))), "starts": run.starts,
        "restarts_told": _count(told, "is started anew"), "resumptions_told": _count(told, "resumed:"),
        "repeats_told": _count(told, "is done again"), "cells": list(cells),
    }


def _count(lines: Sequence[str], words: str) -> int:
    return sum(words in line for line in lines)


def faults(row: dict[str, Any]) -> list[str]:
    """What is wrong with a run, in words."""
    found = [name for name in ("same_episodes", "same_records", "same_memory") if not row[name]]
    found += [name for name in ("different_steps", "orphans", "locks", "half_written") if row[name]]
    cells = row["cells"]
    nodes = sum(cell["killed"] for cell in cells if cell["victim"] in NODES)
    unseen = sum(cell["killed"] for cell in cells if cell["victim"] in NODES and cell["hit"] == "end")  # the run was over
    if not nodes - unseen <= row["restarts_told"] <= nodes:
        found.append(f"{row['restarts_told']} restarts told for {nodes} killed nodes")
    hit = [cell["victim"] for cell in cells if cell["killed"] and cell["hit"] != "end" and cell.get("to_do", True)]
    begun_again = sum(victim in (*ENDS_ALL, "conductor") for victim in hit)
    if row["resumptions_told"] < begun_again:
        found.append(f"{row['resumptions_told']} resumptions told for {begun_again} interruptions")
    for cell in cells:
        found += [f"{cell['step']}: {name} {cell[name]}" for name in ("orphans", "locks") if cell.get(name)]
    return found


def whole_run(folder: Path) -> tuple[dict[str, Any], dict[str, float]]:
    """Outcome of a run that nobody disturbs, in a single process, and the time of its steps of round 1 [s]."""
    out = folder / "whole"
    if coda_train(out, "--in-process").wait(PATIENCE):
        raise RuntimeError((folder / "whole.log").read_text()[-800:])
    return outcome(out), {name: step["seconds"] for name, step in results_of(out).items()}


def disturbed_run(out: Path, kills: Sequence[tuple[str, str]], whole: dict[str, Any], usual: dict[str, float]) -> dict[str, Any]:
    """Comparison of a run with kills (victim, step), in the order of the steps, with the whole one."""
    run = Run(out, usual)
    try:
        cells = [run.kill(victim, step) for victim, step in kills]
        run.end()
        row = compared(run, whole, cells)
    finally:
        run.close()
    return {**row, "faults": faults(row)}


def main() -> int:
    """Run the matrix and write the result file; status 1 where a run was not the undisturbed one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--victims", nargs="+", choices=VICTIMS, default=VICTIMS)
    parser.add_argument("--steps", nargs="+", default=[], help="steps of round 1; all by default")
    parser.add_argument("--kills", nargs="+", default=[], help="VICTIM:STEP, in the order of the steps, all in one run")
    parser.add_argument("--passes", type=int, default=4, help="runs per victim at most: what one has missed, the next one tries")
    parser.add_argument("--out", type=Path, default=RESULT)
    args = parser.parse_args()
    console = Console(soft_wrap=True, highlight=False)
    about = provenance(" ".join(["python benchmarks/kill_matrix.py", *sys.argv[1:]]), [0])
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="coda-kill-") as folder:
        whole, usual = whole_run(Path(folder))
        steps = [step for step in usual if not args.steps or step in args.steps]
        plans = {victim: [(victim, step) for step in steps] for victim in args.victims}
        if args.kills:
            plans = {"several": [tuple(kill.split(":", 1)) for kill in args.kills]}
        figures = {"miniature": " ".join(settings()), "steps": list(usual), "episodes": len(whole["episodes"]), "runs": rows}
        for name, kills in plans.items():
            for number in range(1, args.passes + 1):
                row = rows[f"{name} {number}"] = disturbed_run(Path(folder) / f"{name}{number}", kills, whole, usual)
                hit = {cell["hit"] for cell in row["cells"] if cell["killed"]}
                kills = [kill for kill in kills if kill[1] not in hit]
                console.print(f"{name} {number}: killed in {', '.join(hit)}; {'; '.join(row['faults']) or 'nothing lost'}")
                write_atomic(args.out, json.dumps({**about, **figures}, indent=1, sort_keys=True).encode())
                if not kills:
                    break
    if args.out == RESULT:
        check(RESULT)
    return int(any(row["faults"] for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
