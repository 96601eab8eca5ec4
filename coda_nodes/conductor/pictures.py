"""Pictures of recorded episodes for vision-language critics, drawn from the states that an episode holds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from coda_nodes.critic.trace import Trace
from coda_nodes.critic.vision.cropping import box_around, crop, mentioned
from coda_nodes.critic.vision.moments import MOMENTS, moments
from coda_nodes.critic.vision.view import Box, Frame, View
from coda_nodes.policy.grounding import ground
from coda_nodes.policy.language import SentenceEncoder
from coda_nodes.simulator.render import Renderer
from coda_nodes.world.episode import Episode
from coda_nodes.world.geometry import rotation_matrices
from coda_nodes.world.spec import CameraSpec

SCENE_PIXELS, PART_PIXELS, WRIST_PIXELS = 480, 64, 96
"""Sides of the scene camera's picture, of the parts cut out of it, and of the wrist camera's."""
WRIST_AT, WRIST_TO = (0.075, 0.0, -0.11), (0.01, 0.0, 0.02)
"""Wrist camera and the point it looks at, in the tool frame [m]."""
WRIST_FOV = 68.0
"""[deg]"""


class Illustrator:
    """Draws views: a fixed camera of the scene with parts around gripper and named things, and a camera at the wrist."""

    def __init__(self, encoder: SentenceEncoder | None = None, wrist: bool = True) -> None:
        """Raises NotAvailableError when no OpenGL works."""
        self._scene, self._near = Renderer(SCENE_PIXELS, SCENE_PIXELS), Renderer(WRIST_PIXELS, WRIST_PIXELS)
        self._encoder, self._wrist = encoder or SentenceEncoder(), wrist

    def __call__(self, episode: Episode) -> View:
        """The view of an episode."""
        trace, spec, states = Trace(episode), episode.spec, episode.states
        named = mentioned(spec.entity_names, ground(spec.instruction, spec.entity_names, self._encoder.similarity).first.tolist())
        frames: list[Frame] = []
        for moment in moments(trace, MOMENTS):
            pictures = self._pictures(episode, moment.boundary, named)
            frames += [Frame(name, moment.boundary, moment.time, moment.reason, image, box) for name, image, box in pictures]
        return View(
            spec.family, spec.instruction, spec.entity_names, tuple(frames), np.array([trace.time(k) for k in range(states.n)]),
            states.tool_position_base, states.gripper_opening, episode.content_hash, spec.content_hash,
        )  # fmt: skip

    def _pictures(self, episode: Episode, row: int, named: list[int]) -> Iterator[tuple[str, np.ndarray, Box | None]]:
        spec, states = episode.spec, episode.states
        camera = spec.cameras[0]
        whole = self._scene.render(spec, states, camera.name, row)
        yield "scene", whole, None
        points = [("scene gripper", states.tool_position_base[row])]
        # a named thing is looked for where the task's perception saw it at the start
        points += zip(("scene object", "scene goal"), states.entity_position_base[0][named], strict=False)
        for name, point in points:
            box = box_around(camera, point)
            yield name, crop(whole, box, PART_PIXELS), box
        if self._wrist:
            near = _wrist_camera(states.tool_position_base[row], states.tool_quaternion_xyzw[row])
            yield "wrist", self._near.render(spec.revise(cameras=(near,)), states, near.name, row), None


def _wrist_camera(position: np.ndarray, quaternion: np.ndarray) -> CameraSpec:
    turn = rotation_matrices(quaternion)
    at, to = position + turn @ np.array(WRIST_AT), position + turn @ np.array(WRIST_TO)
    return CameraSpec(name="wrist", position=tuple(at.tolist()), look_at=tuple(to.tolist()), fov_y=WRIST_FOV)

