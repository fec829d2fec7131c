"""Inputs, with a pencil: vectors of tokens, of tokens with affixes and of frames, and what a network adds to them."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from regard.attention.positions.absolute import LearnedPosition, SinusoidalPosition
from regard.attention.span import Span
from regard.errors import ConfigError
from regard.models.build import ARCHITECTURES
from regard.models.configuration import ModelConfig
from regard.models.frame_input import FrameInput
from regard.models.input import AffixInput, Input, TokenInput, text_input


def span(columns: int, start: int = 0) -> Span:
    return Span(torch.tensor([start]), torch.ones(1, columns, dtype=torch.bool))


@torch.no_grad()
def frames() -> FrameInput:
    """W = [[1, 2], [0, −1], [3, 0], [0.5, 0.5]] and b = (0, 1, 0, −1)."""
    made = FrameInput(2, 4).double()
    made.linear.weight.copy_(torch.tensor([[1.0, 2.0], [0.0, -1.0], [3.0, 0.0], [0.5, 0.5]]))
    made.linear.bias.copy_(torch.tensor([0.0, 1.0, 0.0, -1.0]))
    return made


def test_a_frame_is_multiplied_and_gets_its_position() -> None:
    """x = (1, 10): W x + b = (21, −9, 3, 4.5). Position 0 adds (0, 1, 0, 1), position 1 its sines."""
    made = frames().configure(SinusoidalPosition(4))
    x, read, values = made(torch.tensor([[[1.0, 10.0], [0.0, 0.0]]]), span(2))
    one = [math.sin(1), 1 + math.cos(1), math.sin(0.01), math.cos(0.01) - 1]
    torch.testing.assert_close(x[0], torch.tensor([[21.0, -8.0, 3.0, 5.5], one]).double(), rtol=0, atol=1e-7)
    assert read.valid.shape == (1, 2) and values is None


def test_frames_are_placed_where_the_span_begins() -> None:
    made = frames().configure(SinusoidalPosition(4))
    x = torch.tensor([[[0.0, 1.0]]])
    assert torch.equal(made(x, span(1, start=1)).x[0, 0], made(torch.cat([x, x], 1), span(2)).x[0, 1])


def test_frames_are_cast_to_the_number_format_of_the_weights() -> None:
    assert frames()(torch.tensor([[[1.0, 10.0]]], dtype=torch.float16), span(1)).x.tolist() == [
        [[21.0, -9.0, 3.0, 4.5]]
    ]


def test_the_scale_of_an_input_is_its_own_unless_the_network_sets_it() -> None:
    """Tokens are multiplied by √width = 2, frames by 1; the scale comes before the position."""
    weight = nn.Parameter(torch.arange(12.0).view(3, 4))
    tokens, x = torch.tensor([[2, 1]]), torch.tensor([[[1.0, 10.0]]])
    assert torch.equal(TokenInput(weight)(tokens, span(2)).x[0], 2 * weight[[2, 1]])
    assert torch.equal(TokenInput(weight).configure(scale=1.0)(tokens, span(2)).x[0], weight[[2, 1]])
    assert frames().configure(scale=0.5)(x, span(1)).x.tolist() == [[[10.5, -4.5, 1.5, 2.25]]]
    position = LearnedPosition(4, longest=2)
    placed = TokenInput(weight).configure(position, scale=3.0)(tokens, span(2)).x[0]
    torch.testing.assert_close(placed, 3 * weight[[2, 1]] + position.table)


def test_affixes_share_all_that_the_network_sets_with_their_tokens() -> None:
    words = text_input(5, 4, affixes=6)
    assert isinstance(words, AffixInput)
    words.configure(LearnedPosition(4, longest=3), scale=1.0)
    words.add_values(2)
    inputs = torch.tensor([[[3, 2, 0], [4, 6, 6]]])
    x, _, values = words(inputs, span(2))
    table, position = words.tokens.weight, words.tokens.position
    assert isinstance(position, LearnedPosition) and words.tokens.values is not None and values is not None
    summed = torch.stack([table[3] + words.affixes[2], table[4] + 2 * words.affixes[6]])
    torch.testing.assert_close(x[0], summed + position.table[:2])
    assert torch.equal(values[0], words.tokens.values[[3, 4]])
    names = ["affixes", "tokens.position.table", "tokens.values", "tokens.weight"]
    assert sorted(name for name, _ in words.named_parameters()) == names


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_builders_take_any_input(kind: str) -> None:
    config = ModelConfig.model_validate({"kind": kind, "width": 8, "layers": 1, "dropout": 0.25})
    made: list[Input] = [FrameInput(3, 8), text_input(5, 8, affixes=0), text_input(5, 8, affixes=4)]
    for each in made:
        assert ARCHITECTURES[kind].encoder(config.encoder, each).embedding is each
    assert isinstance(made[0].position, SinusoidalPosition) == (kind == "transformer")
    assert made[0].dropout.probability == 0.25


def test_frames_have_no_value_embeddings() -> None:
    config = ModelConfig.model_validate({"width": 8, "layers": 1, "heads": 2, "value_embedding": True})
    with pytest.raises(ConfigError, match="value embeddings are not available") as refused:
        ARCHITECTURES["transformer"].encoder(config.encoder, FrameInput(3, 8))
    assert refused.value.where == "model.encoder.value_embedding"
