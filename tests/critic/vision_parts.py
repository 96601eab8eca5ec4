"""Views made by hand, and a server that speaks the protocol of OpenAI as it is told to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from coda_nodes.critic.vision import Frame, View

GOOD = """text: It slid out of the fingers.
stage: lift
failure_mode: slip
cause: axis=dynamics; object=red cube; parameter=friction; observed=0.6; nominal=0.95
evidence: time=1.2; frame=3; note="the fingers are empty"
confidence: 0.6
"""
THINGS = ("red cube", "blue bin")


def picture(seed: int, height: int = 48, width: int = 64) -> np.ndarray:
    """Random patches. Shape (height, width, 3)."""
    coarse = np.random.default_rng(seed).integers(0, 255, (height // 8, width // 8, 3))
    return np.kron(coarse, np.ones((8, 8, 1))).astype(np.uint8)


def view_of(seed: int = 0, images: Sequence[np.ndarray] | None = None) -> View:
    """A view of five boundaries with a picture of start and end from one camera, or with given pictures."""
    images = [picture(seed), picture(seed + 1)] if images is None else images
    frames = tuple(Frame("scene", k * 4, 1.6 * k, ("start", "end")[k], image) for k, image in enumerate(images))
    rng = np.random.default_rng(seed)
    return View(
        "pick_place", f"put the red cube in the blue bin, {seed}", THINGS, frames, 0.4 * np.arange(5),
        rng.random((5, 3)), rng.random(5), "0a" * 8, "0b" * 8,
    )  # fmt: skip


Answer = Callable[[BaseHTTPRequestHandler], None]


def says(text: str) -> Answer:
    """An answer of the protocol."""
    return sends(200, json.dumps({
        "choices": [{"message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20},
    }))  # fmt: skip


def sends(status: int, body: str, **headers: str) -> Answer:
    """Any answer of HTTP."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body.encode())))
        handler.end_headers()
        handler.wfile.write(body.encode())

    return answer


class Server:
    """Answers requests in order as told, the last way for all further ones."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.answers, self.requests = list(answers), []
        self.released = threading.Event()

    def hangs(self, handler: BaseHTTPRequestHandler) -> None:
        """Say nothing until the test is over."""
        self.released.wait(20)

    def drips(self, handler: BaseHTTPRequestHandler) -> None:
        """Send a letter every now and then, so that no single read is late."""
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        end = time.monotonic() + 20
        while not self.released.wait(0.02) and time.monotonic() < end:
            handler.wfile.write(b" ")
            handler.wfile.flush()


@contextmanager
def serving(*answers: Answer | str) -> Iterator[tuple[Server, str]]:
    """A server on a free port of this host, and its base address. ``"hangs"`` and ``"drips"`` name its own ways."""
    server = Server(())
    server.answers = [getattr(server, one) if isinstance(one, str) else one for one in answers]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.requests.append({"path": self.path, "headers": dict(self.headers), "body": body})
            try:
                server.answers[min(len(server.requests), len(server.answers)) - 1](self)
            except OSError:
                self.close_connection = True  # the client did not wait

        def log_message(self, *_: Any) -> None:
            """Nothing on standard error."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{http.server_port}/v1"
    finally:
        server.released.set()
        http.shutdown()
        http.server_close()
        thread.join(10)
