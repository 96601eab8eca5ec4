"""The generator as a node: serves /coda/generator/generate."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from coda_interfaces.action import RunEpisodes
from coda_interfaces.srv import Generate

from coda_nodes.generator.sampling import base_stream, draw_valid
from coda_nodes.ros import names
from coda_nodes.ros.base import CodaNode, NodeSettings
from coda_nodes.ros.clients import ActionCaller
from coda_nodes.ros.node_main import run_node
from coda_nodes.world.config import setting
from coda_nodes.world.errors import ProgramError
from coda_nodes.world.programs import GenerationProgram, read_program
from coda_nodes.world.spec import EnvironmentSpec, specs_hash, write_specs
from coda_nodes.world.splits import load_splits


@dataclass(frozen=True)
class GeneratorSettings(NodeSettings):
    """Parameters of the generator."""

    solve_timeout: float = setting(3600.0, "time for the expert to try the environments", "s", 1.0, 1e6)


class GeneratorNode(CodaNode[GeneratorSettings]):
    """Samples environments and keeps the valid ones."""

    def __init__(self) -> None:
        super().__init__("generator", GeneratorSettings)
        self._splits = load_splits()
        self._episodes = ActionCaller(self, RunEpisodes, names.RUN_EPISODES)
        self.serve(Generate, names.GENERATE, self._generate)

    def _generate(self, request: Generate.Request, response: Generate.Response) -> Any:
        programs = [read_program(text) for text in request.programs_json]
        if not programs or not request.count:
            raise ProgramError(
                f"{len(programs)} programs and {request.count} environments: expected one or more"
            )
        specs: list[EnvironmentSpec] = []
        rejections: list[str] = []
        for program, count in zip(programs, _shares(request.count, len(programs)), strict=True):
            drawn = draw_valid(program, count, base_stream(program, int(request.seed)), self._splits)
            specs += drawn.specs
            rejections += [_rejection(program, reason) for reason in drawn.rejections]
        if request.require_solvable and specs:
            specs = self._solvable(specs, request, response, rejections)
        response.accepted = True
        response.accepted_count = len(specs)
        response.rejections_json = rejections
        response.environments_hash = self._keep(specs)
        return response

    def _keep(self, specs: Sequence[EnvironmentSpec]) -> str:
        key = specs_hash(specs) if specs else ""
        if specs and not self.root.environments(key).exists():
            write_specs(self.root.environments(key), specs)
        return key

    def _solvable(
        self, specs: list[EnvironmentSpec], request: Any, response: Any, rejections: list[str]
    ) -> list[EnvironmentSpec]:
        """Those environments that the expert solves in the simulator; the response says what that cost."""
        goal = RunEpisodes.Goal(
            environments_hash=self._keep(specs),
            checkpoint_hash="expert",
            seed=request.seed,
            episodes_per_environment=1,
            purpose="solvability",
        )
        ended = self._episodes.run(goal, self.settings.solve_timeout)
        response.environments_spent = len(specs)
        response.control_steps_spent = ended.control_steps
        lines = (self.root.path / "episodes" / f"{ended.episodes_hash}.jsonl").read_text().splitlines()
        solved = [json.loads(line)["outcome"] == "success" for line in lines]
        for spec, good in zip(specs, solved, strict=True):
            if not good:
                reason = "the expert does not solve it"
                rejections.append(json.dumps({"program": spec.provenance.program_id, "reason": reason}))
        return [spec for spec, good in zip(specs, solved, strict=True) if good]


def _shares(count: int, programs: int) -> list[int]:
    """Environments of each program when they are drawn from in turn."""
    return [count // programs + (i < count % programs) for i in range(programs)]


def _rejection(program: GenerationProgram, reason: str) -> str:
    return json.dumps({"program": program.program_id, "family": program.family, "reason": reason})


def main() -> int:
    """Run the generator."""
    return run_node(GeneratorNode)


if __name__ == "__main__":
    sys.exit(main())
