"""How many parameters: by formula, and the rows of the paper's Table 3 as overrides of one config."""

from __future__ import annotations

import pytest
import torch

from regard.models.build import build
from regard.models.configuration import ModelConfig

TYPES = 37_000  # "about 37000 tokens" (Vaswani et al. 2017, §5.1)

# Millions of parameters, computed by hand without attention biases; the paper's own column is rounded.
COUNTS = {
    "base": ({}, 63.05),
    "B-16": (dict(key_width=16), 55.97),
    "B-32": (dict(key_width=32), 58.33),
    "C-2": (dict(layers=2), 33.64),
    "C-4": (dict(layers=4), 48.35),
    "C-8": (dict(layers=8), 77.75),
    "C-256": (dict(width=256, key_width=32, value_width=32), 26.82),
    "C-1024": (dict(width=1024, key_width=128, value_width=128), 163.82),
    "C-ff-1024": (dict(feed_forward=1024), 50.45),
    "C-ff-4096": (dict(feed_forward=4096), 88.24),
    "A-1": (dict(heads=1, key_width=512, value_width=512), 63.05),
    "A-32": (dict(heads=32, key_width=16, value_width=16), 63.05),
    "big": (dict(preset="big"), 214.17),
}
PAPER = {"base": 65, "B-16": 58, "B-32": 60, "C-2": 36, "C-4": 50, "C-8": 80, "C-256": 28, "C-1024": 168,
         "C-ff-1024": 53, "C-ff-4096": 90, "big": 213}  # fmt: skip


def count(config: ModelConfig, *, source: int = TYPES, target: int = TYPES) -> int:
    with torch.device("meta"):
        model = build(config, source_types=source, target_types=target)
    return sum(parameter.numel() for parameter in model.parameters())


def formula(config: ModelConfig, types: int) -> int:
    """V d + layers of attention d h (2 d_k + 2 d_v), feed-forward 2 d f + f + d, LayerNorms 2 d."""
    d, h, f = config.encoder.width, config.encoder.heads, config.encoder.feed_forward
    key, value = config.encoder.key_width or d // h, config.encoder.value_width or d // h
    attention, feed_forward, norm = d * h * 2 * (key + value), 2 * d * f + f + d, 2 * d
    encoder = attention + feed_forward + 2 * norm
    decoder = 2 * attention + feed_forward + 3 * norm
    return types * d + config.encoder.layers * encoder + config.decoder.layers * decoder


@pytest.mark.parametrize("row", COUNTS)
def test_table_3(row):
    overrides, millions = COUNTS[row]
    config = ModelConfig(**({"preset": "base"} | overrides))
    counted = count(config)
    assert counted == formula(config, TYPES)
    assert counted / 1e6 == pytest.approx(millions, abs=0.005)
    if row in PAPER:
        assert counted / 1e6 == pytest.approx(PAPER[row], rel=0.08), "the paper's vocabulary is its own"


@pytest.mark.parametrize(
    "one, other, paper", [("C-8", "base", 15), ("C-ff-4096", "base", 25), ("base", "B-16", 7), ("base", "C-4", 15)]
)
def test_differences_within_table_3_are_the_papers(one, other, paper):
    """The vocabulary cancels; the paper's figures are rounded to a million each."""
    assert COUNTS[one][1] - COUNTS[other][1] == pytest.approx(paper, abs=1)


def test_rows_d_and_e_change_no_size_but_the_learned_table():
    base = count(ModelConfig(preset="base"))
    assert count(ModelConfig(preset="base", dropout=0.0)) == base
    assert count(ModelConfig(preset="base", position="learned", longest=100)) == base + 2 * 100 * 512


def test_shared_matrices_are_counted_once():
    tiny = dict(preset="tiny")
    inner = formula(ModelConfig(**tiny), 0)
    for share, matrices in [("all", 1), ("target", 2), ("none", 3)]:
        assert count(ModelConfig(**tiny, share=share), source=50, target=50) == inner + matrices * 50 * 128
    model = build(ModelConfig(**tiny), source_types=50, target_types=50)
    assert model.encoder.embedding.weight is model.decoder.embedding.weight is model.head.weight


@pytest.mark.parametrize("key_heads", [1, 2, 4])
def test_key_heads_save_their_share(key_heads):
    """Of four heads, each key head costs d (d_k + d_v) in each of the three attentions of the four layers."""
    saved = count(ModelConfig(preset="tiny")) - count(ModelConfig(preset="tiny", key_heads=key_heads))
    assert saved == 4 * 3 * (4 - key_heads) * 128 * 64


def test_pre_norm_ends_each_stack_with_one_more_norm():
    post, pre = (count(ModelConfig(preset="tiny", norm=norm)) for norm in ("post", "pre"))
    assert pre - post == 2 * 2 * 128


def test_biases_are_torchs():
    plain, biased = (count(ModelConfig(preset="tiny", attention_bias=bias)) for bias in (False, True))
    assert biased - plain == 4 * 3 * 4 * 128
