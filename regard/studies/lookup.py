"""Lookup in a dictionary by graph attention, static and dynamic.

Claim: the attention of GAT ranks the keys alike for every query, so that it cannot look up a key that depends on the
query; GATv2's, in which the rectifier comes before the vector, can (Brody et al. 2022, Theorems 1 and 2, and §4.1).

Measured: DictionaryLookup. k query nodes, each with one attribute, see k key nodes, each with an attribute and a value,
in a new pairing each time; a query's class is the value of the key that has its attribute. One layer of one head, with
its input beside it and a ReLU before the readout; no dropout, no norm. Accuracy on pairings drawn afterwards, and the
share of queries whose best key is the one that most queries of the graph have for theirs. k = 10 and 128 features as in
the paper.

Thresholds: GATv2 is right at 999 of 1000 queries. GAT stays below a half; an even guess is 1/k, and one that knows one
pairing of the graph by heart does a little better. The best key of all queries is one for GAT, by Theorem 1: the share
is 1 exactly; for GATv2 that has found the rule it is 1/k, and at most 0.3 is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from regard.attention.catalog import build_mechanism
from regard.attention.mask import Padding
from regard.attention.span import Span
from regard.studies.study import Findings, Report, at_least, at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Looked(NamedTuple):
    """Accuracy on new pairings, the share of queries with the commonest best key, and the accuracies on the way."""

    accuracy: float
    same_key: float
    curve: list[tuple[int, float]]


class DictionaryLookup(nn.Module):
    """One layer of graph attention from k queries to k keys (Brody et al. 2022, Appendix F).

    ``score``: kind of mechanism. Queries, keys and values are one projection for gat, as in the papers; for others
    queries have one of their own.
    """

    def __init__(self, score: str, size: int, width: int) -> None:
        super().__init__()
        self.asked, self.attribute, self.value = (nn.Embedding(size, width) for _ in range(3))
        self.project = nn.Linear(width, width, bias=False)
        self.project_query = self.project if score == "gat" else nn.Linear(width, width, bias=False)
        sizes = dict(heads=1, query_width=width, key_width=width)
        self.mechanism = build_mechanism(score, {}, where="score", sizes=sizes)
        self.readout = nn.Linear(width, size)

    def forward(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (batch, k, k) of each query, and weights, for ``values`` (batch, k): of the key with attribute i."""
        size = values.shape[1]
        own = self.asked.weight.expand(len(values), -1, -1)
        keys = (self.attribute.weight + self.value(values)).relu()
        query, key = self.project_query(own)[:, None], self.project(keys)[:, None]
        span = Span.of(torch.ones(len(values), size, dtype=torch.bool))
        prepared = self.mechanism.prepare(key)
        attended = self.mechanism(query, prepared, key, Padding().bind(span, span), need_weights=True)
        assert attended.weights is not None  # asked for
        return self.readout((own + attended.context[:, 0]).relu()), attended.weights[:, 0]


def run(*, seed: int, minimal: bool, report: Report, static: str = "gat", dynamic: str = "gatv2") -> Findings:
    """Compare the mechanisms ``static`` and ``dynamic``."""
    size, width, batch = (6, 64, 128) if minimal else (10, 128, 256)
    steps = (150, 150) if minimal else (300, 1500)
    share = steps[0] / sum(steps)
    fine = _looked(dynamic, size, width, batch, steps[0], lambda done: report(done * share))
    coarse = _looked(static, size, width, batch, steps[1], lambda done: report(share + done * (1 - share)))
    return Findings(
        columns=("attention", "updates", "accuracy", "same best key"),
        rows=[
            (name, updates, found.accuracy, found.same_key)
            for name, updates, found in ((dynamic, steps[0], fine), (static, steps[1], coarse))
        ],
        criteria=[
            at_least("dynamic: accuracy on new pairings", fine.accuracy, 0.999),
            at_most("static: accuracy on new pairings", coarse.accuracy, 0.5),
            at_least("static: share of queries with the commonest best key", coarse.same_key, 1.0),
            at_most("dynamic: share of queries with the commonest best key", fine.same_key, 0.3),
        ],
        draw=lambda figure: _draw(figure, {dynamic: fine, static: coarse}, size),
    )


def _pairings(number: int, size: int) -> Tensor:
    """(number, size): each row an order of 0 … size − 1."""
    return torch.rand(number, size).argsort(1)


def _looked(score: str, size: int, width: int, batch: int, steps: int, report: Report) -> Looked:
    net = DictionaryLookup(score, size, width)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    curve = []
    for step in range(1, steps + 1):
        values = _pairings(batch, size)
        logits, _ = net(values)
        optimizer.zero_grad()
        cross_entropy(logits.flatten(0, 1), values.flatten()).backward()
        optimizer.step()
        if step % max(steps // 30, 1) == 0:
            curve.append((step, float((logits.argmax(-1) == values).double().mean())))
            report(step / steps)
    with torch.no_grad():
        values = _pairings(1000, size)
        logits, weights = net(values)
    best = weights.argmax(-1)
    commonest = torch.nn.functional.one_hot(best, size).sum(1).amax(-1)
    accuracy = float((logits.argmax(-1) == values).double().mean())
    return Looked(accuracy, float(commonest.double().mean()) / size, curve)


def _draw(figure: Figure, found: dict[str, Looked], size: int) -> None:
    axes = figure.subplots()
    for name, looked in found.items():
        axes.plot(*zip(*looked.curve, strict=True), label=name)
    axes.axhline(1 / size, linestyle="--", color="gray", label="guessing")
    axes.set(xlabel="updates", ylabel="accuracy", ylim=(0, 1.05), title="looking up one of the keys")
    axes.legend()
