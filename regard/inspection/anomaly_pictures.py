"""Pictures of anomalies: values, one-step forecasts, the band of the threshold, and the alarms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.core.figure import COLORS, INK, Caption, write_figure
from regard.core.wording import pluralize

if TYPE_CHECKING:
    from regard.tasks.forecasting.anomalies import Anomalies

MAX_PANELS, TICKS = 12, 4


def draw_anomalies(results: Sequence[Anomalies], path: Path, *, title: str) -> None:
    """Write a picture with one panel for each target of each series, at most ``MAX_PANELS``."""
    panels = [(result, place) for result in results for place in range(len(result.scored.series.targets))]
    visible, rest = panels[:MAX_PANELS], len(panels[MAX_PANELS:])
    more = f"; {pluralize(rest, 'more series', 'more series')} not drawn" if rest else ""

    def draw(figure: Any) -> None:
        figure.set_size_inches(9.0, 1.2 + 1.6 * len(visible))
        column = figure.subplots(len(visible), squeeze=False)[:, 0]
        for axes, (result, place) in zip(column, visible, strict=True):
            _draw_panel(axes, result, place)
        column[0].legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=4)  # the name of the series is on the left

    write_figure(draw, [path], Caption(title + more))


def _draw_panel(axes: Any, result: Anomalies, place: int) -> None:
    """Draw one target: its scored rows, the band within the threshold, and its alarms."""
    scored = result.scored
    series, rows = scored.series, np.arange(scored.first, len(scored.series))
    values, expected = series.values[rows, place], scored.expected[rows, place]
    axes.plot(rows, values, color=INK, linewidth=0.8, label="value")
    axes.plot(rows, expected, color=COLORS[0], linewidth=0.6, alpha=0.6, label="forecast")
    if np.isfinite(result.threshold) and np.isfinite(scored.deviation[place]):
        width = result.threshold * scored.deviation[place]
        label = "within the threshold"
        axes.fill_between(
            rows, expected - width, expected + width, color=COLORS[0], alpha=0.25, linewidth=0, label=label
        )
    alarms = [alarm.row for alarm in result.alarms if alarm.target == series.targets[place]]
    axes.plot(alarms, series.values[alarms, place], "o", color=COLORS[1], label="alarm")
    ticks = rows[:: max(len(rows) // TICKS, 1)]
    axes.set_xticks(ticks, [label.removesuffix(":00") for label in series.labels(ticks.tolist())])
    name = series.targets[place] if len(series.targets) > 1 else series.name
    axes.set_title(name, loc="left", fontsize=8)
