"""The learner as a node: serves /coda/learner/train."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

from coda_interfaces.action import Train

from coda_nodes.learner.training import read_dataset, run_program
from coda_nodes.ros import names
from coda_nodes.ros.base import CodaNode, Goal, NodeSettings
from coda_nodes.ros.node_main import run_node
from coda_nodes.world.errors import NodeError
from coda_nodes.world.programs import read_training


@dataclass(frozen=True)
class LearnerSettings(NodeSettings):
    """Parameters of the learner."""


class _Cancelled(NodeError):
    pass


class LearnerNode(CodaNode[LearnerSettings]):
    """Trains one candidate at a time."""

    def __init__(self) -> None:
        super().__init__("learner", LearnerSettings)
        self.serve_action(Train, names.TRAIN, self._train)

    def _train(self, goal: Goal) -> Train.Result:
        request = goal.request
        program = read_training(request.training_program_json)
        dataset = read_dataset(self.root.path / "datasets" / f"{request.dataset_hash}.jsonl")

        def on_progress(step: int, total: int, loss: float, seconds_left: float) -> None:
            if goal.cancelled:
                raise _Cancelled(f"training was cancelled at step {step} of {total}")
            goal.feedback(step=step, total=total, loss=loss, seconds_left=seconds_left)

        made = run_program(
            program, dataset, self.root, request.parent_checkpoint_hash, request.seed, on_progress
        )
        return Train.Result(
            accepted=True, checkpoint_hash=made.checkpoint, metrics_json=json.dumps(made.metrics)
        )


def main() -> int:
    """Run the learner."""
    return run_node(LearnerNode)


if __name__ == "__main__":
    sys.exit(main())
