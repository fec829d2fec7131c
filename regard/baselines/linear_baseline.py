"""Base of linear baselines: a subclass computes sparse features of values; this class fits, saves and applies them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from regard.baselines.linear import (
    Linear,
    Sparse,
    Targets,
    assign_folds,
    cross_fitted,
    fit_linear,
    fit_temperature,
)
from regard.core.baseline import Floats, SavedBaseline

MAX_WORK = 30_000_000  # nonzero features × outputs of the rows that are fitted; further rows are left out
MAX_CHOICE = 3_000_000  # the same of the rows by which the penalty is chosen
AT_ONCE = 4096  # values whose features are computed together


class LinearBaseline:
    """An ``InputBaseline`` of a linear model, whose penalty is chosen by five-fold cross-validation."""

    kind: ClassVar[str]
    features_of: ClassVar[str]  # what the features are, for ``description``
    strengths: ClassVar[tuple[float, ...]] = (0.3, 3.0, 30.0)  # of which cross-validation chooses one

    def __init__(self) -> None:
        self.linear = Linear(np.zeros((0, 0)), np.zeros(0))
        self.numbers = False  # whether the targets are numbers
        self.strength, self.factor = self.strengths[0], 1.0  # of ``fit``, and of the outputs

    @property
    def description(self) -> str:
        return f"{self.features_of} with {'ridge' if self.numbers else 'logistic'} regression"

    def learn_features(self, columns: Sequence[Sequence[Any]]) -> None:
        """Learn what ``features`` needs, such as a vocabulary. The targets are not known."""
        raise NotImplementedError

    def features(self, columns: Sequence[Sequence[Any]]) -> Sparse:
        """Return (rows, features) of values."""
        raise NotImplementedError

    def row_keys(self, columns: Sequence[Sequence[Any]]) -> list[Any]:
        """Return a key of each row; rows with equal keys are never divided between training and test."""
        return list(zip(*columns, strict=True))

    def fit(self, features: Sparse, targets: Targets, strength: float) -> Linear:
        return fit_linear(features, targets, strength)

    def learn(
        self, columns: Sequence[Sequence[Any]], targets: npt.NDArray[Any], weights: npt.NDArray[Any], outputs: int
    ) -> None:
        """See ``core.baseline.InputBaseline``."""
        self.learn_features(columns)
        whole, features = Targets.of(targets, outputs, weights), self._all_features(columns)
        self.numbers = whole.are_numbers
        self.strength, self.factor = self._choose(features, whole, self.row_keys(columns))
        self.linear = self._fit_sample(features, whole)

    def held_out_outputs(
        self, columns: Sequence[Sequence[Any]], targets: npt.NDArray[Any], weights: npt.NDArray[Any], outputs: int
    ) -> Floats:
        """See ``core.baseline.InputBaseline``; the features, which ignore the targets, are those of all rows."""
        whole, features = Targets.of(targets, outputs, weights), self._all_features(columns)

        def fit_rows(training: npt.NDArray[Any]) -> Any:
            linear = self._fit_sample(features[training], whole.rows(training))
            return lambda held_out: linear.outputs(features[held_out])

        return cross_fitted(fit_rows, assign_folds(self.row_keys(columns), whole.values), outputs)

    def _fit_sample(self, features: Sparse, targets: Targets) -> Linear:
        """Fit as many of these rows as the time allows."""
        rows = _sample(features, targets, MAX_WORK)
        fitted = self.fit(features[rows], targets.rows(rows), self.strength)
        return Linear(fitted.weights * self.factor, fitted.bias * self.factor)

    def _choose(self, features: Sparse, whole: Targets, keys: Sequence[Any]) -> tuple[float, float]:
        """Return the strength and the factor of the outputs that are best for held-out rows of a sample."""
        rows = _sample(features, whole, MAX_CHOICE)
        sample, own = whole.rows(rows), features[rows]
        fold = assign_folds([keys[row] for row in rows], sample.values)

        def fit_rows(strength: float, training: npt.NDArray[Any]) -> Any:
            linear = self.fit(own[training], sample.rows(training), strength)
            return lambda held_out: linear.outputs(own[held_out])

        tried = {value: cross_fitted(partial(fit_rows, value), fold, whole.outputs) for value in self.strengths}
        factors = {value: fit_temperature(outputs, sample) for value, outputs in tried.items()}
        best = min(self.strengths, key=lambda value: sample.loss(tried[value] * factors[value]))
        return best, factors[best]

    def outputs(self, columns: Sequence[Sequence[Any]]) -> Floats:
        return self.linear.outputs(self._all_features(columns))

    def _all_features(self, columns: Sequence[Sequence[Any]]) -> Sparse:
        from scipy.sparse import csr_matrix, vstack

        starts = [*range(0, len(columns[0]), AT_ONCE), len(columns[0])]
        parts = [self.features([column[start:end] for column in columns]) for start, end in pairwise(starts)]
        return csr_matrix(vstack(parts)) if parts else csr_matrix((0, self.linear.weights.shape[1]))

    def save(self) -> SavedBaseline:
        arrays: dict[str, npt.NDArray[Any]] = {
            "weights": self.linear.weights.astype(np.float32),
            "bias": self.linear.bias,
        }
        settings = {"numbers": self.numbers, "strength": self.strength, "factor": self.factor}
        return SavedBaseline({**arrays, **self.saved_features()}, settings)

    def open(self, saved: SavedBaseline) -> Self:
        weights, bias = saved.arrays["weights"].astype(np.float64), saved.arrays["bias"].astype(np.float64)
        width = self.open_features(saved.arrays)
        if bias.ndim != 1 or weights.shape != (len(bias), width):
            raise ValueError(f"the weights have the shape {weights.shape}, the bias {bias.shape}; features: {width}")
        if not (np.isfinite(weights).all() and np.isfinite(bias).all()):
            raise ValueError("a weight is not finite")
        self.linear, self.numbers = Linear(weights, bias), saved.settings["numbers"] is True
        # Baselines of the first version, which are no wide parts, do not have these.
        self.strength = _positive(saved.settings.get("strength", self.strength))
        self.factor = _positive(saved.settings.get("factor", self.factor))
        return self

    def saved_features(self) -> Mapping[str, npt.NDArray[Any]]:
        """Return the arrays of ``learn_features``."""
        raise NotImplementedError

    def open_features(self, arrays: Mapping[str, npt.NDArray[Any]]) -> int:
        """Restore ``learn_features`` from arrays, and return the number of features; ValueError if they are wrong."""
        raise NotImplementedError


def _positive(value: Any) -> float:
    """Return a number; ValueError unless it is positive and finite."""
    number = float(value)
    if not 0 < number < float("inf"):
        raise ValueError(f"expected a positive number, found {number}")
    return number


def _sample(features: Sparse, targets: Targets, limit: int) -> npt.NDArray[np.int64]:
    """Return the rows that are fitted: those with a weight, in random order up to ``limit``."""
    known = np.flatnonzero(targets.weights > 0)
    order = known[np.random.default_rng(0).permutation(len(known))]
    work = np.cumsum(np.diff(features.indptr)[order] + 1) * targets.outputs
    return np.sort(order[: max(int(np.searchsorted(work, limit)), 1)])
