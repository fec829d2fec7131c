"""The section ``data`` of a forecaster: tables of series, their columns, and the borders of their parts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from regard.data.file_names import FileNames, summarize
from regard.data.series_files import SeriesColumns
from regard.runs.run_config import DataSection

MAX_STEPS = 1 << 16
MAX_ROWS = 1 << 29  # of a series
Name = Annotated[str, Field(min_length=1)]
BORDER = "a share of the rows, a number of rows, or a date"


def _as_border(value: Any) -> Any:
    """Raise ValueError unless a value is a border; a union of types would give a reason for each of them."""
    share, rows = type(value) is float and 0 < value < 1, type(value) is int and 1 <= value <= MAX_ROWS
    if not (share or rows or (isinstance(value, str) and any(map(str.isdigit, value)))):
        raise ValueError(f"it should be {BORDER}, such as 0.8, 8640 or 2017-06-26")
    return value


Border = Annotated[float | int | str, BeforeValidator(_as_border)]


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Names = Annotated[tuple[Name, ...], BeforeValidator(_as_list)]


class SeriesFiles(BaseModel):
    """Tables of series, and the part of each of them, in time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: FileNames = Field(description="a file, a list of files, or a pattern such as `part-*.csv`")
    period: Literal["all", "train", "valid", "test"] = Field(
        "all", description="part of each series, by data.valid_from and data.test_from"
    )

    @property
    def name(self) -> str:
        """The name of the first file."""
        return summarize(self.source)

    @property
    def share(self) -> tuple[float, float]:
        """The part by a hash, as other corpora have it: all of it."""
        return (0.0, 1.0)


class SeriesDataConfig(DataSection):
    """Tables of series, their columns, the look-back and the horizon."""

    train: tuple[SeriesFiles, ...]  # empty for a model without data
    valid: tuple[SeriesFiles, ...] | None = None
    horizon: int = Field(24, ge=1, le=MAX_STEPS, description="time steps to predict")
    look_back: int = Field(96, ge=1, le=MAX_STEPS, description="time steps that the model reads")
    time: Name | None = Field(None, description="column of dates; unset: `date`, `ds`, `timestamp` or a similar name")
    id: Name | None = Field(None, description="column of ids of a long table; unset: `unique_id`, next to `ds`")
    targets: Names = Field(
        (), description="columns to predict; unset: `y` of a long table, all columns of numbers of others"
    )
    known: Names = Field((), description="columns that are known in advance, also for the predicted time steps")
    covariates: bool = Field(False, description="read all further columns of numbers as covariates of the past")
    calendar: tuple[Literal["hour", "weekday", "day", "month"], ...] = Field(
        (), description="parts of the date to read: place in the day, week, month or year, as sine and cosine"
    )
    times: Literal["regular", "order"] = Field(
        "regular",
        description="`regular`: rows are at equal distances, and missing ones are filled; `order`: rows follow each "
        "other, at any distance",
    )
    scale: Literal["series", "none"] = Field(
        "series",
        description="`series`: each series is standardized by its training part, and errors are in its deviations; "
        "`none`: values and errors keep their unit, such as the pixels of a video",
    )
    max_gaps: float = Field(0.1, ge=0, lt=1, description="maximum share of missing rows")
    season: int | None = Field(
        None,
        ge=1,
        le=MAX_STEPS,
        description="period of MASE and of seasonal baselines, in time steps; unset: a day of a table with several "
        "rows a day, else a week or a year",
    )
    stride: int = Field(1, ge=1, le=MAX_STEPS, description="time steps between two windows of training")
    valid_from: Border = Field(0.8, description=f"begin of the validation part: {BORDER}")
    test_from: Border = Field(0.9, description=f"begin of the test part: {BORDER}")
    test_until: Border | None = Field(None, description=f"end of the test part: {BORDER}; unset: the end of the series")

    @property
    def max_length(self) -> int:
        """Time steps of a window with its horizon."""
        return self.look_back + self.horizon

    @property
    def columns(self) -> SeriesColumns:
        """The columns of the tables."""
        return SeriesColumns(
            self.time, self.id, self.targets, self.known, self.covariates, self.calendar, self.max_gaps,
            self.times == "order", self.horizon, self.scale == "series",
        )  # fmt: skip

    def test_part(self, file: Path) -> dict[str, Any]:
        """Return the keys that select what an evaluation reads of a file: the test part of a table that was divided."""
        divided = any(corpus.period != "all" for corpus in self.train)
        return {"period": "test"} if divided else {}
