"""Pictures of forecasts: history, forecast, band, and the true values if they are known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.core.figure import COLORS, INK, Caption, write_figure
from regard.core.wording import pluralize

if TYPE_CHECKING:
    from regard.answers.forecast_table import Forecast
    from regard.data.time_series import SeriesWindow

MAX_PANELS, TICKS = 12, 4


def draw_forecasts(windows: Sequence[SeriesWindow], forecasts: Sequence[Forecast], path: Path, *, title: str) -> None:
    """Write a picture with one panel for each series, at most ``MAX_PANELS``."""
    panels = [
        (window, forecast, target)
        for window, forecast in zip(windows, forecasts, strict=True) for target in window.series.targets
    ]  # fmt: skip
    visible = panels[:MAX_PANELS]
    more = (
        f"; {pluralize(len(panels) - len(visible), 'more series', 'more series')} not drawn"
        if len(panels) > len(visible)
        else ""
    )

    def draw(figure: Any) -> None:
        figure.set_size_inches(9.0, 1.2 + 1.5 * len(visible))
        column = figure.subplots(len(visible), squeeze=False)[:, 0]
        for axes, (window, forecast, target) in zip(column, visible, strict=True):
            _draw_panel(axes, window, forecast, target)
        column[0].legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=4)  # the name of the series is on the left
        for axes in column[:-1] if len({id(window) for window, _, _ in visible}) == 1 else ():
            axes.set_xticklabels([])  # all panels have the dates of the last one

    write_figure(draw, [path], Caption(title + more))


def _draw_panel(axes: Any, window: SeriesWindow, forecast: Forecast, target: str) -> None:
    """Draw one series: its last rows, the forecast with its band, and the true values."""
    place, ahead = window.series.targets.index(target), len(forecast.dates)
    back = min(window.back, 3 * ahead)
    rows = np.arange(window.end - back, window.end + ahead)
    axes.plot(rows[:back], window.history[-back:, place], color=INK, label="history")
    future = window.future[:ahead, place]
    if len(future):
        axes.plot(rows[back : back + len(future)], future, color=INK, linestyle=":", label="true values")
    columns = forecast.columns
    axes.plot(rows[back:], columns[target], color=COLORS[0], linestyle="-", label="forecast")
    band = [name for name in columns if name.startswith((f"{target}-lo-", f"{target}-hi-"))]
    if len(band) == 2:
        level = band[0].rsplit("-", 1)[1]
        low, high = columns[band[0]], columns[band[1]]
        axes.fill_between(rows[back:], low, high, color=COLORS[0], alpha=0.25, linewidth=0, label=f"{level} % band")
    ticks = rows[:: max(len(rows) // TICKS, 1)]
    axes.set_xticks(ticks, [label.removesuffix(":00") for label in window.series.labels(ticks.tolist())])
    axes.set_ylabel(target)
