"""Settings of the vision-language critics."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from coda_nodes.world.config import check_settings, setting
from coda_nodes.world.errors import ConfigError

DTYPES = ("auto", "float32", "bfloat16", "float16")


@dataclass(frozen=True)
class VisionOptions:
    """Which model answers and how it is asked."""

    model: str = setting("", "model: name or folder (hf), name at the server (openai)")
    base_url: str = setting("", "address of an OpenAI-compatible server, as http://localhost:8000/v1 (openai)")
    api_key_variable: str = setting("OPENAI_API_KEY", "environment variable that holds the key, if one is needed (openai)")
    timeout: float = setting(60.0, "longest wait for one answer", "s", 0.05, 3600.0)
    retries: int = setting(4, "further tries after a refusal that may pass", low=0, high=20)
    backoff: float = setting(1.0, "wait before the first of them; doubled each time", "s", 0.0, 60.0)
    asks: int = setting(3, "times a model is asked until its answer can be read", low=1, high=10)
    max_tokens: int = setting(400, "longest answer", "tokens", 16, 8192)
    picture: int = setting(256, "longer side of a picture sent", "pixels", 32, 2048)
    device: str = setting("cpu", "torch device (hf): cpu, cuda, cuda:1, mps")
    dtype: str = setting("auto", "number format of the weights (hf)", choices=DTYPES)
    batch: int = setting(4, "failures in one batch (hf)", low=1, high=256)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.base_url:
            parts = urlsplit(self.base_url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ConfigError("base_url: expected http://HOST[:PORT]/PATH or https://...")
            if parts.username or parts.password or parts.query:
                raise ConfigError(f"base_url must hold no key or password; put the key into ${self.api_key_variable}")
