"""Attention over the edges of a graph: softmax by segment, sums and products in time and memory of the edges.

Edges (query, key) are sorted by query once (``EdgeLayout``); the edges of one query are then a segment. Heads and rows
are concatenated: row r of a tensor (rows, columns, width) is the graph with its nodes shifted by r · columns. One call
then serves all rows. A query without edges has context 0 and gradient 0.

Symbols: E edges, e = (i, j) one of them; x of shape (rows, columns, width), w of shape (rows, E).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding_bag
from torch.utils.weak import WeakTensorKeyDictionary

PRODUCTS = (torch.float32, torch.float64)  # dtypes that torch's sampled product supports


class StackedEdges(NamedTuple):
    """The edges of several shifted copies of a graph, concatenated.

    ``offsets``, ``key_offsets``: start of the edges of each query, and of each key, and the total.
    ``by_key``: the edges sorted by key; ``query_by_key``: their queries.
    """

    query: Int[Tensor, "edges"]
    key: Int[Tensor, "edges"]
    offsets: Int[Tensor, "queries_and_one"]
    by_key: Int[Tensor, "edges"]
    query_by_key: Int[Tensor, "edges"]
    key_offsets: Int[Tensor, "keys_and_one"]
    shape: tuple[int, int]


class EdgeLayout:
    """The distinct edges of a graph sorted by query, then by key.

    ``pairs`` (2, edges): queries and keys, in any order; a repeated edge is one edge, as in a table of booleans.
    ``source``: an index in ``pairs`` for each of the sorted edges. A trace has no data to sort: ``pairs`` are then
    distinct edges in any order.
    """

    def __init__(self, pairs: Int[Tensor, "2 given"], queries: int, keys: int) -> None:
        if torch.compiler.is_exporting():
            self.queries, self.keys, (self.query, self.key) = queries, keys, pairs.unbind()
            self.source = torch.arange(pairs.shape[1], device=pairs.device)
            return
        if pairs.numel() and not (
            0 <= int(pairs.min()) and bool((pairs.amax(1) < pairs.new_tensor([queries, keys])).all())
        ):
            raise ValueError(f"an edge is out of range: edges must connect {queries} queries and {keys} keys")
        self.queries, self.keys = queries, keys
        code = pairs[0] * keys + pairs[1]
        if len(code) < 2 or bool((code.diff() > 0).all()):
            self.source = torch.arange(len(code), device=code.device)
        else:
            code, order = code.sort(stable=True)
            first = torch.cat([code.new_ones(1, dtype=torch.bool), code.diff() > 0])
            code, self.source = code[first], order[first]
        self.query = code.div(keys, rounding_mode="floor") if keys else code
        self.key = code - self.query * keys
        self._by_key = torch.argsort(self.key, stable=True)
        self._copies: dict[int, StackedEdges] = {}  # not functools.cache: a reference cycle would outlive the batch

    def __len__(self) -> int:
        return len(self.query)

    def stacked(self, copies: int) -> StackedEdges:
        """Return the edges of this number of copies; computed once."""
        if copies not in self._copies:
            self._copies[copies] = self._stacked(copies)
        return self._copies[copies]

    def _stacked(self, copies: int) -> StackedEdges:
        query, key = self.query, self.key
        return StackedEdges(
            _in_copies(query, self.queries, copies),
            _in_copies(key, self.keys, copies),
            _offsets(query, self.queries, copies),
            _in_copies(self._by_key, len(self), copies),
            _in_copies(query[self._by_key], self.queries, copies),
            _offsets(key, self.keys, copies),
            (copies * self.queries, copies * self.keys),
        )


def _in_copies(index: Tensor, step: int, copies: int) -> Tensor:
    """Return the index of each copy after the previous one, shifted by ``step`` per copy."""
    return (index + torch.arange(copies, device=index.device)[:, None] * step).flatten()


def _offsets(index: Tensor, columns: int, copies: int) -> Tensor:
    """Return the start of the edges of each column, and the total."""
    counts = torch.bincount(index, minlength=columns).repeat(copies)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


class EdgeValues(NamedTuple):
    """One number for each head and edge, such as a bias; the same for all rows."""

    values: Float[Tensor, "heads edges"]
    layout: EdgeLayout

    def table(self) -> Float[Tensor, "1 heads queries keys"]:
        """Return the numbers as a table of queries and keys, 0 where there is no edge."""
        layout = self.layout
        empty = self.values.new_zeros(len(self.values), layout.queries, layout.keys)
        return empty.flatten(1).index_copy(1, layout.query * layout.keys + layout.key, self.values).view_as(empty)[None]


_LAYOUTS: Any = WeakTensorKeyDictionary()  # sorted once while the pairs are referenced


def edge_layout(pairs: Int[Tensor, "2 given"], queries: int, keys: int) -> EdgeLayout:
    """Return the layout of these pairs, cached while the tensor exists."""
    layout: EdgeLayout | None = _LAYOUTS.get(pairs)
    if layout is None or (layout.queries, layout.keys) != (queries, keys):
        layout = _LAYOUTS[pairs] = EdgeLayout(pairs, queries, keys)
    return layout


def weighted_bags(
    index: Int[Tensor, "entries"],
    weight: Float[Tensor, "entries"] | None,
    offsets: Int[Tensor, "bags_and_one"],
    x: Float[Tensor, "columns width"],
) -> Float[Tensor, "bags width"]:
    """y_b = Σ_e w_e x_(index e) over the entries of each bag: the product of a CSR matrix and a dense matrix."""
    if not len(index):
        return x.new_zeros(len(offsets) - 1, x.shape[1])
    return embedding_bag(index, x, offsets, mode="sum", per_sample_weights=weight, include_last_offset=True)


@cache
def _silence_beta_warning() -> None:
    """Trigger and suppress torch's once-per-process warning that its sparse tensors are in beta."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.sparse_csr_tensor(torch.tensor([0, 0]), torch.tensor([], dtype=torch.int64), torch.tensor([]), (1, 1))


def _products(stacked: StackedEdges, left: Tensor, right: Tensor) -> Tensor:
    """Return left_i · right_j of each edge."""
    if left.dtype not in PRODUCTS or not len(stacked.query):
        return (left.index_select(0, stacked.query) * right.index_select(0, stacked.key)).sum(-1)
    _silence_beta_warning()
    pattern = torch.sparse_csr_tensor(
        stacked.offsets, stacked.key, left.new_zeros(len(stacked.key)), stacked.shape, check_invariants=False
    )
    return torch.sparse.sampled_addmm(pattern, left, right.t(), beta=0.0).values()


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, value: Tensor, stacked: StackedEdges) -> Tensor:
        ctx.save_for_backward(weight, value)
        ctx.stacked = stacked
        return weighted_bags(stacked.key, weight, stacked.offsets, value)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (weight, value), stacked = ctx.saved_tensors, ctx.stacked
        slope = gradients[0].contiguous()
        to_weight = _products(stacked, slope, value) if ctx.needs_input_grad[0] else None
        to_value = None
        if ctx.needs_input_grad[1]:
            ordered = weight.index_select(0, stacked.by_key)
            to_value = weighted_bags(stacked.query_by_key, ordered, stacked.key_offsets, slope)
        return to_weight, to_value, None


class _Dot(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, stacked: StackedEdges) -> Tensor:
        ctx.save_for_backward(query, key)
        ctx.stacked = stacked
        return _products(stacked, query, key)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        (query, key), stacked = ctx.saved_tensors, ctx.stacked
        slope = gradients[0].contiguous()
        ordered = slope.index_select(0, stacked.by_key)
        return (
            weighted_bags(stacked.key, slope, stacked.offsets, key),
            weighted_bags(stacked.query_by_key, ordered, stacked.key_offsets, query),
            None,
        )


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, order: Tensor, offsets: Tensor) -> Tensor:
        ctx.save_for_backward(order, offsets)
        return x.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        order, offsets = ctx.saved_tensors
        return weighted_bags(order, None, offsets, gradients[0].contiguous()), None, None, None


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, energy: Tensor, stacked: StackedEdges) -> Tensor:
        top = torch.segment_reduce(energy, "max", offsets=stacked.offsets, axis=0)
        weight = (energy - top.index_select(0, stacked.query)).exp_()
        total = torch.segment_reduce(weight, "sum", offsets=stacked.offsets, axis=0)
        weight.div_(total.index_select(0, stacked.query))
        ctx.save_for_backward(weight)
        ctx.stacked = stacked
        return weight

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (weight,), stacked = ctx.saved_tensors, ctx.stacked
        slope = weight * gradients[0]
        mean = torch.segment_reduce(slope, "sum", offsets=stacked.offsets, axis=0)
        return slope.addcmul_(weight, mean.index_select(0, stacked.query), value=-1), None


def edge_sum(
    weight: Float[Tensor, "rows edges"], value: Float[Tensor, "rows keys width"], layout: EdgeLayout
) -> Float[Tensor, "rows queries width"]:
    """y_i = Σ_(i,j) w_ij v_j. Cost: rows · edges · width multiply-adds, forward; twice that, backward."""
    if torch.compiler.is_exporting():
        return _scattered_sum(weight[..., None] * value.index_select(1, layout.key), layout)
    stacked = layout.stacked(len(value))
    total: Tensor = _Sum.apply(weight.flatten(), value.flatten(0, 1), stacked)
    return total.unflatten(0, (len(value), layout.queries))


def edge_dot(
    query: Float[Tensor, "rows queries width"], key: Float[Tensor, "rows keys width"], layout: EdgeLayout
) -> Float[Tensor, "rows edges"]:
    """Return q_i · k_j of each edge."""
    if torch.compiler.is_exporting():
        return (query.index_select(1, layout.query) * key.index_select(1, layout.key)).sum(-1)
    stacked = layout.stacked(len(query))
    products: Tensor = _Dot.apply(query.flatten(0, 1), key.flatten(0, 1), stacked)
    return products.unflatten(0, (len(query), len(layout)))


def edge_gather(
    x: Float[Tensor, "rows columns width"], layout: EdgeLayout, end: int
) -> Float[Tensor, "rows edges width"]:
    """Return x of the query (``end`` 0) or of the key (``end`` 1) of each edge."""
    if torch.compiler.is_exporting():
        return x.index_select(1, (layout.query, layout.key)[end])
    stacked = layout.stacked(len(x))
    index = (stacked.query, stacked.key)[end]
    order = torch.arange(len(index), device=index.device) if end == 0 else stacked.by_key
    offsets = (stacked.offsets, stacked.key_offsets)[end]
    gathered: Tensor = _Gather.apply(x.flatten(0, 1), index, order, offsets)
    return gathered.unflatten(0, (len(x), len(layout)))


def edge_softmax(energy: Float[Tensor, "rows edges"], layout: EdgeLayout) -> Float[Tensor, "rows edges"]:
    """α_ij = exp e_ij / Σ_k exp e_ik over the edges of each query."""
    if torch.compiler.is_exporting():
        return _scattered_softmax(energy, layout)
    if not len(layout):
        return energy
    weight: Tensor = _Softmax.apply(energy.flatten(), layout.stacked(len(energy)))
    return weight.view_as(energy)


def _scattered_sum(x: Float[Tensor, "rows edges width"], layout: EdgeLayout) -> Float[Tensor, "rows queries width"]:
    """Return the sum over the edges of each query, by an operator that graphs of other runtimes have."""
    index = layout.query[None, :, None].expand_as(x)
    return x.new_zeros(x.shape[0], layout.queries, x.shape[2]).scatter_add(1, index, x)


def _scattered_softmax(energy: Float[Tensor, "rows edges"], layout: EdgeLayout) -> Float[Tensor, "rows edges"]:
    index = layout.query[None].expand_as(energy)
    lowest = energy.new_full((energy.shape[0], layout.queries), -torch.inf)
    weight = (energy - lowest.scatter_reduce(1, index, energy, "amax").gather(1, index)).exp()
    total = _scattered_sum(weight[..., None], layout)[..., 0]
    return weight / total.gather(1, index)


def edge_weights(
    energy: Callable[[Tensor, Tensor], Tensor],
    query: Float[Tensor, "batch heads queries width"],
    key: Float[Tensor, "batch heads keys prepared"],
    layout: EdgeLayout,
) -> Float[Tensor, "rows edges"]:
    """Return α of each edge; ``energy`` takes paired queries and keys, (batch, heads, pairs, width)."""
    pairs = [edge_gather(x.flatten(0, 1), layout, end).unflatten(0, x.shape[:2]) for end, x in enumerate((query, key))]
    return edge_softmax(energy(*pairs).flatten(0, 1), layout)


def attend_over(
    weight: Float[Tensor, "rows edges"],
    value: Float[Tensor, "batch heads keys value"],
    layout: EdgeLayout,
    dropping: nn.Module | None,
) -> Float[Tensor, "batch heads queries value"]:
    """Return the context of each query from the weights of its edges, after optional ``dropping``."""
    dropped = weight if dropping is None else dropping(weight)
    return edge_sum(dropped, value.flatten(0, 1), layout).unflatten(0, value.shape[:2])
