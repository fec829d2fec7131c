"""Layers over the nodes of a graph: attention over edges, convolution by degrees, and sums over neighbors."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn

from regard.attention.contract import Mechanism
from regard.attention.edge_kernel import EdgeLayout, edge_layout, edge_sum
from regard.attention.mask import Bound, Edges, Mask, Padding
from regard.attention.span import EdgeList, Span
from regard.attention.weight_terms import AttentionCall
from regard.models.dropout import Dropout


class NodeFeatures(NamedTuple):
    """Sparse features of nodes: the pairs (node, feature) that are not 0, and their values."""

    pairs: Int[Tensor, "2 entries"]
    values: Float[Tensor, "entries"]
    nodes: int
    width: int

    def layout(self) -> EdgeLayout:
        return edge_layout(self.pairs, self.nodes, self.width)


class LayerSizes(NamedTuple):
    """Number of ``edges`` of a layer, from its first ``queries`` nodes to its ``keys`` nodes.

    The query nodes come first, so the outputs of a layer are the inputs of the next one.
    """

    edges: int
    queries: int
    keys: int


class NodeLinear(nn.Module):
    """x W for features of nodes, dense or sparse; zeros of sparse features cost nothing, nor does their dropout.

    W (inputs, outputs) is uniform in ±√(6 / (inputs + outputs)) (Glorot & Bengio 2010). ``draws``: number of
    independent dropouts, one per block of the outputs, at the cost of one narrower product each.
    """

    def __init__(self, inputs: int, outputs: int, *, dropout: float = 0.0, draws: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(inputs, outputs)))
        self.dropout, self.draws = Dropout(dropout), draws

    def forward(self, x: Float[Tensor, "nodes inputs"] | NodeFeatures) -> Float[Tensor, "nodes outputs"]:
        entries = (x if isinstance(x, Tensor) else x.values).to(self.weight.dtype)
        if self.draws > 1 and self.training:
            return self._by_block(x, self.dropout(entries.repeat(self.draws, *[1] * entries.ndim)))
        dropped = self.dropout(entries)
        if isinstance(x, Tensor):
            return dropped @ self.weight
        return edge_sum(dropped[None], self.weight[None], x.layout())[0]

    def _by_block(self, x: Tensor | NodeFeatures, dropped: Float[Tensor, "draws *entries"]) -> Tensor:
        """Return each block of the outputs, computed with its own dropout of the inputs."""
        weight = self.weight.unflatten(1, (self.draws, -1)).transpose(0, 1)
        blocks = dropped @ weight if isinstance(x, Tensor) else edge_sum(dropped, weight, x.layout())
        return blocks.transpose(0, 1).flatten(1)


class GraphAttention(nn.Module):
    """h_i' = ‖_heads Σ_j α_ij W_v h_j + b over the edges (i, j), or the mean of the heads.

    See Veličković et al. 2018, Eq. 4–6. ``mechanism`` computes α from queries, keys and values. ``projections``: 1: W h
    is all three (GAT); 2: keys are values (GATv2); 3 (a Transformer). ``mask``: visible nodes. ``dropout``: of the
    inputs; ``value_dropout``: of W_v h, after α, as in the code of GAT's authors (``attn_head`` of their
    ``utils/layers.py``), and so is ``dropout_by_head``: each head, and each of its projections, has its own dropout of
    the inputs.
    """

    def __init__(
        self,
        inputs: int,
        width: int,
        *,
        heads: int,
        mechanism: Mechanism,
        projections: int,
        mean: bool = False,
        dropout: float = 0.0,
        dropout_by_head: bool = False,
        value_dropout: float = 0.0,
        mask: Mask | None = None,
    ) -> None:
        super().__init__()
        self.value_dropout = Dropout(value_dropout)
        self.heads, self.width, self.mean, self.mask = heads, width, mean, mask or Edges()
        draws = projections * heads if dropout_by_head else 1
        self.project = NodeLinear(inputs, projections * heads * width, dropout=dropout, draws=draws)
        self.mechanism = mechanism
        self.bias = nn.Parameter(torch.zeros(width if mean else heads * width))

    def _heads(self, x: Float[Tensor, "nodes inputs"] | NodeFeatures) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values of all nodes, each (1, heads, nodes, width)."""
        parts = self.project(x).split(self.heads * self.width, -1)
        projected = [part.unflatten(-1, (self.heads, self.width)).transpose(0, 1)[None].contiguous() for part in parts]
        return projected[0], projected[-2] if len(projected) == 3 else projected[-1], projected[-1]

    def forward(
        self, x: Float[Tensor, "nodes inputs"] | NodeFeatures, bound: Bound, degree: Tensor
    ) -> Float[Tensor, "queries outputs"]:
        query, key, value = self._heads(x)
        query = query[:, :, : bound.query.valid.shape[1]]
        context = self.mechanism(query, self.mechanism.prepare(key), self.value_dropout(value), bound).context[0]
        mixed = context.mean(0) if self.mean else context.transpose(0, 1).flatten(1)
        return mixed + self.bias

    def bind(self, query: Span, key: Span) -> Bound:
        """Return the mask of the query nodes over the key nodes."""
        return self.mask.bind(query, key)

    def weights(
        self, x: Float[Tensor, "nodes inputs"] | NodeFeatures, node: int, nodes: Int[Tensor, "others"]
    ) -> Float[Tensor, "heads others"]:
        """Return α of one node over ``nodes``, all nodes it attends to, including itself."""
        own = int((nodes == node).nonzero()[0])
        indices = torch.arange(len(nodes), device=nodes.device)
        return self.look(x, nodes, torch.stack([torch.full_like(indices, own), indices])).weights[0, :, own]

    def look(
        self, x: Float[Tensor, "nodes inputs"] | NodeFeatures, nodes: Int[Tensor, "some"], pairs: Int[Tensor, "2 edges"]
    ) -> AttentionCall:
        """Return the attention of some nodes to each other; ``pairs``: the indices in ``nodes`` of their edges."""
        query, key, value = (part[:, :, nodes] for part in self._heads(x))
        bound, prepared = self.bind(*node_spans(len(nodes), len(nodes), pairs)), self.mechanism.prepare(key)
        attended = self.mechanism(query, prepared, value, bound, need_weights=True)
        assert attended.weights is not None  # need_weights is set
        return AttentionCall(query, prepared, value, bound, attended.weights, self.mechanism)


class GraphConvolution(nn.Module):
    """h_i' = Σ_j w_ij W h_j + b over the edges (i, j), w_ij = 1 / √(d_i d_j) (Kipf & Welling 2017, Eq. 2).

    d is the number of edges of a node, including the one to itself. ``degree`` has w of each edge in the whole graph,
    also if only a part of the graph is computed.
    """

    def __init__(self, inputs: int, outputs: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.project = NodeLinear(inputs, outputs, dropout=dropout)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def bind(self, query: Span, key: Span) -> Bound:
        """Return the mask of the query nodes over the key nodes."""
        return Edges().bind(query, key)

    def forward(
        self, x: Float[Tensor, "nodes inputs"] | NodeFeatures, bound: Bound, degree: Float[Tensor, "edges"]
    ) -> Float[Tensor, "queries outputs"]:
        projected = self.project(x)
        assert isinstance(bound.query.edges, EdgeList)
        layout = edge_layout(bound.query.edges.pairs, bound.query.valid.shape[1], len(projected))
        return edge_sum(degree.to(projected.dtype)[layout.source][None], projected[None], layout)[0] + self.bias


def degree_weights(pairs: Int[Tensor, "2 edges"], nodes: int) -> Float64[Tensor, "edges"]:
    """Return 1 / √(d_i d_j) of each edge, d the number of edges of a node; each edge occurs in both directions."""
    if torch.compiler.is_exporting():  # the size of a count is a fact of the data
        count = torch.zeros(nodes, dtype=pairs.dtype).scatter_add(0, pairs[0], torch.ones_like(pairs[0]))
    else:
        count = torch.bincount(pairs[0], minlength=nodes)
    root = count.clamp_min(1).double().rsqrt()
    return root[pairs[0]] * root[pairs[1]]


def node_spans(queries: int, keys: int, pairs: Int[Tensor, "2 edges"]) -> tuple[Span, Span]:
    """Return the spans of query nodes and key nodes, as one row each; the same span if they are equal."""
    columns = torch.ones(1, keys, dtype=torch.bool, device=pairs.device)
    key = Span.of(columns)._replace(edges=EdgeList(pairs))
    return (key if queries == keys else Span.of(columns[:, :queries])._replace(edges=EdgeList(pairs))), key


ALL_NODES = Padding()  # there is no padding, so all nodes are visible


class GraphIsomorphism(nn.Module):
    """h_i' = W₂ ReLU(W₁ ((1 + ε) h_i + Σ_j h_j) + b₁) + b₂ over the neighbors j ≠ i (Xu et al. 2019, Eq. 4.1).

    ε is learned from 0. A sum distinguishes the number of neighbors of each type, which a mean does not. No layer over
    neighbors distinguishes more than the colors of Weisfeiler & Leman (there, Lemma 2). W₁ is applied before the sum,
    with the same result. Differs from the paper in: no batch norm.
    """

    def __init__(self, inputs: int, outputs: int, *, hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.inner, self.outer = NodeLinear(inputs, hidden, dropout=dropout), NodeLinear(hidden, outputs)
        self.inner_bias, self.bias = nn.Parameter(torch.zeros(hidden)), nn.Parameter(torch.zeros(outputs))
        self.own = nn.Parameter(torch.zeros(1))  # ε

    def bind(self, query: Span, key: Span) -> Bound:
        """Return the mask of the query nodes over the key nodes."""
        return Edges().bind(query, key)

    def forward(
        self, x: Float[Tensor, "nodes inputs"] | NodeFeatures, bound: Bound, degree: Tensor
    ) -> Float[Tensor, "queries outputs"]:
        """Return the outputs of the query nodes. ``degree`` is not used.

        Each node is one of its own neighbors, which is the 1 of 1 + ε.
        """
        projected = self.inner(x)
        assert isinstance(bound.query.edges, EdgeList)
        queries = bound.query.valid.shape[1]  # queries are the first of the keys
        layout = edge_layout(bound.query.edges.pairs, queries, len(projected))
        unit_weights = projected.new_ones(1, len(layout))
        hidden: Tensor = (
            edge_sum(unit_weights, projected[None], layout)[0] + self.own * projected[:queries] + self.inner_bias
        )
        mixed: Tensor = self.outer(hidden.relu())
        return mixed + self.bias
