"""Forecasts of series as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from regard.core.columns import columns_of, is_table
from regard.core.wording import pluralize
from regard.sklearn.run_estimator import RunEstimator


class Forecaster(RunEstimator):
    """A forecaster of series as a scikit-learn estimator: ``Forecaster(horizon=24).fit(series).predict()``.

    The series are an array (time,) or (time, series), or a table with a row for each time step. The columns of numbers
    of a table are its series, and a table without dates is read as an array. The last tenth is the validation data. The
    rows are in the order of time: use ``TimeSeriesSplit(test_size=horizon)`` for cross-validation.

    Args:
        horizon: the number of time steps to predict. Default: chosen by the data.
        look_back: the number of time steps that a forecast reads. Default: chosen by the data.
        minutes: the time limit of training. Default: chosen by the amount of data.
        epochs: the number of epochs, as an alternative.
        preset: the size of the model, such as ``tiny`` or ``small``. Default: chosen by the amount of data.
        runs: the folder in which ``fit`` creates a run folder. Default: the run is temporary, and removed with the
            estimator.
        seed: the seed of training. Default: 1.
        settings: see ``TextClassifier``.

    Attributes:
        targets_: the names of the predicted series.
        run_: the run folder.
        model_: the predictor that ``regard.load`` returns for it.
    """

    targets_: tuple[str, ...]
    run_: Path
    model_: Any

    def __init__(
        self,
        *,
        horizon: int | None = None,
        look_back: int | None = None,
        minutes: float | None = None,
        epochs: int | None = None,
        preset: str | None = None,
        runs: str | Path | None = None,
        seed: int | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.horizon = horizon
        self.look_back = look_back
        self.minutes = minutes
        self.epochs = epochs
        self.preset = preset
        self.runs = runs
        self.seed = seed
        self.settings = settings

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on series.

        Args:
            X: the series: an array or a table.
            y: not used.

        Raises:
            ValueError: for an object of another form.
            DataError: for series that cannot be trained on, such as too short ones.
        """
        series = series_of(X)
        rows = len(next(iter(columns_of(series).values()), [])) if is_table(series) else len(series)
        parts = {"data.valid_from": 0.9, "data.test_from": rows} if rows else {}
        self._train([series], "forecasting", parts)
        self.targets_ = tuple(self.model_.codec.answer.scales.targets)
        self._history = series
        return self

    def predict(self, X: Any = None) -> npt.NDArray[np.float64]:
        """Return the next values, (horizon, series).

        Args:
            X: the series up to the forecast, at least ``look_back`` rows. Default: those of training.
        """
        model = self._fitted_model()
        (forecast,) = model.predict([self._history if X is None else series_of(X)])
        return np.stack([np.asarray(forecast.columns[name], np.float64) for name in self.targets_], 1)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the negative mean absolute error of the forecast that follows the training data.

        Args:
            X: the values that followed, at most ``horizon`` rows, in the form of the training data.
            y: not used.

        Raises:
            ValueError: for more rows than the horizon.
        """
        predicted, series = self.predict(), series_of(X)
        if is_table(series):
            columns = columns_of(series)
            series = np.array([columns[name] for name in self.targets_], np.float64).T
        if len(series) > len(predicted):
            rows = pluralize(len(series), "row")
            raise ValueError(
                f"X has {rows}, and the horizon is {len(predicted):,}; for cross-validation use "
                f"cv=TimeSeriesSplit(test_size={len(predicted)})"
            )
        return -float(np.abs(predicted[: len(series)] - series).mean())


def series_of(X: Any) -> Any:
    """Return a table with dates as it is, and other series as an array (time, series).

    Raises:
        ValueError: for an object without numbers.
    """
    if is_table(X):
        columns = columns_of(X)
        dated = getattr(getattr(X, "index", None), "inferred_type", "") in ("datetime64", "period")
        if dated or not all(isinstance(cell, int | float) for cells in columns.values() for cell in cells):
            return X
        X = np.array([*columns.values()], np.float64).T
    array = np.asarray(X)
    if array.dtype.kind not in "biuf" or array.ndim not in (1, 2) or not array.size:
        raise ValueError(
            f"expected an array (time,) or (time, series) of numbers, or a table; found {type(X).__name__} "
            f"of shape {array.shape} and type {array.dtype}"
        )
    return array.reshape(len(array), -1).astype(np.float64)
