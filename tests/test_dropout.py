"""Dropout by its definition: the mean is kept, and each element is 0 or x / P(keep)."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any

import pytest
import torch

from regard.attention.span import Span
from regard.core.reference_mode import reference_mode
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.dropout import Dropout

COUNT = 1 << 18


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("form", ["fast", "fast, by torch", "textbook"])
def test_what_is_kept_is_scaled_so_that_the_mean_stays(probability: float, form: str) -> None:
    """y = x · keep / P(keep): of ones, a share p of zeros and 1/(1 − p) elsewhere; the gradient likewise."""
    type = torch.float64 if form == "fast, by torch" else torch.float32  # the kernels take no float64
    dropped = probability if form == "textbook" else round(probability * 256) / 256
    deviation = math.sqrt(dropped * (1 - dropped) / COUNT)
    x = torch.ones(COUNT, requires_grad=True, dtype=type)
    with reference_mode() if form == "textbook" else nullcontext():
        y = Dropout(probability)(x)
    y.sum().backward()
    kept = y.detach() > 0
    torch.testing.assert_close(y.detach()[kept], torch.full((int(kept.sum()),), 1 / (1 - dropped), dtype=type))
    assert float(kept.float().mean()) == pytest.approx(1 - dropped, abs=5 * deviation)
    assert float(y.detach().double().mean()) == pytest.approx(1, abs=5 * deviation / (1 - dropped))
    assert torch.equal(x.grad, y.detach())


def test_neighbors_are_dropped_independently() -> None:
    """Eight elements share one draw of 64 bits: none of the eight knows of another."""
    kept = (Dropout(0.5)(torch.ones(COUNT)) > 0).double().view(-1, 8)
    correlation = torch.corrcoef(kept.T) - torch.eye(8, dtype=torch.float64)
    assert float(correlation.abs().max()) < 5 / math.sqrt(len(kept))


@pytest.mark.parametrize("probability", [0.0, 0.5])
def test_nothing_is_dropped_when_not_training_or_with_probability_zero(probability: float) -> None:
    x = torch.randn(64)
    assert torch.equal(Dropout(probability).eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)


@pytest.mark.parametrize("probability", [-0.1, 1.0, math.nan])
def test_what_is_no_probability_is_refused(probability: float) -> None:
    with pytest.raises(ValueError, match=r"must be in \[0, 1\)"):
        Dropout(probability)


@pytest.mark.parametrize("key", ["dropout", "attention_dropout", "feed_forward_dropout"])
@pytest.mark.parametrize("model", [{"heads": 2}, {"heads": 2, "activation": "swiglu"}], ids=["relu", "swiglu"])
def test_each_place_of_dropout_has_a_key_of_its_own(key: str, model: dict[str, Any]) -> None:
    """With that key alone training differs from evaluation, on both sides; with none of them nothing is drawn."""
    sizes = {"layers": 1, "width": 8, "feed_forward": 8, "dropout": 0.0}
    tokens = torch.randint(4, 9, (2, 5))
    span = Span.without_padding(tokens)
    for given, drops in (({key: 0.5}, True), ({}, False)):
        built = build(ModelConfig(**(sizes | model | given)), source_types=9, target_types=9)
        sides = [
            lambda built=built: built.encoder(tokens, span).states,
            lambda built=built: built(tokens, span, tokens, span),
        ]
        for side in sides:
            built.eval()
            plain = side()
            built.train()
            assert torch.equal(side(), plain) is not drops


def test_a_recurrent_decoder_drops_the_weights_of_its_attention() -> None:
    config = ModelConfig(kind="recurrent", width=8, dropout=0.0, attention_dropout=0.5)
    built = build(config, source_types=9, target_types=9)
    tokens = torch.randint(4, 9, (2, 5))
    span = Span.without_padding(tokens)
    plain = built.eval()(tokens, span, tokens, span)
    assert not torch.equal(built.train()(tokens, span, tokens, span), plain)
