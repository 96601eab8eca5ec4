"""Models behind an OpenAI-compatible address (``POST BASE_URL/chat/completions``).

Protocol: https://platform.openai.com/docs/api-reference/chat, as vLLM, llama.cpp, Ollama and others serve it.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import httpx2

from coda_nodes.critic.vision.asking import Reply
from coda_nodes.critic.vision.options import VisionOptions
from coda_nodes.critic.vision.prompt import Message, data_url
from coda_nodes.world.errors import ConfigError, NodeError

log = logging.getLogger(__name__)
PASSING_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Refusals after which the same request may be granted."""
LONGEST_WAIT = 60.0
"""Most that is waited between two tries, whatever the server asks for [s]."""
LARGEST = 4 * 2**20
"""Most of an answer that is read [bytes]."""


class ServerError(NodeError):
    """The server did not answer as agreed; ``passing`` says whether it may later."""


class OpenAIModel:
    """One model at one server. The key is read from the environment for each request and shown nowhere."""

    def __init__(self, options: VisionOptions, wait: Callable[[float], Any] = time.sleep) -> None:
        """``wait``: what passes the time between two tries [s]."""
        if not options.base_url or not options.model:
            raise ConfigError("critic openai: base_url and model are needed, as base_url:=http://localhost:8000/v1 model:=NAME")
        self._options, self._wait, self._asked = options, wait, 0.0
        self._url = options.base_url.rstrip("/") + "/chat/completions"
        self.identity: dict[str, Any] = {
            "kind": "openai", "model": options.model, "base_url": options.base_url, "max_tokens": options.max_tokens
        }

    def reply(self, conversations: Sequence[tuple[Message, ...]]) -> list[Reply]:
        """Ask one after the other.

        Raises:
            ServerError: refused, or no answer after all tries (``passing`` tells which).
        """
        return [self._one(talk) for talk in conversations]

    def _one(self, talk: Sequence[Message]) -> Reply:
        body = {
            "model": self._options.model, "messages": [_turn(message) for message in talk],
            "max_tokens": self._options.max_tokens, "temperature": 0,
        }
        problem = ""
        for attempt in range(self._options.retries + 1):
            if attempt:
                self._wait(self._pause(attempt))
            try:
                return self._post(body)
            except ServerError as error:
                if not error.passing:
                    raise
                problem = str(error)
                log.info("critic openai, try %d of %d: %s", attempt + 1, self._options.retries + 1, problem)
        failed = ServerError(f"{problem}; given up after {self._options.retries + 1} tries")
        failed.passing = True
        raise failed

    def _pause(self, attempt: int) -> float:
        """Exponential back-off, or what the server asked for, whichever is longer [s]."""
        asked, self._asked = self._asked, 0.0
        return min(max(self._options.backoff * 2 ** (attempt - 1), asked), LONGEST_WAIT)

    def _post(self, body: dict[str, Any]) -> Reply:
        key = os.environ.get(self._options.api_key_variable, "")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        limit = httpx2.Timeout(self._options.timeout)
        try:
            # a redirection would hand key and pictures to somebody else
            with (
                httpx2.Client(timeout=limit, follow_redirects=False) as client,
                client.stream("POST", self._url, json=body, headers=headers) as response,
            ):
                text = self._read(response)
                self._check(response, text, key)
        except httpx2.HTTPError as error:
            raise _passing(f"{self._url}: {type(error).__name__}", True) from error
        except (ValueError, httpx2.InvalidURL) as error:
            raise _passing(f"{self._url}: {type(error).__name__}", False) from None
        return self._parse(text)

    def _read(self, response: httpx2.Response) -> bytes:
        """The body, within the time limit for the whole of it: a server may send a letter a second."""
        end, parts, size = time.monotonic() + self._options.timeout, [], 0
        for part in response.iter_bytes():
            parts.append(part)
            size += len(part)
            if time.monotonic() > end:
                raise _passing(f"{self._url}: no whole answer within {self._options.timeout:g} s", True)
            if size > LARGEST:
                raise _passing(f"{self._url}: an answer of more than {LARGEST} bytes", False)
        return b"".join(parts)

    def _check(self, response: httpx2.Response, text: bytes, key: str) -> None:
        status = response.status_code
        if status == 200:
            return
        after = response.headers.get("retry-after", "")
        self._asked = float(after) if after.replace(".", "", 1).isdigit() else 0.0
        said = " ".join(text.decode("utf-8", "replace").split())
        said = (said.replace(key, "***") if key else said)[:200]
        raise _passing(f"{self._url}: status {status}: {said}", status in PASSING_STATUS)

    def _parse(self, text: bytes) -> Reply:
        try:
            data = json.loads(text)
            content = data["choices"][0]["message"]["content"]
            usage = data.get("usage") or {}
            tokens = [int(usage.get(name) or 0) for name in ("prompt_tokens", "completion_tokens")]
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise _passing(f"{self._url}: not an answer of the protocol ({type(error).__name__})", True) from error
        return Reply(_text(content), *tokens)


def _text(content: Any) -> str:
    """An answer as text; some servers send a list of parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _turn(message: Message) -> dict[str, Any]:
    if message.role != "user":
        return {"role": message.role, "content": "".join(part for part in message.parts if isinstance(part, str))}
    parts = [
        {"type": "text", "text": part} if isinstance(part, str) else {"type": "image_url", "image_url": {"url": data_url(part)}}
        for part in message.parts
    ]
    return {"role": "user", "content": parts}


def _passing(message: str, passing: bool) -> ServerError:
    error = ServerError(message)
    error.passing = passing
    return error
