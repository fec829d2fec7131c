"""Linear models over sparse features: logistic regression of classes and of labels, ridge regression of numbers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.core.baseline import Floats

Sparse = Any  # scipy.sparse.csr_matrix: SciPy and scikit-learn are imported on first use
FOLDS = 5
ITERATIONS = 100  # of L-BFGS: a limit of the time
ABSENT = -12.0  # logit of a class that a fold lacks
LARGE = 1_000_000  # weights above which stochastic gradient descent replaces L-BFGS
PASSES = 8  # of stochastic gradient descent over the rows


class Linear(NamedTuple):
    """Outputs x·weightsᵀ + bias of features x: logits of classes or labels, or a number."""

    weights: Floats  # (outputs, features)
    bias: Floats  # (outputs,)

    def outputs(self, features: Sparse) -> Floats:
        """Return (rows, outputs)."""
        return np.asarray(features @ self.weights.T) + self.bias


class Targets(NamedTuple):
    """The targets of rows: class numbers (rows,), a 0/1 table (rows, labels), or numbers (rows,).

    ``outputs``: the number of classes or labels, or 1. ``weights``: factors of the loss of each row.
    """

    values: npt.NDArray[Any]
    outputs: int
    weights: Floats

    @classmethod
    def of(cls, values: npt.NDArray[Any], outputs: int, weights: npt.NDArray[Any]) -> Targets:
        """Return the targets of an answer (``TaskAnswer.targets`` and ``row_weights``)."""
        return cls(np.asarray(values), outputs, np.asarray(weights, np.float64))

    @property
    def are_numbers(self) -> bool:
        return self.values.ndim == 1 and self.values.dtype.kind == "f"

    def rows(self, index: npt.NDArray[Any]) -> Targets:
        return Targets(self.values[index], self.outputs, self.weights[index])

    def loss(self, outputs: Floats) -> float:
        """Return the weighted mean loss: cross-entropy in nats, summed over labels, or the squared error."""
        if self.are_numbers:
            rows = (outputs[:, 0] - self.values) ** 2
        elif self.values.ndim == 2:
            rows = np.logaddexp(0, np.where(self.values > 0, -outputs, outputs)).sum(1)
        else:
            rows = _log_sums(outputs) - outputs[np.arange(len(outputs)), self.values.astype(int)]
        return float((rows * self.weights).sum() / max(self.weights.sum(), 1e-30))

    def uniform_loss(self, outputs: Floats) -> float:
        """Return the mean loss of a class or of labels that are drawn uniformly."""
        if self.values.ndim == 2:
            return float((np.logaddexp(0, outputs) + np.logaddexp(0, -outputs)).sum(1).mean() / 2)
        return float((_log_sums(outputs) - outputs.mean(1)).mean())


def _log_sums(outputs: Floats) -> Floats:
    """Return (rows,) the logarithm of the sum of exp(outputs)."""
    top = outputs.max(1, keepdims=True)
    return np.asarray(np.log(np.exp(outputs - top).sum(1)) + top[:, 0])


def fit_linear(features: Sparse, targets: Targets, strength: float) -> Linear:
    """Fit a linear model with an L2 penalty; ``strength`` is C of scikit-learn, the inverse of the penalty."""
    if targets.are_numbers:
        from sklearn.linear_model import Ridge

        ridge = Ridge(alpha=1 / strength, solver="lsqr" if features.shape[1] > len(targets.values) else "auto")
        ridge.fit(features, targets.values, sample_weight=targets.weights)
        return Linear(np.atleast_2d(ridge.coef_), np.atleast_1d(ridge.intercept_))
    if targets.values.ndim == 2:
        columns = [
            _binary(features, Targets(labels.astype(int), 2, targets.weights), strength) for labels in targets.values.T
        ]
        return Linear(np.stack([column[0] for column in columns]), np.array([column[1] for column in columns]))
    return _classes(features, targets, strength)


def _classes(features: Sparse, targets: Targets, strength: float) -> Linear:
    """Fit multinomial logistic regression; classes without a row keep the logit ``ABSENT``."""
    weights, bias = np.zeros((targets.outputs, features.shape[1])), np.full(targets.outputs, ABSENT)
    present = np.unique(targets.values)
    if len(present) == 1:
        bias[present] = 0.0
        return Linear(weights, bias)
    if len(present) == 2:
        renamed = Targets((targets.values == present[1]).astype(int), 2, targets.weights)
        slope, shift = _binary(features, renamed, strength)
        weights[present], bias[present] = [-slope / 2, slope / 2], [-shift / 2, shift / 2]
        return Linear(weights, bias)
    fitted = _logistic(features, targets, strength)
    weights[present], bias[present] = fitted.coef_, fitted.intercept_
    return Linear(weights, bias)


def _binary(features: Sparse, targets: Targets, strength: float) -> tuple[Floats, float]:
    """Return the weights and the bias of the logit of class 1 against class 0."""
    present = np.unique(targets.values)
    if len(present) < 2:
        return np.zeros(features.shape[1]), -ABSENT if len(present) and present[0] else ABSENT
    fitted = _logistic(features, targets, strength)
    return fitted.coef_[0], float(fitted.intercept_[0])


def _logistic(features: Sparse, targets: Targets, strength: float) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression, SGDClassifier

    if features.shape[1] * targets.outputs > LARGE:  # one class against the rest, by averaged weights
        alpha = 1 / (strength * max(features.shape[0], 1))
        fitted = SGDClassifier(loss="log_loss", alpha=alpha, average=True, max_iter=PASSES, tol=None, random_state=0)
        return fitted.fit(features, targets.values, sample_weight=targets.weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the limit of iterations bounds the time
        fitted = LogisticRegression(C=strength, max_iter=ITERATIONS)
        return fitted.fit(features, targets.values, sample_weight=targets.weights)


def assign_folds(keys: Sequence[Any], targets: npt.NDArray[Any], folds: int = FOLDS) -> npt.NDArray[np.int64]:
    """Return (rows,) the fold of each row: equal keys are in one fold, and the rows of a class are spread evenly."""
    draws = np.random.default_rng(0).permutation(len(keys))
    first: dict[Any, int] = {}
    owner = np.array([first.setdefault(key, row) for row, key in enumerate(keys)], np.int64)
    leaders = np.unique(owner)
    labels = targets[leaders] if targets.ndim == 1 else np.zeros(len(leaders))
    order = leaders[np.lexsort((draws[leaders], labels))]
    fold = np.zeros(len(keys), np.int64)
    fold[order] = np.arange(len(order)) % folds
    return fold[owner]


def cross_fitted(
    fit: Callable[[npt.NDArray[Any]], Callable[[npt.NDArray[Any]], Floats]], fold: npt.NDArray[Any], outputs: int
) -> Floats:
    """Return (rows, outputs) of models that were fitted without the fold of each row.

    Args:
        fit: maps the numbers of training rows to a model, which maps numbers of rows to their outputs.
        fold: (rows,) as from ``assign_folds``.
        outputs: number of outputs.
    """
    result = np.zeros((len(fold), outputs))
    for number in np.unique(fold):
        rows, training = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        if len(training):
            result[rows] = fit(training)(rows)
    return result


def fit_temperature(outputs: Floats, targets: Targets) -> float:
    """Return the factor of the outputs with the lowest loss on held-out rows, between 1/16 and 16; 1 for numbers.

    One more row with a uniform label avoids overconfidence from few rows, as in ``answers.losses.best_temperature``.
    """
    if targets.are_numbers:
        return 1.0
    factors, number = 2.0 ** np.linspace(-4, 4, 65), max(len(outputs), 1)
    return float(
        min(
            factors,
            key=lambda factor: targets.loss(outputs * factor) + targets.uniform_loss(outputs * factor) / number,
        )
    )
