"""A view as arrays of fixed shape for our small model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from coda_nodes.critic.vision.moments import MOMENTS, REASONS
from coda_nodes.critic.vision.sight import picture_fault
from coda_nodes.critic.vision.view import Image, View
from coda_nodes.policy.grounding import ground
from coda_nodes.world.spec import FAMILIES
from coda_nodes.world.state import ENTITY_SLOTS

CAMERAS = ("wrist", "scene", "scene gripper", "scene object", "scene goal")
SIDE = 64
"""Pixels of the pictures the model sees."""
TRACK = 24
"""Points of the gripper's way."""
LONG = 20.0
"""Time that counts 1 [s]."""
Arrays = dict[str, NDArray]


def encode(view: View, similarity: Callable) -> Arrays:
    """Arrays of a view.

    ``images`` (M, C, S, S, 3) uint8, ``seen`` (M, C) bool, ``boxes`` (M, C, 3), ``moments`` (M, 5): time, tool [m],
    opening; ``reasons`` (M,) int, -1: none; ``track`` (TRACK, 4): tool [m], opening; ``duration`` (1,);
    ``mentions`` (K, 2): whether a thing is mentioned, and in which order; ``family`` () int.
    Pictures that show nothing count as not seen.
    """
    boundaries = sorted({frame.boundary for frame in view.frames})[:MOMENTS]
    made: Arrays = {
        "images": np.zeros((MOMENTS, len(CAMERAS), SIDE, SIDE, 3), np.uint8),
        "seen": np.zeros((MOMENTS, len(CAMERAS)), bool),
        "boxes": np.zeros((MOMENTS, len(CAMERAS), 3), np.float32),
        "moments": np.zeros((MOMENTS, 5), np.float32),
        "reasons": np.full(MOMENTS, -1, np.int64),
        "track": _track(view),
        "duration": np.array([view.times[-1] / LONG], np.float32),
        "mentions": _mentions(view.instruction, view.things, similarity),
        "family": np.array(FAMILIES.index(view.family)),
    }
    for frame in view.frames:
        if frame.boundary not in boundaries or frame.camera not in CAMERAS:
            continue
        m, c = boundaries.index(frame.boundary), CAMERAS.index(frame.camera)
        made["reasons"][m] = REASONS.index(frame.reason) if frame.reason in REASONS else len(REASONS) - 1
        tool, opening = view.tool_position_base[frame.boundary], view.gripper_opening[frame.boundary]
        made["moments"][m] = [frame.time / LONG, *tool, opening]
        if not picture_fault(frame.image) or frame.camera in CAMERAS[2:]:
            made["seen"][m, c] = picture_fault(frame.image) != "black"
            made["images"][m, c] = _square(frame.image)
        if frame.box is not None:
            made["boxes"][m, c] = [frame.box.u, frame.box.v, frame.box.width]
    return made


def _square(image: Image) -> Image:
    """The middle square of a picture at the model's resolution."""
    height, width = image.shape[:2]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    part = image[top : top + side, left : left + side]
    if side == SIDE:
        return part
    return cv2.resize(part, (SIDE, SIDE), interpolation=cv2.INTER_AREA if side > SIDE else cv2.INTER_LINEAR)  # type: ignore[return-value]


def _track(view: View) -> NDArray[np.float32]:
    rows = np.linspace(0, len(view.times) - 1, TRACK).round().astype(int)
    return np.concatenate([view.tool_position_base[rows], view.gripper_opening[rows, None]], 1).astype(np.float32)


def _mentions(instruction: str, things: Sequence[str], similarity: Callable) -> NDArray[np.float32]:
    order = np.asarray(ground(instruction, things, similarity).first)[:ENTITY_SLOTS]
    made = np.zeros((ENTITY_SLOTS, 2), np.float32)
    made[: len(order), 0] = order >= 0
    made[: len(order), 1] = np.where(order >= 0, 1.0 / (1.0 + np.maximum(order, 0)), 0.0)
    return made
