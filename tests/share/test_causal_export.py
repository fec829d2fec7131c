"""Language models as folders of ``transformers``: the same logits, pieces and continuations, or a reason why not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import BEGIN, END, SPECIALS, TokenizerConfig
from regard.models.language_model import LanguageModel
from regard.runs.config import load_config
from regard.share.transformers_format import obstacles, write
from regard.tasks.language_model.config import LanguageModelConfig
from regard.tasks.language_model.generator import Generator
from regard.tasks.language_model.task import TASK

SIZES = {"layers": 2, "width": 12, "feed_forward": 20, "heads": 2}
LLAMA = {"normalization": "rms", "activation": "swiglu"}
HALF = {"kind": "rotary", "layout": "half", "base": 500.0}
TEXTS = ["the cat sat on a mat", "Ünïcode, </s> <s> and «signs»", "  two  spaces\ttab", "a"]

MODELS: dict[str, dict[str, Any]] = {
    "default": {},
    "default with biases": {"attention_bias": True, "share": "none", "normalization_epsilon": 0.01},
    "squared, half": {"activation": "relu2", "position": HALF},
    "biases of some": {"mixer": {"kind": "dot", "bias": ["query", "key"]}},
    "llama": LLAMA,
    "llama, half": LLAMA | {"position": HALF, "share": "none"},
    "llama, grouped": LLAMA | {"heads": 4, "key_heads": 2, "width": 16, "normalization_epsilon": 0.01},
    "llama, one key head": LLAMA | {"key_heads": 1, "share": "none", "attention_bias": True},
    "llama, wide heads": LLAMA | {"key_width": 8, "value_width": 8, "activation": "geglu"},
    "llama, biases of some": LLAMA | {"mixer": {"kind": "dot", "bias": ["query", "value"]}, "activation": "glu"},
    "llama, unscaled": LLAMA | {"embedding_scale": 1.0},
    "gpt2": {"position": "learned", "attention_bias": True, "activation": "gelu-tanh"},
    "gpt2, no biases, untied": {"position": "learned", "share": "none", "activation": "swish"},
}
ARCHITECTURES = {"default": "GPTNeoXForCausalLM", "llama": "LlamaForCausalLM", "gpt2": "GPT2LMHeadModel"}


def config_of(model: dict[str, Any], tokenizer: str = "byte") -> LanguageModelConfig:
    tables = {
        "task": "language-model", "model": SIZES | model, "generate": {"length": 7},
        "data": {"train": [], "context": 48, "tokenizer": {"kind": tokenizer}},
    }  # fmt: skip
    found = load_config(tables)
    assert isinstance(found, LanguageModelConfig)
    return found


def model_of(config: LanguageModelConfig, types: int) -> LanguageModel:
    torch.manual_seed(4)
    net = TASK.build(config, {"types": types})
    assert isinstance(net, LanguageModel)
    with torch.no_grad():
        for parameter in net.parameters():  # biases and gains of their own, and choices that are not ties
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return net.eval()


def tokenizer_of(kind: str) -> Any:
    lines = [*TEXTS, "the rat sat on a hat"] * 3
    return train_tokenizer(
        lines, TokenizerConfig.model_validate({"kind": kind, "size": 280 if "bpe" in kind else None})
    )


@pytest.mark.parametrize("name", MODELS)
def test_logits_pieces_and_continuations_are_the_same(name: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="needs transformers: pip install transformers")
    from regard.share.logit_parity import compare_logits

    config, tokenizer = config_of(MODELS[name]), tokenizer_of("byte")
    model = model_of(config, len(tokenizer))
    assert obstacles(config) == []
    write(model, config, tokenizer, tmp_path / "out")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype=torch.float32).eval()
    if name in ARCHITECTURES:
        assert type(theirs).__name__ == ARCHITECTURES[name]
    assert (theirs.get_input_embeddings().weight is theirs.get_output_embeddings().weight) == (
        config.model.share == "all"
    )
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    generator = Generator(model, tokenizer, config.generate, context=config.data.context)
    parity = compare_logits(generator, theirs, reader, TEXTS)
    assert parity.same and parity.largest > 1, parity
    assert parity.difference < 1e-4, parity


@pytest.mark.parametrize("kind", ["byte", "character", "byte-bpe"])
def test_tokenizers_cut_and_join_alike(kind: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="needs transformers: pip install transformers")
    config, tokenizer = config_of({}, kind), tokenizer_of(kind)
    write(model_of(config, len(tokenizer)), config, tokenizer, tmp_path / "out")
    for reader in (
        transformers.AutoTokenizer.from_pretrained(tmp_path / "out"),
        transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path / "out"),
    ):
        assert (reader.bos_token_id, reader.eos_token_id, len(reader)) == (BEGIN, END, len(tokenizer))
        assert reader.convert_ids_to_tokens(range(4)) == list(SPECIALS)
        for text in TEXTS:
            found = reader(text)["input_ids"]
            assert found == [BEGIN, *tokenizer.encode(text)]
            assert reader.decode(found, skip_special_tokens=True) == text
    if kind == "character":
        assert reader("a☃☃a", add_special_tokens=False)["input_ids"] == tokenizer.encode("a☃☃a"), "unknown one by one"


def test_what_is_said_of_generation(tmp_path: Path) -> None:
    config, tokenizer = config_of({"never_predicted": [5]}), tokenizer_of("byte")
    write(model_of(config, len(tokenizer)), config, tokenizer, tmp_path / "out")
    found = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert found["suppress_tokens"] == [0, 1, 2, 5] and found["eos_token_id"] == END and found["max_new_tokens"] == 7


def test_limits_of_sampling_are_those_of_the_run(tmp_path: Path) -> None:
    tokenizer, limits = tokenizer_of("byte"), {"temperature": 0.7, "top_k": 9, "top_p": 0.8, "min_p": 0.05}
    config = config_of({})
    config = config.model_copy(update={"generate": config.generate.model_copy(update=limits)})
    write(model_of(config, len(tokenizer)), config, tokenizer, tmp_path / "out")
    found = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert {name: found[name] for name in limits} == limits


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ({"norm": "post"}, "post-norm"),
        ({"mixer": "ssru"}, "its mixer is ssru"),
        ({"mixer": {"kind": "dot", "neighborhood": 4}}, "options that transformers lacks"),
        ({"qk_norm": True}, "it uses qk_norm"),
        ({"attention_gate": True, "embedding_residual": True}, "it uses attention_gate, embedding_residual"),
        ({"output_bias": True}, "output has a bias"),
        ({"position": "alibi"}, "its normalization is layer, not rms, its positions are alibi, not rotary"),
        (LLAMA | {"position": "learned"}, "LlamaForCausalLM: its positions are learned, not rotary"),
        ({"key_heads": 1}, "GPTNeoXForCausalLM: its heads share keys"),
        ({"normalization": "rms"}, "its activation is gelu, which is not gated"),
        (LLAMA | {"key_width": 4}, "keys and values differ in width"),
    ],
)  # fmt: skip
def test_what_no_family_can_say_is_refused(model: dict[str, Any], reason: str) -> None:
    assert reason in str(obstacles(config_of(model)))
