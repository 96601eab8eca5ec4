"""What a vision-language critic may see of an episode: pictures, instruction, names, and where the gripper was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from coda_nodes.world.artifacts import pack_arrays, unpack_arrays, write_atomic
from coda_nodes.world.episode import Episode
from coda_nodes.world.errors import ArtifactError

Image = NDArray[np.uint8]
"""RGB, first row at the top. Shape (H, W, 3)."""


@dataclass(frozen=True)
class Box:
    """A square part of a picture: middle and width, as shares of the picture's height; u from its middle, v from its top."""

    u: float
    v: float
    width: float


@dataclass(frozen=True)
class Frame:
    """One picture: its camera (``wrist``, ``scene``, or a part of the scene's: ``scene gripper``, ``scene object``),
    chunk boundary, time since reset [s], and why the moment is key."""

    camera: str
    boundary: int
    time: float
    reason: str
    image: Image
    box: Box | None = None
    """Where a part lies in its camera's picture."""


@dataclass(frozen=True)
class View:
    """An episode without simulator truth. ``T`` chunks give T + 1 boundaries."""

    family: str
    instruction: str
    things: tuple[str, ...]
    """Names of everything in the scene."""
    frames: tuple[Frame, ...]
    """In order of time."""
    times: NDArray[np.float64]
    """Of each boundary since reset [s]. Shape (T + 1,)."""
    tool_position_base: NDArray[np.float64]
    """Tool frame [m]. Shape (T + 1, 3)."""
    gripper_opening: NDArray[np.float64]
    """0 closed to 1 open, measured. Shape (T + 1,)."""
    episode: str = ""
    """Content hash, as ``environment``; empty: there is none."""
    environment: str = ""

    def cameras(self) -> tuple[str, ...]:
        """Cameras of the frames, each once."""
        return tuple(dict.fromkeys(frame.camera for frame in self.frames))

    def of(self, camera: str) -> list[Frame]:
        """Frames of one camera."""
        return [frame for frame in self.frames if frame.camera == camera]

    def save(self, path: Path) -> None:
        """Write as npz (no pickle) by atomic rename. Raises ArtifactError when the disk refuses."""
        arrays = {f"frame.{number}": frame.image for number, frame in enumerate(self.frames)}
        arrays.update(times=self.times, tool=self.tool_position_base, opening=self.gripper_opening)
        document = {
            "family": self.family, "instruction": self.instruction, "things": self.things,
            "episode": self.episode, "environment": self.environment,
            "frames": [_plain(frame) for frame in self.frames],
        }  # fmt: skip
        write_atomic(path, pack_arrays(arrays, document))

    @staticmethod
    def load(path: Path) -> View:
        """Read a view. Raises ArtifactError when it is missing, damaged or something else."""
        arrays, document = unpack_arrays(path)
        try:
            frames = tuple(
                Frame(camera, int(boundary), float(time), reason, arrays[f"frame.{number}"], Box(*box) if box else None)
                for number, (camera, boundary, time, reason, box) in enumerate(document["frames"])
            )
            return View(
                document["family"], document["instruction"], tuple(document["things"]), frames, arrays["times"],
                arrays["tool"], arrays["opening"], document["episode"], document["environment"],
            )  # fmt: skip
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"{path} is not a view of an episode: {error}") from error


def _plain(frame: Frame) -> list:
    box = [frame.box.u, frame.box.v, frame.box.width] if frame.box else None
    return [frame.camera, frame.boundary, frame.time, frame.reason, box]


ViewSource = Callable[[Episode], View]
"""Where pictures of an episode come from: drawn, or read below the artifact root."""
