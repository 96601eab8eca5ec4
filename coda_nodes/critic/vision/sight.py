"""Whether pictures show anything: missing, black, over-exposed, cut off or empty ones are told apart."""

from __future__ import annotations

import numpy as np

from coda_nodes.critic.vision.view import Image, View

DARK, BRIGHT = 12.0, 243.0
"""Mean brightness below or above which nothing is seen, of 0 to 255."""
FLAT = 4.0
"""Standard deviation of brightness below which a picture is empty."""
CUT = 0.3
"""Share of rows at the lower edge, all of one colour, from which a picture counts as truncated."""
SMALLEST = 16
"""Pixels of the shorter side that show anything."""


def picture_fault(image: Image) -> str:
    """Why a picture shows nothing; empty where it does."""
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        return "not an RGB picture"
    if min(image.shape[:2]) < SMALLEST:
        return "too small"
    grey = image.mean(axis=2)
    if grey.mean() < DARK:
        return "black"
    if grey.mean() > BRIGHT:
        return "over-exposed"
    if grey.std() < FLAT:
        return "empty"
    return "truncated" if _cut_rows(image) > CUT * len(image) else ""


def _cut_rows(image: Image) -> int:
    """Rows at the lower edge that are exactly of one colour, as a broken transfer leaves them."""
    same = (image == image[-1, -1]).all(axis=(1, 2))
    return int(len(image) if same.all() else np.argmin(same[::-1]))


def blindness(view: View) -> str:
    """What keeps a critic from seeing the failure at all; empty where at least one camera shows start or end."""
    if not view.frames:
        return "No camera: there are no pictures of this failure."
    faults = {camera: [picture_fault(frame.image) for frame in view.of(camera)] for camera in view.cameras()}
    if any(not all(found) for found in faults.values()):
        return ""
    told = "; ".join(f"{camera}: {', '.join(sorted(set(found)))}" for camera, found in faults.items())
    return f"The pictures cannot be used ({told})."
