"""Masks: their algebra, their lowerings, each against the primitive ``at``, and causality with a cache."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from regard.attention.kernel import attend_reference
from regard.attention.mask import Bound, Causal, Edges, Global, Mask, Matrix, Padding, Segments, VisibleUntil, Window
from regard.attention.positions.distance_bias import distances
from regard.attention.span import EdgeList, Span
from regard.attention.structure import (
    BandStructure,
    BlocksStructure,
    CausalStructure,
    EdgesStructure,
    FullStructure,
    IndexOffset,
    Reach,
    reach_structure,
)
from regard.attention.varlen_kernel import varlen

from .laws.cases import FEW

QUERIES, KEYS, BATCH = 4, 5, 2
MANY = settings(FEW, max_examples=50)


GRAPH = EdgeList(torch.tensor([[0, 0, 3], [1, 4, 2]]))


def span(lengths: list[int], columns: int, *, start: int = 0, segment: bool = False) -> Span:
    valid = torch.arange(columns) < torch.tensor(lengths)[:, None]
    segments = (torch.arange(columns) // 2).expand(len(lengths), -1) if segment else ()
    return Span(torch.full((len(lengths),), start), valid, segments)


def full(lengths: list[int], columns: int, *, start: int = 0, placed: bool = False) -> Span:
    """Span that says all that can be said."""
    found, each = span(lengths, columns, start=start, segment=True), torch.arange(columns).expand(len(lengths), -1)
    given = (each % 2 + start) if placed else ()
    return found._replace(visible_until=each // 2 + 1, is_global=each == 1, given_position=given, edges=GRAPH)


def matrix() -> torch.Tensor:
    found = torch.zeros(QUERIES, KEYS)
    found[0, 1:] = found[2, :] = -torch.inf
    return found


MASKS: dict[str, Mask] = {
    "causal": Causal(),
    "window": Window(1),
    "sinks": Window(1, sinks=2),
    "padding": Padding(),
    "segments": Segments(),
    "visible until": VisibleUntil(),
    "global": (Window(0) | Global()) & Padding(),
    "edges": Edges(),
    "additive": Matrix(matrix()),
    "and": Causal() & Padding() & Window(2),
    "or": (Window(0) | Edges()) & Padding(),
}
SPANS = {
    "whole": (full([4, 4], QUERIES), full([5, 5], KEYS)),
    "padded": (full([4, 2], QUERIES), full([3, 5], KEYS)),
    "cached": (full([4, 4], QUERIES, start=3), full([5, 4], KEYS)),
    "placed": (full([4, 2], QUERIES, start=1, placed=True), full([3, 5], KEYS, placed=True)),
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


def test_additive_is_zero_where_allowed_and_far_below_elsewhere(bound):
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        added = bound.additive(dtype)
        assert added.dtype == dtype
        assert torch.equal((added == 0).expand_as(bound.sdpa()), bound.sdpa())
        assert added.isfinite().all()


def test_empty_names_the_queries_that_see_nothing(bound):
    empty = bound.empty()
    expected = ~by_at(bound).any(2)
    assert (not expected.any()) if empty is None else torch.equal(empty.expand_as(expected), expected)


def test_a_table_has_no_dimension_that_the_mask_does_not_depend_on():
    """Padding is a row of keys, causality one table for the batch, a window over the whole sequence nothing at all."""
    padded = span([4, 2], 4)
    for mask, shape in [
        (Padding(), (2, 1, 4)),
        (Causal(), (1, 4, 4)),
        (Causal() & Padding(), (2, 4, 4)),
        (Padding() & Window(3), (2, 1, 4)),
        (Window(3), (1, 1, 4)),
    ]:
        assert mask.bind(padded, padded).narrow().shape == shape


def test_edges_lowering():
    graph = MASKS["edges"]
    for mask in (graph, graph & Padding(), graph & Window(9)):
        found = mask.bind(*SPANS["padded"]).structure()
        assert isinstance(found, EdgesStructure) and found.index is GRAPH.pairs
    same = (SPANS["whole"][0],) * 2
    assert (graph & Causal()).bind(*same).structure() is None
    assert (graph | Causal()).bind(*SPANS["whole"]).structure() is None


@pytest.mark.parametrize(
    "mask, window",
    [
        (Padding(), (-1, -1)),
        (Padding() & Causal(), (-1, 0)),
        (Padding() & Window(1), (1, 1)),
        (Padding() & Window(5), (-1, -1)),
        (Causal() & Padding() & Window(1), (1, 0)),
    ],
)
def test_varlen_lowering(mask, window):
    lengths = span([3, 1, 0], 3)
    bound = mask.bind(lengths, lengths)
    ragged = varlen(bound)
    assert ragged.query_offsets.tolist() == ragged.key_offsets.tolist() == [0, 3, 4, 4]
    assert ragged.query_offsets.dtype == torch.int32
    assert ragged[2:] == (3, 3, *window)


def test_varlen_of_a_pack_has_a_sequence_for_each_segment():
    pack = Span.of(torch.tensor([[True] * 5, [True] * 4 + [False], [False] * 5]))
    pack = pack._replace(segment=torch.tensor([[0, 0, 1, 1, 1], [1, 2, 2, 5, 5], [0, 0, 0, 0, 0]]))
    mask = Padding() & Causal() & Segments()
    assert mask.bind(pack, pack).structure() == BlocksStructure(causal=True)
    ragged = varlen(mask.bind(pack, pack))
    assert ragged.query_offsets.tolist() == ragged.key_offsets.tolist() == [0, 2, 5, 6, 8, 9]
    assert ragged[2:] == (3, 3, -1, 0)
    torn = pack._replace(segment=torch.tensor([[0, 1, 0, 1, 1], [0] * 5, [0] * 5]))
    assert varlen(mask.bind(torn, torn)) is None, "segment 0 lies in two places"


def test_varlen_declines_what_it_cannot_express():
    whole, late = span([3, 1], 3), span([3, 1], 3, start=1)
    longer = span([4, 2], 4)
    for mask, query, key in [
        (Causal(), whole, whole),
        (Padding() & Matrix(torch.zeros(3, 3)), whole, whole),
        (Padding() | Causal(), whole, whole),
        (Padding() & Causal(), late, whole),
        (Padding() & Causal(), whole, longer),
        (Padding() & Causal(), span([3, 2], 3), whole),
        (Padding() & Window(1), late, whole),
        (Padding() & Segments(), span([3, 1], 3, segment=True), span([3, 2], 3, segment=True)),
    ]:
        assert varlen(mask.bind(query, key)) is None
    assert varlen(Padding().bind(whole, longer)) is not None


@pytest.mark.parametrize(
    "reaches, offset, sizes, structure",
    [
        ([], (3, 5), (4, 9), FullStructure()),
        ([(math.inf, 0)], (0, 0), (4, 4), CausalStructure()),
        ([(math.inf, 0), (3, 3)], (0, 0), (4, 4), CausalStructure()),
        ([(math.inf, 0), (2, 2)], (0, 0), (4, 4), BandStructure(2, 0)),
        ([(math.inf, 0)], (0, 0), (4, 5), BandStructure(3, 0)),
        ([(math.inf, 0)], (1, 1), (4, 4), BandStructure(3, 1)),
        ([(math.inf, 0)], (0, 2), (4, 4), BandStructure(3, 2)),
        ([(2, 2), (1, 4)], (0, 0), (9, 9), BandStructure(1, 2)),
        ([(2, 2)], (3, 3), (4, 9), BandStructure(-1, 5)),
        ([(2, 2)], (-3, 1), (9, 9), BandStructure(5, 3)),
        ([(2, 2)], (50, 50), (4, 9), BandStructure(-8, 8)),  # beyond all keys: one column that is not there
        ([(2, 2)], (-50, -50), (4, 9), BandStructure(48, -48)),
    ],
)
def test_reaches_make_a_structure(reaches, offset, sizes, structure):
    reached = [Reach(*reach) for reach in reaches]
    assert reach_structure(reached, IndexOffset(*offset), *sizes) == structure


def test_a_single_query_is_not_looked_at():
    """A step of decoding: its table is a row. Where the spans share their start there is nothing to look at."""
    one, cache = span([1, 1], 1, start=4), span([5, 3], 6)
    assert (Causal() & Padding()).bind(one, cache).structure() is None
    assert Padding().bind(one, cache).structure() == FullStructure()
    alone = span([1], 1)
    assert (Causal() & Window(2)).bind(alone, alone).structure() == FullStructure()


@st.composite
def bounds(draw) -> Bound:
    """Masks over spans that start anywhere, row by row, with padding, whole sequences of it too, and packs."""
    rows, queries, keys = draw(st.integers(1, 3)), draw(st.integers(1, 9)), draw(st.integers(1, 9))

    def spanned(columns: int) -> Span:
        starts = draw(st.lists(st.integers(0, 6), min_size=rows, max_size=rows))
        if draw(st.booleans()):
            starts = starts[:1] * rows
        lengths = draw(st.lists(st.integers(0, columns), min_size=rows, max_size=rows))
        segment = torch.tensor([sorted(draw(st.integers(0, 2)) for _ in range(columns)) for _ in range(rows)])
        return Span(
            torch.tensor(starts),
            torch.arange(columns) < torch.tensor(lengths)[:, None],
            segment,
            positions(segment),
            visible_until=torch.randint(0, keys + 1, (rows, columns)),
            is_global=torch.rand(rows, columns) < 0.2,
        )

    def positions(segment: torch.Tensor) -> torch.Tensor | tuple[()]:
        kind, each = draw(st.sampled_from(["no", "no", "pack", "shifted", "random"])), torch.arange(segment.shape[1])
        if kind == "pack":
            return (segment[:, None] == segment[:, :, None]).tril().sum(2) - 1
        table = {"no": (), "shifted": each + torch.arange(rows)[:, None], "random": torch.randint(0, 9, segment.shape)}
        return table[kind]

    query = spanned(queries)
    alike = draw(st.sampled_from(["apart", "same", "copied", "another length"]))
    if alike == "apart":
        key = spanned(keys)
    else:
        key = query if alike == "same" else Span(*(x.clone() if isinstance(x, torch.Tensor) else x for x in query))
        key = key._replace(valid=spanned(queries).valid) if alike == "another length" else key
    radius = draw(st.integers(0, 9))
    table = torch.zeros(query.valid.shape[1], key.valid.shape[1]).masked_fill_(
        torch.rand(query.valid.shape[1], key.valid.shape[1]) < 0.3, -torch.inf
    )
    query = query._replace(edges=EdgeList(torch.nonzero(table == 0).T))
    key = query if alike == "same" else key
    every = [Causal(), Window(radius), Padding(), Segments(), Matrix(table), Edges(), VisibleUntil(), Global()]
    chances = [0.5, 0.5, 0.7, 0.3, 0.1, 0.1, 0.1, 0.05]
    chosen = [mask for mask, chance in zip(every, chances, strict=True) if draw(st.floats(0, 1)) < chance]
    mask = chosen[0] if chosen else Padding()
    for part in chosen[1:]:
        mask = mask & part
    return mask.bind(query, key)


@MANY
@given(bounds())
def test_a_structure_says_no_more_than_the_table(bound):
    """For valid queries, and padding aside; the band is an outer bound."""
    table, found = bound.dense(), bound.structure()
    queries, keys = table.shape[1:]
    beside = torch.arange(keys) - torch.arange(queries)[:, None]
    expected = {
        FullStructure: lambda: torch.ones(queries, keys, dtype=torch.bool),
        CausalStructure: lambda: beside <= 0,
        BlocksStructure: lambda: (
            (bound.query.segment[:, :, None] == bound.key.segment[:, None])
            & ((beside <= 0) | torch.tensor(not found.causal))
        ),
        EdgesStructure: lambda: torch.zeros(queries, keys, dtype=torch.bool).index_put_(
            tuple(found.index), torch.tensor(True)
        ),
    }
    asking = bound.query.valid[:, :, None]
    # Given positions of padding may be anything: what padded queries see then is nobody's business.
    cared = asking if bound.has_given_positions else torch.tensor(True)
    hidden = ~bound.key.valid[:, None] if Padding() in bound.mask.conjuncts() else torch.tensor(False)
    if isinstance(found, BandStructure):
        assert found.width >= 1
        assert not (table & cared)[:, (beside < -found.left) | (beside > found.right)].any()
    elif isinstance(found, CausalStructure):
        assert torch.equal(table & asking, (beside <= 0) & asking), "padding is hidden by causality alone"
    elif found is not None:
        assert torch.equal(table & cared, (expected[type(found)]() & ~hidden & cared).expand_as(table))
    ragged = varlen(bound)
    if ragged is not None:
        assert int(ragged.query_offsets[-1]) == int(bound.query.valid.sum())


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


def by_hand(mask: Mask, query: Span, key: Span, rows: str) -> None:
    """Compare with a table of 0 and 1, a word a query."""
    assert "".join(map(str, mask.bind(query, key).dense()[0].int().flatten().tolist())) == rows.replace(" ", "")


def told(columns: int, **fields: list) -> Span:
    """Span of one whole row, with these fields."""
    given = {name: torch.tensor([values]) for name, values in fields.items()}
    return span([columns], columns)._replace(**given)


def test_positions_of_a_pack_restart_with_each_document():
    pack = told(5, segment=[0, 0, 1, 1, 1], given_position=[0, 1, 0, 1, 2])
    by_hand(Causal() & Segments(), pack, pack, "10000 11000 00100 00110 00111")
    by_hand(Causal(), pack, pack, "10100 11110 10100 11110 11111")
    by_hand(Window(1) & Segments(), pack, pack, "11000 11000 00110 00111 00011")
    assert distances(Causal().bind(pack, pack))[0, 4].tolist() == [-2, -1, -2, -1, 0]


def test_the_last_column_of_a_pack_sees_the_cached_columns_of_its_document():
    pack = told(5, segment=[0, 0, 1, 1, 1], given_position=[0, 1, 0, 1, 2])
    by_hand(Causal() & Segments(), pack.columns(4, 5), pack, "00111")


def test_visible_until_is_how_much_of_the_source_has_been_heard():
    """Wait-2: before the first word two have been heard, and one more with each."""
    by_hand(VisibleUntil(), told(3, visible_until=[2, 3, 4]), span([4], 4), "1100 1110 1111")
    by_hand(VisibleUntil(), told(2, visible_until=[6, 7]), span([4], 4, start=5), "1000 1100")


def test_global_columns_see_and_are_seen_by_all():
    found = told(4, is_global=[False, True, False, False])
    by_hand(Window(0) | Global(), found, found, "1100 1111 0110 0101")
    by_hand(Causal() & (Window(0) | Global()), found, found, "1000 1100 0110 0101")


def test_edges_are_the_pairs_of_the_querys_span():
    graph = span([3], 3)._replace(edges=EdgeList(torch.tensor([[0, 1, 2], [1, 1, 0]])))
    by_hand(Edges(), graph, graph, "010 010 100")


def test_a_pack_is_blocks_where_its_positions_run_and_a_table_elsewhere():
    mask = Causal() & Padding() & Segments()
    pack = told(6, segment=[0, 0, 1, 1, 1, 0], given_position=[0, 1, 0, 1, 2, 0])
    pack = pack._replace(valid=torch.tensor([[True] * 5 + [False]]))
    bound = mask.bind(pack, pack)
    assert bound.structure() == BlocksStructure(causal=True)
    assert varlen(bound).key_offsets.tolist() == [0, 2, 5]
    assert (mask & Window(1)).bind(pack, pack).structure() == BandStructure(1, 0)
    assert (Causal() & Padding()).bind(pack, pack).structure() is None, "the second document sees the first"
    torn = pack._replace(given_position=torch.tensor([[0, 1, 0, 2, 1, 0]]))
    bound = mask.bind(torn, torn)
    assert bound.structure() is None and varlen(bound) is None
    folded = told(4, given_position=[3, 3, 3, 3])
    assert Causal().bind(folded, span([6], 6)).structure() is None


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
        (lambda: Window(-1), "radius ≥ 0"),
        (lambda: Matrix(torch.tensor([[0.0, -1e9]])), "0 and −∞"),
        (lambda: Segments().bind(span([1], 1), span([1], 1)).dense(), "requires Span.segment"),
        (lambda: Edges().bind(span([1], 1), span([1], 1)).dense(), "requires Span.edges"),
    ],
)
def test_what_cannot_be_a_mask_says_so(build, complaint):
    with pytest.raises(ValueError, match=complaint):
        build()
