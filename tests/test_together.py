"""Projections of one sequence by one product: the same function and gradient, where a language model learns."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.attention.heads import MultiHead, SelfAttention
from regard.attention.mask import Causal, Padding
from regard.attention.mechanisms.dot import Dot
from regard.attention.span import Span
from regard.models.causal_config import CausalStackConfig
from regard.models.head import Head
from regard.models.input import TokenInput
from regard.models.transformer.build import language_model

from .tolerances import within

WIDTH = 8


def attention(**options: object) -> MultiHead:
    torch.manual_seed(1)
    return MultiHead(WIDTH, heads=4, mechanism=Dot(), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": ("query", "key", "value", "output")},
        {"key_heads": 2, "key_width": 3, "value_width": 5},
        {"normalize": True, "gated": True},
        {"bias": ("query",)},  # not alike: three products
        {"project": ("query", "value", "output")},
    ],
)
def test_one_product_is_three(options):
    parts = attention(**options)
    x, span = torch.randn(3, 6, WIDTH), Span.of(torch.ones(3, 6, dtype=torch.bool))
    found = []
    for together in (False, True):
        mixer = SelfAttention(parts, mask=Causal() & Padding(), together=together)
        output = mixer(x, span, mixer.start(3)).output
        gradients = torch.autograd.grad(output.square().sum(), list(parts.parameters()))
        found.append((output, gradients))
    (apart, one), (joined, other) = found
    torch.testing.assert_close(joined, apart, **within(torch.float32, path="fused", law="value"))
    torch.testing.assert_close(other, one, **within(torch.float32, path="fused", law="gradient"))


def test_a_language_model_takes_one_product_while_it_learns(monkeypatch):
    torch.manual_seed(1)
    weight = nn.Parameter(torch.randn(9, WIDTH))
    model = language_model(
        CausalStackConfig(layers=2, width=WIDTH, heads=2, feed_forward=8), TokenInput(weight), Head(weight)
    )
    calls = []
    plain = MultiHead.queries_keys_values
    monkeypatch.setattr(MultiHead, "queries_keys_values", lambda self, x: calls.append(1) or plain(self, x))
    tokens = torch.randint(9, (2, 5))
    learning = model(tokens, Span.without_padding(tokens)).features
    assert len(calls) == 2
    with torch.no_grad():
        reading = model(tokens, Span.without_padding(tokens)).features
    assert len(calls) == 2
    torch.testing.assert_close(reading, learning, **within(torch.float32, path="fused", law="value"))
