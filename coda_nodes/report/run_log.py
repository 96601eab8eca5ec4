"""The log of a run: everything the person at the terminal is told, with its time, also of earlier starts."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


class RunLog:
    """Appends progress events to a file and hands them on. Of a phase only the beginning is written."""

    def __init__(self, path: Path, show: Callable[[dict[str, Any]], None]) -> None:
        self.path, self._show = path, show
        self._phase = ""

    def __call__(self, event: dict[str, Any]) -> None:
        """Take one event, see ``conductor.loop``."""
        text = self._line(event)
        if text:
            with contextlib.suppress(OSError):  # a full disk is told on the terminal
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {text}\n")
        self._show(event)

    def _line(self, event: dict[str, Any]) -> str:
        if event.get("event") != "phase":
            return str(event.get("text", ""))
        phase = f"round {event.get('round', 0)}: {event['phase']}"
        new, self._phase = phase != self._phase, phase
        return phase if new else ""
