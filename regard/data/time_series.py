"""Time series in memory, and the windows of them that a model reads and predicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from regard.core.wording import pluralize
from regard.errors import DataError

Values = npt.NDArray[np.float32]
MONTH = "month"
UNITS = (("week", 604_800), ("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))
CALENDAR = ("hour", "weekday", "day", "month")
HELP = "docs/how-to/forecast.md"


class TimeStep(NamedTuple):
    """The distance of two rows: a number of seconds, or of months, whose lengths differ."""

    size: int
    unit: str = "second"

    def describe(self) -> str:
        """Return the distance in the largest unit, such as ``hourly``, ``every 15 minutes`` or ``monthly``."""
        unit, size = (
            next(
                ((name, self.size // seconds) for name, seconds in UNITS if self.size % seconds == 0),
                ("second", self.size),
            )
            if self.unit != MONTH
            else ((MONTH, self.size) if self.size % 12 else ("year", self.size // 12))
        )
        return {"day": "daily"}.get(unit, f"{unit}ly") if size == 1 else f"every {size} {unit}s"

    @property
    def season(self) -> int:
        """The rows of a day, if a row is shorter; else of a week or a year. The period of seasonal baselines."""
        if self.unit == MONTH:
            return max(12 // self.size, 1)
        longer = next((period for period in (86_400, 604_800) if self.size < period), self.size)
        return max(longer // self.size, 1)


class DateStyle(NamedTuple):
    """The form of the dates of a table: ``pattern`` of strftime; empty for whole numbers of seconds."""

    pattern: str = "%Y-%m-%d %H:%M:%S"

    def write(self, seconds: int) -> str:
        """Return a time, given in seconds since 1970 (UTC), as a cell."""
        return datetime.fromtimestamp(seconds, UTC).strftime(self.pattern) if self.pattern else str(seconds)


DATE_AND_TIME = DateStyle()


@dataclass(frozen=True, eq=False)
class Series:
    """Values at equal distances in time; rows after the last value may hold covariates that are known in advance.

    Attributes:
        name: of the series or table, such as its file or its id.
        targets: the names of the predicted columns.
        values: (rows, targets), NaN where a value is missing.
        past: (rows, columns) covariates, known up to the present.
        known: (rows + later, columns) covariates, known in advance.
        start: the time of row 0, in seconds since 1970 (UTC); None if the table has no dates.
        step: the distance of the rows; None without dates.
        style: how dates are written.
        file: the file, for messages.
        lines: the line of each row; None if the row number is the line.
        stamps: the time of each row, if rows are not at equal distances in time.
        borders: the first rows of the validation and of the test part, and the row after the test part.
        scaled: whether the values are standardized; if not, a network reads them in their own unit.
    """

    name: str
    targets: tuple[str, ...]
    values: Values
    past: Values
    known: Values
    start: int | None = None
    step: TimeStep | None = None
    style: DateStyle = DATE_AND_TIME
    file: str = ""
    lines: npt.NDArray[np.int64] | None = None
    borders: tuple[int, int, int] | None = None
    stamps: npt.NDArray[np.int64] | None = None
    scaled: bool = True

    def __len__(self) -> int:
        return len(self.values)

    def seconds(self, rows: Sequence[int] | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the times of rows, also of those after the end, in seconds since 1970. The series has dates."""
        assert self.start is not None and self.step is not None
        index = np.asarray(rows, np.int64)
        if self.stamps is not None and len(index) and index.max() < len(self.stamps):
            return self.stamps[index]
        if self.step.unit != MONTH:
            return self.start + index * self.step.size
        first = datetime.fromtimestamp(self.start, UTC)
        months = first.year * 12 + first.month - 1 + index * self.step.size
        return np.array([_in_month(first, int(month)) for month in months], np.int64)

    def labels(self, rows: Sequence[int]) -> list[str]:
        """Return the date of each row as the table writes it, or its number from 1."""
        if self.start is None:
            return [str(row + 1) for row in rows]
        return [self.style.write(int(second)) for second in self.seconds(rows)]

    def line(self, row: int) -> int:
        """Return the line of a row in its file."""
        return row + 1 if self.lines is None else int(self.lines[min(row, len(self.lines) - 1)])

    @property
    def training(self) -> Values:
        """The values of the training part; all of a series that is not divided."""
        return self.values if self.borders is None else self.values[: self.borders[0]]


def _in_month(first: datetime, month: int) -> int:
    """Return the time of ``first`` in another month, at most its last day."""
    for day in range(first.day, 27, -1):
        try:
            return int(first.replace(year=month // 12, month=month % 12 + 1, day=day).timestamp())
        except ValueError:
            continue
    return int(first.replace(year=month // 12, month=month % 12 + 1).timestamp())


class SeriesWindow(NamedTuple):
    """A place in a series: the model reads the ``back`` rows before row ``end``, and predicts those from ``end`` on."""

    series: Series
    end: int
    back: int
    ahead: int

    @property
    def history(self) -> Values:
        """(back, targets) The values before the predicted ones."""
        return self.series.values[self.end - self.back : self.end]

    @property
    def future(self) -> Values:
        """(ahead, targets) The predicted values, as far as they are known; fewer at the end of a series."""
        return self.series.values[self.end : self.end + self.ahead]

    @property
    def where(self) -> str:
        return f"{self.series.file}:{self.series.line(self.end)}"


def windows(series: Series, begin: int, stop: int, *, back: int, ahead: int, stride: int = 1) -> Iterator[SeriesWindow]:
    """Yield the windows whose predicted rows are all in [begin, stop); their history may begin earlier."""
    for end in range(max(begin, back), stop - ahead + 1, stride):
        yield SeriesWindow(series, end, back, ahead)


def calendar(seconds: npt.NDArray[np.int64], names: Sequence[str]) -> Values:
    """Return (rows, 2 · names) sine and cosine of the place of each time in its day, week, month or year."""
    days = seconds.astype("datetime64[s]").astype("datetime64[D]")
    month = days.astype("datetime64[M]")
    in_month = (days - month.astype("datetime64[D]")).astype(np.int64)
    parts = {
        "hour": (seconds % 86_400) / 86_400,
        "weekday": ((seconds // 86_400 + 3) % 7) / 7,  # 1970-01-01 was a Thursday
        "day": in_month / 31,
        "month": (month.astype(np.int64) % 12) / 12,
    }
    angles = 2 * np.pi * np.stack([parts[name] for name in names], 1)
    return np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)


def fill_forward(values: Values) -> Values:
    """Return (rows, columns) with each missing value replaced by the last one before it, or by the first one after."""
    filled = values.copy()
    for column in range(values.shape[1]):
        known = np.flatnonzero(np.isfinite(values[:, column]))
        if len(known):
            place = np.searchsorted(known, np.arange(len(values)), side="right") - 1
            filled[:, column] = values[known[np.maximum(place, 0)], column]
        else:
            filled[:, column] = 0
    return filled


class SeriesScale(NamedTuple):
    """Mean, deviation and naive error of each target, and mean and deviation of each covariate, of a training part.

    ``naive``: mean |y_t − y_{t−season}| in units of the deviation, 0 for a constant series: the denominator of MASE.
    """

    mean: npt.NDArray[np.float64]
    deviation: npt.NDArray[np.float64]
    naive: npt.NDArray[np.float64]
    past: npt.NDArray[np.float64]  # (2, columns)
    known: npt.NDArray[np.float64]

    @classmethod
    def of(cls, series: Series, season: int) -> SeriesScale:
        """Return the scale of the training part of a series."""
        values = series.training.astype(np.float64)
        mean, deviation = _moments(values)
        change = np.abs(values[season:] - values[:-season]) / deviation if len(values) > season else values[:0]
        observed = np.maximum(np.isfinite(change).sum(0), 1)
        rows = len(values)
        return cls(
            mean, deviation, np.nansum(change, 0) / observed,
            np.stack(_moments(series.past[:rows])), np.stack(_moments(series.known[:rows])),
        )  # fmt: skip

    @classmethod
    def unscaled(cls, series: Sequence[Series], season: int) -> SeriesScale:
        """Return the scale of series in their own unit: mean 0 and deviation 1 of targets, one naive error for all."""
        own = [cls.of(one, season) for one in series]
        naive = np.mean([scale.naive * scale.deviation for scale in own], 0)
        past, known = (
            np.stack(_moments(np.concatenate([table[: len(one.training)] for one, table in tables])))
            for tables in ([(one, one.past) for one in series], [(one, one.known) for one in series])
        )
        return cls(np.zeros_like(naive), np.ones_like(naive), naive, past, known)

    def standardize(self, values: Values) -> Values:
        """Return targets in units of the deviation from the mean."""
        return ((values - self.mean) / self.deviation).astype(np.float32)

    def restore(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Invert ``standardize``; the last dimension is that of the targets."""
        return values * self.deviation + self.mean


def _moments(values: npt.NDArray[np.floating]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return mean and deviation of each column without missing values; 0 and 1 for a column without values."""
    known = np.isfinite(values)
    count = np.maximum(known.sum(0), 1)
    mean = np.where(known, values, 0.0).sum(0, dtype=np.float64) / count
    variance = np.where(known, values - mean, 0.0).astype(np.float64) ** 2
    deviation = np.sqrt(variance.sum(0) / count)
    return mean, np.where(deviation > 1e-8 * np.maximum(np.abs(mean), 1), deviation, 1.0)


class Scales:
    """The scales of the series of a training; a series that is not among them is scaled by its own values.

    Attributes:
        scales: the scale of each series by its name.
        season: the period of the naive errors, in rows.
        targets: the names of the predicted columns.
    """

    def __init__(self, scales: dict[str, SeriesScale], season: int, targets: tuple[str, ...]) -> None:
        self.scales, self.season, self.targets = scales, season, targets

    @classmethod
    def learn(cls, windows: Sequence[SeriesWindow], season: int | None) -> Scales:
        """Return the scales of the series of windows.

        Args:
            windows: the windows of the training part.
            season: the period of the naive errors; None: that of the distance of the rows.

        Raises:
            DataError: if the series have different numbers of columns.
        """
        series = [*{id(window.series): window.series for window in windows}.values()]
        first = series[0]
        for one in series:
            if len(one.targets) != len(first.targets):
                why = f"{first.file} has {', '.join(first.targets)}"
                raise DataError("the tables have different columns", where=one.file, why=why)
        period = season or (1 if first.step is None else first.step.season)
        if not first.scaled:
            return cls({"all": SeriesScale.unscaled(series, period)}, period, first.targets)
        return cls({one.name: SeriesScale.of(one, period) for one in series}, period, first.targets)

    @property
    def any(self) -> SeriesScale:
        """One of the scales, for the number of columns."""
        return next(iter(self.scales.values()))

    def report(self) -> list[str]:
        """Return lines about the season, and about the series without MASE."""
        lines = [f"season of seasonal baselines and of MASE: {pluralize(self.season, 'time step')}"]
        flat = [
            f"{target} of {name}" for name, scale in self.scales.items()
            for target, naive in zip(self.targets, scale.naive, strict=True) if not naive
        ]  # fmt: skip
        if flat:
            names = ", ".join(flat[:4]) + (", …" if len(flat) > 4 else "")
            lines.append(f"no MASE for {names}: no change from season to season of the training part")
        return lines

    def of(self, series: Series) -> SeriesScale:
        """Return the scale of a series: that of its name, of the only one that is known, or its own.

        Raises:
            DataError: if its columns are not those of the scales.
        """
        self._require_columns(series)
        known = self.scales.get(series.name)
        if known is None and len(self.scales) == 1:
            known = next(iter(self.scales.values()))
        return SeriesScale.of(series, self.season) if known is None else known

    def _require_columns(self, series: Series) -> None:
        own, targets, scale, names = series.targets, self.targets, self.any, ", ".join(self.targets)
        if len(own) != len(targets):
            what, why = f"the table has {pluralize(len(own), 'column')} of numbers", f"the model predicts {names}"
        elif any(name != target and name in targets for name, target in zip(own, targets, strict=True)):
            what, why = f"the columns are in another order: {', '.join(own)}", f"the model predicts {names}"
        elif (number := series.known.shape[1]) != scale.known.shape[1]:
            what, why = f"the table has {pluralize(number, 'known column')}", f"the model reads {scale.known.shape[1]}"
        elif (number := series.past.shape[1]) != scale.past.shape[1]:
            what, why = f"the table has {pluralize(number, 'covariate')}", f"the model reads {scale.past.shape[1]}"
        else:
            return
        raise DataError(what, where=series.file, why=why, help=HELP)

    def to_json(self) -> dict[str, object]:
        """Return plain JSON for ``from_json``."""
        tables = {name: [part.tolist() for part in scale] for name, scale in self.scales.items()}
        return {"season": self.season, "targets": list(self.targets), "scales": tables}

    @classmethod
    def from_json(cls, saved: dict[str, object]) -> Scales:
        """Return the saved scales. Raises ValueError, or the error of a wrong type, for others."""
        season, tables = saved["season"], saved["scales"]
        if not isinstance(season, int) or not 0 < season < 1 << 24 or not isinstance(tables, dict) or not tables:
            raise ValueError("the season and the scales of the series are missing")
        scales = {
            str(name): SeriesScale(*(np.array(part, np.float64) for part in parts)) for name, parts in tables.items()
        }
        for scale in scales.values():
            shapes = {part.shape for part in scale[:3]}
            if len(shapes) != 1 or scale.mean.ndim != 1 or scale.past.shape[:1] + scale.known.shape[:1] != (2, 2):
                raise ValueError("the scale of a series has a wrong shape")
            if not all(np.isfinite(part).all() for part in scale) or (scale.deviation <= 0).any():
                raise ValueError("the scale of a series is not finite")
        targets = saved["targets"]
        if not isinstance(targets, list) or any(len(scale.mean) != len(targets) for scale in scales.values()):
            raise ValueError("the columns and their scales do not match")
        return cls(scales, season, tuple(map(str, targets)))
