"""What other toolkits' language models have: GELU by tanh, epsilons of their own, embeddings as they stand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from regard.attention.span import Span
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD
from regard.engine.native import encoder_obstacle
from regard.models.build import ARCHITECTURES
from regard.models.input import TokenInput
from regard.models.transformer.config import TransformerEncoderConfig
from regard.models.transformer.feed_forward import FeedForward, feed_forward
from regard.models.transformer.norms import normalization
from regard.runs.config import load_config
from regard.tasks.language_model.task import TASK


def language_model(**model: object) -> nn.Module:
    sizes = {"layers": 1, "width": 8, "feed_forward": 8, "heads": 2}
    config = load_config({"task": "language-model", "data": {"train": []}, "model": {**sizes, **model}})
    torch.manual_seed(1)
    return TASK.build(config, {"types": 6})


def test_gelu_by_tanh() -> None:
    layer = feed_forward("gelu-tanh", 1, 1)
    assert isinstance(layer, FeedForward)
    x = torch.tensor([-2.0, -0.5, 0.0, 1.0, 3.0])
    expected = [v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))) / 2 for v in x.tolist()]
    torch.testing.assert_close(layer.activation(x), torch.tensor(expected))
    assert not torch.equal(layer.activation(x), feed_forward("gelu", 1, 1).activation(x))


@pytest.mark.parametrize(("kind", "usual"), [("layer", 1e-5), ("rms", 1e-6), ("batch", 1e-5)])
def test_an_epsilon_of_its_own(kind: str, usual: float) -> None:
    assert (normalization(kind, 4).eps, normalization(kind, 4, epsilon=0.25).eps) == (usual, 0.25)
    norms = [each for each in language_model(normalization="rms", normalization_epsilon=0.25).modules()
             if isinstance(each, nn.RMSNorm)]  # fmt: skip
    assert [norm.eps for norm in norms] == [0.25] * 3, "both of the layer, and the last"


def test_embeddings_are_scaled_as_the_config_says() -> None:
    assert language_model().embedding.scale == math.sqrt(8)
    assert language_model(embedding_scale=1.0).embedding.scale == 1.0


def test_types_that_are_never_predicted_have_no_probability_and_no_weight() -> None:
    plain, net = language_model(), language_model(never_predicted=[1, 2])
    assert net.state_dict().keys() == plain.state_dict().keys()
    assert sum(1 for _ in net.parameters()) == sum(1 for _ in plain.parameters())
    features = torch.randn(5, 8)
    found, whole = net.head.log_probabilities(features), plain.head(features)
    assert (found[:, [1, 2]].exp() == 0).all()
    kept = [0, 3, 4, 5]
    torch.testing.assert_close(found[:, kept], whole[:, kept].log_softmax(-1))
    loss = net.head.loss(features, torch.tensor([3, 4, 5, 0, 3]), smoothing=0.0)
    torch.testing.assert_close(loss.nll, -found[range(5), [3, 4, 5, 0, 3]].sum())
    loss.smoothed.backward()
    assert net.head.weight.grad is not None and (net.head.weight.grad[[1, 2]] == 0).all()


def test_a_type_that_is_not_there_and_two_biases_are_refused() -> None:
    with pytest.raises(Exception, match="there is no type 6"):
        language_model(never_predicted=[6])
    with pytest.raises(Exception, match="remove one of them"):
        language_model(never_predicted=[1], output_bias=True)


# ---------------------------------------------------------------------------
# Encoders


def tokens_of(types: int = 8, *, mask: int | None = None) -> TokenInput:
    return TokenInput(nn.Parameter(torch.ones(types, 2)), mask=mask).configure(scale=1.0)


def test_a_text_ends_with_its_end_symbol_and_the_last_segment_is_shared() -> None:
    tokens = tokens_of()
    tokens.add_segments(2)
    assert tokens.segments is not None
    tokens.segments.data = torch.tensor([[0.0, 0.0], [10.0, 10.0]])
    row = torch.tensor([[BEGIN, 5, END, 6, END, 7, END, PAD]])
    assert tokens.vectors(row)[0, :, 0].tolist() == [1, 1, 1, 11, 11, 11, 11, 11]


def test_masks_have_no_vector_and_the_other_tokens_share_their_weight() -> None:
    tokens = tokens_of(mask=7)
    tokens.drop_tokens(0.5)
    rows = torch.tensor([[BEGIN, 7, 5, END, PAD], [BEGIN, 4, 5, 6, END]])
    vectors = tokens.vectors(rows)[..., 0]
    torch.testing.assert_close(vectors[0, :4], torch.tensor([2 / 3, 0, 2 / 3, 2 / 3]), msg="1/2 over 3 of 4 tokens")
    torch.testing.assert_close(vectors[1], torch.full((5,), 0.5))
    without = tokens_of()
    without.drop_tokens(0.5)
    assert without.vectors(rows)[0, 1, 0] == 0.5, "a classifier has no mask"


@pytest.mark.parametrize("options", [
    {"embedding_norm": True}, {"segments": 2}, {"token_dropout": 0.1}, {"norm": "pre", "first_norm": False},
    {"mixer": {"kind": "dot", "neighborhood": 1}, "global_every": 2},
])  # fmt: skip
def test_kernels_leave_these_encoders_to_torch(options: dict[str, Any]) -> None:
    sizes = {"layers": 2, "width": 8, "heads": 2, "feed_forward": 8, "embedding_scale": 1.0}

    def obstacle(**options: Any) -> str | None:
        config = TransformerEncoderConfig.model_validate(sizes | options)
        return encoder_obstacle(
            ARCHITECTURES["transformer"].encoder(config, TokenInput(nn.Parameter(torch.ones(8, 8))))
        )

    assert obstacle() is None and obstacle(**options) is not None


def test_every_second_layer_attends_to_all_positions() -> None:
    """A change at one end reaches the other end in the first layer, not in the second, which sees one neighbor."""
    config = TransformerEncoderConfig.model_validate({
        "layers": 2, "width": 8, "heads": 2, "feed_forward": 8, "dropout": 0.0, "position": "rotary",
        "mixer": {"kind": "dot", "neighborhood": 1}, "global_every": 2, "global_base": 99.0,
    })  # fmt: skip
    net = ARCHITECTURES["transformer"].encoder(config, TokenInput(nn.Parameter(torch.randn(8, 8))))
    x, other = torch.randn(2, 1, 6, 8)
    changed = torch.cat([other[:, :1], x[:, 1:]], 1)
    span = Span.without_padding(torch.zeros(1, 6, dtype=torch.long))
    for layer, reaches in zip(net.layers, (True, False), strict=True):
        moved = (layer(x, span)[0] - layer(changed, span)[0]).abs().amax(-1)[0] > 1e-7
        assert moved.tolist() == [True, True, *[reaches] * 4]
    assert [layer.mixer.rotary.base for layer in net.layers] == [99.0, 10000.0]
