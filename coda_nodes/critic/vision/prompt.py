"""What a model is asked: the documented prompt, then scene, times and pictures."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Literal

import cv2

from coda_nodes.critic.vision.view import Image, View
from coda_nodes.world.diagnosis import FAILURE_MODES, STAGES
from coda_nodes.world.ranges import AXES

MOST_QUOTED = 2000
"""Letters of an unreadable answer that are shown to the model again."""
PNG_LEVEL = 6


@dataclass(frozen=True)
class Message:
    """One turn of a conversation; parts are text or pictures."""

    role: Literal["system", "user", "assistant"]
    parts: tuple[str | Image, ...]


@lru_cache(maxsize=1)
def system_prompt() -> str:
    """``prompt.md`` with the words of the grammar filled in."""
    text = resources.files("coda_nodes.critic.vision").joinpath("prompt.md").read_text(encoding="utf-8")
    modes = "\n".join(f"- {name}: {meaning}" for name, meaning in FAILURE_MODES.items())
    return text.format(stages=", ".join(STAGES), axes=", ".join(AXES), modes=modes)


def first_messages(view: View, longest: int) -> tuple[Message, ...]:
    """The question about one failure; pictures at most ``longest`` pixels along their longer side."""
    things = ", ".join(view.things)
    parts: list[str | Image] = [
        f"Instruction: {view.instruction!r}\nTask family: {view.family}\nThings in the scene: {things}\n"
        f"Duration: {view.times[-1]:.1f} s"
    ]
    for number, frame in enumerate(view.frames, start=1):
        tool = ", ".join(f"{value:.2f}" for value in view.tool_position_base[frame.boundary])
        opening = f"gripper at ({tool}) m, opening {view.gripper_opening[frame.boundary]:.2f}"
        parts.append(f"Picture {number}: {frame.reason}, {frame.time:.1f} s, camera {frame.camera}, {opening}")
        parts.append(shrunk(frame.image, longest))
    parts.append("Why did it fail?")
    return (Message("system", (system_prompt(),)), Message("user", tuple(parts)))


def asked_again(messages: tuple[Message, ...], answer: str, complaint: str) -> tuple[Message, ...]:
    """The same conversation after an answer that could not be read."""
    again = f"This cannot be read: {complaint}. Answer again with the lines of the grammar only."
    return (*messages, Message("assistant", (answer[:MOST_QUOTED],)), Message("user", (again,)))


def shrunk(image: Image, longest: int) -> Image:
    """The picture no larger than ``longest`` pixels along its longer side."""
    height, width = image.shape[:2]
    if max(height, width) <= longest:
        return image
    scale = longest / max(height, width)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA)  # type: ignore[return-value]


def data_url(image: Image) -> str:
    """A picture as PNG in a data URL; equal pictures give equal text."""
    encoded = cv2.imencode(".png", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_PNG_COMPRESSION, PNG_LEVEL])[1]
    return "data:image/png;base64," + base64.b64encode(encoded.tobytes()).decode()
