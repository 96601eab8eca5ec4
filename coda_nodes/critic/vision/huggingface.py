"""Image-text-to-text models of ``transformers``, by name or folder.

Any class that ``AutoModelForImageTextToText`` finds, with the processor and chat template saved beside its weights.
Code that comes with a model is not executed, and weights are read from safetensors only.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image as Picture

from coda_nodes.critic.vision.asking import Reply
from coda_nodes.critic.vision.options import VisionOptions
from coda_nodes.critic.vision.prompt import Message
from coda_nodes.world.errors import ConfigError, NotAvailableError

log = logging.getLogger(__name__)


class HuggingFaceModel:
    """A model in this process. Loaded when it is made."""

    def __init__(self, options: VisionOptions) -> None:
        """Load the model.

        Raises:
            ConfigError: no model named, not readable, without chat template, or no such device.
            NotAvailableError: its processor needs a package that is not installed.
        """
        if not options.model:
            raise ConfigError("critic hf: model is needed, as model:=FOLDER or model:=OWNER/NAME")
        self._options = options
        self._processor, self._model = _load(options)
        self.identity: dict[str, Any] = {
            "kind": "hf", "model": options.model, "revision": getattr(self._model.config, "_commit_hash", None) or "",
            "dtype": str(self._model.dtype), "max_tokens": options.max_tokens,
        }  # fmt: skip

    def reply(self, conversations: Sequence[tuple[Message, ...]]) -> list[Reply]:
        """Answers of the model, greedily decoded, all conversations in one batch."""
        turns = [[_turn(message) for message in talk] for talk in conversations]
        pictures = [[Picture.fromarray(p) for m in talk for p in m.parts if not isinstance(p, str)] for talk in conversations]
        texts = self._processor.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
        inputs = self._processor(text=texts, images=pictures, padding=True, return_tensors="pt")
        inputs = inputs.to(self._model.device, dtype=self._model.dtype)
        with torch.inference_mode():
            made = self._model.generate(**inputs, max_new_tokens=self._options.max_tokens, do_sample=False)
        return self._decode(inputs, made)

    def _decode(self, inputs: Any, made: torch.Tensor) -> list[Reply]:
        width = inputs["input_ids"].shape[1]
        fresh = made[:, width:]
        pad = self._processor.tokenizer.pad_token_id
        texts = self._processor.batch_decode(fresh, skip_special_tokens=True)
        asked = inputs["attention_mask"].sum(1).tolist()
        given = (fresh != pad).sum(1).tolist()
        return [Reply(text, int(p), int(c)) for text, p, c in zip(texts, asked, given, strict=True)]


def _turn(message: Message) -> dict[str, Any]:
    parts = [{"type": "text", "text": part} if isinstance(part, str) else {"type": "image"} for part in message.parts]
    return {"role": message.role, "content": parts}


def _load(options: VisionOptions) -> tuple[Any, Any]:
    from transformers import AutoModelForImageTextToText, AutoProcessor

    local = Path(options.model).is_dir()
    dtype = options.dtype if options.dtype == "auto" else getattr(torch, options.dtype)
    try:
        processor = AutoProcessor.from_pretrained(options.model, local_files_only=local, trust_remote_code=False)
        model = AutoModelForImageTextToText.from_pretrained(
            options.model, dtype=dtype, local_files_only=local, trust_remote_code=False, use_safetensors=True
        )
        model = model.to(torch.device(options.device)).eval()
    except ImportError as error:
        raise NotAvailableError(f"critic hf: {options.model} needs a package that is not installed: {_first(error)}") from error
    except (OSError, ValueError, RuntimeError, KeyError, AssertionError) as error:
        raise ConfigError(f"critic hf: cannot load {options.model!r} on {options.device}: {_first(error)}") from error
    tokenizer = getattr(processor, "tokenizer", None)
    if tokenizer is None or not getattr(processor, "chat_template", None):
        raise ConfigError(f"critic hf: {options.model!r} has no tokenizer with a chat template for pictures")
    tokenizer.padding_side = "left"  # answers follow the end of each question
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return processor, model


def _first(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
