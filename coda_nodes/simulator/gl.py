"""Finds a way to draw without a screen: EGL, else OSMesa."""

from __future__ import annotations

import importlib
import logging
import os
import subprocess
import sys
from functools import lru_cache
from typing import Any

from coda_nodes.world.errors import NotAvailableError, unknown

log = logging.getLogger(__name__)

BACKENDS = ("egl", "osmesa")
PACKAGES = "libegl1 libgl1-mesa-dri (EGL), or libosmesa6 (OSMesa)"
"""Debian and Ubuntu packages that bring software rendering."""
_PROBE = "import mujoco, mujoco.{0} as gl; c = gl.GLContext(16, 16); c.make_current(); mujoco.MjrContext"
PROBE_SECONDS = 30.0


def works(backend: str) -> bool:
    """Whether a context of ``backend`` can be made. Tried in a process of its own: OpenGL keeps the first
    platform it is given, and a broken driver may end the process."""
    environment = {**os.environ, "MUJOCO_GL": backend, "PYOPENGL_PLATFORM": backend}
    try:
        probe = subprocess.run(
            [sys.executable, "-c", _PROBE.format(backend)],
            env=environment,
            capture_output=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return probe.returncode == 0


@lru_cache(maxsize=1)
def find_backend() -> str:
    """Name of the first back end that works; ``MUJOCO_GL`` (egl or osmesa) restricts the choice.

    Raises:
        NotAvailableError: none works (the message names the Debian packages), or MUJOCO_GL names another.
    """
    asked = os.environ.get("MUJOCO_GL", "").lower()
    if asked and asked not in BACKENDS:
        raise NotAvailableError(f"MUJOCO_GL: {unknown('off-screen back end', asked, BACKENDS)}")
    for backend in (asked,) if asked else BACKENDS:
        if works(backend):
            log.info("drawing with %s", backend)
            return backend
    raise NotAvailableError(
        f"no off-screen OpenGL works ({asked or 'EGL and OSMesa tried'}); install {PACKAGES}"
    )


def make_context(backend: str, width: int, height: int) -> Any:
    """A current GL context of a back end that works."""
    os.environ["PYOPENGL_PLATFORM"] = backend
    context = importlib.import_module(f"mujoco.{backend}").GLContext(width, height)
    context.make_current()
    return context
