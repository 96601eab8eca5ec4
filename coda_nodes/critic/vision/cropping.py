"""Where things appear in the picture of a fixed camera, and the part of the picture around them.

Camera: pinhole, square pixels, vertical field of view as in ``CameraSpec``; pixels (u right, v down) from the upper left.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from coda_nodes.critic.vision.view import Box, Image
from coda_nodes.world.spec import CameraSpec

Array = NDArray[np.float64]
WINDOW = 0.26
"""Width of what a crop shows at the depth of its middle [m]."""
NEAREST = 0.05
"""Depth below which a point is not in front of the camera [m]."""


def box_around(camera: CameraSpec, point: Array) -> Box:
    """The box that shows WINDOW around a point [m, world frame]."""
    away, right, down = camera_axes(camera)
    offset = np.asarray(point) - np.array(camera.position)
    depth = max(float(offset @ away), NEAREST)
    focal = 0.5 / np.tan(np.radians(camera.fov_y) / 2)
    u, v = focal * float(offset @ right) / depth, 0.5 + focal * float(offset @ down) / depth
    return Box(float(np.clip(u, -2, 2)), float(np.clip(v, -1, 2)), float(np.clip(focal * WINDOW / depth, 0.02, 1.0)))


def camera_axes(camera: CameraSpec) -> tuple[Array, Array, Array]:
    """Unit vectors of viewing direction, right and down of a camera that is not rolled, world frame."""
    away = np.array(camera.look_at) - np.array(camera.position)
    away /= max(float(np.linalg.norm(away)), 1e-9)
    right = np.cross(away, [0.0, 0.0, 1.0])
    size = float(np.linalg.norm(right))
    right = right / size if size > 1e-6 else np.array([0.0, -1.0, 0.0])
    return away, right, np.cross(away, right)


def crop(image: Image, box: Box, size: int) -> Image:
    """The part of a picture in a box, ``size`` pixels square; what lies outside the picture is black."""
    height, width = image.shape[:2]
    half = box.width * height / 2
    u, v = width / 2 + box.u * height, box.v * height
    shrink = size / max(2 * half, 1e-6)
    # the picture is drawn into the square with pixel centres kept in place
    matrix = np.array([[shrink, 0, (half - u) * shrink + (shrink - 1) / 2], [0, shrink, (half - v) * shrink + (shrink - 1) / 2]])
    return cv2.warpAffine(image, matrix, (size, size), flags=cv2.INTER_LINEAR)  # type: ignore[return-value]


def mentioned(names: Sequence[str], order: Sequence[int]) -> list[int]:
    """Indices of the first two things an instruction mentions; ``order`` counts mentions, -1 for none."""
    return sorted((k for k in range(len(names)) if order[k] >= 0), key=lambda k: order[k])[:2]
