"""The batch path and the interactive path over ROS on the same scenes: first chunks and outcomes.

    python benchmarks/paths_agree.py runs/train --scenes 100

Writes ``benchmarks/results/paths.json``. Batches hold many scenes and the interactive path one, so that the last bits
of the policy's arithmetic may differ; first chunks have to agree within 1e-6 and outcomes in 98 of 100 scenes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
from rich.progress import track

from coda_nodes.cli.measuring import stage_checkpoint
from coda_nodes.cli.provenance import provenance
from coda_nodes.cli.results import check
from coda_nodes.conductor.scenes import draw_valid
from coda_nodes.policy.runner import PolicyRunner
from coda_nodes.ros.lockstep import LockstepClient
from coda_nodes.ros.speed import simulator_client
from coda_nodes.simulator.workers import RolloutPool
from coda_nodes.world.artifacts import ArtifactRoot, write_atomic
from coda_nodes.world.episode import Episode
from coda_nodes.world.records import Summary
from coda_nodes.world.spec import FAMILIES, EnvironmentSpec

OUT = Path(__file__).resolve().parent / "results" / "paths.json"


def interactive(client: LockstepClient, policy: PolicyRunner, spec: EnvironmentSpec) -> tuple[np.ndarray, str]:
    """First chunk and outcome of one episode, a service call per chunk."""
    observation = client.reset(spec)
    policy.reset(1)
    first = None
    while True:
        chunk = policy.act(observation)[0]
        first = chunk if first is None else first
        answer = client.step(chunk)
        observation = answer.observation
        if answer.over:
            return first, "invalid" if answer.invalid else "success" if answer.success else "failure"


def main() -> None:
    """Measure and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a finished run, whose last checkpoint is used")
    parser.add_argument("--scenes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    specs = [spec for family in FAMILIES for spec in draw_valid(family, "dev", args.scenes // len(FAMILIES), rng)]
    key = Summary.model_validate_json((args.run / "summary.json").read_text()).checkpoints["after"]
    about = provenance(f"python benchmarks/paths_agree.py RUN --scenes {args.scenes} --seed {args.seed}", [args.seed])
    with tempfile.TemporaryDirectory(prefix="coda-paths-") as folder:
        root = ArtifactRoot(Path(folder))
        stage_checkpoint(args.run / "checkpoints" / key, root)
        with RolloutPool(2, root) as pool:
            batch = [Episode.load(root.episode(ended.hash)) for ended in pool.run(specs, key, args.seed)]
        policy = PolicyRunner.load(root.checkpoint(key))
        with simulator_client(root.path) as client:
            single = [interactive(client, policy, spec) for spec in track(specs, "interactive path")]
    differences = [float(np.abs(one.chunks[0] - first).max()) for one, (first, _) in zip(batch, single, strict=True)]
    equal = sum(one.outcome == outcome for one, (_, outcome) in zip(batch, single, strict=True))
    figures = {"episodes": len(specs), "first_chunk_difference_max": max(differences), "outcomes_equal": equal}
    write_atomic(OUT, json.dumps({**about, **figures}, indent=1, sort_keys=True).encode())
    check(OUT)


if __name__ == "__main__":
    main()
