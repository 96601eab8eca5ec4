"""The critic on models of transformers: a small LLaVA with a tokenizer made here, saved to disk and read back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    CLIPImageProcessorPil,
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
)
from vision_parts import view_of

from coda_nodes.critic.factory import create_critic, label
from coda_nodes.critic.vision import VisionOptions
from coda_nodes.critic.vision.asking import AskingCritic
from coda_nodes.critic.vision.huggingface import HuggingFaceModel, _turn
from coda_nodes.critic.vision.prompt import first_messages, system_prompt
from coda_nodes.world.diagnosis import CriticInfo, parse_diagnosis
from coda_nodes.world.errors import ConfigError

SPECIAL = ["<pad>", "<s>", "</s>", "<image>", "<unk>"]
TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: {% for c in m['content'] %}{% if c['type'] == 'image' %}<image>"
    "{% else %}{{ c['text'] }}{% endif %}{% endfor %}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
)
STEPS = 12
ANSWER = "text: It slid out.\nstage: lift\nfailure_mode: slip\ncause: unknown\nconfidence: 0.5\n"


def tokenizer() -> PreTrainedTokenizerFast:
    """Byte pairs of the prompt; one whole answer is a single token, so that few steps teach it."""
    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=900, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    made.train_from_iterator([system_prompt()], trainer)
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    words = PreTrainedTokenizerFast(tokenizer_object=made, extra_special_tokens=["<image>"], **names)
    words.add_tokens([ANSWER])
    return words


def teach(model: LlavaForConditionalGeneration, processor: LlavaProcessor) -> None:
    """Some steps on one answer to a question about any failure."""
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    answer = processor.tokenizer(ANSWER + "</s>", return_tensors="pt").input_ids
    for step in range(STEPS):
        talk = first_messages(view_of(step), 64)
        pictures = [Image.fromarray(part) for message in talk for part in message.parts if not isinstance(part, str)]
        text = processor.apply_chat_template([_turn(message) for message in talk], add_generation_prompt=True, tokenize=False)
        asked = processor(text=text, images=pictures, return_tensors="pt")
        tokens = torch.cat([asked.input_ids, answer], 1)
        labels = torch.cat([torch.full_like(asked.input_ids, -100), answer], 1)
        optimizer.zero_grad()
        model(input_ids=tokens, pixel_values=asked.pixel_values, labels=labels).loss.backward()
        optimizer.step()


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    """A LLaVA with random weights, and the same after a few steps on one answer."""
    torch.manual_seed(0)
    words, small = tokenizer(), {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2}
    images = CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    processor = LlavaProcessor(
        image_processor=images, tokenizer=words, patch_size=16, vision_feature_select_strategy="default",
        chat_template=TEMPLATE, image_token="<image>", num_additional_image_tokens=1,
    )  # fmt: skip
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(image_size=32, patch_size=16, projection_dim=32, **small),
        text_config=LlamaConfig(
            vocab_size=len(words), num_key_value_heads=2, max_position_embeddings=4096, pad_token_id=0, bos_token_id=1,
            eos_token_id=2, **small,
        ),
        image_token_index=words.convert_tokens_to_ids("<image>"),
    )  # fmt: skip
    model, found = LlavaForConditionalGeneration(config), {}
    for name in ("random", "taught"):
        if name == "taught":
            teach(model, processor)
        found[name] = tmp_path_factory.mktemp(name)
        model.save_pretrained(found[name])
        processor.save_pretrained(found[name])
    return found


def critic_of(folder: Path, cache: Path | None = None, **settings) -> AskingCritic:
    options = VisionOptions(model=str(folder), **{"max_tokens": 160, **settings})
    return create_critic("hf", options=options, views=view_of, cache=cache)


def test_random_weights_are_rejected_with_the_words_kept(folders, tmp_path):
    critic = critic_of(folders["random"], tmp_path, asks=2, max_tokens=16)
    found = critic.judge([view_of()])[0]
    assert found.failure_mode == "unknown" and critic.usage.asked == 2 and critic.usage.completion_tokens > 0
    assert parse_diagnosis(found.render()) == found
    (kept,) = (tmp_path / "rejected").glob("*.json")
    assert len(json.loads(kept.read_text())["answers"]) == 2


def test_an_answer_in_the_grammar_is_the_diagnosis(folders):
    critic = critic_of(folders["taught"], batch=2)
    found = critic.judge([view_of(1), view_of(2), view_of(3)])
    assert {one.failure_mode for one in found} == {"slip"} and found[0].episode == "0a" * 8
    assert found[0].critic == CriticInfo(name="hf", version=label(str(folders["taught"])))
    assert critic.usage.asked == 3 and critic.usage.prompt_tokens > 3 * 500


def test_a_batch_answers_as_one_by_one_and_sees_the_pictures(folders):
    model = HuggingFaceModel(VisionOptions(model=str(folders["random"]), max_tokens=16))
    talks = [first_messages(view_of(seed), 64)[1:] for seed in (1, 2)]
    longer = (*first_messages(view_of(3), 64),)
    together = model.reply([talks[0], longer, talks[1]])
    assert [model.reply([talk])[0].text for talk in (talks[0], longer, talks[1])] == [one.text for one in together]
    assert together[1].prompt_tokens > together[0].prompt_tokens + 500


def test_format_and_device_are_those_asked_for(folders):
    model = HuggingFaceModel(VisionOptions(model=str(folders["random"]), max_tokens=16, dtype="bfloat16"))
    assert model.identity["dtype"] == "torch.bfloat16"
    assert model.reply([first_messages(view_of(), 64)[1:]])[0].completion_tokens > 0
    with pytest.raises(ConfigError, match="on no_such_device"):
        HuggingFaceModel(VisionOptions(model=str(folders["random"]), device="no_such_device"))


@pytest.mark.parametrize("name", ["", "config.json", "processor_config.json", "chat_template.jinja"])
def test_a_folder_without_a_part_is_refused_in_one_sentence(name, folders, tmp_path):
    for path in folders["random"].iterdir():
        if name and path.name != name:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(ConfigError) as caught:
        HuggingFaceModel(VisionOptions(model=str(tmp_path)))
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)


def test_without_a_model_it_says_what_is_needed():
    with pytest.raises(ConfigError, match="model is needed"):
        HuggingFaceModel(VisionOptions())
