"""From a model's words to a diagnosis: read in the grammar, names compared with the scene, nothing executed."""

from __future__ import annotations

import re

from coda_nodes.critic.vision.view import View
from coda_nodes.world.diagnosis import SCENE, UNKNOWN, CriticInfo, Diagnosis, parse_diagnosis
from coda_nodes.world.errors import DiagnosisError, unknown

THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)
FENCE = re.compile(r"^\s*```\w*\s*$")
OURS = ("critic", "family", "episode", "environment")
"""Lines that the program writes, whatever a model says."""
LONGEST = 20_000
"""Letters of an answer that are looked at."""


class RejectedAnswerError(DiagnosisError):
    """A model gave no answer that can be read; ``answers`` are its words."""

    def __init__(self, message: str, answers: tuple[str, ...]) -> None:
        super().__init__(message)
        self.answers = answers


def read_answer(text: str, view: View, critic: CriticInfo) -> Diagnosis:
    """The diagnosis in an answer.

    Thoughts and code fences around it are left out, and what it says of critic, family and hashes is not believed.
    Raises DiagnosisError for anything else outside the grammar, a thing that is not in the scene, or a frame that
    there is not.
    """
    visible = "".join(sign if sign.isprintable() or sign == "\n" else " " for sign in text[:LONGEST].replace("\r\n", "\n"))
    lines = [line for line in THOUGHT.sub("", visible).split("\n") if not FENCE.match(line)]
    kept = [line for line in lines if line.partition(":")[0].strip() not in OURS]
    said = parse_diagnosis("\n".join(kept), critic)
    _check(said, view)
    context = {"family": view.family, "episode": view.episode, "environment": view.environment}
    return said.model_copy(update=context)


def _check(said: Diagnosis, view: View) -> None:
    if said.cause is not None and said.cause.object not in (SCENE, *view.things):
        raise DiagnosisError(unknown("object", said.cause.object, (SCENE, *view.things)))
    last = len(view.times) - 1
    for item in said.evidence:
        if item.frame is not None and item.frame > last:
            raise DiagnosisError(f"evidence at frame {item.frame}; the last one is {last}")


def cannot_tell(text: str, view: View, critic: CriticInfo) -> Diagnosis:
    """A diagnosis that says why nothing can be said."""
    return Diagnosis(
        text=text[:2000], stage=UNKNOWN, failure_mode=UNKNOWN, confidence=0.0, critic=critic, family=view.family,
        episode=view.episode, environment=view.environment,
    )  # fmt: skip
