"""Masks: their algebra, their lowerings, each against the primitive ``at``, and causality with a cache."""

from __future__ import annotations

import warnings

import jaxtyping
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention

from regard.attention.kernel import attend_reference
from regard.attention.mask import Bound, Causal, Edges, Mask, Matrix, Padding, Segments, Span, Window

from .laws.cases import FEW

QUERIES, KEYS, BATCH = 4, 5, 2


def span(lengths: list[int], columns: int, *, start: int = 0, segment: bool = False) -> Span:
    valid = torch.arange(columns) < torch.tensor(lengths)[:, None]
    segments = (torch.arange(columns) // 2).expand(len(lengths), -1) if segment else None
    return Span(torch.full((len(lengths),), start), valid, segments)


def matrix() -> torch.Tensor:
    found = torch.zeros(QUERIES, KEYS)
    found[0, 1:] = found[2, :] = -torch.inf
    return found


MASKS: dict[str, Mask] = {
    "causal": Causal(),
    "window": Window(1),
    "padding": Padding(),
    "segments": Segments(),
    "edges": Edges(torch.tensor([[0, 0, 3], [1, 4, 2]])),
    "additive": Matrix(matrix()),
    "and": Causal() & Padding() & Window(2),
    "or": (Window(0) | Edges(torch.tensor([[0], [4]]))) & Padding(),
}
SPANS = {
    "whole": (span([4, 4], QUERIES, segment=True), span([5, 5], KEYS, segment=True)),
    "padded": (span([4, 2], QUERIES, segment=True), span([3, 5], KEYS, segment=True)),
    "cached": (span([4, 4], QUERIES, start=3, segment=True), span([5, 4], KEYS, segment=True)),
}


@pytest.fixture(params=[(mask, spans) for mask in MASKS for spans in SPANS], ids="-".join)
def bound(request) -> Bound:
    mask, spans = request.param
    return MASKS[mask].bind(*SPANS[spans])


def by_at(bound: Bound) -> torch.Tensor:
    """One question at a time."""
    return torch.tensor(
        [
            [[bool(bound.at(*torch.tensor([b, i, j]))) for j in range(KEYS)] for i in range(QUERIES)]
            for b in range(BATCH)
        ]
    )


def inputs(dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    shapes = ((BATCH, 2, QUERIES, 16), (BATCH, 2, KEYS, 16), (BATCH, 2, KEYS, 16))
    return [torch.randn(shape, dtype=dtype) for shape in shapes]


def test_dense_is_at(bound):
    assert torch.equal(bound.dense(), by_at(bound))


def test_column_is_that_column(bound):
    for i in range(QUERIES):
        column = bound.column(i)
        assert torch.equal(column.dense(), bound.dense()[:, i : i + 1])
        again = Bound(column.mask, column.query, column.key)
        assert torch.equal(again.dense(), bound.dense()[:, i : i + 1]), "through at, too"
        assert torch.equal(column.query_position, bound.query_position[:, i : i + 1])


def test_sdpa_lowering_is_the_reference(bound):
    query, key, value = inputs()
    expected, _ = attend_reference(query, key, value, bound, scale=0.25)
    actual = scaled_dot_product_attention(query, key, value, attn_mask=bound.sdpa(), scale=0.25)
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


def test_flex_lowering_is_the_reference(bound):
    query, key, value = inputs(torch.float32)
    expected, _ = attend_reference(query, key, value, bound, scale=0.25)
    allowed = bound.flex()

    def score(energy, batch, head, i, j):
        return torch.where(allowed(batch, head, i, j), energy, -torch.inf)

    jaxtyping.config.update("jaxtyping_disable", True)  # flex_attention traces, and type checks leave a trace
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # uncompiled, it materialises its scores, and says so
            actual = flex_attention(query, key, value, score_mod=score, scale=0.25)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def test_additive_is_zero_where_allowed_and_far_below_elsewhere(bound):
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        added = bound.additive(dtype)
        assert added.dtype == dtype
        assert torch.equal(added == 0, bound.sdpa())
        assert added.isfinite().all()


def test_empty_names_the_queries_that_see_nothing(bound):
    empty = bound.empty()
    expected = ~by_at(bound).any(2)
    assert (not expected.any()) if empty is None else torch.equal(empty, expected)


def test_edges_lowering():
    graph = MASKS["edges"]
    for mask in (graph, graph & Padding()):
        edges = mask.bind(*SPANS["whole"]).edges()
        dense = torch.zeros(QUERIES, KEYS, dtype=torch.bool)
        dense[edges[0], edges[1]] = True
        assert torch.equal(dense.expand(BATCH, -1, -1), mask.bind(*SPANS["whole"]).dense())
    assert (graph & Padding()).bind(*SPANS["padded"]).edges() is None, "padding removes edges"
    assert (graph & Causal()).bind(*SPANS["whole"]).edges() is None
    assert (graph | Causal()).bind(*SPANS["whole"]).edges() is None


@pytest.mark.parametrize("causal", [False, True])
def test_varlen_lowering(causal):
    lengths = span([3, 1], 3)
    mask = Padding() & Causal() if causal else Padding()
    bound = mask.bind(lengths, lengths)
    ragged = bound.varlen()
    assert ragged.query_offsets.tolist() == ragged.key_offsets.tolist() == [0, 3, 4]
    assert ragged.query_offsets.dtype == torch.int32
    assert (ragged.longest_query, ragged.longest_key, ragged.causal) == (3, 3, causal)
    for batch in range(2):
        q, k = (int(offsets[batch + 1] - offsets[batch]) for offsets in ragged[:2])
        whole = torch.ones(q, k, dtype=torch.bool)
        assert torch.equal(bound.dense()[batch, :q, :k], whole.tril() if causal else whole)
        assert not bound.dense()[batch, :, k:].any()


def test_varlen_declines_what_it_cannot_express():
    whole, late = span([3, 1], 3), span([3, 1], 3, start=2)
    longer = span([4, 2], 4)
    for mask, query, key in [
        (Causal(), whole, whole),
        (Padding() & Window(1), whole, whole),
        (Padding() | Causal(), whole, whole),
        (Padding() & Causal(), late, whole),
        (Padding() & Causal(), whole, longer),
    ]:
        assert mask.bind(query, key).varlen() is None
    assert Padding().bind(whole, longer).varlen() is not None


@FEW
@given(st.randoms(use_true_random=False))
def test_algebra(source):
    spans = source.choice(list(SPANS.values()))
    one, two, three = (source.choice(list(MASKS.values())) for _ in range(3))

    def dense(mask: Mask) -> torch.Tensor:
        return mask.bind(*spans).dense()

    assert torch.equal(dense(one & two), dense(one) & dense(two))
    assert torch.equal(dense(one | two), dense(one) | dense(two))
    assert torch.equal(dense(one & (two | three)), dense((one & two) | (one & three)))
    assert torch.equal(dense(one & one), dense(one))
    assert torch.equal(dense(one | (one & two)), dense(one))
    assert (one & two).conjuncts() == one.conjuncts() + two.conjuncts()
    assert (one | two).conjuncts() == (one | two,)


def test_causal_with_a_cache_is_aligned_at_the_end():
    """Two new queries over five keys are positions 3 and 4; ``is_causal`` would let them see 1 and 2 keys."""
    seen = Causal().bind(span([2], 2, start=3), span([5], 5)).dense()
    assert seen.long().tolist() == [[[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]]


def test_window_wider_than_the_sequence_is_everything_and_zero_is_oneself():
    same = (span([4], 4), span([4], 4))
    assert Window(3).bind(*same).dense().all()
    assert torch.equal(Window(0).bind(*same).dense()[0], torch.eye(4, dtype=torch.bool))


@pytest.mark.parametrize("radius", [1, 2, 3])
def test_hops_through_a_window(radius):
    """Positions i and j are connected after ceil(|i − j| / r) layers, and not before (Vaswani et al., Table 1)."""
    once = Window(radius).bind(span([8], 8), span([8], 8)).dense()[0].double()
    reach = torch.eye(8, dtype=torch.float64)
    far = (torch.arange(8)[:, None] - torch.arange(8)).abs()
    for hops in range(1, 8):
        reach = reach @ once
        assert torch.equal(reach > 0, far <= hops * radius)


@pytest.mark.parametrize(
    "build, complaint",
    [
        (lambda: Window(-1), "0 or more"),
        (lambda: Matrix(torch.tensor([[0.0, -1e9]])), "0 and −∞"),
        (lambda: Segments().bind(span([1], 1), span([1], 1)).dense(), "segments"),
    ],
)
def test_what_cannot_be_a_mask_says_so(build, complaint):
    with pytest.raises(ValueError, match=complaint):
        build()
