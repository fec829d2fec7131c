"""What normalizes, and the feed-forward beside it: invariants, torch's own, and how BatchNorm leaks."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from regard.attention.norm import RootMeanSquareNorm
from regard.attention.span import Span
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.transformer.feed_forward import FeedForward, GatedFeedForward, feed_forward
from regard.models.transformer.norms import BatchNorm, PostNorm, PreNorm, normalization
from regard.training.optim import Optimizer

WIDTH = 8
NEAR = {"rtol": 1e-4, "atol": 1e-4}


def norm(kind: str) -> nn.Module:
    """In float64, with a gain and a shift that show."""
    module = normalization(kind, WIDTH).double()
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    return module


def columns(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, WIDTH, dtype=torch.float64)


def test_layer_norm_ignores_scale_and_shift():
    """LN(a x + b) = LN(x) for a > 0, but for ε."""
    x, layer = columns(2, 3), norm("layer")
    torch.testing.assert_close(layer(7 * x - 3), layer(x), **NEAR)


def test_rms_norm_ignores_scale_but_not_shift():
    x, rms = columns(2, 3), norm("rms")
    torch.testing.assert_close(rms(7 * x), rms(x), **NEAR)
    assert (rms(x + 3) - rms(x)).abs().max() > 0.1


def test_rms_norm_is_layer_norm_where_the_mean_is_zero():
    x = columns(2, 3)
    x = x - x.mean(-1, keepdim=True)
    torch.testing.assert_close(
        normalization("rms", WIDTH).double()(x), normalization("layer", WIDTH).double()(x), **NEAR
    )


def test_rms_norm_by_pencil():
    """The mean square of 1, 7 is 25: divided by 5."""
    rms = normalization("rms", 2)
    torch.testing.assert_close(rms(torch.tensor([1.0, 7.0])), torch.tensor([0.2, 1.4]))
    assert isinstance(rms, nn.RMSNorm) and rms.eps == 1e-6


def test_rms_norm_of_half_numbers_is_taken_in_single_precision():
    """The mean square of 300s is beyond what float16 holds."""
    rms = normalization("rms", 4).half()
    torch.testing.assert_close(rms(torch.full((4,), 300.0).half()), torch.ones(4).half())


@pytest.mark.parametrize("kind", ["layer", "rms", "none"])
def test_a_column_is_normalized_by_itself(kind):
    """Neither the rest of the batch nor padding changes it, in training as in use."""
    module, x = norm(kind), columns(3, 4)
    alone = module(x[:1, :2])
    torch.testing.assert_close(module(x)[:1, :2], alone, rtol=0, atol=1e-14)
    assert torch.equal(module.eval()(x[:1, :2]), alone)


def test_batch_norm_leaks_from_neighbors_and_padding_while_training():
    module, x = norm("batch"), columns(3, 4)
    padded = torch.cat([x, torch.zeros(3, 5, WIDTH, dtype=torch.float64)], 1)
    others = torch.cat([x[:1], columns(2, 4)])
    assert (module(padded)[:, :4] - module(x)).abs().max() > 0.01
    assert (module(others)[0] - module(x)[0]).abs().max() > 0.01
    (gradient,) = torch.autograd.grad(module(x.requires_grad_())[0, 0].sum(), x)
    assert gradient[0, 1:].any(), "even what comes later"


def test_batch_norm_in_use_is_its_running_statistics():
    """From (0, 1) a tenth of the way to the batch's mean and (unbiased) variance."""
    module, x = BatchNorm(WIDTH).double(), columns(3, 4)
    module(x)
    flat = x.flatten(0, 1)
    mean, variance = 0.1 * flat.mean(0), 0.9 + 0.1 * flat.var(0)
    expected = (x[:1, :1] - mean) / torch.sqrt(variance + 1e-5)
    torch.testing.assert_close(module.eval()(x[:1, :1]), expected)


@pytest.mark.parametrize("kind", ["layer", "rms", "batch", "none"])
def test_both_frames_with_every_kind(kind):
    x, y = columns(2, 3), columns(2, 3)
    post, pre = (frame(WIDTH, dropout=0.0, kind=kind).double() for frame in (PostNorm, PreNorm))
    alone = normalization(kind, WIDTH).double()
    torch.testing.assert_close(post.add(post.before(x), y), alone(x + y))
    torch.testing.assert_close(pre.before(x), alone(x))
    assert torch.equal(pre.add(x, y), x + y)


@pytest.mark.parametrize("kind, made", [("rms", RootMeanSquareNorm), ("batch", BatchNorm), ("none", nn.Identity)])
def test_a_config_names_it_for_every_frame_and_the_last_norm(kind, made):
    config = ModelConfig(**SIZES, norm="pre", normalization=kind)
    model = build(config, source_types=9, target_types=9)
    frames = [module for module in model.modules() if isinstance(module, PreNorm)]
    assert len(frames) == 2 + 3
    assert all(type(frame.norm) is made for frame in frames)
    assert type(model.encoder.norm) is type(model.decoder.norm) is made


SIZES = {"layers": 1, "width": WIDTH, "heads": 2, "feed_forward": 6}


def test_running_statistics_are_saved_and_taken_back_with_the_weights():
    """They are no parameters, yet a model that lost them computes something else."""
    config = ModelConfig(**SIZES, normalization="batch", position="t5")

    def made() -> tuple[nn.Module, Optimizer]:
        model = build(config, source_types=9, target_types=9)
        return model, Optimizer(model)

    (one, kept), (two, fresh) = made(), made()
    tokens = torch.arange(3, 9).view(2, 3)
    span = Span.without_padding(tokens)
    one(tokens, span, tokens, span).sum().backward()
    kept.step(0.01)
    weights = {name: tensor.clone() for name, tensor in kept.weights().items()}
    assert "encoder.layers.0.around_mixer.norm.running_var" in weights
    fresh.load(weights, {name: tensor.clone() for name, tensor in kept.tensors().items()})
    one.eval(), two.eval()
    assert torch.equal(two(tokens, span, tokens, span), one(tokens, span, tokens, span))


# --- feed-forward


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def gelu(x: float) -> float:
    return x * (1 + math.erf(x / math.sqrt(2))) / 2


@pytest.mark.parametrize(
    "kind, expected",
    [
        ("relu", 5 * 2.0),
        ("gelu", 5 * gelu(2.0)),
        ("glu", 5 * sigmoid(2.0) * 3.0),
        ("geglu", 5 * gelu(2.0) * 3.0),
        ("swiglu", 5 * 2.0 * sigmoid(2.0) * 3.0),
    ],
)
def test_feed_forwards_by_pencil(kind, expected):
    """x = 1: what is activated is 2, what it gates is 3, and 5 leads out."""
    module = feed_forward(kind, 1, 1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
        if isinstance(module, GatedFeedForward):
            module.gate.weight.fill_(2.0)
            module.up.weight.fill_(3.0)
        else:
            module.up.weight.fill_(2.0)
        module.down.weight.fill_(5.0)
    assert module(torch.ones(1, 1, 1)).item() == pytest.approx(expected, rel=1e-6)


def test_gated_ones_at_two_thirds_of_the_width_have_as_many_weights():
    """3 · d · (2/3 · d_ff) = 2 · d · d_ff, biases apart (Shazeer 2020, §3)."""
    plain, gated = FeedForward(12, 48), feed_forward("swiglu", 12, 32)
    weights = [sum(p.numel() for p in each.parameters() if p.dim() == 2) for each in (plain, gated)]
    assert weights == [2 * 12 * 48, 3 * 12 * 32] and weights[0] == weights[1]


def test_a_config_names_the_activation():
    for kind, made in (("gelu", FeedForward), ("swiglu", GatedFeedForward)):
        model = build(ModelConfig(**SIZES, activation=kind), source_types=9, target_types=9)
        assert {type(layer.feed_forward) for layer in (*model.encoder.layers, *model.decoder.layers)} == {made}
