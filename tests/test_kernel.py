"""The one choice of path, as a table; and that each path is the reference."""

from __future__ import annotations

import math

import pytest
import torch

from regard.attention import kernel as kernels
from regard.attention.kernel import (
    SHORT,
    WHOLE,
    attend,
    attend_reference,
    choose,
    kernel,
    masked_sigmoid,
    masked_softmax,
    normalizer,
)
from regard.attention.mask import Causal, Matrix, Padding
from regard.attention.span import Span
from regard.attention.structure import BandStructure, BlocksStructure, CausalStructure, FullStructure

from .tolerances import within


@pytest.mark.parametrize(
    "asked, path",
    [
        (dict(need_weights=True, device="cpu", gradient=True, keys=8), "reference"),
        (dict(need_weights=True, device="cuda", gradient=False, keys=8, forced="sdpa"), "reference"),
        (dict(need_weights=False, device="cpu", gradient=True, keys=SHORT), "softmax"),
        (dict(need_weights=False, device="cpu", gradient=True, keys=SHORT + 1), "sdpa"),
        (dict(need_weights=False, device="cpu", gradient=False, keys=8), "sdpa"),
        (dict(need_weights=False, device="cuda", gradient=True, keys=8), "sdpa"),
        (dict(need_weights=False, device="cpu", gradient=True, keys=8, forced="reference"), "reference"),
        (dict(need_weights=False, device="cuda", gradient=True, keys=8, forced="softmax"), "softmax"),
        (dict(need_weights=False, device="cuda", gradient=True, keys=2 * SHORT, dropping=True), "softmax"),
        (dict(need_weights=False, device="cpu", gradient=True, keys=8, dropping=True, forced="sdpa"), "softmax"),
        (dict(need_weights=False, device="cpu", gradient=True, keys=8, dropping=True, forced="reference"), "reference"),
        (dict(need_weights=True, device="cpu", gradient=True, keys=8, dropping=True), "reference"),
    ],
)
def test_choose(asked, path):
    assert choose(**asked) == path


LONG, NARROW_BAND, WIDE_BAND = 4 * SHORT, BandStructure(SHORT // 2, SHORT // 2 - 1), BandStructure(SHORT, 0)


@pytest.mark.parametrize(
    "asked, path",
    [
        (dict(device="cpu", keys=8, structure=CausalStructure()), "causal"),
        (dict(device="cpu", keys=SHORT, structure=CausalStructure(), gradient=True), "softmax"),
        (dict(device="cpu", keys=SHORT, structure=CausalStructure(), gradient=True, whole=True), "causal"),
        (dict(device="cpu", keys=WHOLE, structure=CausalStructure(), gradient=True, whole=True), "causal"),
        (dict(device="cpu", keys=WHOLE - 1, structure=CausalStructure(), gradient=True, whole=True), "softmax"),
        (dict(device="cpu", keys=SHORT, structure=FullStructure(), gradient=True, whole=True), "softmax"),
        (
            dict(device="cpu", keys=WHOLE, structure=CausalStructure(), gradient=True, whole=True, dropping=True),
            "softmax",
        ),
        (dict(device="cpu", keys=LONG, structure=CausalStructure(), gradient=True), "causal"),
        (dict(device="cpu", keys=LONG, structure=CausalStructure(), gradient=True, dropping=True), "softmax"),
        (dict(device="cpu", keys=LONG, structure=CausalStructure(), need_weights=True), "reference"),
        (dict(device="cpu", keys=LONG, structure=FullStructure(), gradient=True), "sdpa"),
        (dict(device="cpu", keys=LONG, structure=BlocksStructure(causal=True), gradient=True), "sdpa"),
        (dict(device="cpu", keys=LONG, structure=NARROW_BAND), "window"),
        (dict(device="cpu", keys=LONG, structure=NARROW_BAND, gradient=True), "window"),
        (dict(device="cpu", keys=LONG, structure=NARROW_BAND, gradient=True, dropping=True), "window"),
        (dict(device="cpu", keys=LONG, structure=NARROW_BAND, need_weights=True), "reference"),
        (dict(device="cpu", keys=LONG - 1, structure=NARROW_BAND, gradient=True), "sdpa"),
        (dict(device="cpu", keys=LONG, structure=WIDE_BAND, gradient=True), "sdpa"),
        (dict(device="cpu", keys=SHORT, structure=BandStructure(1, 1), gradient=True), "softmax"),
        (dict(device="cpu", keys=SHORT, structure=BandStructure(1, 1)), "sdpa"),
        (dict(device="cuda", keys=8, structure=CausalStructure(), gradient=True), "causal"),
        (dict(device="cuda", keys=8, structure=CausalStructure(), gradient=True, ragged=True), "varlen"),
        (dict(device="cuda", keys=8, structure=FullStructure(), ragged=True), "varlen"),
        (dict(device="cuda", keys=8, structure=FullStructure(), ragged=True, dropping=True), "softmax"),
        (dict(device="cuda", keys=8, structure=BlocksStructure(causal=True), ragged=True), "varlen"),
        (dict(device="cuda", keys=LONG, structure=NARROW_BAND), "window"),
        (dict(device="cuda", keys=LONG, structure=NARROW_BAND, ragged=True), "varlen"),
        (dict(device="cuda", keys=LONG, structure=NARROW_BAND, ragged=True, dropping=True), "window"),
        (dict(device="cuda", keys=LONG, structure=WIDE_BAND, ragged=True), "varlen"),
        (dict(device="cpu", keys=8, structure=BandStructure(1, 1), forced="window"), "window"),
        (dict(device="cpu", keys=8, structure=BandStructure(1, 1), forced="causal"), "sdpa"),
        (dict(device="cpu", keys=8, structure=CausalStructure(), forced="window"), "sdpa"),
        (dict(device="cpu", keys=8, structure=CausalStructure(), forced="sdpa"), "sdpa"),
        (dict(device="cpu", keys=8, structure=CausalStructure(), forced="varlen"), "sdpa"),
        (dict(device="cpu", keys=8, forced="causal", dropping=True), "softmax"),
    ],
)
def test_choose_by_structure(asked, path):
    assert choose(**dict(need_weights=False, gradient=False) | asked) == path


def scene(dtype: torch.dtype, *, key_heads: int = 4):
    lengths = torch.tensor([6, 3, 5])
    span = Span.of(torch.arange(6) < lengths[:, None])
    shapes = [(3, 4, 6, 8), (3, key_heads, 6, 8), (3, key_heads, 6, 8)]
    return [torch.randn(shape, dtype=dtype) for shape in shapes], (Causal() & Padding()).bind(span, span)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("path", ["softmax", "sdpa"])
@pytest.mark.parametrize("key_heads", [1, 2, 4])
def test_paths_equal_the_reference_in_value_and_gradient(path, dtype, key_heads):
    given, bound = scene(dtype, key_heads=key_heads)

    def run(name: str) -> list[torch.Tensor]:
        inputs = [x.clone().requires_grad_() for x in given]
        with kernel(name):
            context, weights = attend(*inputs, bound)
        assert weights is None
        return [context, *torch.autograd.grad(context.float().square().sum(), inputs)]

    for law, actual, expected in zip(["value"] + ["gradient"] * 3, run(path), run("reference"), strict=True):
        torch.testing.assert_close(actual, expected, **within(dtype, path="fused", law=law))


@pytest.mark.parametrize("keys", [11, 12, 20, 31, 32, 40])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_nobody_sees_how_short_rows_are_laid_out(keys, dtype):
    """With a bias, a query that sees nothing, and as many keys as are padded in bfloat16, just not, and whole rows."""
    span = Span.of(torch.arange(keys) < torch.tensor([[keys], [0], [keys - 1]]))
    bound = (Causal() & Padding()).bind(span, span)
    given = [torch.randn(3, 2, keys, 8, dtype=dtype) for _ in range(3)] + [torch.randn(1, 2, keys, keys, dtype=dtype)]

    def run(name: str) -> list[torch.Tensor]:
        *inputs, bias = (x.clone().requires_grad_() for x in given)
        with kernel(name):
            context, _ = attend(*inputs, bound, bias=bias, scale=0.3)
        slopes = torch.autograd.grad(context.float().square().sum(), [*inputs, bias])
        return [context, *slopes]

    for law, actual, expected in zip(["value"] + ["gradient"] * 4, run("softmax"), run("reference"), strict=True):
        torch.testing.assert_close(actual, expected, **within(dtype, path="fused", law=law))
    assert not run("softmax")[0][1].any(), "a sentence of no keys"


class Multiplied(torch.nn.Module):
    """Dropout that always multiplies by the same numbers, so that two paths can be compared."""

    def __init__(self, by: torch.Tensor) -> None:
        super().__init__()
        self.by = by

    def forward(self, weights: torch.Tensor) -> torch.Tensor:
        return weights * self.by[..., : weights.shape[-1]].to(weights.dtype)


@pytest.mark.parametrize("keys", [6, 20])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_dropped_weights_have_the_value_and_gradient_of_the_reference(dtype, keys):
    span = Span.of(torch.arange(keys) < torch.tensor([[keys], [0], [keys - 1]]))
    bound = (Causal() & Padding()).bind(span, span)
    given = [torch.randn(3, 2, keys, 8, dtype=dtype) for _ in range(3)]
    dropping = Multiplied(torch.randint(0, 2, (3, 2, keys, keys)) * 2.0)

    def run(name: str) -> list[torch.Tensor]:
        inputs = [x.clone().requires_grad_() for x in given]
        with kernel(name):
            context, _ = attend(*inputs, bound, dropping=dropping)
        return [context, *torch.autograd.grad(context.float().square().sum(), inputs)]

    for law, actual, expected in zip(["value"] + ["gradient"] * 3, run("softmax"), run("reference"), strict=True):
        torch.testing.assert_close(actual, expected, **within(dtype, path="fused", law=law))


def test_the_short_form_refuses_a_second_derivative():
    """Silently it would be wrong: its backward pass is no operation that torch knows."""
    (query, key, value), bound = scene(torch.float64)
    query.requires_grad_()
    with kernel("softmax"):
        (slope,) = torch.autograd.grad(attend(query, key, value, bound)[0].square().sum(), query, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()


@pytest.mark.parametrize("path", ["softmax", "sdpa", "reference"])
@pytest.mark.parametrize(("rows", "keys"), [(0, 3), (2, 0)])
def test_nothing_to_attend_to_gives_nothing(path, rows, keys):
    query = torch.randn(rows, 2, 3, 4, requires_grad=True)
    span, seen = Span.of(torch.ones(rows, 3, dtype=torch.bool)), Span.of(torch.ones(rows, keys, dtype=torch.bool))
    with kernel(path):
        context, _ = attend(
            query, torch.randn(rows, 2, keys, 4), torch.randn(rows, 2, keys, 5), Padding().bind(span, seen)
        )
    assert context.shape == (rows, 2, 3, 5) and not context.any()
    (slope,) = torch.autograd.grad(context.sum(), query)
    assert not slope.any()


def test_kernel_is_forced_inside_the_block_only_and_nests():
    (query, key, value), bound = scene(torch.float64)
    key = key.index_fill(2, torch.tensor([5]), float("nan"))  # only row 0 may see key 5, and only its last query
    with kernel("sdpa"):
        with kernel("reference"):
            inner = attend(query, key, value, bound)[0]
        outer = attend(query, key, value, bound)[0]
    assert inner[1:].isfinite().all(), "the reference tolerates NaN that no query of the row may look at"
    assert not outer[1:].isfinite().all(), "the fused path does not: it was the fused path"


def test_weights_come_out_whichever_path_is_forced():
    given, bound = scene(torch.float64)
    with kernel("sdpa"):
        context, weights = attend(*given, bound, need_weights=True)
    expected, expected_weights = attend_reference(*given, bound, scale=1 / math.sqrt(8))
    assert torch.equal(context, expected) and torch.equal(weights, expected_weights)


def test_softmax_is_unmoved_by_a_constant_and_by_large_energies():
    energy, allowed = torch.randn(2, 3, 5, dtype=torch.float64), torch.rand(2, 3, 5) < 0.7
    allowed[..., 0] = True
    plain = masked_softmax(energy, allowed)
    torch.testing.assert_close(masked_softmax(energy + 1000, allowed), plain, rtol=1e-10, atol=1e-12)
    expected = torch.softmax(energy.masked_fill(~allowed, -torch.inf), -1)
    torch.testing.assert_close(plain, expected, rtol=1e-12, atol=1e-15)
    assert masked_softmax(torch.full((1, 2), 1e300, dtype=torch.float64), torch.ones(1, 2).bool()).tolist() == [
        [0.5, 0.5]
    ]


def test_where_there_are_no_keys_nothing_is_weighed() -> None:
    nothing = torch.randn(2, 3, 0)
    assert masked_softmax(nothing, torch.ones(2, 3, 0).bool()).shape == (2, 3, 0)


def test_the_sigmoid_form_shares_out_sigmoids_and_survives_low_energies():
    allowed = torch.tensor([[True, True, True, False], [True, True, False, False], [False] * 4])
    energy = torch.tensor([[0.0, 0.0, 1e4, 9.0], [-2e3, -2e3, 1.0, 1.0], [1.0] * 4], dtype=torch.float64)
    energy = energy.requires_grad_()
    weights = masked_sigmoid(energy, allowed)  # σ: 1/2, 1/2, 1 of 2
    expected = torch.tensor([[0.25, 0.25, 0.5, 0], [0.5, 0.5, 0, 0], [0.0] * 4], dtype=torch.float64)
    torch.testing.assert_close(weights, expected, rtol=1e-12, atol=1e-15)
    (gradient,) = torch.autograd.grad(weights.square().sum(), energy)
    assert gradient.isfinite().all() and not gradient[~allowed].any()
    assert normalizer("sigmoid") is masked_sigmoid and normalizer("softmax") is masked_softmax
    with pytest.raises(ValueError, match="one of softmax, sigmoid, got 'relu'"):
        normalizer("relu")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_paths_on_an_accelerator_with_rows_that_see_nothing(dtype):
    given, bound = scene(torch.float32)
    blind = Span.of(torch.arange(6, device="cuda") < torch.tensor([[6], [0], [5]], device="cuda"))
    bound = (Causal() & Padding()).bind(blind, blind)

    def run(name: str) -> list[torch.Tensor]:
        inputs = [x.to("cuda", dtype).requires_grad_() for x in given]
        with kernel(name):
            context, _ = attend(*inputs, bound)
        return [context, *torch.autograd.grad(context.float().square().sum(), inputs)]

    for path in ("softmax", "sdpa"):
        for law, actual, expected in zip(["value"] + ["gradient"] * 3, run(path), run("reference"), strict=True):
            torch.testing.assert_close(actual, expected, **within(dtype, path="fused", law=law))
        assert not run(path)[0][1].any(), "a sentence of no keys"


@pytest.mark.parametrize("path", ["softmax", "sdpa"])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_bias_and_its_gradient_are_the_references(path, rows):
    """Of one row for the whole batch, or one each; queries that see nothing still get 0."""
    given, bound = scene(torch.float64)
    blind = torch.zeros(6, 6, dtype=torch.float64)
    blind[0] = -torch.inf
    bound = (bound.mask & Matrix(blind)).bind(bound.query, bound.key)
    bias = torch.randn(rows, 4, 6, 6, dtype=torch.float64, requires_grad=True)

    def run(name: str) -> list[torch.Tensor]:
        with kernel(name):
            context, _ = attend(*given, bound, bias=bias)
        return [context, *torch.autograd.grad(context.square().sum(), [bias])]

    expected = run("reference")
    assert not expected[0][:, :, 0].any() and expected[1].any()
    for actual, wanted in zip(run(path), expected, strict=True):
        torch.testing.assert_close(actual, wanted, **within(torch.float64, path="fused"))


def test_a_bias_that_learns_takes_the_path_of_training():
    """Its gradient counts like that of queries, keys and values: the fused kernel's backward is the slow one."""
    given, bound = scene(torch.float32)
    bias = torch.zeros(1, 4, 6, 6, requires_grad=True)
    with kernel("softmax"):
        expected, _ = attend(*given, bound, bias=bias)
    context, _ = attend(*given, bound, bias=bias)
    assert torch.equal(context, expected)


@pytest.mark.parametrize("bias", [False, True])
def test_the_path_is_chosen_by_what_is_attended_to(bias, monkeypatch):
    """By how many keys there are, not by how wide they are, and by whether anything learns, the bias included."""
    asked = []
    monkeypatch.setattr(kernels, "choose", lambda **given: asked.append(given) or choose(**given))
    query, key = torch.randn(2, 1, 3, 4), torch.randn(2, 1, 7, 4)
    spans = [Span.of(torch.ones(2, length, dtype=torch.bool)) for length in (3, 7)]
    learned = torch.zeros(1, 1, 3, 7, requires_grad=True) if bias else None
    attend(query, key, key, Padding().bind(*spans), bias=learned, need_weights=not bias)
    common = dict(device="cpu", keys=7, ragged=False, dropping=False, whole=False, forced=None)
    assert asked == [dict(need_weights=not bias, gradient=bias, structure=None if bias else FullStructure(), **common)]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_padding_and_narrow_numbers_keep_the_softmax_form(monkeypatch, padded, dtype):
    """In training on a CPU; whole causal sequences of 32-bit numbers take the fused kernel."""
    asked = []
    monkeypatch.setattr(kernels, "choose", lambda **facts: asked.append(choose(**facts)) or asked[-1])
    query = torch.zeros(2, 1, WHOLE, 4, dtype=dtype, requires_grad=True)
    span = Span.of(torch.arange(WHOLE) < torch.tensor([[WHOLE], [WHOLE - padded]]))
    attend(query, query, query, (Causal() & Padding()).bind(span, span))
    assert asked == ["softmax" if padded or dtype == torch.bfloat16 else "causal"]
