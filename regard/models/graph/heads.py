"""Outputs from a network over nodes: of a whole graph, pooled from its nodes, and the scores of links between nodes."""

from __future__ import annotations

from typing import Literal, NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import elu

from regard.attention.edge_kernel import EdgeLayout, edge_softmax, edge_sum
from regard.data.graph_union import PackedGraphs
from regard.models.dropout import Dropout
from regard.models.graph.build import GraphNet
from regard.models.graph.layers import NodeFeatures
from regard.models.head import start_at_zero

PoolingKind = Literal["mean", "sum", "max", "attention"]


class GraphPooling(nn.Module):
    """y_g = Σ_i w_i z_i over the nodes i of graph g; or the maximum of each feature over them.

    w_i is 1 (``sum``), 1/n_g (``mean``), or softmax_i vᵀ tanh(W z_i + b) over the nodes of g (``attention``; as Yang et
    al. 2016, Eq. 5–7, for words). The nodes of a graph are consecutive, so a graph is a query with edges to its nodes:
    time and memory grow with the number of nodes for any sizes. Only a sum encodes the number of nodes (Xu et al. 2019,
    §5.2). ``hidden``: features of W z_i.
    """

    def __init__(self, kind: PoolingKind, width: int, *, hidden: int) -> None:
        super().__init__()
        self.kind = kind
        self.hidden = nn.Linear(width, hidden) if kind == "attention" else None
        self.score = nn.Parameter(torch.empty(hidden).normal_(std=hidden**-0.5)) if kind == "attention" else None

    def forward(self, z: Float[Tensor, "nodes width"], counts: Int[Tensor, "graphs"]) -> Float[Tensor, "graphs width"]:
        """Return the vector of each graph. ``counts``: number of nodes of each graph, at least one."""
        return self.pool(z, counts)[0]

    def pool(
        self, z: Float[Tensor, "nodes width"], counts: Int[Tensor, "graphs"]
    ) -> tuple[Float[Tensor, "graphs width"], Float[Tensor, "nodes"]]:
        """Return the vector of each graph, and the weight of each node in its graph.

        For ``max`` the weight is the fraction of features whose maximum is at the node.
        """
        if self.kind != "max":
            layout = _members(counts, z.shape[0])
            weights = self._weights(z, layout, counts)
            return edge_sum(weights[None], z[None], layout)[0], weights
        graph = _graph_of_nodes(counts, z.shape[0])
        if torch.compiler.is_exporting():
            lowest, index = z.new_full((counts.shape[0], z.shape[1]), -torch.inf), graph[:, None].expand_as(z)
            return lowest.scatter_reduce(0, index, z, "amax"), torch.zeros_like(z[:, 0])
        pooled = torch.segment_reduce(z, "max", lengths=counts, axis=0)
        greatest = (z == pooled.index_select(0, graph)).to(z.dtype)
        ties = torch.segment_reduce(greatest, "sum", lengths=counts, axis=0).index_select(0, graph)
        return pooled, (greatest / ties).mean(-1)

    def _weights(self, z: Tensor, layout: EdgeLayout, counts: Tensor) -> Tensor:
        if self.hidden is not None and self.score is not None:
            return edge_softmax((self.hidden(z).tanh() @ self.score)[None], layout)[0]
        weight = torch.ones_like(counts, dtype=z.dtype) if self.kind == "sum" else counts.to(z.dtype).reciprocal()
        return weight.index_select(0, layout.query)


def _graph_of_nodes(counts: Int[Tensor, "graphs"], nodes: int) -> Int[Tensor, "nodes"]:
    """Return the graph of each node; the nodes of a graph are consecutive."""
    if torch.compiler.is_exporting():  # the size of the result may not depend on data
        return (torch.arange(nodes, device=counts.device)[:, None] >= counts.cumsum(0)).sum(1)
    return torch.repeat_interleave(torch.arange(counts.shape[0], device=counts.device), counts)


def _members(counts: Int[Tensor, "graphs"], nodes: int) -> EdgeLayout:
    """Return edges from each graph to its nodes."""
    members = torch.arange(nodes, device=counts.device)
    return EdgeLayout(torch.stack([_graph_of_nodes(counts, nodes), members]), counts.shape[0], nodes)


class PooledOutputs(NamedTuple):
    """Outputs of each graph, and the weight of each node in the vector of its graph."""

    logits: Float[Tensor, "graphs outputs"]
    weights: Float[Tensor, "nodes"]


class PooledGraphNet(nn.Module):
    """Outputs of a graph: W₂ ELU(W₁ y + b₁) + b₂ of the pooled states y of its nodes.

    The states of all layers are concatenated, since both local and global structure may distinguish graphs (Xu et al.
    2019, Eq. 4.2, which also adds the features of the nodes). Differs from the paper in: no batch norm, so a graph's
    output does not depend on the batch.
    """

    def __init__(
        self, net: GraphNet, pooling: GraphPooling, *, width: int, outputs: int, dropout: float, at_zero: bool = False
    ) -> None:
        super().__init__()
        self.net, self.pooling = net, pooling
        self.inner = nn.Linear(width * len(net.layers), width)
        self.outer = nn.Linear(width, outputs)
        if at_zero:
            start_at_zero(self.outer)
        self.dropout = Dropout(dropout)

    def forward(self, graphs: PackedGraphs) -> PooledOutputs:
        return self.of_nodes(*self.arguments(graphs), graphs.counts)

    def of_nodes(
        self, x: NodeFeatures | Tensor, pairs: Tensor, degree: Tensor, counts: Int[Tensor, "graphs"]
    ) -> PooledOutputs:
        """Return the outputs for the inputs of the network over nodes, and the number of nodes of each graph."""
        pooled, weights = self.pooling.pool(self._states(x, pairs, degree), counts)
        return PooledOutputs(cast(Tensor, self.outer(self.dropout(elu(self.inner(pooled))))), weights)

    def node_states(self, graphs: PackedGraphs) -> Float[Tensor, "nodes width"]:
        """Return the concatenated states of all layers, those of the last after an ELU."""
        return self._states(*self.arguments(graphs))

    def _states(self, x: NodeFeatures | Tensor, pairs: Tensor, degree: Tensor) -> Float[Tensor, "nodes width"]:
        states = self.net.states(x, pairs, degree)
        return torch.cat([*states[:-1], elu(states[-1])], -1)

    @staticmethod
    def arguments(graphs: PackedGraphs) -> tuple[NodeFeatures, Tensor, Tensor]:
        """Return the inputs of the network over nodes."""
        features = NodeFeatures(graphs.entries, graphs.values, int(graphs.counts.sum()), graphs.features)
        return features, graphs.pairs, graphs.degree


class LinkNet(nn.Module):
    """s(i, j) = z_i · z_j, or z_iᵀ W z_j with ``bilinear``, of the outputs z of ``net`` (Kipf & Welling 2016, Eq. 2).

    W starts as the identity. If edges are not ``directed``, (W + Wᵀ) / 2 replaces it: s(i, j) = s(j, i). The logit also
    has a bias, since few pairs of nodes have an edge. ``gated``: scores are multiplied by a trained number that starts
    at 0, because a wide part is added to them.
    """

    def __init__(
        self, net: GraphNet, width: int, *, bilinear: bool, directed: bool = False, gated: bool = False
    ) -> None:
        super().__init__()
        self.net, self.directed = net, directed
        self.weight = nn.Parameter(torch.eye(width)) if bilinear else None
        self.gain = nn.Parameter(torch.zeros(1)) if gated else None
        self.bias = nn.Parameter(torch.zeros(1))  # shape (1,) and not (), to shard it over ranks

    def forward(
        self,
        x: Float[Tensor, "nodes features"] | NodeFeatures,
        pairs: Int[Tensor, "2 edges"],
        degree: Float[Tensor, "edges"],
        ends: Int[Tensor, "2 candidates"],
    ) -> Float[Tensor, "candidates"]:
        """Return logits of an edge between the two ``ends`` of each candidate."""
        z = self.net(x, pairs, degree)
        one, other = z.index_select(0, ends[0]), z.index_select(0, ends[1])
        return (self._transformed(one) * other).sum(-1) + self.bias

    def against_all(self, z: Float[Tensor, "nodes width"], first: Int[Tensor, "some"]) -> Float[Tensor, "some nodes"]:
        """Return logits of an edge from each of some nodes to every node; ``z``: outputs of ``net``."""
        return self._transformed(z.index_select(0, first)) @ z.T + self.bias

    def _transformed(self, z: Tensor) -> Tensor:
        z = z if self.gain is None else z * self.gain
        if self.weight is None:
            return z
        return z @ (self.weight if self.directed else (self.weight + self.weight.T) / 2)
