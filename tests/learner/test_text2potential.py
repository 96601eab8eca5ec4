"""Words to potentials: what is refined, grounded by name and paraphrase, in which unit, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from coda_nodes.critic.state import StateCritic
from coda_nodes.learner.text2potential import Text2Potential
from coda_nodes.learner.wording import statements
from coda_nodes.memory.training import compile_training
from coda_nodes.report.plots import potential_curve
from coda_nodes.simulator.actors import ScriptedActor
from coda_nodes.simulator.batch import BatchSimulator
from coda_nodes.simulator.rollout import rollout
from coda_nodes.world.diagnosis import CriticInfo, Diagnosis
from coda_nodes.world.errors import DiagnosisError, ProgramError
from coda_nodes.world.families import family
from coda_nodes.world.potentials import MEASURES, CompiledPotential, potential_of, trace_potential
from coda_nodes.world.programs import Regime, read_training
from coda_nodes.world.spec import FAMILIES, AllOf, Atom, EnvironmentSpec, ObjectSpec, Pose, RobotStart
from coda_nodes.world.splits import sample_split

PAGE = Path(__file__).parents[2] / "docs" / "potentials.md"
INSIDE = Atom(predicate="inside", args=("red cube", "blue bin"))
SECOND = Atom(predicate="inside", args=("green can", "black bin"))


def scene(goal=INSIDE) -> EnvironmentSpec:
    rows = (("red cube", "box", 0.0), ("green can", "cylinder", -0.1), ("blue bin", "bin", 0.25), ("black bin", "bin", -0.35))
    return EnvironmentSpec(
        family="pick_place", instruction="tidy up", goal=goal, robot_start=RobotStart(joint_positions=(0.0,) * 7),
        objects=tuple(
            ObjectSpec(
                name=name, shape=shape, role="receptacle" if shape == "bin" else "object", color=name.split()[0],
                half_extents=(0.07, 0.07, 0.03) if shape == "bin" else (0.02, 0.02, 0.02), pose=Pose.planar(0.45, y, 0.03),
            )
            for name, shape, y in rows
        ),
    )


def said(text: str, stage: str = "place", mode: str = "misaligned", **more) -> Diagnosis:
    return Diagnosis(text=text, stage=stage, failure_mode=mode, confidence=0.8, critic=CriticInfo(name="hf", version="1"), **more)


def never(*_):
    raise AssertionError("similarity was asked although every name is written out")


def of(diagnosis: Diagnosis, similarity=never, spec: EnvironmentSpec | None = None):
    return [s for s in Text2Potential(similarity).task(diagnosis, spec or scene()).stages if s.stage == diagnosis.stage]


@pytest.mark.parametrize(("stage", "measures"), [
    ("approach", ["over_object", "reach"]),
    ("grasp", ["over_object", "reach", "grasp"]),
    ("transport", ["lift", "transport"]),
    ("place", ["level", "lower"]),
])
def test_the_failed_stage_is_split_and_weighs_twice(stage: str, measures: list[str]) -> None:
    before = sum(s.weight for s in potential_of(scene()).stages if s.stage == stage)
    refined = of(said("The red cube missed.", stage))
    assert [s.measure for s in refined] == measures
    assert sum(s.weight for s in refined) == pytest.approx(2 * before)


@pytest.mark.parametrize("words", ["3 cm", "30 mm", "0.03 m", "3 centimetres", "3.0cm"])
def test_units_agree(words: str) -> None:
    stages = of(said(f"The red cube was released {words} too high."))
    assert [s.close for s in stages if s.measure == "lower"] == [pytest.approx(0.03)]


def test_what_should_be_becomes_a_stage_and_what_was_becomes_smoothing() -> None:
    high = of(said("The red cube should be 5 cm above the blue bin.", "transport"))
    assert {"clearance": pytest.approx(0.05)} in [s.parameters for s in high if s.measure == "lift"]
    left = of(said("The red cube must come in from 10 cm left of the blue bin.", "transport"))
    assert next(s for s in left if s.measure == "offset").parameters["y"] == pytest.approx(0.1)
    tilted = of(said("Keep it within 5 degrees in the base frame."))
    assert any(s.parameters.get("tilt") == pytest.approx(np.deg2rad(5)) for s in tilted)
    assert all(s.measure != "offset" for s in of(said("It ended 10 cm left of the blue bin.")))


def test_directions_follow_the_base_axes() -> None:
    texts = {"right of": ("y", -0.02), "behind": ("x", 0.02), "in front of": ("x", -0.02), "below": ("z", -0.02)}
    for words, (axis, value) in texts.items():
        found, = statements(f"It was 2 cm {words} the blue bin in the world frame.", scene(), never)
        assert (found.axis, found.value, found.reference) == (axis, pytest.approx(value), "blue bin")


def test_paraphrases_are_grounded_by_meaning(encoder) -> None:
    both = scene(AllOf(all_of=(INSIDE, SECOND)))
    spec = both.revise(goal=AllOf(all_of=(INSIDE, Atom(predicate="on", args=("green can", "black bin")))))
    task = Text2Potential(encoder.similarity).task(said("The fingers slid off the crimson cube.", "grasp"), spec)
    other = Text2Potential(encoder.similarity).task(said("The fingers slid off the green tin can.", "grasp"), spec)
    assert (task.predicate, other.predicate) == ("inside", "on")


@pytest.mark.parametrize(("text", "stage", "message"), [
    ("The arm struck the banana.", "place", "cannot ground 'banana'; the scene holds red cube, green can"),
    ("The pink cube fell.", "place", "cannot ground 'pink cube fell'; the scene holds"),
    ("It was 3 inches too high.", "place", "cannot ground '3 inches': units are mm, cm"),
    ("It was 3 cm off along the camera frame.", "place", "cannot ground 'in the camera frame': frames are world, base"),
    ("The red cube stayed.", "open", "no stage of this task 'open': approach, grasp"),
    ("It should be 3 cm away.", "place", "'3 cm away': cannot tell what to reach"),
])
def test_words_that_cannot_be_grounded_are_quoted(text: str, stage: str, message: str, encoder) -> None:
    with pytest.raises(DiagnosisError) as caught:
        of(said(text, stage), encoder.similarity)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", [
    "The red cube slid out of the closed hand 20 mm up.", "The open gripper stayed 40 mm over the red cube.",
    "The resting hand let go of the red cube 12 mm beside the blue bin.",
])
def test_what_the_state_critic_says_of_the_hand_needs_no_grounding(text: str) -> None:
    assert of(said(text, "grasp"), never)


def test_training_programs_hold_merged_potentials_and_older_ones_still_load() -> None:
    compiler, spec = Text2Potential(never), scene()
    pairs = [(said("The red cube slipped.", "grasp"), spec), (said("The red cube tilted.", "place"), spec)]
    tasks = [compiler.task(*pair) for pair in pairs]
    made = compile_training({}, Regime.NO_EXPERT, 100, 1e-3, task_potentials=tasks)
    assert made == compile_training({}, Regime.NO_EXPERT, 100, 1e-3, task_potentials=tasks[::-1])
    assert made.task_potentials == tuple(compiler.merged(pairs)) and len(made.task_potentials[0].diagnoses) == 2
    assert read_training(made.to_json()) == made
    plain = compile_training({}, Regime.NO_EXPERT, 100, 1e-3)
    old = json.loads(plain.to_json())
    del old["task_potentials"]
    assert read_training(old).training_id == plain.training_id != made.training_id
    with pytest.raises(ProgramError, match="merge them"):
        read_training({**old, "task_potentials": [task.model_dump() for task in tasks]})


@pytest.mark.parametrize("name", FAMILIES)
def test_every_stage_of_every_family_can_be_refined_and_failures_end_lower(name: str, encoder) -> None:
    """An expert whose hand opens at random fails; its diagnoses by the critic compile, and Phi tells it from success."""
    rng = np.random.default_rng(1)
    specs = [sample_split(name, "train", rng) for _ in range(6)]
    text2potential = Text2Potential(encoder.similarity)
    for stage in dict.fromkeys(s.name for s in family(name).stages(specs[0])):
        text2potential.potential(said("It stopped.", stage, "stopped_short"), specs[0])
    episodes = rollout(BatchSimulator(name, 6), specs, range(6), Clumsy(), noise=0.03)
    failed = [episode for episode in episodes if episode.outcome == "failure"]
    for episode in failed:
        potential = text2potential.potential(StateCritic().diagnose(episode), episode.spec)
        trace = trace_potential(episode, potential)
        assert trace.value[-1] < 1.0 and trace.stalled.startswith("stalled at stage")
        assert len(trace.time) == episode.states.n and "<svg" in potential_curve(trace)
    assert failed


class Clumsy(ScriptedActor):
    """The expert with a hand that opens in two of five chunks, by chance."""

    def begin(self, specs) -> None:
        super().begin(specs)
        self._rng = np.random.default_rng(0)

    def act(self, state, active):
        chunks = super().act(state, active).copy()
        chunks[self._rng.random(len(chunks)) < 0.4, :, 6] = 1.0
        return chunks


def test_the_page_lists_every_measure_with_its_units() -> None:
    rows = {line.split("`")[1].split("(")[0]: line for line in PAGE.read_text().splitlines() if line.startswith("| `")}
    assert set(MEASURES) == set(rows)
    for name, known in MEASURES.items():
        cells = [cell.strip() for cell in rows[name].split("|")]
        wanted = ", ".join(f"{key} {value:g} {known.units[key]}" for key, value in known.parameters.items()) or "none"
        assert cells[2:4] == [wanted, known.unit] and cells[4].strip("`") == known.doc


def test_the_examples_of_the_page_hold() -> None:
    """Each example: a JSON line with text and stage, then the stages it gives."""
    blocks = PAGE.read_text().split("```json\n")[1:]
    assert blocks
    for block in blocks:
        given = json.loads(block.split("```")[0])
        assert [s.words for s in of(said(given["text"], given["stage"]))] == given["gives"]
    assert CompiledPotential([scene()]).potentials[0] == potential_of(scene())
