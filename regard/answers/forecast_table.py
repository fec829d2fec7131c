"""Forecasts as tables: the dates, and a column for each series and each end of its band."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

from torch import Tensor

from regard.core.wording import pluralize
from regard.data.time_series import SeriesScale, SeriesWindow
from regard.errors import ConfigError
from regard.metrics.forecast import Distribution

DIGITS = 7  # significant digits in JSON


class Forecast(NamedTuple):
    """A forecast in the unit of the data.

    Attributes:
        dates: the date, or the number, of each forecast row.
        columns: numbers (rows,) by name: the point forecast of each series, ``NAME``, and its band, ``NAME-lo-80`` and
            ``NAME-hi-80`` for a level of 80 percent.
    """

    dates: tuple[str, ...]
    columns: Mapping[str, tuple[float, ...]]

    def to_json(self) -> str:
        """Return a JSON object with a list for the dates and for each column."""
        columns = {name: [float(f"{x:.{DIGITS}g}") for x in own] for name, own in self.columns.items()}
        return json.dumps({"date": list(self.dates), **columns}, ensure_ascii=False)

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame`` with the column ``date`` and those of the forecast; requires pandas."""
        return import_module("pandas").DataFrame({"date": self.dates, **self.columns})

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.Table`` with the same columns; requires pyarrow."""
        return import_module("pyarrow").table({"date": self.dates, **self.columns})

    def to_line(self) -> str:
        """Return the names and numbers of the columns, separated by tabs."""
        return "\t".join(f"{name} {','.join(f'{x:.5g}' for x in own)}" for name, own in self.columns.items())


def forecast_of(
    kind: Distribution, numbers: Tensor, settings: Any, window: SeriesWindow, scale: SeriesScale
) -> Forecast:
    """Return the forecast of outputs.

    Args:
        kind: the meaning of the numbers of one value.
        numbers: (ahead, series, numbers) outputs, standardized.
        settings: the number of time steps and the level of the band; unset ones have defaults.
        window: the place of the forecast in its series.
        scale: the scale of the series.

    Raises:
        ConfigError: for too many time steps, or a level that the distribution does not have.
    """
    ahead = len(numbers) if settings.horizon is None else settings.horizon
    if ahead > len(numbers):
        why = f"the model was trained for {pluralize(len(numbers), 'time step')}"
        help = "train a model with a longer one: --set data.horizon=N"
        raise ConfigError(f"horizon = {ahead} is too long", where="horizon", why=why, help=help)
    level = 80.0 if settings.level is None else settings.level
    tables = {"": kind.point(numbers[:ahead])}
    try:
        for name, side in (("lo", -1), ("hi", 1)):
            tables[f"-{name}-{level:g}"] = kind.quantile(numbers[:ahead], 0.5 + side * level / 200)
    except ValueError as problem:
        if settings.level is not None:
            raise ConfigError(f"level = {level:g} is not available", where="level", why=str(problem)) from problem
        tables = {"": tables[""]}
    restored = {suffix: scale.restore(table.numpy()) for suffix, table in tables.items()}
    columns = {
        target + suffix: tuple(table[:, place].tolist())
        for place, target in enumerate(window.series.targets) for suffix, table in restored.items()
    }  # fmt: skip
    return Forecast(tuple(window.series.labels(range(window.end, window.end + ahead))), columns)
