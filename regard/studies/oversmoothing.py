"""Oversmoothing: effect of many layers of graph convolution on the differences between nodes.

Claim: each convolution by degrees makes the nodes of a connected graph more similar. The component that is orthogonal
to the first eigenvector of Â = D̃^(−½) Ã D̃^(−½) shrinks as |λ₂|^layers, where λ₂ is the eigenvalue with the second
largest magnitude (Li et al. 2018, Theorem 1; Oono & Suzuki 2020, Theorem 1). A deep network of convolutions therefore
cannot be trained to classify nodes. It can if each layer's input is added to its output.

Measured: graphs of two groups of nodes, with many edges within a group and few between groups. Random features are
convolved 40 times. The norm of the component orthogonal to the first eigenvector, whose entries are √degree, is fitted
as a power over the second half. Then networks of 2 and of 24 layers of width 16, plain and with skip connections, learn
from a tenth of the nodes. The measure is their accuracy on the other nodes; the features carry little information about
the group.

Thresholds: the fitted rate is within 2 % of |λ₂|, computed from the dense matrix. Two layers, and 24 with skip
connections, reach an accuracy of 0.8. 24 plain layers reach at most 0.65; a guess reaches 0.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from regard.attention.edge_kernel import edge_layout, edge_sum
from regard.data.graphs import edge_pairs
from regard.models.graph.build import build_graph_net
from regard.models.graph.config import GraphNetConfig
from regard.models.graph.layers import degree_weights
from regard.studies.study import Findings, Report, at_least, at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONVOLUTIONS, DEEP, FEATURES = 40, 24, 8


class Groups(NamedTuple):
    """A graph of two groups: edges, their weights by degree, features, and the group of each node."""

    pairs: Tensor
    degree: Tensor
    x: Tensor
    label: Tensor


def run(*, seed: int, minimal: bool, report: Report, plain_skip: bool = False, self_weight: float = 0.0) -> Findings:
    """Measure the convolutions and train the networks.

    Tests set ``plain_skip``, which adds skip connections to the plain networks, and ``self_weight``. The latter is the
    share of its own features that a node keeps in each convolution.
    """
    nodes, epochs = (100, 60) if minimal else (400, 200)
    graph = _groups(nodes)
    norms, second = _smoothed(graph, self_weight)
    half = CONVOLUTIONS // 2
    rate = (norms[-1] / norms[half]) ** (1 / (CONVOLUTIONS - half))
    report(0.1)
    rows: list[tuple[str | int | float, ...]] = []
    accuracy: dict[tuple[int, bool], float] = {}
    cases = [(2, False), (2, True), (DEEP, False), (DEEP, True)]
    for done, (layers, skip) in enumerate(cases, start=1):
        accuracy[layers, skip] = _accuracy(graph, layers, skip or plain_skip, epochs)
        rows.append((layers, "with skips" if skip else "plain", accuracy[layers, skip]))
        report(0.1 + 0.9 * done / len(cases))
    return Findings(
        columns=("layers", "network", "accuracy"),
        rows=rows,
        criteria=[
            at_most("|rate of shrinking / |λ₂| − 1|", abs(rate / second - 1), 0.02),
            at_least("2 plain layers: accuracy", accuracy[2, False], 0.8),
            at_least(f"{DEEP} layers with skips: accuracy", accuracy[DEEP, True], 0.8),
            at_most(f"{DEEP} plain layers: accuracy", accuracy[DEEP, False], 0.65),
        ],
        draw=lambda figure: _draw(figure, norms, second, accuracy),
    )


def _groups(nodes: int) -> Groups:
    """Draw two groups of ``nodes`` / 2; a node has about 8 neighbors in its group and 1 outside."""
    label = (torch.arange(nodes) >= nodes // 2).long()
    chance = torch.where(label[:, None] == label, 16 / nodes, 2 / nodes)
    table = torch.rand(nodes, nodes).triu(1) > 1 - chance.triu(1)
    ring = torch.stack(
        [torch.arange(nodes), (torch.arange(nodes) + 1) % nodes], 1
    )  # a ring connects all nodes in any case
    edges = torch.cat([table.nonzero(), ring])
    pairs = torch.from_numpy(edge_pairs(np.asarray(edges), nodes))
    x = torch.randn(nodes, FEATURES)
    x[:, 0] += 0.7 * (2 * label - 1)
    return Groups(pairs, degree_weights(pairs, nodes), x, label)


def _smoothed(graph: Groups, self_weight: float) -> tuple[list[float], float]:
    """Return the norms orthogonal to the first eigenvector after 0, 1, … convolutions, and |λ₂|."""
    nodes = len(graph.x)
    layout = edge_layout(graph.pairs, nodes, nodes)
    weight = graph.degree.double()
    dense = torch.zeros(nodes, nodes, dtype=torch.float64).index_put((layout.query, layout.key), weight)
    values, vectors = torch.linalg.eigh(dense)
    first = vectors[:, -1:]
    x, norms = graph.x.double(), []
    for _ in range(CONVOLUTIONS + 1):
        norms.append(float((x - first @ (first.T @ x)).norm()))
        x = (1 - self_weight) * edge_sum(weight[None], x[None], layout)[0] + self_weight * x
    return norms, float(values[:-1].abs().max())


def _accuracy(graph: Groups, layers: int, skip: bool, epochs: int) -> float:
    """Train a network and return its accuracy on the nodes outside of the training set."""
    config = GraphNetConfig(kind="gcn", layers=layers, width=16, dropout=0.0, skip=skip)
    net = build_graph_net(config, features=FEATURES, outputs=2)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4)
    training = torch.rand(len(graph.x)).argsort() < max(len(graph.x) // 10, 10)
    for _ in range(epochs):
        optimizer.zero_grad()
        cross_entropy(net(graph.x, graph.pairs, graph.degree)[training], graph.label[training]).backward()
        optimizer.step()
    with torch.no_grad():
        correct = net(graph.x, graph.pairs, graph.degree).argmax(-1) == graph.label
    return float(correct[~training].double().mean())


def _draw(figure: Figure, norms: list[float], second: float, accuracy: dict[tuple[int, bool], float]) -> None:
    left, right = figure.subplots(1, 2)
    left.semilogy(norms, label="measured")
    left.semilogy([norms[0] * second**layer for layer in range(len(norms))], "--", label="|λ₂|^layers")
    left.set(xlabel="convolutions", ylabel="norm", title="difference of the nodes")
    names = [f"{layers}{', skips' if skip else ''}" for layers, skip in accuracy]
    right.bar(names, list(accuracy.values()))
    right.set(xlabel="layers", ylabel="accuracy", ylim=(0, 1), title="trained networks")
    left.legend()
