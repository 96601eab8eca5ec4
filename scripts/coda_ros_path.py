"""Lets this virtual environment find the libraries of its interfaces beside a sourced ROS 2.

Copied into the environment by the set-up and imported when its Python starts. The loader reads
LD_LIBRARY_PATH only at the start of a process, so Python is started once more where the path lacks the
folder of this environment.
"""

import os
import sys

_LIBRARIES = os.path.join(sys.prefix, "lib")


def _with_first(name, folder):
    parts = [part for part in os.environ.get(name, "").split(os.pathsep) if part and part != folder]
    os.environ[name] = os.pathsep.join([folder, *parts])


if _LIBRARIES not in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
    _with_first("LD_LIBRARY_PATH", _LIBRARIES)
    _with_first("AMENT_PREFIX_PATH", sys.prefix)
    os.execve(sys.executable, sys.orig_argv, os.environ)
