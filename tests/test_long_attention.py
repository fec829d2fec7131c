"""Attention without a query × key table: each form against the reference, and that the table is never made."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from regard.attention import kernel as kernels
from regard.attention import varlen_kernel, window_kernel
from regard.attention.kernel import SHORT, attend, attend_reference, kernel, share_heads
from regard.attention.mask import Bound, Causal, Mask, Padding, Segments, Window
from regard.attention.mechanisms.dot import Dot
from regard.attention.span import Span
from regard.attention.structure import BandStructure
from regard.core.state import select
from regard.models.dropout import Dropout
from regard.testing import MIXER_LAWS, Draw

from .laws.cases import FEW, mixer_case
from .laws.test_laws import pairs
from .test_mask import bounds
from .tolerances import within

MANY = settings(FEW, max_examples=25)


@contextmanager
def as_if_long() -> Iterator[None]:
    """A few columns are a long sequence: every band pays, in blocks of two or three queries, few at once."""
    with (
        patch.multiple(kernels, SHORT=0, NARROW=100.0),
        patch.multiple(window_kernel, MIN_BLOCK=2, MAX_BLOCK=3, MAX_WEIGHTS=40),
    ):
        yield


def ragged_reference(query, key, value, query_offsets, key_offsets, *longest, scale, window_size, enable_gqa):
    """``varlen_attn`` as its documentation says it: one sequence after the other."""
    assert longest[0] == int(query_offsets.diff().max()) and longest[1] == int(key_offsets.diff().max())
    assert enable_gqa == (query.shape[1] != key.shape[1])
    left, right = (limit if limit >= 0 else 10**6 for limit in window_size)
    found = []
    for (q, to_q), (k, to_k) in zip(*(pairwise(x.tolist()) for x in (query_offsets, key_offsets)), strict=True):
        asked = query[q:to_q].transpose(0, 1)
        keys, values = (share_heads(x[k:to_k].transpose(0, 1)[None], query.shape[1])[0] for x in (key, value))
        beside = torch.arange(to_k - k) - torch.arange(to_q - q)[:, None]
        energy = (scale * asked @ keys.transpose(1, 2)).masked_fill((beside < -left) | (beside > right), -torch.inf)
        found.append((energy.softmax(-1) @ values if to_k > k else asked * 0).transpose(0, 1))
    return torch.cat(found)


def inputs(bound: Bound, key_heads: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    (rows, queries), keys = bound.query.valid.shape, bound.key.valid.shape[1]
    shapes = [(rows, 2, queries, 4), (rows, key_heads, keys, 4), (rows, key_heads, keys, 4)]
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


def check(bound: Bound, key_heads: int = 2, dtype: torch.dtype = torch.float64) -> None:
    """Contexts and gradients of valid queries are the reference's; those of queries that see nothing are 0."""
    given = inputs(bound, key_heads, dtype)
    expected, _ = attend_reference(*given, bound, scale=0.5)
    actual, weights = attend(*given, bound, scale=0.5)
    asked = bound.query.valid[:, None, :, None].expand_as(actual)
    assert weights is None and actual.isfinite().all()
    torch.testing.assert_close(actual[asked], expected[asked], **within(dtype, path="fused"))
    assert not actual[~bound.dense().any(2)[:, None].expand(actual.shape[:3])].any(), "sees nothing"
    upstream = torch.randn_like(actual) * asked
    slopes = [torch.autograd.grad(context, given, upstream) for context in (actual, expected)]
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one, other, **within(dtype, path="fused", law="gradient"))
    everything = torch.autograd.grad(attend(*given, bound, scale=0.5)[0].sum(), given)
    assert all(slope.isfinite().all() for slope in everything), "asked by padded queries, too"


@MANY
@given(bounds(), st.sampled_from([1, 2]))
def test_lowered_by_structure_it_is_the_reference(bound, key_heads):
    with as_if_long():
        check(bound, key_heads)
        with torch.no_grad():
            given = inputs(bound, key_heads)
            asked = bound.query.valid[:, None, :, None].expand_as(given[0])
            context, expected = attend(*given, bound, scale=0.5)[0], attend_reference(*given, bound, scale=0.5)[0]
    torch.testing.assert_close(context[asked], expected[asked], **within(torch.float64, path="fused"))


@MANY
@given(bounds(), st.sampled_from([1, 2]))
def test_without_padding_it_is_the_reference(bound, key_heads):
    """The packing around the kernel of CUDA, whose place its definition takes."""
    with (
        as_if_long(),
        patch.object(kernels, "serves_varlen", lambda *given: True),
        patch.object(varlen_kernel, "_kernel", lambda: ragged_reference),
    ):
        check(bound, key_heads)


class Path:
    """Which paths were taken."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken: list[str] = []
        choose = kernels.choose
        monkeypatch.setattr(kernels, "choose", lambda **asked: self.taken.append(choose(**asked)) or self.taken[-1])


def long_span(columns: int = SHORT + 50) -> Span:
    return Span.of(torch.arange(columns) < torch.tensor([[columns], [columns - 37], [0]]))


LONG = [
    (Causal() & Padding(), "causal"),
    (Causal(), "causal"),
    (Causal() & Padding() & Window(5000), "causal"),
    (Padding() & Window(20), "window"),
    (Causal() & Padding() & Window(20), "window"),
    (Window(3), "window"),
    (Causal() & Padding() & Window(20, sinks=3), "window"),
    (Padding() & Window(5, sinks=1), "window"),
    (Padding() & Window(70), "sdpa"),
    (Padding(), "sdpa"),
]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("mask, path", LONG)
def test_long_sequences_take_the_path_of_their_mask(mask, path, dtype, monkeypatch):
    chosen = Path(monkeypatch)
    check(mask.bind(long_span(), long_span()) if path == "sdpa" else mask.bind(*[long_span()] * 2), dtype=dtype)
    assert set(chosen.taken) == {path}


def test_in_bfloat16_a_band_is_the_reference_too():
    bound = (Padding() & Window(20)).bind(*[long_span()] * 2)
    given = [x.detach().requires_grad_() for x in inputs(bound, 1, torch.bfloat16)]
    asked = bound.query.valid[:, None, :, None]
    found = []
    for path in ("window", "reference"):
        with kernel(path):
            context = attend(*given, bound)[0] * asked
        found.append([context, *torch.autograd.grad(context.float().square().sum(), given)])
    for law, actual, expected in zip(["value"] + ["gradient"] * 3, *found, strict=True):
        torch.testing.assert_close(actual, expected, **within(torch.bfloat16, path="fused", law=law))


class Largest(TorchDispatchMode):
    """The most numbers in a tensor that any operation gave."""

    numbers = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        found = function(*arguments, **(options or {}))
        for each in found if isinstance(found, tuple | list) else (found,):
            if isinstance(each, Tensor):
                self.numbers = max(self.numbers, each.untyped_storage().nbytes() // each.element_size())
        return found


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("mask, path", LONG[:-2] + LONG[-1:])
def test_no_tensor_is_as_large_as_the_table(mask: Mask, path, copied):
    """Forward and backward, padding and the spans included."""
    columns = 2048
    span = Span.of((torch.arange(columns) < columns - 100)[None])
    other = select(span, torch.tensor([0])) if copied else span
    given = [torch.randn(1, 1, columns, 2, requires_grad=True) for _ in range(3)]
    with Largest() as largest:
        context = attend(*given, mask.bind(span, other))[0]
        torch.autograd.grad(context.sum(), given)
    assert 0 < largest.numbers < columns**2 / 10


def test_a_window_with_dropped_weights_keeps_their_mean_and_their_zeros():
    """Dropout multiplies the weights of the band; no other path draws for it."""
    bound = (Padding() & Window(20)).bind(*[Span.of(torch.ones(1, 400, dtype=torch.bool))] * 2)
    given = inputs(bound, 2)
    given[2] = torch.ones_like(given[2])
    whole = attend(*given, bound, dropping=nn.Identity())[0]
    dropped = attend(*given, bound, dropping=Dropout(0.5))[0]
    torch.testing.assert_close(whole, torch.ones_like(whole), rtol=1e-9, atol=1e-9)
    assert 0.9 < float(dropped.mean().detach()) < 1.1 and dropped.std() > 0.1


@pytest.mark.parametrize("dropping", [None, nn.Identity()])
def test_what_needs_weights_or_a_bias_goes_on_as_before(dropping):
    """Over a long window, too: the weights of the reference, and a bias as a table."""
    bound = (Padding() & Window(20)).bind(*[Span.of(torch.ones(1, 300, dtype=torch.bool))] * 2)
    given = inputs(bound, 2)
    expected, weights = attend_reference(*given, bound, scale=0.5)
    context, found = attend(*given, bound, scale=0.5, need_weights=True, dropping=dropping)
    assert torch.equal(context, expected) and torch.equal(found, weights)
    bias = torch.randn(1, 2, 300, 300, dtype=torch.float64)
    expected, _ = attend_reference(*given, bound, scale=0.5, bias=bias)
    context, _ = attend(*given, bound, scale=0.5, bias=bias, dropping=dropping)
    torch.testing.assert_close(context, expected, **within(torch.float64, path="fused"))


LONG_MIXERS = ["multi-query", "window", "sinks", "encoder"]


@pairs([*(f"self-attention-{kind}" for kind in LONG_MIXERS), "packed-self-attention-window"], mixer_case, MIXER_LAWS)
def test_the_laws_of_mixers_hold_for_long_sequences(case, law, name):
    for seed in range(2):
        with as_if_long():
            law.check(case, Draw(random.Random(f"{name} {law.name} {seed}")))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    "mask, whole, path",
    [
        (Causal() & Padding(), True, "causal"),
        (Causal() & Padding(), False, "varlen"),
        (Padding(), False, "varlen"),
        (Padding() & Window(20), True, "varlen"),
        (Padding() & Causal() & Window(20), False, "varlen"),
        (Padding() & Causal() & Segments(), False, "varlen"),
    ],
)
def test_an_accelerator_makes_no_table(mask, whole, path, dtype, monkeypatch):
    """Equal lengths go by ``is_causal``, padded and packed ones by the kernel of sequences without padding."""
    span = Span.of(long_span(400).valid.cuda())
    span = span._replace(segment=(torch.arange(400, device="cuda") // 150).expand(3, -1))
    span = span._replace(valid=torch.ones_like(span.valid)) if whole else span
    bound, chosen = mask.bind(span, span), Path(monkeypatch)
    shapes = [(3, 4, 400, 64), (3, 2, 400, 64), (3, 2, 400, 64)]
    given = [torch.randn(shape, device="cuda", dtype=dtype, requires_grad=True) for shape in shapes]
    asked = span.valid[:, None, :, None]
    context = attend(*given, bound)[0]
    half = dtype != torch.float32
    fallback = "window" if isinstance(bound.structure(), BandStructure) else "causal"
    if path == "varlen" and not half:
        path = fallback if mask not in (Padding(), Padding() & Causal() & Segments()) else "sdpa"
    assert chosen.taken == [path]
    with kernel("reference"):
        exact = [x.detach().double().requires_grad_() for x in given]
        expected = attend(*exact, bound)[0]
    upstream = torch.randn_like(context) * asked
    tolerance = dict(rtol=3e-2, atol=3e-2) if half else within(dtype, path="foreign", law="gradient")
    torch.testing.assert_close((context * asked).double(), expected * asked, **tolerance)
    slopes = torch.autograd.grad(context, given, upstream), torch.autograd.grad(expected, exact, upstream.double())
    for one, other in zip(*slopes, strict=True):
        torch.testing.assert_close(one.double(), other, **tolerance)


def test_dot_attention_goes_this_way():
    """The mechanism itself, over a long window: nothing as large as a table."""
    bound = (Causal() & Padding() & Window(8)).bind(*[Span.of(torch.ones(1, 2048, dtype=torch.bool))] * 2)
    x = torch.randn(1, 1, 2048, 2, requires_grad=True)
    with Largest() as largest:
        Dot()(x, x, x, bound).context.sum().backward()
    assert 0 < largest.numbers < 2048**2 / 10
