"""Lookup in a dictionary by graph attention, static and dynamic.

Claim: the attention of GAT ranks the keys equally for every query, so it cannot look up a key that depends on the
query. GATv2 applies the rectifier before the vector, and can (Brody et al. 2022, Theorems 1 and 2, and §4.1).

Measured: DictionaryLookup. k query nodes, each with one attribute, attend to k key nodes, each with an attribute and a
value. The pairing of attributes and values is new in each example; the class of a query is the value of the key with
its attribute. The network is one layer with one head, a residual connection and a ReLU before the readout, without
dropout or norm. Figures are the accuracy on new pairings, and the share of queries whose best key is the most frequent
best key of their graph. k = 10 and 128 features, as in the paper.

Thresholds: GATv2 is correct for 999 of 1000 queries. GAT remains below a half; a uniform guess is correct for 1/k, and
one that has memorized a pairing of the graph for slightly more. By Theorem 1, GAT has one best key for all queries: the
share is exactly 1. For GATv2 with the correct rule it is 1/k; the limit is 0.3.
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


class LookupResult(NamedTuple):
    """Accuracy on new pairings, share of queries with the most frequent best key, and accuracies during training."""

    accuracy: float
    same_key: float
    curve: list[tuple[int, float]]


class DictionaryLookup(nn.Module):
    """One layer of graph attention from k queries to k keys (Brody et al. 2022, Appendix F).

    ``score``: the mechanism. For gat, queries, keys and values share one projection, as in the papers; for other
    mechanisms, queries have their own.
    """

    def __init__(self, score: str, size: int, width: int) -> None:
        super().__init__()
        self.query_attribute, self.attribute, self.value = (nn.Embedding(size, width) for _ in range(3))
        self.project = nn.Linear(width, width, bias=False)
        self.project_query = self.project if score == "gat" else nn.Linear(width, width, bias=False)
        sizes = dict(heads=1, query_width=width, key_width=width)
        self.mechanism = build_mechanism(score, {}, where="score", sizes=sizes)
        self.readout = nn.Linear(width, size)

    def forward(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits (batch, k, k) of each query, and the weights.

        ``values`` (batch, k): the value of the key with attribute i.
        """
        size = values.shape[1]
        own = self.query_attribute.weight.expand(len(values), -1, -1)
        keys = (self.attribute.weight + self.value(values)).relu()
        query, key = self.project_query(own)[:, None], self.project(keys)[:, None]
        span = Span.of(torch.ones(len(values), size, dtype=torch.bool))
        prepared = self.mechanism.prepare(key)
        attended = self.mechanism(query, prepared, key, Padding().bind(span, span), need_weights=True)
        assert attended.weights is not None
        return self.readout((own + attended.context[:, 0]).relu()), attended.weights[:, 0]


def run(*, seed: int, minimal: bool, report: Report, static: str = "gat", dynamic: str = "gatv2") -> Findings:
    """Compare the mechanisms ``static`` and ``dynamic``."""
    size, width, batch = (6, 64, 128) if minimal else (10, 128, 256)
    steps = (150, 150) if minimal else (300, 1500)
    share = steps[0] / sum(steps)
    dynamic_result = _train_and_test(dynamic, size, width, batch, steps[0], lambda done: report(done * share))
    static_result = _train_and_test(
        static, size, width, batch, steps[1], lambda done: report(share + done * (1 - share))
    )
    return Findings(
        columns=("attention", "updates", "accuracy", "same best key"),
        rows=[
            (name, updates, result.accuracy, result.same_key)
            for name, updates, result in ((dynamic, steps[0], dynamic_result), (static, steps[1], static_result))
        ],
        criteria=[
            at_least("dynamic: accuracy on new pairings", dynamic_result.accuracy, 0.999),
            at_most("static: accuracy on new pairings", static_result.accuracy, 0.5),
            at_least("static: share of queries with the most frequent best key", static_result.same_key, 1.0),
            at_most("dynamic: share of queries with the most frequent best key", dynamic_result.same_key, 0.3),
        ],
        draw=lambda figure: _draw(figure, {dynamic: dynamic_result, static: static_result}, size),
    )


def _pairings(count: int, size: int) -> Tensor:
    """Return (count, size) random permutations of 0 … size − 1."""
    return torch.rand(count, size).argsort(1)


def _train_and_test(score: str, size: int, width: int, batch: int, steps: int, report: Report) -> LookupResult:
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
    most_frequent = torch.nn.functional.one_hot(best, size).sum(1).amax(-1)
    accuracy = float((logits.argmax(-1) == values).double().mean())
    return LookupResult(accuracy, float(most_frequent.double().mean()) / size, curve)


def _draw(figure: Figure, results: dict[str, LookupResult], size: int) -> None:
    axes = figure.subplots()
    for name, result in results.items():
        axes.plot(*zip(*result.curve, strict=True), label=name)
    axes.axhline(1 / size, linestyle="--", color="gray", label="guessing")
    axes.set(xlabel="updates", ylabel="accuracy", ylim=(0, 1.05), title="lookup of a key")
    axes.legend()
