"""Newer parts of the Transformer by numbers that can be checked with a pencil, and from a config."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from regard.attention.heads import MultiHead, SelfAttention
from regard.attention.mask import Padding
from regard.attention.mechanisms.dot import Dot
from regard.attention.span import Span
from regard.engine.transformer import FastEncoderDecoder, obstacle
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.transformer.config import TransformerDecoderConfig
from regard.models.transformer.feed_forward import FeedForward, feed_forward
from regard.models.transformer.layer import TransformerLayer
from regard.models.transformer.norms import PostNorm, PreNorm
from regard.share.ctranslate2 import obstacles as ctranslate2_obstacles
from regard.share.onnx import obstacles as onnx_obstacles

SIZES: dict[str, Any] = {"layers": 2, "width": 8, "heads": 2, "feed_forward": 12, "dropout": 0.0}


def model(**more: Any) -> EncoderDecoder:
    torch.manual_seed(4)
    return build(ModelConfig.model_validate(SIZES | more), source_types=9, target_types=9).double().eval()


def test_the_squared_relu_squares_what_is_positive() -> None:
    layer = feed_forward("relu2", 2, 2)
    assert isinstance(layer, FeedForward)
    assert layer.activation(torch.tensor([-3.0, 0.0, 0.5, 3.0])).tolist() == [0.0, 0.0, 0.25, 9.0]


def test_normalized_queries_and_keys_have_a_mean_square_of_their_gain() -> None:
    heads = MultiHead(8, heads=2, mechanism=Dot(), normalize=True).double()
    x = torch.randn(1, 3, 8, dtype=torch.float64)
    key, _ = heads.keys_values(x)
    torch.testing.assert_close(
        heads.queries(x).square().mean(-1), torch.ones(1, 2, 3, dtype=torch.float64), atol=1e-4, rtol=0
    )
    with torch.no_grad():
        heads.key_norm.weight.fill_(3.0)  # type: ignore[union-attr]
        heads.query.weight.mul_(100.0)
    torch.testing.assert_close(heads.keys_values(x)[0], 3 * key)
    assert heads.queries(x).square().mean(-1).max().item() < 1.01, "however large the matrix"


def test_a_gate_of_zeros_halves_the_context() -> None:
    """σ(0) = 1/2; and a gate far below 0 lets nothing through."""
    plain, gated = (MultiHead(4, heads=2, mechanism=Dot(), gated=gated) for gated in (False, True))
    gated.load_state_dict(plain.state_dict(), strict=False)
    x, span = torch.randn(2, 3, 4), Span.of(torch.ones(2, 3, dtype=torch.bool))
    with torch.no_grad():
        gated.gate.weight.zero_()  # type: ignore[union-attr]
        found, wanted = (SelfAttention(each, mask=Padding())(x, span, ()).output for each in (gated, plain))
        torch.testing.assert_close(found, wanted / 2)
        gated.gate.weight.copy_(torch.diag(torch.full((4,), -1e4)))  # type: ignore[union-attr]
        silent = SelfAttention(gated, mask=Padding())(
            torch.ones(1, 2, 4), Span.of(torch.ones(1, 2, dtype=torch.bool)), ()
        )
    assert not silent.output.any()


def test_parts_that_end_in_zeros_begin_by_adding_nothing() -> None:
    made = model(zero_output=True, norm="pre", normalization="none", position="none")
    tokens = torch.tensor([[4, 5, 6]])
    span = Span.without_padding(tokens)
    encoded = made.encoder(tokens, span)
    assert torch.equal(encoded.states, encoded.embedded)
    assert not torch.equal(
        model(norm="pre", normalization="none", position="none").encoder(tokens, span).states,
        encoded.states,
    )


def test_a_layer_may_start_from_the_embedding_again() -> None:
    frames = (PreNorm(4, dropout=0.0, kind="none"), PreNorm(4, dropout=0.0, kind="none"))
    heads, forward = MultiHead(4, heads=1, mechanism=Dot()), FeedForward(4, 4)
    for ending in (heads.output, forward.down):
        nn.init.zeros_(ending.weight)
    nn.init.zeros_(forward.down.bias)
    layer = TransformerLayer(SelfAttention(heads, mask=Padding()), None, forward, frames, embedding_residual=True)
    x, e = torch.ones(1, 2, 4), torch.full((1, 2, 4), 10.0)
    span = Span.of(torch.ones(1, 2, dtype=torch.bool))
    with torch.no_grad():
        assert layer(x, span, embedded=e)[0].unique().tolist() == [1.0], "as without it, at the start"
        layer.start_mix.copy_(torch.tensor([2.0, 0.5]))  # type: ignore[union-attr]
        assert layer(x, span, embedded=e)[0].unique().tolist() == [7.0]
        assert layer(x, span)[0].unique().tolist() == [2.5], "the first layer is given the embedding itself"


@pytest.mark.parametrize(
    "part",
    [
        {"qk_norm": True},
        {"context_norm": True},
        {"attention_gate": True},
        {"embedding_residual": True},
        {"value_embedding": True},
        {"activation": "relu2"},
    ],
    ids=str,
)
def test_a_part_is_a_key_of_a_side_and_changes_the_network(part: dict[str, Any]) -> None:
    plain, found = model(), model(encoder=part)
    names = {name for name, _ in found.named_parameters()} - {name for name, _ in plain.named_parameters()}
    assert all(name.startswith("encoder.") for name in names) and (names or "activation" in part)
    tokens = torch.tensor([[4, 5, 6]])
    span = Span.without_padding(tokens)
    with torch.no_grad():
        for parameter in found.encoder.parameters():
            parameter.normal_()
        for name, parameter in plain.encoder.named_parameters():
            parameter.copy_(found.encoder.get_parameter(name))
    assert not torch.allclose(plain.encoder(tokens, span).states, found.encoder(tokens, span).states)


# Keys of a Transformer's side that the fast decoder and the exports have been taught, or have no need to know.
TAUGHT = {
    "kind", "layers", "width", "dropout", "heads", "key_heads", "key_width", "value_width", "attention_bias",
    "attention_dropout", "feed_forward", "feed_forward_dropout", "activation", "init_std", "zero_output", "norm",
    "normalization", "normalization_epsilon", "position", "mixer", "execution", "cross_attention",
    "feed_forward_chunks",
}  # fmt: skip
# All others, and new values of those, by the reason that is given.
UNTAUGHT: dict[str, tuple[dict[str, Any], str]] = {
    "qk_norm": ({"qk_norm": True}, "normalized"),
    "context_norm": ({"context_norm": True}, "normalized"),
    "attention_gate": ({"attention_gate": True}, "gated"),
    "embedding_residual": ({"embedding_residual": True}, "add the embedding again"),
    "value_embedding": ({"value_embedding": True}, "separate embeddings"),
    "forgetting": ({"encoder": {"position": "rotary"}, "decoder": {"position": "forgetting"}}, ""),
    "differential": ({"mixer": "differential"}, "product"),
    "differential reading": ({"cross_attention": "differential"}, "product"),
}


def test_every_key_of_a_side_is_taught_or_refused() -> None:
    keys = set(TransformerDecoderConfig.model_fields)
    assert keys == TAUGHT | (UNTAUGHT.keys() & keys)


@pytest.mark.parametrize("name", UNTAUGHT)
def test_what_an_export_does_not_know_is_told(name: str) -> None:
    part, why = UNTAUGHT[name]
    found = ctranslate2_obstacles(ModelConfig.model_validate(SIZES | part))
    assert any(why in reason for reason in found)


@pytest.mark.parametrize("name", [*UNTAUGHT, "none"])
def test_the_fast_decoder_refuses_a_part_or_computes_it_alike(name: str) -> None:
    made = model(**UNTAUGHT.get(name, ({}, ""))[0])
    with torch.no_grad():
        for parameter in made.decoder.parameters():
            parameter.normal_(std=0.5)  # gains and factors, too
    if obstacle(made.decoder) is not None:
        with pytest.raises(ValueError, match="no fast implementation"):
            FastEncoderDecoder(made.encoder, made.decoder, made.head.weight)
        return
    fast = FastEncoderDecoder(made.encoder, made.decoder, made.head.weight)
    source, tokens = torch.tensor([[4, 5, 6]]), torch.tensor([[2, 5, 7]])
    span = Span.without_padding(source)
    with torch.no_grad():
        wanted, _ = made.step(tokens, made.session(source, span))
    torch.testing.assert_close(fast.step(tokens, fast.session(source, span))[0], wanted)


def test_what_they_know_is_not_refused() -> None:
    assert obstacle(model().decoder) is None and ctranslate2_obstacles(ModelConfig.model_validate(SIZES)) == []


def test_onnx_is_refused_what_it_cannot_keep() -> None:
    refused = [name for name, (part, _) in UNTAUGHT.items() if onnx_obstacles(ModelConfig.model_validate(SIZES | part))]
    assert refused == ["forgetting"], "tests/share/test_onnx.py exports the others"


def test_the_squared_relu_is_decoded_fast_and_is_not_exported() -> None:
    assert obstacle(model(activation="relu2").decoder) is None
    config = ModelConfig.model_validate(SIZES | {"activation": "relu2"})
    assert ctranslate2_obstacles(config) == ["its activation is relu2"]


def test_frames_after_the_norm_take_them_too() -> None:
    made = model(norm="post", qk_norm=True, attention_gate=True, embedding_residual=True, zero_output=True)
    assert isinstance(made.decoder.layers[0].around_mixer, PostNorm)
    tokens = torch.tensor([[4, 5, 6]])
    span = Span.without_padding(tokens)
    assert torch.isfinite(made(tokens, span, tokens, span)).all()
