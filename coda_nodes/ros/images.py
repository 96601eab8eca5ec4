"""Camera images and calibrations <-> arrays and camera specifications."""

from __future__ import annotations

import array

import cv2
import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import CameraInfo, Image

from coda_nodes.ros.quantities import doubles, header
from coda_nodes.world.errors import MessageError, unknown
from coda_nodes.world.spec import CameraSpec
from coda_nodes.world.topics import camera_frame as camera_frame

Picture = NDArray[np.uint8]

_TO_RGB: dict[str, tuple[int, int | None]] = {
    "rgb8": (3, None),
    "bgr8": (3, cv2.COLOR_BGR2RGB),
    "rgba8": (4, cv2.COLOR_RGBA2RGB),
    "bgra8": (4, cv2.COLOR_BGRA2RGB),
    "mono8": (1, cv2.COLOR_GRAY2RGB),
}
"""Encoding -> channels, and the conversion to rgb8."""


def image_to_message(rgb: Picture, stamp: float, frame: str) -> Image:
    """Image of encoding rgb8 from (H, W, 3), first row on top."""
    height, width, _ = rgb.shape
    data = array.array("B", np.ascontiguousarray(rgb).tobytes())  # buffer: a list would take 40 times as long
    return Image(
        header=header(stamp, frame), height=height, width=width, encoding="rgb8", step=3 * width, data=data
    )


def image_from_message(message: Image) -> Picture:
    """Colours (H, W, 3) rgb, first row on top; padded rows and the 8-bit colour encodings are understood.

    Raises:
        MessageError: an encoding that is not known, or fewer bytes than height and row step ask for.
    """
    if message.encoding not in _TO_RGB:
        raise MessageError(unknown("image encoding", message.encoding, _TO_RGB))
    channels, conversion = _TO_RGB[message.encoding]
    needed = message.width * channels
    if message.step < needed or len(message.data) < message.step * message.height:
        raise MessageError(
            f"image {message.width}x{message.height} {message.encoding} with row step {message.step} and "
            f"{len(message.data)} bytes: expected at least {needed} bytes in each row"
        )
    rows = np.frombuffer(message.data, np.uint8, message.step * message.height).reshape(
        message.height, message.step
    )
    pixels = rows[:, :needed].reshape(message.height, message.width, channels)
    if conversion is None:
        return np.ascontiguousarray(pixels)
    return np.asarray(cv2.cvtColor(np.ascontiguousarray(pixels), conversion), dtype=np.uint8)


def camera_info(camera: CameraSpec, width: int, height: int, stamp: float) -> CameraInfo:
    """Pinhole calibration of a camera without distortion.

    Square pixels, centre in the middle of the image.
    """
    k, p = camera.intrinsics(width, height)
    return CameraInfo(
        header=header(stamp, camera_frame(camera.name)),
        height=height,
        width=width,
        distortion_model="plumb_bob",
        d=doubles(np.zeros(5)),
        k=k.ravel(),
        r=np.eye(3).ravel(),
        p=p.ravel(),
    )

