"""Search by meaning, and cures of similar failures, on a history whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest

from coda_nodes.memory.retrieval import Retrieval, agreement
from coda_nodes.policy.language import SentenceEncoder
from coda_nodes.world.errors import NotAvailableError

from .histories import diagnosis, program, remember

MASS = {"axis": "dynamics", "object": "blue cube", "parameter": "mass", "observed": 0.25, "nominal": 0.11}
GLARE = {
    "axis": "appearance",
    "object": "scene",
    "parameter": "light_intensity",
    "observed": 0.6,
    "nominal": 0.78,
}


class Counting:
    """A real encoder that counts the texts it is asked for."""

    def __init__(self) -> None:
        self.encoder, self.asked = SentenceEncoder(), 0

    def __call__(self, texts):
        self.asked += len(texts)
        return self.encoder.encode(list(texts))


@pytest.fixture(scope="module")
def encode():
    return Counting()


@pytest.fixture
def history(store):
    """Cured in stack: a heavy object slips. Others: glare (cured), a position (refuted), a mass (never
    learned)."""
    slip = {"stage": "lift", "failure_mode": "slip"}
    heavy = diagnosis("The heavy block slid out of the fingers.", family="stack", cause=MASS, **slip)
    glare = diagnosis("The camera was blinded.", family="push_insert", cause=GLARE, stage="approach")
    far = diagnosis("It stood too far away.")
    stubborn = diagnosis("The weight was too much.", family="articulated", cause=MASS, **slip)
    weigh, shine = (
        {"kind": "reweigh", "mass": [0.2, 0.25]},
        {"kind": "perturb_camera", "light_intensity": [0.55, 0.6]},
    )
    return {
        "heavy": remember(store, heavy, program("stack", weigh)),
        "glare": remember(store, glare, program("push_insert", shine)),
        "far": remember(store, far, program(), verdict="refuted"),
        "stubborn": remember(store, stubborn, program("articulated", weigh), successes=(2, 2)),
    }


def new_failure():
    return diagnosis(
        "The cube slipped from the gripper because it weighs too much.",
        cause=MASS,
        stage="lift",
        failure_mode="slip",
    )


def test_a_new_failure_finds_what_cured_a_similar_one_in_another_family(store, history, encode):
    cures = Retrieval(store, encode).cures(new_failure())
    assert [cure.program.program_id for cure in cures] == [
        history["heavy"].program_id,
        history["glare"].program_id,
    ]
    assert cures[0].similarity > 0.75 > 0.45 > cures[1].similarity
    assert cures[0].program.family == "stack" and cures[0].gain == pytest.approx(10 / 12 - 2 / 12)
    assert "cured slip during lift" in cures[0].sentence and "+67 points" in cures[0].sentence


def test_without_an_encoder_shared_words_decide(store, history):
    def absent(texts):
        raise NotAvailableError("no sentence encoder: not installed")

    for retrieval in (Retrieval(store), Retrieval(store, absent)):
        cures = retrieval.cures(new_failure())
        assert cures[0].program.program_id == history["heavy"].program_id
        assert (
            retrieval.similar("heavy block slid", "diagnosis", limit=1)[0].record.fields["family"] == "stack"
        )


def test_refuted_unproven_and_unlearned_programs_cure_nothing(store, history, encode):
    found = {cure.program.program_id for cure in Retrieval(store, encode).cures(new_failure(), limit=10)}
    assert history["far"].program_id not in found and history["stubborn"].program_id not in found


def test_meaning_finds_paraphrases(store, history, encode):
    retrieval = Retrieval(store, encode)
    best = retrieval.similar("weight made the grip fail", "diagnosis", limit=2)
    assert {match.record.fields["axis"] for match in best} == {"dynamics"}
    assert best[0].similarity >= best[1].similarity
    only = retrieval.similar("weight made the grip fail", "diagnosis", {"family": "push_insert"})
    assert [match.record.fields["family"] for match in only] == ["push_insert"]
    assert retrieval.similar("anything", "failure") == []


def test_vectors_are_kept_in_the_store(store, history, encode):
    Retrieval(store, encode).similar("one thing", "diagnosis")
    asked = encode.asked
    again = Retrieval(store, encode).similar("another thing", "diagnosis")
    assert encode.asked == asked + 1
    direct = encode.encoder.encode([again[0].record.text])[0] @ encode.encoder.encode(["another thing"])[0]
    assert again[0].similarity == pytest.approx(max(0.0, float(direct)), abs=1e-5)


def test_an_empty_memory_has_no_cures(store, encode):
    assert Retrieval(store, encode).cures(new_failure()) == []
    assert Retrieval(store).similarities("x", []).shape == (0,)


def test_agreement_counts_the_parts_that_are_equal():
    one = diagnosis()
    assert agreement(one, one) == pytest.approx(0.6)
    elsewhere = diagnosis(cause={"parameter": "receptacle_x", "object": "blue bin"})
    assert agreement(one, elsewhere) == pytest.approx(0.6)
    assert agreement(one, diagnosis(cause={"parameter": "object_y"})) == pytest.approx(0.4)
    assert agreement(one, diagnosis(stage="lift", cause=MASS)) == pytest.approx(0.1)
    assert agreement(one, one.model_copy(update={"cause": None})) == pytest.approx(0.2)


def test_order_is_that_of_the_scores(store, history, encode):
    matches = Retrieval(store, encode).similar("slip", "diagnosis")
    scores = [match.similarity for match in matches]
    assert scores == sorted(scores, reverse=True) and len(scores) == 4
    assert np.all((np.array(scores) >= 0) & (np.array(scores) <= 1))
