"""Pictures that show nothing are told apart; views keep what they hold."""

from __future__ import annotations

import numpy as np
import pytest
from vision_parts import picture, view_of

from coda_nodes.critic.vision import View
from coda_nodes.critic.vision.asking import AskingCritic
from coda_nodes.critic.vision.options import VisionOptions
from coda_nodes.critic.vision.sight import blindness, picture_fault
from coda_nodes.world.diagnosis import CriticInfo
from coda_nodes.world.errors import ArtifactError


def truncated(image: np.ndarray) -> np.ndarray:
    cut = image.copy()
    cut[len(cut) // 2 :] = 128
    return cut


BAD = {
    "black": np.zeros((48, 64, 3), np.uint8),
    "over-exposed": np.full((48, 64, 3), 250, np.uint8),
    "empty": np.full((48, 64, 3), 90, np.uint8),
    "truncated": truncated(picture(0)),
    "too small": picture(0)[:10],
    "not an RGB picture": picture(0)[:, :, 0],
}


@pytest.mark.parametrize("fault", BAD)
def test_each_fault_of_a_picture_is_named(fault):
    assert picture_fault(BAD[fault]) == fault
    assert picture_fault(picture(0)) == "" and picture_fault(picture(1, 96, 240)) == ""


class Unasked:
    """A model that must not be asked."""

    identity = {"kind": "none"}

    def reply(self, conversations):
        raise AssertionError("asked about pictures that show nothing")


@pytest.mark.parametrize("images", [[], [BAD["black"]], [BAD["over-exposed"], BAD["truncated"]]], ids=["none", "black", "two"])
def test_a_critic_that_sees_nothing_says_so_and_does_not_guess(images):
    view = view_of(images=images)
    critic = AskingCritic(CriticInfo(name="hf", version="none"), Unasked(), lambda _: view, VisionOptions())
    (found,) = critic.judge([view])
    assert (found.stage, found.failure_mode, found.cause, found.confidence) == ("unknown", "unknown", None, 0.0)
    assert blindness(view) == found.text and ("No camera" if not images else "cannot be used") in found.text


def test_one_good_picture_is_something_to_look_at():
    assert blindness(view_of(images=[BAD["black"], picture(3)])) == ""


def test_a_view_is_read_back_as_written(tmp_path):
    view = view_of(images=[picture(1), picture(2, 96, 80)])
    view.save(tmp_path / "v.npz")
    again = View.load(tmp_path / "v.npz")
    assert all(np.array_equal(a.image, b.image) for a, b in zip(view.frames, again.frames, strict=True))
    told = [(frame.camera, frame.boundary, frame.time, frame.reason) for frame in again.frames]
    assert told == [("scene", 0, 0.0, "start"), ("scene", 4, 1.6, "end")]
    assert (again.things, again.instruction, again.episode) == (view.things, view.instruction, view.episode)
    assert np.array_equal(again.times, view.times) and np.array_equal(again.tool_position_base, view.tool_position_base)


def test_a_damaged_view_is_refused(tmp_path):
    (tmp_path / "v.npz").write_bytes(b"PK\x03\x04 half")
    with pytest.raises(ArtifactError):
        View.load(tmp_path / "v.npz")
