"""Mentions of entities in instructions."""

from __future__ import annotations

import numpy as np
import pytest

from coda_nodes.policy.grounding import ground

NAMES = ("red cube", "blue bin", "dark red cube", "drawer", "green can")


def _never(*_):
    raise AssertionError("similarity was asked although every phrase is matched")


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        ("put the red cube in the blue bin", [0, 1, -1, -1, -1]),
        ("Into the BLUE BIN,  put the red cube.", [1, 0, -1, -1, -1]),
        ("put the dark red cube in the blue bin", [-1, 1, 0, -1, -1]),
        ("put the green can in the drawer and then close the drawer", [-1, -1, -1, 1, 0]),
        ("move on", [-1, -1, -1, -1, -1]),
    ],
)
def test_literal_mentions(text, rank):
    assert ground(text, NAMES, _never).first.tolist() == rank


def test_a_name_inside_a_word_is_no_mention():
    assert ground("tidy up", ("up", "tid"), _never).first.tolist() == [0, -1]


def test_role_words_do_not_hold_names():
    grounding = ground("put the red cube in the blue bin", NAMES, _never)
    assert grounding.task_text == "put something in something"
    assert grounding.first_texts[:2] == ("put it", "in it")


def test_first_and_last_mention_differ():
    grounding = ground(
        "stack the red cube on the green can, then lift the blue bin on the red cube", NAMES, _never
    )
    assert (grounding.first_texts[0], grounding.last_texts[0]) == ("stack it", "on it")
    clauses = ("stack something on something", "lift something on something")
    assert (grounding.first_clauses[0], grounding.last_clauses[0]) == clauses
    assert grounding.first.tolist() == [0, 2, -1, -1, 1] and grounding.last.tolist() == [3, 2, -1, -1, 1]


def test_partners_are_paired_step_by_step():
    grounding = ground(
        "put the red cube in the blue bin, then put the green can in the blue bin", NAMES, _never
    )
    assert grounding.partners.tolist() == [[1, 1], [0, 4], [-1, -1], [-1, -1], [1, 1]]
    grounding = ground("close the drawer and then put the red cube in the drawer", NAMES, _never)
    assert grounding.partners[3].tolist() == [-1, 0] and grounding.partners[0].tolist() == [3, 3]


def test_paraphrased_names_are_matched_by_meaning(encoder):
    names = ("red cube", "blue cube", "yellow bin")
    grounding = ground("put the crimson block into the yellow bin", names, encoder.similarity)
    assert grounding.first.tolist() == [0, -1, 1]
    assert 0.3 < grounding.score[0] < 1 and grounding.score[2] == 1


def test_a_phrase_for_nothing_in_the_scene_is_ignored(encoder):
    grounding = ground(
        "on the count of three, lift the red cube", ("red cube", "blue bin"), encoder.similarity
    )
    assert grounding.first.tolist() == [0, -1]
    assert np.array_equal(grounding.score, [1, 0])
