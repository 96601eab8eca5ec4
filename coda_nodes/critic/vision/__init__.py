"""Vision-language critics: what they see, what they are asked, and who answers."""

from __future__ import annotations

from coda_nodes.critic.vision.options import VisionOptions
from coda_nodes.critic.vision.view import Frame, View, ViewSource

__all__ = ["Frame", "View", "ViewSource", "VisionOptions"]
