"""Camera topics: images are drawn only where somebody listens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node
from sensor_msgs.msg import CameraInfo, Image

from coda_nodes.ros import names, qos
from coda_nodes.ros.images import camera_frame, camera_info, image_to_message
from coda_nodes.world.errors import NotAvailableError
from coda_nodes.world.spec import CameraSpec

Draw = Callable[[str], NDArray[np.uint8]]
"""Camera name -> picture (H, W, 3) rgb, first row on top."""


class CameraTopics:
    """Publishers of image and calibration for each camera of the scene; they stay when the scene changes."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._topics: dict[str, tuple[Any, Any]] = {}
        self._broken = False

    def offer(self, cameras: Sequence[CameraSpec]) -> None:
        """Announce the topics of these cameras."""
        for camera in cameras:
            if camera.name not in self._topics:
                images = qos.publisher(self._node, Image, names.camera_image(camera.name), qos.IMAGE)
                infos = qos.publisher(self._node, CameraInfo, names.camera_info(camera.name), qos.IMAGE)
                self._topics[camera.name] = (images, infos)

    def publish(self, cameras: Sequence[CameraSpec], draw: Draw, stamp: float) -> None:
        """Draw and publish what is listened to. Where nothing can be drawn, say so once and go on without."""
        for camera in cameras:
            images, infos = self._topics[camera.name]
            if self._broken or not (images.get_subscription_count() or infos.get_subscription_count()):
                continue
            try:
                picture = draw(camera.name)
            except NotAvailableError as error:
                self._broken = True
                self._node.get_logger().error(f"no camera images: {error}")
                return
            height, width, _ = picture.shape
            images.publish(image_to_message(picture, stamp, camera_frame(camera.name)))
            infos.publish(camera_info(camera, width, height, stamp))
