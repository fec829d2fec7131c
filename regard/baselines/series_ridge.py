"""Baseline of forecasts: one ridge regression from windows less their last value to the next values less that value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from regard.core.baseline import Floats, SavedBaseline
from regard.data.time_series import Scales, Series, SeriesWindow, fill_forward

PENALTIES = tuple(10.0**power for power in range(-1, 6))
HELD_OUT = 0.2  # of the windows, the last ones: they choose the penalty, and measure the residuals
MAX_ROWS = 200_000  # windows that are fitted; of more, they are taken at equal distances
CHUNK = 512  # windows whose values are in memory at once


class SeriesRidge:
    """y = l + W (x − l), with x a window of one series, l its last value and W (ahead, back) the same for all series.

    W = (XᵀX + λ I)⁻¹ XᵀY; λ has the smallest squared error on the last fifth of the windows. For quantiles or a
    deviation, residuals of these windows are added to y for each time step and series; their fit used the others.

    Args:
        back, ahead: time steps of a window and of a forecast.
        levels: the levels of the quantiles; () for points, None for mean and logarithm of the deviation.
    """

    kind: ClassVar[str] = "series-ridge"

    def __init__(self, *, back: int, ahead: int, levels: Sequence[float] | None) -> None:
        self.back, self.ahead, self.levels = back, ahead, levels
        self.weights: Floats = np.zeros((ahead, back))
        self.added: Floats = np.zeros((ahead, 1, 1))  # (ahead, series, numbers)
        self.scales, self.penalty = Scales({}, 1, ()), 0.0

    @property
    def description(self) -> str:
        return f"ridge regression, look-back {self.back}"

    def learn(
        self, columns: Sequence[Sequence[Any]], targets: npt.NDArray[Any], weights: npt.NDArray[Any], outputs: int
    ) -> None:
        windows: Sequence[SeriesWindow] = columns[0]
        self.scales = Scales.learn(windows, None)
        series = targets.shape[2]
        chosen = np.arange(0, len(windows), 1 + len(windows) * series // MAX_ROWS)
        ends = np.array([windows[number].end for number in chosen])
        later = chosen[np.argsort(ends, kind="stable")][-max(int(HELD_OUT * len(chosen)), 1) :]
        earlier = np.setdiff1d(chosen, later)
        held_out = self._moments(windows, targets, later)
        fitted = self._moments(windows, targets, earlier if len(earlier) else later)
        solved = {penalty: _solve(fitted, penalty) for penalty in PENALTIES}
        self.penalty = min(PENALTIES, key=lambda penalty: _squared_error(held_out, solved[penalty]))
        self.weights = solved[self.penalty].T
        self.added = self._residuals(windows, targets, later, outputs // (self.ahead * series))
        both = tuple(one + other for one, other in zip(fitted, held_out, strict=True))
        self.weights = _solve(both, self.penalty).T

    def outputs(self, columns: Sequence[Sequence[Any]]) -> Floats:
        windows: Sequence[SeriesWindow] = columns[0]
        series, numbers = self.added.shape[1:]
        table = np.zeros((len(windows), self.ahead, series, numbers))
        for chunk, histories in self._histories(windows, np.arange(len(windows))):
            table[chunk] = self._points(histories)[..., None]
        return (table + self.added).reshape(len(windows), self.added.size)

    def _points(self, histories: Floats) -> Floats:
        """Return forecasts (windows, ahead, series) of histories (windows, series, back)."""
        last = histories[..., -1:]
        return (last + (histories - last) @ self.weights.T).swapaxes(1, 2)

    def _histories(
        self, windows: Sequence[SeriesWindow], chosen: npt.NDArray[np.int64]
    ) -> Iterator[tuple[npt.NDArray[np.int64], Floats]]:
        """Yield the numbers of windows, and their standardized and filled histories (windows, series, back)."""
        values: dict[int, Floats] = {}

        def of(series: Series) -> Floats:
            if id(series) not in values:
                standard = self.scales.of(series).standardize(series.values)
                values[id(series)] = fill_forward(standard).T.astype(np.float64)
            return values[id(series)]

        for start in range(0, len(chosen), CHUNK):
            chunk = chosen[start : start + CHUNK]
            parts = [(windows[place].series, windows[place].end) for place in chunk]
            yield chunk, np.stack([of(series)[:, end - self.back : end] for series, end in parts])

    def _moments(
        self, windows: Sequence[SeriesWindow], targets: npt.NDArray[Any], chosen: npt.NDArray[np.int64]
    ) -> tuple[Any, ...]:
        """Return XᵀX, XᵀY and the sum of Y² over the windows whose next values are all known."""
        gram, cross, square = np.zeros((self.back, self.back)), np.zeros((self.back, self.ahead)), 0.0
        for chunk, histories in self._histories(windows, chosen):
            last = histories[..., -1:]
            future = targets[chunk, :-1].swapaxes(1, 2).astype(np.float64) - last
            whole = np.isfinite(future).all(-1)
            x, y = (histories - last)[whole], future[whole]
            gram, cross, square = gram + x.T @ x, cross + x.T @ y, square + float(np.square(y).sum())
        return gram, cross, square

    def _residuals(
        self, windows: Sequence[SeriesWindow], targets: npt.NDArray[Any], chosen: npt.NDArray[np.int64], numbers: int
    ) -> Floats:
        """Return (ahead, series, numbers) the quantiles or the deviation of the residuals; 0 for points."""
        if self.levels is not None and not self.levels:
            return np.zeros((self.ahead, targets.shape[2], 1))
        errors = np.concatenate(
            [targets[chunk, :-1] - self._points(histories) for chunk, histories in self._histories(windows, chosen)]
        )
        known = np.isfinite(errors).any(0)
        errors = np.where(known, errors, 0.0)  # a column without values
        if self.levels is None:
            deviation = np.maximum(np.sqrt(np.nanmean(np.square(errors), 0)), 1e-6)
            return np.stack([np.zeros_like(deviation), np.log(deviation)], -1)
        return np.moveaxis(np.nanquantile(errors, self.levels, axis=0), 0, -1)

    def save(self) -> SavedBaseline:
        arrays = {"weights": self.weights, "added": self.added}
        return SavedBaseline(arrays, {"penalty": self.penalty, "scales": self.scales.to_json()})

    def open(self, saved: SavedBaseline) -> Self:
        weights, added = (np.asarray(saved.arrays[name], np.float64) for name in ("weights", "added"))
        if weights.shape != (self.ahead, self.back) or added.ndim != 3 or added.shape[0] != self.ahead:
            raise ValueError("the weights do not fit the look-back and the horizon")
        self.scales = Scales.from_json(saved.settings["scales"])
        self.weights, self.added, self.penalty = weights, added, float(saved.settings["penalty"])
        return self


def _solve(moments: Sequence[Any], penalty: float) -> Floats:
    """Return (back, ahead) the weights for XᵀX and XᵀY."""
    gram, cross, _ = moments
    return np.asarray(np.linalg.solve(gram + penalty * np.eye(len(gram)), cross))


def _squared_error(moments: Sequence[Any], weights: Floats) -> float:
    """Return the sum of (Y − X W)² from the moments."""
    gram, cross, square = moments
    return float(square - 2 * (weights * cross).sum() + (weights * (gram @ weights)).sum())
