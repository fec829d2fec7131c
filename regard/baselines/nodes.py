"""Baseline of the classes of nodes: logistic regression on smoothed features, then label propagation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
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

    F ← a G + (1 − a) S F, where S averages over the neighbors. G are the predicted distributions, and the known ones at
    the training nodes: "correct and smooth" (Huang et al. 2021) without its first step. Five-fold cross-validation
    chooses a, the penalty, and the factor of the log-probabilities.
    """

    kind: ClassVar[str] = "nodes"
    description: ClassVar[str] = "smoothed features with logistic regression and label propagation"

    def __init__(self) -> None:
        self.linear = Linear(np.zeros((0, 0)), np.zeros(0))
        self.strength, self.keep, self.factor = STRENGTHS[0], 1.0, 1.0

    def learn(self, graph: Graph, nodes: npt.NDArray[np.int64]) -> None:
        """Fit on the labels of these nodes."""
        whole = Targets.of(graph.labels[nodes], len(graph.classes), np.ones(len(nodes)))
        tried = self._cross_fitted(graph, nodes, whole, STRENGTHS, KEEPS)
        factors = {key: fit_temperature(outputs, whole) for key, outputs in tried.items()}
        best = min(tried, key=lambda key: whole.loss(tried[key] * factors[key]))
        (self.strength, self.keep), self.factor = best, factors[best]
        self.linear = fit_linear(_smoothed(graph)[nodes], whole, self.strength)

    def held_out_outputs(self, graph: Graph, nodes: npt.NDArray[np.int64]) -> Floats:
        """Return (nodes, classes) for the data of ``learn``, each row by a baseline that did not know its label."""
        whole = Targets.of(graph.labels[nodes], len(graph.classes), np.ones(len(nodes)))
        (outputs,) = self._cross_fitted(graph, nodes, whole, [self.strength], [self.keep]).values()
        return self.factor * outputs

    @staticmethod
    def _cross_fitted(
        graph: Graph, nodes: npt.NDArray[np.int64], whole: Targets, strengths: Sequence[float], keeps: Sequence[float]
    ) -> dict[tuple[float, float], Floats]:
        """Return the outputs (nodes, classes) for each setting, without the labels of the fold of a node."""
        features, fold = _smoothed(graph), assign_folds([*nodes.tolist()], whole.values)
        settings = product(strengths, keeps)
        outputs = {setting: np.zeros((len(nodes), whole.outputs)) for setting in settings}
        for strength in strengths:
            for number in np.unique(fold):
                held_out, rows = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
                logits = fit_linear(features[nodes[rows]], whole.rows(rows), strength).outputs(features)
                for keep in keeps:
                    outputs[strength, keep][held_out] = _propagated(graph, logits, nodes[rows], keep)[nodes[held_out]]
        return outputs

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
        return SavedBaseline(arrays, {"strength": self.strength, "keep": self.keep, "factor": self.factor})

    def open(self, saved: SavedBaseline) -> Self:
        weights, bias = saved.arrays["weights"].astype(np.float64), saved.arrays["bias"].astype(np.float64)
        self.strength, self.keep, self.factor = (float(saved.settings[name]) for name in ("strength", "keep", "factor"))
        if bias.ndim != 1 or weights.ndim != 2 or len(weights) != len(bias) or not 0 < self.keep <= 1:
            raise ValueError("the weights of the baseline have the wrong shape")
        if not (
            np.isfinite(weights).all() and np.isfinite(bias).all() and 0 < self.factor < 1e6 and 0 < self.strength < 1e6
        ):
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
    clamped = np.exp(logits - logits.max(1, keepdims=True))
    clamped /= clamped.sum(1, keepdims=True)
    clamped[known] = np.eye(logits.shape[1])[graph.labels[known]]
    mean, smoothed = neighbor_mean(graph.pairs, graph.nodes), clamped
    for _ in range(STEPS if keep < 1 else 0):
        smoothed = keep * clamped + (1 - keep) * (mean @ smoothed)
    return np.asarray(np.log((smoothed + FLOOR) / (smoothed + FLOOR).sum(1, keepdims=True)))
