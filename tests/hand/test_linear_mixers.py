"""Linear attention and Mamba-2: the scan by chunks, the recurrence and the quadratic form are one function."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import elu

from regard.attention import linear_scan
from regard.attention.linear_scan import chunked_scan
from regard.attention.span import Span
from regard.errors import ConfigError
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.transformer.linear_attention import LinearAttention
from regard.models.transformer.mamba2 import Mamba2


def close(actual: Tensor, expected: Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def span(columns: int, valid: int | None = None) -> Span:
    return Span.of((torch.arange(columns) < (columns if valid is None else valid))[None])


@pytest.mark.parametrize("chunk", [1, 3, 4, 11, 64])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("decays", [False, True])
def test_by_chunks_it_is_the_recurrence_and_the_masked_product(chunk: int, shared: bool, decays: bool) -> None:
    query, key = drawn(2, 1 if shared else 3, 11, 4), drawn(2, 1 if shared else 3, 11, 4) + 1
    value, before = drawn(2, 3, 11, 5), drawn(2, 3, 4, 5)
    log_decay = -drawn(2, 3, 11).exp() if decays else torch.zeros(2, 3, 11, dtype=torch.float64)
    found, after = chunked_scan(query, key, value, before, log_decay if decays else None, chunk=chunk)
    memory, steps = before, []
    for t in range(11):
        outer = key[:, :, t, :, None] * value[:, :, t, None]
        memory = log_decay[:, :, t].exp()[..., None, None] * memory + outer
        steps.append((query[:, :, t, None] @ memory)[:, :, 0])
    close(found, torch.stack(steps, 2))
    close(after, memory)
    total = log_decay.cumsum(2)
    table = (query @ key.transpose(2, 3)) * (total[..., :, None] - total[..., None, :]).exp().tril()
    close(found, table @ value + total.exp()[..., None] * (query @ before))


def test_a_long_sequence_is_scanned_in_pieces_with_the_same_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    given = [drawn(2, 1, 11, 4), drawn(2, 1, 11, 4) + 1, drawn(2, 3, 11, 5), drawn(2, 3, 4, 5), -drawn(2, 3, 11).exp()]
    given = [each.requires_grad_() for each in given]
    found = []
    for piece in (64, 2):
        monkeypatch.setattr(linear_scan, "PIECE", piece)
        y, after = chunked_scan(*given, chunk=2)
        found.append((y, after, *torch.autograd.grad(y.sin().sum() + after.sum(), given)))
    for one, other in zip(*found, strict=True):
        close(one, other)


def test_decays_that_leave_nothing_give_no_nan() -> None:
    """exp(−10⁴) a column: sums of logarithms that would overflow as a quotient of products."""
    ones, zero = torch.ones(1, 1, 9, 1), torch.zeros(1, 1, 1, 1)
    given = torch.full((1, 1, 9), -1e4, requires_grad=True)
    found, _ = chunked_scan(ones, ones, ones, zero, given, chunk=4)
    assert found.flatten().tolist() == [1.0] * 9
    (slope,) = torch.autograd.grad(found.sum(), given)
    assert slope.isfinite().all()


def plain(mixer: LinearAttention, width: int) -> LinearAttention:
    with torch.no_grad():
        for part in (mixer.query, mixer.key, mixer.value, mixer.output):
            part.weight.copy_(torch.eye(width))
    return mixer.double()


def test_linear_attention_of_three_numbers() -> None:
    """φ(0) = 1, φ(1) = 2, φ(ln ½) = ½: weights φ(q)φ(k) share out the values; the last sees 1 : 2 : ½ of 0, 1, ln ½."""
    x = torch.tensor([0.0, 1.0, -math.log(2)], dtype=torch.float64).view(1, 3, 1)
    mixer = plain(LinearAttention(1, heads=1, causal=True), 1)
    found = mixer(x, span(3), mixer.start(1)).output.flatten()
    close(found, torch.tensor([0, 2 / 3, (2 - math.log(2) / 2) / 3.5], dtype=torch.float64))


@pytest.mark.parametrize("causal", [False, True])
def test_linear_attention_is_a_table_of_positive_weights(causal: bool) -> None:
    mixer = LinearAttention(6, heads=2, causal=causal, chunk=3).double()
    x, valid = drawn(1, 8, 6), 7
    query, key, value = (
        part(x).unflatten(-1, (2, 3)).transpose(1, 2) for part in (mixer.query, mixer.key, mixer.value)
    )
    weights = (elu(query) + 1) @ (elu(key) + 1).transpose(2, 3) * (torch.arange(8) < valid)
    weights = weights.tril() if causal else weights
    weights = weights / weights.sum(-1, keepdim=True)
    assert (weights >= 0).all()
    expected = mixer.output((weights @ value).transpose(1, 2).flatten(2))
    close(mixer(x, span(8, valid), mixer.start(1)).output[:, :valid], expected[:, :valid])


@pytest.mark.parametrize(
    "make", [lambda: LinearAttention(4, heads=2, causal=True), lambda: Mamba2(4, heads=2, causal=True, state=3)]
)
def test_padding_leaves_the_state_alone(make) -> None:
    mixer = make().double()
    before = mixer(drawn(1, 5, 4), span(5), mixer.start(1)).state
    after = mixer(torch.full((1, 3, 4), 1e9, dtype=torch.float64), span(3, 0), before).state
    for one, other in zip(before, after, strict=True):
        assert torch.equal(one, other)


def test_mamba2_forgets_at_the_rate_its_step_says() -> None:
    """x, B, C and the gate constant, Δ = ln 2 and A = −1: S halves and gains a half each column, to 1 from below."""
    mixer = Mamba2(1, heads=1, causal=True, expand=1, state=1, kernel=1).double()
    with torch.no_grad():
        for part in (mixer.mixed, mixer.gate, mixer.step):
            part.weight.zero_()
        mixer.filter_bias.fill_(1.0)
        mixer.step_bias.fill_(math.log(math.expm1(math.log(2))))
        mixer.rate.zero_()
    one = 1 / (1 + math.exp(-1))  # SiLU(1)
    state = mixer(drawn(1, 3, 1), span(3), mixer.start(1)).state
    close(state.memory.flatten(), torch.tensor([math.log(2) * one**2 * (1 + 0.5 + 0.25)], dtype=torch.float64))


def test_mamba2_is_transformers_mamba2() -> None:
    """Mamba2Mixer of transformers with our weights, in one pass and after a prefix."""
    transformers = pytest.importorskip("transformers")
    from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer

    config = transformers.Mamba2Config(
        num_heads=4, head_dim=4, hidden_size=8, state_size=6, expand=2, n_groups=1, conv_kernel=4, chunk_size=5,
        num_hidden_layers=1, use_conv_bias=True, use_bias=False,
    )  # fmt: skip
    torch.manual_seed(1)
    theirs, ours = Mamba2Mixer(config, 0).eval(), Mamba2(8, heads=4, causal=True, state=6, chunk=3)
    with torch.no_grad():
        ours.filter_bias.normal_()
        ours.skip.normal_()
        ours.norm.weight.normal_()
        theirs.in_proj.weight.copy_(torch.cat([ours.gate.weight, ours.mixed.weight, ours.step.weight]))
        copies = (
            (theirs.conv1d.weight, ours.filters), (theirs.conv1d.bias, ours.filter_bias), (theirs.A_log, ours.rate),
            (theirs.dt_bias, ours.step_bias), (theirs.D, ours.skip), (theirs.norm.weight, ours.norm.weight),
            (theirs.out_proj.weight, ours.output.weight),
        )  # fmt: skip
        for one, other in copies:
            one.copy_(other)
        theirs.norm.variance_epsilon = ours.norm.eps
        x = torch.randn(2, 13, 8)
        expected = theirs(x)
        whole = Span.of(torch.ones(2, 13, dtype=torch.bool))
        close(ours(x, whole, ours.start(2)).output, expected, 1e-5)


def test_mamba2_is_refused_where_columns_look_both_ways() -> None:
    config = ModelConfig(preset="tiny", encoder={"mixer": "mamba2"})
    with pytest.raises(ConfigError, match="cannot be built with these options") as error:
        build(config, source_types=9, target_types=9)
    assert "mamba2 is causal" in str(error.value.why)
