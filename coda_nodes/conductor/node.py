"""The conductor as a node: runs the rounds over the wire; serves /coda/conductor/run_rounds."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from coda_interfaces.action import RunEpisodes, RunRounds, Train
from coda_interfaces.srv import Compile, Diagnose, Generate, Query, Store

from coda_nodes.conductor.config import TrainConfig
from coda_nodes.conductor.patience import Patience, PatienceConfig
from coda_nodes.conductor.ports import DatasetItem, EpisodesRequest, Generated, Report, Trained
from coda_nodes.conductor.run import read_config, run
from coda_nodes.conductor.scenes import keep, recall
from coda_nodes.ros import names
from coda_nodes.ros.base import CodaNode, Goal, NodeSettings
from coda_nodes.ros.clients import ActionCaller, ServiceCaller
from coda_nodes.ros.converters import ProgressNote, progress_to_message
from coda_nodes.ros.node_main import run_node
from coda_nodes.world.artifacts import ArtifactRoot, content_hash, write_atomic
from coda_nodes.world.config import from_mapping, setting
from coda_nodes.world.diagnosis import Diagnosis, read_diagnosis
from coda_nodes.world.episode import EpisodeSummary
from coda_nodes.world.errors import ArtifactError, CodaError, ConfigError, NodeError
from coda_nodes.world.programs import GenerationProgram, TrainingProgram, read_program

ANSWER_TIME = 600.0
"""Time in which a service answers [s]."""
WORK_TIME = 24 * 3600.0
"""Time in which an action ends [s]; a node that dies is noticed long before."""
FOUND_TIME = 60.0
"""Time in which another node has to appear [s]: importing torch on a busy machine takes long."""
DIAGNOSED_AT_ONCE = 50
"""Episodes in one request to the critic, so that a cancelled run does not wait long."""


@dataclass(frozen=True)
class ConductorSettings(NodeSettings, PatienceConfig):
    """Parameters of the conductor."""

    autostart: bool = setting(False, "run the rounds at once and end with them")
    config_json: str = setting("", "settings of the run that is started by autostart, as a JSON object")


class RosPorts:
    """Implements ``conductor.ports.Ports`` by services and actions; a call is refused once stopped."""

    def __init__(
        self, node: CodaNode[Any], root: ArtifactRoot, stopped: Callable[[], bool] = lambda: False
    ) -> None:
        self._root, self._stopped = root, stopped
        self._generate = ServiceCaller(node, Generate, names.GENERATE)
        self._diagnose = ServiceCaller(node, Diagnose, names.DIAGNOSE)
        self._store = ServiceCaller(node, Store, names.STORE)
        self._query = ServiceCaller(node, Query, names.QUERY)
        self._compile = ServiceCaller(node, Compile, names.COMPILE)
        self._episodes = ActionCaller(node, RunEpisodes, names.RUN_EPISODES)
        self._train = ActionCaller(node, Train, names.TRAIN)

    def generate(self, programs: Sequence[GenerationProgram], counts: Sequence[int], seed: int) -> Generated:
        """See ``Ports``."""
        made = Generated([])
        for program, count in zip(programs, counts, strict=True):
            if count:
                request = Generate.Request(programs_json=[program.to_json()], count=count, seed=seed)
                answer = self._ask(self._generate, request)
                made.specs.extend(recall(self._root, answer.environments_hash))
                rejected = (json.loads(text) for text in answer.rejections_json)
                made.rejections.extend(f"{item['family']}: {item['reason']}" for item in rejected)
        return made

    def run_episodes(self, request: EpisodesRequest, report: Report | None = None) -> list[EpisodeSummary]:
        """See ``Ports``."""
        if not request.specs:
            return []
        goal = RunEpisodes.Goal(
            environments_hash=keep(self._root, request.specs),
            checkpoint_hash=request.actor,
            seed=request.seed,
            episodes_per_environment=1,
            record_states=request.record_physics,
            record_bags=request.bags > 0,
            max_bags=request.bags,
            execute=request.execute,
            noise=float(request.noise),
            starts_hash=_write_lines(self._root, "starts", [asdict(start) for start in request.starts]),
            purpose=request.purpose,
        )

        def relay(now: Any) -> None:
            if report and now.total:
                text = f"{now.done} of {now.total} episodes"
                report({"fraction": now.done / now.total, "text": text, "seconds_left": now.seconds_left})

        result = self._do(self._episodes, goal, relay)
        return _read_summaries(self._root.path / "episodes" / f"{result.episodes_hash}.jsonl")

    def diagnose(self, episodes: Sequence[str]) -> list[Diagnosis]:
        """See ``Ports``."""
        found: list[Diagnosis] = []
        for first in range(0, len(episodes), DIAGNOSED_AT_ONCE):
            part = list(episodes[first : first + DIAGNOSED_AT_ONCE])
            answer = self._ask(self._diagnose, Diagnose.Request(episode_hashes=part))
            for key, text in zip(part, answer.diagnoses_json, strict=True):
                if not text:
                    raise NodeError(f"episode {key} did not fail, so the critic has nothing to say about it")
                found.append(read_diagnosis(text))
        return found

    def store(self, kind: str, records: Sequence[dict[str, Any]]) -> list[str]:
        """See ``Ports``."""
        request = Store.Request(kind=kind, records_json=[json.dumps(record) for record in records])
        return list(self._ask(self._store, request).ids)

    def query(self, kind: str, query: dict[str, Any]) -> list[dict[str, Any]]:
        """See ``Ports``."""
        answer = self._ask(self._query, Query.Request(kind=kind, query_json=json.dumps(query)))
        return [json.loads(text) for text in answer.records_json]

    def compile(self, diagnoses: Sequence[Diagnosis]) -> list[GenerationProgram | None]:
        """See ``Ports``; diagnoses that the memory does not hold yet are stored."""
        ids = self.store("diagnosis", [diagnosis.model_dump(mode="json") for diagnosis in diagnoses])
        answer = self._ask(self._compile, Compile.Request(diagnosis_ids=ids))
        return [read_program(text) if text else None for text in answer.programs_json]

    def train(
        self,
        program: TrainingProgram,
        dataset: Sequence[DatasetItem],
        parent: str,
        seed: int,
        report: Report | None = None,
    ) -> Trained:
        """See ``Ports``."""
        goal = Train.Goal(
            training_program_json=program.to_json(),
            parent_checkpoint_hash=parent,
            seed=seed,
            dataset_hash=_write_lines(self._root, "datasets", [asdict(item) for item in dataset]),
        )

        def relay(now: Any) -> None:
            if report and now.total:
                text = f"step {now.step} of {now.total}, loss {now.loss:.3f}"
                report({"fraction": now.step / now.total, "text": text, "seconds_left": now.seconds_left})

        result = self._do(self._train, goal, relay)
        return Trained(result.checkpoint_hash, json.loads(result.metrics_json))

    def _ask(self, service: ServiceCaller, request: Any) -> Any:
        self._check()
        return service.call(request, ANSWER_TIME, FOUND_TIME)

    def _do(self, action: ActionCaller, goal: Any, relay: Callable[[Any], None]) -> Any:
        self._check()
        result = action.run(goal, WORK_TIME, relay, self._stopped, FOUND_TIME)
        self._check()
        return result

    def _check(self) -> None:
        if self._stopped():
            raise NodeError(
                "the run was cancelled; what is finished stays, and the same call continues from there"
            )


def _write_lines(root: ArtifactRoot, folder: str, items: Sequence[dict[str, Any]]) -> str:
    """Store JSON objects, one a line, as ``folder/<hash>.jsonl``; return the hash, empty without items."""
    if not items:
        return ""
    data = "".join(json.dumps(item, sort_keys=True) + "\n" for item in items).encode()
    key = content_hash(data)
    write_atomic(root.path / folder / f"{key}.jsonl", data)
    return key


def _read_summaries(path: Path) -> list[EpisodeSummary]:
    try:
        return [EpisodeSummary(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError, TypeError) as error:
        raise ArtifactError(f"cannot read episode summaries from {path}: {error}") from error


class ConductorNode(CodaNode[ConductorSettings]):
    """Runs one loop at a time on its worker thread."""

    def __init__(self) -> None:
        super().__init__("conductor", ConductorSettings)
        self.finished = threading.Event()
        """Set when the rounds started by ``autostart`` have ended; the process ends then."""
        self.status = 0
        self._stopped: Callable[[], bool] = self.background.closing.is_set
        self._ports = RosPorts(self, self.root, lambda: self._stopped())
        self.serve_action(RunRounds, names.RUN_ROUNDS, self._run_rounds)
        if self.settings.autostart:
            self.background.submit(self._run_alone)

    def _run_rounds(self, goal: Goal) -> RunRounds.Result:
        config = replace(self._config(goal.request.config_json), rounds=int(goal.request.rounds))
        self._stopped = lambda: goal.cancelled

        def show(event: dict[str, Any]) -> None:
            note = self._tell(event)
            goal.feedback(progress=progress_to_message(note, time.time()))

        run(config, self._ports, self.root, show, self._patience())
        return RunRounds.Result(accepted=True, summary_path="summary.json")

    def _run_alone(self) -> None:
        try:
            config = self._config(self.settings.config_json)
            run(config, self._ports, self.root, self._tell, self._patience())
        except CodaError as error:
            self.status = 2
            self.get_logger().error(str(error))
        finally:
            self.finished.set()

    def _patience(self) -> Patience:
        return Patience(self.root, self.settings, stopped=lambda: self._stopped())

    def _config(self, text: str) -> TrainConfig:
        """Settings asked for; those with which the run was begun where nothing is asked for."""
        if not text:
            return read_config(self.root.path / "config.json")
        try:
            data = json.loads(text)
        except ValueError as error:
            raise ConfigError(f"config_json is not JSON: {error} (got {text[:80]!r})") from error
        if not isinstance(data, dict):
            raise ConfigError(f"config_json is a JSON {type(data).__name__}: expected an object")
        return from_mapping(TrainConfig, data)

    def _tell(self, event: dict[str, Any]) -> ProgressNote:
        """Publish a progress event; its fields travel as JSON as well."""
        note = ProgressNote(
            node="conductor",
            phase=str(event.get("phase", event.get("event", ""))),
            text=str(event.get("text", "")),
            round=int(event.get("round", 0)),
            fraction=float(event.get("fraction", -1.0)),
            seconds_left=float(event.get("seconds_left", -1.0)),
            data_json=json.dumps(event),
        )
        self.report(note)
        return note


def main() -> int:
    """Run the conductor."""
    return run_node(ConductorNode)


if __name__ == "__main__":
    sys.exit(main())
