"""Short films of episodes: animated WebP as data URIs, drawn from the states an episode holds."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from coda_nodes.simulator.schematic import Painter
from coda_nodes.world.episode import Episode
from coda_nodes.world.spec import CameraSpec

WIDTH, HEIGHT = 240, 180
CAMERA = CameraSpec(name="film", position=(1.12, 0.32, 0.64), look_at=(0.48, 0.0, 0.11), fov_y=40.0)
"""Films are for people: one near camera for all scenes, whatever camera the policy or a critic has."""
MOST_FRAMES = 16


@dataclass(frozen=True)
class Film:
    """An animated picture as a data URI."""

    data_uri: str
    schematic: bool


def film_of(path: Path, painter: Painter) -> Film:
    """Draw at most 16 frames of an episode, one per chunk boundary or fewer.

    Raises:
        ArtifactError: the episode is missing or damaged.
    """
    episode = Episode.load(path)
    spec = episode.spec.revise(cameras=(CAMERA,))
    frames = [painter.paint(spec, episode.states, row) for row in key_indices(episode.states.n)]
    return Film(animate(frames), painter.backend == "schematic")


def key_indices(count: int) -> list[int]:
    """Evenly spread indices of at most 16 of ``count`` states; first and last are in."""
    return sorted({int(i) for i in np.linspace(0, count - 1, min(count, MOST_FRAMES)).round()})


def animate(frames: list[np.ndarray], milliseconds: int = 250) -> str:
    """Encode (H, W, 3) uint8 frames as an endless animated WebP data URI; the last frame stays a second."""
    images = [Image.fromarray(frame) for frame in frames]
    durations = [milliseconds] * (len(images) - 1) + [1000]
    buffer = io.BytesIO()
    images[0].save(buffer, format="WEBP", save_all=True, append_images=images[1:], duration=durations, loop=0, quality=60)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()
