"""Baseline of the classes of nodes: logistic regression on smoothed features, then label propagation."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from regard.baselines.graph_smoothing import features_of, is_large, neighbor_mean, unit_rows
from regard.baselines.linear import Linear, Targets, assign_folds, fit_linear, fit_temperature
from regard.core.baseline import Floats, SavedBaseline
from regard.data.graphs import Graph

STRENGTHS = (1.0, 10.0, 100.0)
KEEPS = (1.0, 0.5, 0.1)  # share of a node's own distribution in each step of propagation; 1: no propagation
STEPS = 20  # of propagation
FLOOR = 1e-4  # smallest probability


class NodeBaseline:
    """Logistic regression on the features of a node, averaged over one and two steps, then propagated.

    F ← a G + (1 − a) S F, where S averages over the neighbors and G are the predicted distributions, with the known
    ones at the training nodes ("correct and smooth", Huang et al. 2021, without its first step). a, the penalty and the
    factor of the log-probabilities are chosen by five-fold cross-validation.
    """

    kind: ClassVar[str] = "nodes"
    description: ClassVar[str] = "smoothed features with logistic regression and label propagation"

    def __init__(self) -> None:
        self.linear, self.keep, self.factor = Linear(np.zeros((0, 0)), np.zeros(0)), 1.0, 1.0

    def learn(self, graph: Graph, nodes: npt.NDArray[np.int64]) -> None:
        """Fit on the labels of these nodes."""
        classes = len(graph.classes)
        whole = Targets.of(graph.labels[nodes], classes, np.ones(len(nodes)))
        features, fold = _smoothed(graph), assign_folds([*nodes.tolist()], whole.values)
        tried = {(strength, keep): np.zeros((len(nodes), classes)) for strength in STRENGTHS for keep in KEEPS}
        for strength in STRENGTHS:
            for number in np.unique(fold):
                held_out, rows = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
                logits = fit_linear(features[nodes[rows]], whole.rows(rows), strength).outputs(features)
                for keep in KEEPS:
                    tried[strength, keep][held_out] = _propagated(graph, logits, nodes[rows], keep)[nodes[held_out]]
        factors = {key: fit_temperature(outputs, whole) for key, outputs in tried.items()}
        strength, keep = min(tried, key=lambda key: whole.loss(tried[key] * factors[key]))
        self.keep, self.factor = keep, factors[strength, keep]
        self.linear = fit_linear(features[nodes], whole, strength)

    def require(self, graph: Graph) -> None:
        """Raise ValueError if the baseline is not one of such a graph."""
        width = 0 if is_large(graph) else 3 * graph.features
        if self.linear.weights.shape != (len(graph.classes), width):
            raise ValueError("the weights do not have the features and the classes of the graph")

    def outputs(self, graph: Graph, known: npt.NDArray[np.int64]) -> Floats:
        """Return (nodes, classes) log-probabilities of all nodes; ``known``: nodes whose labels are propagated."""
        return self.factor * _propagated(graph, self.linear.outputs(_smoothed(graph)), known, self.keep)

    def save(self) -> SavedBaseline:
        arrays: dict[str, npt.NDArray[Any]] = {
            "weights": self.linear.weights.astype(np.float32),
            "bias": self.linear.bias,
        }
        return SavedBaseline(arrays, {"keep": self.keep, "factor": self.factor})

    def open(self, saved: SavedBaseline) -> Self:
        weights, bias = saved.arrays["weights"].astype(np.float64), saved.arrays["bias"].astype(np.float64)
        self.keep, self.factor = float(saved.settings["keep"]), float(saved.settings["factor"])
        if bias.ndim != 1 or weights.ndim != 2 or len(weights) != len(bias) or not 0 < self.keep <= 1:
            raise ValueError("the weights of the baseline have the wrong shape")
        if not (np.isfinite(weights).all() and np.isfinite(bias).all() and 0 < self.factor < 1e6):
            raise ValueError("a weight is not finite")
        self.linear = Linear(weights, bias)
        return self


def _smoothed(graph: Graph) -> Any:
    """Return (nodes, 3 · features): the features, and their averages over one and two steps."""
    from scipy.sparse import csr_matrix, hstack

    own, mean = features_of(graph), neighbor_mean(graph.pairs, graph.nodes)
    near = mean @ own
    return csr_matrix(hstack([own, unit_rows(near), unit_rows(mean @ near)]))


def _propagated(graph: Graph, logits: Floats, known: npt.NDArray[np.int64], keep: float) -> Floats:
    """Return the log-probabilities of all nodes after propagation."""
    chosen = np.exp(logits - logits.max(1, keepdims=True))
    chosen /= chosen.sum(1, keepdims=True)
    chosen[known] = np.eye(logits.shape[1])[graph.labels[known]]
    mean, found = neighbor_mean(graph.pairs, graph.nodes), chosen
    for _ in range(STEPS if keep < 1 else 0):
        found = keep * chosen + (1 - keep) * (mean @ found)
    return np.asarray(np.log((found + FLOOR) / (found + FLOOR).sum(1, keepdims=True)))
