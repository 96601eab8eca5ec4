"""The action chunk convention that simulators, policies and arms share."""

from __future__ import annotations

CHUNK_STEPS = 8
"""Actions per chunk."""
CONTROL_RATE = 20.0
"""Control steps per second [Hz]."""
CONTROL_PERIOD = 1.0 / CONTROL_RATE
"""[s]"""
ACTION_SIZE = 7
"""[x, y, z, rx, ry, rz, g]: displacement of the tool frame from its pose at the start of the chunk, translation [m]
and rotation vector [rad] along base axes; gripper opening 0 (closed) to 1 (open)."""
CONVENTION = "tool displacement from chunk start, base axes, metres and rotation vector, opening 0..1, 20 Hz, v1"
"""Stored in every checkpoint and compared on loading."""
