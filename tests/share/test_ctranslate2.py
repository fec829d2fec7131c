"""Exports to CTranslate2 say what the model says, for every model that its format can say; others are refused."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.config.settings import SearchConfig
from regard.data.tokenizers.catalog import train_tokenizer
from regard.data.tokenizers.tokenizer import Tokenizer, TokenizerConfig
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.share import ctranslate2
from regard.share.parity import ParityDifference, compare, limit
from regard.tasks.translation.translator import Translator

SMALL: dict[str, Any] = {
    "encoder_layers": 2, "decoder_layers": 1, "width": 16, "heads": 2, "feed_forward": 24, "dropout": 0.0,
}  # fmt: skip
SAYABLE: list[dict[str, Any]] = [
    {},
    {"norm": "pre"},
    {"attention_bias": True, "activation": "gelu"},
    {"output_bias": True, "activation": "swish"},
    {"activation": "swiglu", "normalization": "rms", "norm": "pre"},
    {"activation": "geglu", "share": "none"},
    {"activation": "glu", "share": "target"},
    {"position": {"kind": "learned", "longest": 80}},
]
UNSAYABLE: list[tuple[dict[str, Any], str]] = [
    ({"preset": "rnnsearch-small", "width": 8, "share": "none"}, "not both Transformers"),
    ({"decoder": {"mixer": {"kind": "ssru"}}}, "mixer is not self-attention"),
    ({"cross_attention": {"kind": "additive"}}, "not the scaled dot product"),
    ({"encoder": {"mixer": {"kind": "additive"}}}, "attention is not the scaled dot product"),
    ({"position": "rotary"}, "positions are neither"),
    ({"key_heads": 1}, "share keys"),
    ({"key_width": 4}, "the width of its heads"),
    ({"normalization": "none", "norm": "pre"}, "normalization is none"),
    ({"encoder": {"causal": True}}, "its encoder is causal"),
]


def words(letters: str) -> Tokenizer:
    return train_tokenizer([" ".join(letters)], TokenizerConfig(kind="word"))


@pytest.mark.parametrize("shape", SAYABLE, ids=lambda shape: "-".join(map(str, shape.values())) or "plain")
def test_both_say_the_same(tmp_path: Path, shape: dict[str, Any]) -> None:
    torch.manual_seed(5)
    config = ModelConfig.model_validate(SMALL | shape)
    source, target = words("abcdefgh"), words("abcdefgh" if config.share == "all" else "ABCDEFGHIJ")
    model = build(config, source_types=len(source), target_types=len(target)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0).add_(0.05 * torch.randn_like(parameter))  # sharp, and no bias is 0
    folder = tmp_path / "export"
    ctranslate2.write(model, config, source, target, folder)
    draw = random.Random(3)
    sources = [source.encode(" ".join(draw.choices("abcdefgh", k=draw.randint(1, 9)))) for _ in range(12)]
    translator = Translator(model, source, target, SearchConfig(), max_length=60)
    found = compare(ours(translator), ctranslate2.decoder(folder, source, target), sources)
    assert not found.differences, found
    assert len({tuple(each) for each in ours(translator)(sources, limit(sources))}) > 5, "they say different things"


def ours(translator: Translator) -> Any:
    from regard.share.parity import greedy_decoder

    return greedy_decoder(translator)


@pytest.mark.parametrize(("shape", "told"), UNSAYABLE, ids=[told for _, told in UNSAYABLE])
def test_what_the_format_cannot_say_is_named(shape: dict[str, Any], told: str) -> None:
    base = {} if "preset" in shape else SMALL
    assert told in str(ctranslate2.obstacles(ModelConfig.model_validate(base | shape)))


def test_a_difference_is_counted_where_it_begins(tmp_path: Path) -> None:
    one, other = [[5, 6, 7], [5], [5, 6]], [[5, 6, 8], [5], [5]]
    found = compare(lambda given, _: one[: len(given)], lambda given, _: other[: len(given)], [[1], [2], [3]])
    assert found.differences == [ParityDifference(0, 2), ParityDifference(2, 1)] and (
        found.sentences,
        found.pieces,
    ) == (3, 6)
    assert "equal greedy outputs for 1 of 3 sentences" in str(found)
    found.write(tmp_path, "other")
    written = json.loads((tmp_path / "parity.json").read_text())
    assert (written["differing"], written["sentences"], written["to"]) == (2, 3, "other")


def test_smaller_numbers_take_less_space(tmp_path: Path) -> None:
    torch.manual_seed(5)
    config = ModelConfig.model_validate(SMALL | {"width": 64, "feed_forward": 128})
    tokenizer = words("abcdefgh")
    model = build(config, source_types=len(tokenizer), target_types=len(tokenizer)).eval()
    sizes = {}
    for name in (None, *ctranslate2.QUANTIZATIONS):
        folder = tmp_path / str(name)
        ctranslate2.write(model, config, tokenizer, tokenizer, folder, quantization=name)
        sizes[name] = (folder / "model.bin").stat().st_size
        decode = ctranslate2.decoder(folder, tokenizer, tokenizer)
        assert len(decode([[4, 5], [6]], 9)) == 2
    assert sizes["int8"] < sizes["int16"] < sizes[None] and sizes["float16"] == sizes["bfloat16"] < sizes[None]
