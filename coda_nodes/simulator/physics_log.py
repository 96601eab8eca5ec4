"""Keeps MuJoCo from writing MUJOCO_LOG.TXT into whatever folder a process runs in.

Its warnings are about diverged states, which the simulator finds itself and reports with the environment
concerned.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from pathlib import Path

import mujoco


class _LogConfig(ctypes.Structure):
    """``mjLogConfig`` of MuJoCo's C API."""

    _fields_ = [
        ("to_console", ctypes.c_bool),
        ("to_file", ctypes.c_bool),
        ("path", ctypes.c_char * 1024),
        ("topics", ctypes.c_int),
    ]


@lru_cache(maxsize=1)
def silence() -> bool:
    """Turn off MuJoCo's own log file and console lines in this process; False where its library offers no
    such setting.

    The Python bindings (3.17) leave ``mju_setLogConfig`` out, so that it is called in the C library they
    load.
    """
    for path in sorted(Path(mujoco.__file__).parent.glob("libmujoco*")):
        library = ctypes.CDLL(str(path))
        if hasattr(library, "mju_setLogConfig"):
            library.mju_getLogConfig.restype = _LogConfig
            library.mju_setLogConfig.argtypes = [_LogConfig]
            config = library.mju_getLogConfig()
            config.to_console = config.to_file = False
            library.mju_setLogConfig(config)
            return True
    return False
