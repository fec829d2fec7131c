"""Series as the arrays that a network reads: standardized values, marks of missing ones, and covariates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.data.time_series import Scales, Series, SeriesScale, SeriesWindow, Values, fill_forward


def encode_series(series: Series, scale: SeriesScale, ahead: int) -> Values:
    """Return (rows + ahead, numbers) of a whole series: its values, marks, past and known covariates.

    Missing values are the last one before them, and their mark is 1. Rows after the end are 0, except the covariates
    that are known there.
    """
    standard, rows = scale.standardize(series.values), len(series) + ahead
    past = (series.past - scale.past[0]) / scale.past[1]
    known = (series.known - scale.known[0]) / scale.known[1]
    parts = [fill_forward(standard), np.isnan(standard), np.nan_to_num(past), np.nan_to_num(known)]
    padded = [np.pad(part[:rows], ((0, rows - min(len(part), rows)), (0, 0))) for part in parts]
    return np.concatenate(padded, 1, dtype=np.float32)


def sequences(history: Values, series: int, *, together: bool) -> Values:
    """Return (rows, sequences, back, features) of histories (rows, back, numbers).

    A sequence has all series, or one of them with its own marks and the shared covariates.
    """
    if together:
        return history[:, None]
    own = np.stack([history[..., :series], history[..., series : 2 * series]], -1).swapaxes(1, 2)
    shared = np.broadcast_to(history[:, None, :, 2 * series :], (*own.shape[:3], history.shape[2] - 2 * series))
    return np.concatenate([own, shared], -1)


def future_values(windows: Sequence[SeriesWindow], scales: Scales, ahead: int) -> Values:
    """Return (rows, ahead + 1, series) standardized values after each window, and naive errors as the last row."""
    table = np.full((len(windows), ahead + 1, len(scales.targets)), np.nan, np.float32)
    for row, window in zip(table, windows, strict=True):
        scale, future = scales.of(window.series), window.future
        row[: len(future)], row[-1] = scale.standardize(future), scale.naive
    return table


def last_seasons(windows: Sequence[SeriesWindow], scales: Scales) -> Values:
    """Return (rows, season, series) the standardized last season of each history."""
    tails = [scales.of(window.series).standardize(window.history[-scales.season :]) for window in windows]
    season = min(map(len, tails), default=1)
    return np.array([tail[len(tail) - season :] for tail in tails]).reshape(-1, season, len(scales.targets))
