"""Recall of labeled events of the Numenta Anomaly Benchmark at measured rates of false alarms, next to three baselines.

    python bench/nab.py runs/nab data/nab

Scores all series with the run, by the distance from the one-step forecast, alone and averaged over 20 rows with the
distance from the usual level (``regard anomalies --over 20 --level``), and with baselines: the change from the last
value, a ridge regression of the last 16 values fitted on the first 15 % of each series, and random numbers. The alarms
of each series are its highest scores; a budget per row, the same for all series, is raised until the false alarms
reach one in 26.6, 13.3 and 6.6 days. No label chooses a threshold, and no other row of an event counts as found.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import regard
from regard.commands.anomalies import event_rows, read_windows
from regard.data.time_series import fill_forward
from regard.metrics.events import alarm_rows, event_metrics
from regard.tasks.forecasting.anomalies import QUIET, Anomalies, ScoredSeries, averaged, score_series, with_level
from regard.tasks.forecasting.parts import series_of

RATES, MAX_ALARMS, LAGS, OVER = (26.6, 13.3, 6.6), 40, 16, 20


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("data", type=Path)
    return parser.parse_args()


def main() -> None:
    options = _arguments()
    model: Any = regard.load(options.run)
    events = read_windows(options.data / "combined_windows.json")
    series = [*series_of(model.config.data.train, model.config.data.columns)]
    scored = [score_series(model, one) for one in series]
    lasting = [score_series(model, one, over=OVER, level=True) for one in series]
    rng = np.random.default_rng(0)
    scores = {
        f"{options.run}, --over {OVER} --level": [one.scores for one in lasting],
        str(options.run): [one.scores for one in scored],
        "change from the last value": [change(one) for one in scored],
        f"change, --over {OVER} --level": [
            with_level(averaged(change(one)[:, None], OVER), one.series, LAGS, one.first)[:, 0] for one in scored
        ],
        f"ridge of {LAGS} values": [ridge(one) for one in scored],
        "random": [rng.random(len(one.series)) for one in scored],
    }
    for name, own in scores.items():
        masked = [np.where(np.arange(len(s)) < one.first, -np.inf, s) for s, one in zip(own, scored, strict=True)]
        print(json.dumps({"scores": name, **recalls(scored, masked, events)}), flush=True)


def change(one: ScoredSeries) -> Any:
    values = fill_forward(one.series.values)[:, 0].astype(float)
    return np.abs(np.diff(values, prepend=values[:1]))


def ridge(one: ScoredSeries) -> Any:
    values = fill_forward(one.series.values)[:, 0].astype(float)
    scale = values[: one.first].std() or 1.0
    values = values / scale
    lags = np.lib.stride_tricks.sliding_window_view(values, LAGS)[:-1]
    x, y = lags - lags[:, -1:], values[LAGS:] - lags[:, -1]
    fitted = one.first - LAGS
    weights = np.linalg.solve(x[:fitted].T @ x[:fitted] + np.eye(LAGS), x[:fitted].T @ y[:fitted])
    return np.concatenate([np.zeros(LAGS), np.abs(y - x @ weights)])


def recalls(scored: list[ScoredSeries], scores: list[Any], events: dict[str, list[list[str]]]) -> dict[str, Any]:
    """Return the recall at each rate: alarms are added by the budget per row that allows them."""
    alarms = list[tuple[float, int, int]]()  # budget per row, series, row
    for number, (one, own) in enumerate(zip(scored, scores, strict=True)):
        quiet = max(int(QUIET * (len(own) - one.first)), 1)
        rows = alarm_rows(own, MAX_ALARMS, quiet)
        ranked = sorted(rows, key=lambda row: -own[row])  # used at once
        alarms += [((place + 1) / (len(own) - one.first), number, row) for place, row in enumerate(ranked)]
    windows = [event_rows(Anomalies(one, [], 0.0), events) for one in scored]
    days, total = sum(one.days for one in scored), sum(map(len, windows))
    result: dict[str, Any] = {"events": total, "days": round(days)}
    chosen: list[list[int]] = [[] for _ in scored]
    false, found = 0, 0
    recall = dict.fromkeys(RATES, 0.0)
    for _, number, row in sorted(alarms):
        chosen[number].append(row)
        measured = event_metrics([row], windows[number], 1.0)
        false += measured.false_alarms
        if measured.detected:
            found = sum(event_metrics(rows, own, 1.0).detected for rows, own in zip(chosen, windows, strict=True))
        for rate in RATES:
            if false <= days / rate:
                recall[rate] = found / total
    return result | {f"recall at one in {rate} days": round(value, 3) for rate, value in recall.items()}


if __name__ == "__main__":
    main()
