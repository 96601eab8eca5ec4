"""Drawings that need no OpenGL: a schematic of a scene from above and from the side, and contact sheets."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from coda_nodes.simulator.render import Image, Renderer
from coda_nodes.world.colors import rgba
from coda_nodes.world.errors import NotAvailableError
from coda_nodes.world.geometry import rotation_matrices
from coda_nodes.world.spec import EnvironmentSpec, FixtureSpec, ObjectSpec
from coda_nodes.world.state import SceneState

Array = NDArray[np.float64]
Range = tuple[float, float]

X_RANGE, Y_RANGE, Z_RANGE = (0.15, 0.85), (-0.45, 0.45), (-0.02, 0.5)
"""What is shown [m]."""
PAPER, INK, TOOL = (245, 244, 240), (60, 60, 60), (20, 20, 20)
CAPTION_HEIGHT = 22
FONT = cv2.FONT_HERSHEY_SIMPLEX


def schematic(
    spec: EnvironmentSpec, state: SceneState, width: int = 256, height: int = 256, row: int = 0
) -> Image:
    """Top view (x up, y left) over side view (y left, z up) of a scene state, entities as outlines of their
    boxes."""
    top, side = round(height * 0.62), height - round(height * 0.62)
    picture = np.full((height, width, 3), PAPER, dtype=np.uint8)
    views = (
        _View((1, 0), (Y_RANGE, X_RANGE), width, top, 0),
        _View((1, 2), (Y_RANGE, Z_RANGE), width, side, top),
    )
    for view in views:
        _draw_entities(picture, view, spec, state, row)
        _draw_tool(picture, view, state, row)
    cv2.line(picture, (0, top), (width, top), INK, 1)
    return picture


class _View:
    """Orthographic projection on two world axes into a band of the picture; the first axis points left."""

    def __init__(
        self, axes: tuple[int, int], ranges: tuple[Range, Range], width: int, height: int, top: int
    ) -> None:
        self.axes, self._ranges, self._size, self._top = axes, ranges, (width, height), top
        self._scale = min(width / (ranges[0][1] - ranges[0][0]), height / (ranges[1][1] - ranges[1][0]))

    def pixels(self, points: Array) -> NDArray[np.int32]:
        """World points (m, 3) to pixels (m, 2)."""
        across = self._size[0] / 2 - (points[:, self.axes[0]] - np.mean(self._ranges[0])) * self._scale
        up = self._size[1] / 2 - (points[:, self.axes[1]] - np.mean(self._ranges[1])) * self._scale
        return (
            np.stack([across, np.clip(up, 0, self._size[1] - 1) + self._top], axis=1).round().astype(np.int32)
        )


def _draw_entities(picture: Image, view: _View, spec: EnvironmentSpec, state: SceneState, row: int) -> None:
    rotations = rotation_matrices(state.entity_quaternion_xyzw[row])
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=float)
    flat_first = sorted(range(len(spec.entities)), key=lambda k: not _hollow(spec, k))
    for k in flat_first:
        entity = spec.entities[k]
        centre, turn = state.entity_position_base[row, k], rotations[k]
        if isinstance(entity, FixtureSpec):
            # the state tells where the grip is; the body stands where the specification put it
            cv2.circle(picture, view.pixels(centre[None])[0].tolist(), 3, INK, -1)
            centre, turn = (
                np.array(entity.pose.position),
                rotation_matrices(np.array(entity.pose.quaternion_xyzw)),
            )
        points = centre + (corners * entity.half_extents) @ turn.T
        outline = cv2.convexHull(view.pixels(points))
        color = tuple(int(255 * part) for part in rgba(entity.color)[:3])
        if _hollow(spec, k):
            cv2.polylines(picture, [outline], True, color, 2)
        else:
            cv2.fillConvexPoly(picture, outline, color)
            cv2.polylines(picture, [outline], True, INK, 1)


def _hollow(spec: EnvironmentSpec, k: int) -> bool:
    entity = spec.entities[k]
    return not isinstance(entity, ObjectSpec) or entity.role in ("receptacle", "marker")


def _draw_tool(picture: Image, view: _View, state: SceneState, row: int) -> None:
    rotation = rotation_matrices(state.tool_quaternion_xyzw[row])
    reach = 0.04 * float(state.gripper_opening[row]) + 0.004
    tips = state.tool_position_base[row] + np.array([[-reach], [reach]]) * rotation[:, 1]
    back = tips - 0.06 * rotation[:, 2]
    path = view.pixels(np.array([tips[0], back[0], back[1], tips[1]]))
    cv2.polylines(picture, [path.reshape(-1, 1, 2)], False, TOOL, 2)


class Painter:
    """Draws with OpenGL where it works, else schematically; ``backend`` says which, ``reason`` why not the
    first."""

    def __init__(self, width: int = 256, height: int = 256) -> None:
        self._size = (width, height)
        self._renderer: Renderer | None = None
        self.reason = ""
        try:
            self._renderer = Renderer(width, height)
        except NotAvailableError as error:
            self.reason = str(error)

    @property
    def backend(self) -> str:
        """``egl``, ``osmesa`` or ``schematic``."""
        return "schematic" if self._renderer is None else self._renderer.backend

    def paint(self, spec: EnvironmentSpec, state: SceneState, row: int = 0, camera: str = "") -> Image:
        """Picture of row ``row`` of a scene state."""
        if self._renderer is None:
            return schematic(spec, state, *self._size, row=row)
        return self._renderer.render(spec, state, camera, row)


def contact_sheet(pictures: Sequence[Image], captions: Sequence[str], columns: int = 5) -> Image:
    """Pictures of one size in a grid, a line of text below each."""
    height, width = pictures[0].shape[:2]
    rows = -(-len(pictures) // columns)
    sheet = np.full((rows * (height + CAPTION_HEIGHT), columns * width, 3), PAPER, dtype=np.uint8)
    for number, (picture, caption) in enumerate(zip(pictures, captions, strict=True)):
        y, x = (number // columns) * (height + CAPTION_HEIGHT), (number % columns) * width
        sheet[y : y + height, x : x + width] = picture
        # a view, so that text too long for its column is cut at its edge
        strip = np.ascontiguousarray(sheet[y + height : y + height + CAPTION_HEIGHT, x : x + width])
        cv2.putText(strip, caption, (4, 15), FONT, 0.38, INK, 1, cv2.LINE_AA)
        sheet[y + height : y + height + CAPTION_HEIGHT, x : x + width] = strip
    return sheet
