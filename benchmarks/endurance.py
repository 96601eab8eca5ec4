"""Many rounds of a miniature run, and what its processes hold at each: memory, file handles, threads.

    python benchmarks/endurance.py --rounds 200

Writes ``benchmarks/results/endurance.json``. Every round is a whole one: rollouts, diagnoses, a validation, training where a
cause was confirmed, the gate. Processes are looked at every two seconds; a figure of a round is the largest seen in it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from coda_nodes.cli.provenance import provenance
from coda_nodes.cli.results import check
from coda_nodes.world.artifacts import write_atomic

OUT = Path(__file__).resolve().parent / "results" / "endurance.json"
MINIATURE = {
    "families": "articulated", "regime": "no_expert", "workers": 1, "seed": 5, "held-out-environments": 0,
    "demonstrations": 10, "imitation-steps": 60, "batch-size": 64, "practice-environments": 3, "practice-corrections": 2,
    "practice-steps": 10, "environments": 6, "drafts": 1, "lookaheads": 2, "lookahead-branches": 4, "update-steps": 10,
    "dev-environments": 2, "gate-environments": 2, "gate-tolerance": 0.5, "progress-environments": 1,
}
POLL = 2.0
"""Between two looks at the processes [s]."""
SETTLED = 20
"""Round from which growth is counted: caches and allocators have filled by then."""
Figures = dict[str, list[float]]
"""Process name -> [resident memory in MB, file handles, threads]."""


def settings(rounds: int) -> list[str]:
    """The miniature as words of a command line."""
    return [word for name, value in {**MINIATURE, "rounds": rounds}.items() for word in (f"--{name}", str(value))]


def names(process: psutil.Process) -> str:
    """``conductor`` for a node of that name, ``worker``, or ``command``."""
    words = process.cmdline()
    module = next((word for word in words if word.startswith("coda_nodes.") and not word.endswith("child")), "")
    if module.endswith(".node"):
        return module.split(".")[1]
    return {"coda_nodes.simulator.worker": "worker", "coda_nodes.cli.main": "command"}.get(module, "")


def look(top: psutil.Process) -> Figures:
    """What the command and its descendants hold now."""
    found: Figures = {}
    for process in (top, *top.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            name = names(process)
            if name:
                found[name] = [process.memory_info().rss / 1e6, process.num_fds(), process.num_threads()]
    return found


def watch(out: Path, rounds: int, limit: float) -> tuple[dict[int, Figures], float]:
    """Run the miniature, for ``limit`` seconds at most; return the largest figures of each round, and the time it took [s]."""
    begun = time.monotonic()
    command = [sys.executable, "-m", "coda_nodes.cli.main", "train", *settings(rounds), "--out", str(out)]
    seen: dict[int, Figures] = {}
    with open(out.parent / "log", "wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as run:
        top = psutil.Process(run.pid)
        while run.poll() is None:
            number = len(list((out / "rounds").glob("*.json")))
            with contextlib.suppress(psutil.NoSuchProcess):
                for name, now in look(top).items():
                    before = seen.setdefault(number, {}).setdefault(name, [0.0, 0.0, 0.0])
                    seen[number][name] = [max(pair) for pair in zip(before, now, strict=True)]
            time.sleep(POLL)
            if time.monotonic() - begun > limit:
                run.send_signal(signal.SIGINT)
                run.wait()
                return seen, time.monotonic() - begun
    if run.returncode:
        raise RuntimeError((out.parent / "log").read_text()[-800:])
    return seen, time.monotonic() - begun


def summarise(seen: dict[int, Figures], rounds: int) -> dict[str, Any]:
    """Per process: figures at some rounds, and growth of the last tenth of the rounds over those after settling."""
    about = {}
    span = max(1, rounds // 10)
    for name in sorted({name for figures in seen.values() for name in figures}):
        rows = {number: figures[name] for number, figures in sorted(seen.items()) if name in figures}
        early = [row for number, row in rows.items() if min(SETTLED, rounds // 4) <= number < min(SETTLED, rounds // 4) + span]
        late = [row for number, row in rows.items() if rounds - span < number <= rounds]
        if early and late:
            first, last = ([sum(column) / len(part) for column in zip(*part, strict=True)] for part in (early, late))
            about[name] = {
                "memory_mb": [round(first[0], 1), round(last[0], 1)], "file_handles": [round(first[1], 1), round(last[1], 1)],
                "threads": [round(first[2], 1), round(last[2], 1)],
                "memory_mb_by_round": {str(n): round(row[0], 1) for n, row in rows.items() if n % span == 0 and n <= rounds},
            }
    return about


def main() -> None:
    """Measure and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=600.0, help="end the run after so long")
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    about = provenance(" ".join(["python benchmarks/endurance.py", *sys.argv[1:]]), [MINIATURE["seed"]])
    with tempfile.TemporaryDirectory(prefix="coda-endurance-") as folder:
        run = Path(folder) / "run"
        seen, seconds = watch(run, args.rounds, 60 * args.minutes)
        records = [json.loads(path.read_text()) for path in (run / "rounds").glob("*.json")]
        done = max(record["round"] for record in records)
        kept = {
            "episodes": len(list((run / "episodes").glob("*.npz"))), "disk_mb": round(_size(run) / 1e6, 1),
            "trained_rounds": sum(bool(record["candidate"]) and record["round"] > 0 for record in records),
        }
    figures = {
        "rounds": done, "settled": min(SETTLED, done // 4), "seconds": round(seconds, 1), "kept": kept,
        "processes": summarise(seen, done), "miniature": " ".join(settings(args.rounds)),
    }
    write_atomic(args.out, json.dumps({**about, **figures}, indent=1, sort_keys=True).encode())
    if args.out == OUT:
        check(OUT)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
