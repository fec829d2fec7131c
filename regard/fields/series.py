"""Windows of time series: standardized values, marks of missing ones, and covariates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from regard.core.codec_files import open_codec_file, save_codec_file
from regard.core.columns import is_table
from regard.core.field import EncodedRow, EncodedRows, FieldBase, Hidden, is_number_array
from regard.core.observation import SurfaceKind, SurfaceNumbers
from regard.core.task import Report, RunFiles
from regard.data.rows import Row
from regard.data.series_arrays import encode_series, sequences
from regard.data.series_files import SeriesColumns
from regard.data.series_input import parse_series, require_fit, series_in_text, series_of, series_text
from regard.data.time_series import Scales, Series, SeriesWindow, Values
from regard.errors import DataError

FILE = "series.json"


class SeriesBatch(NamedTuple):
    """Rows of windows: values (rows, sequences, back, features), valid, and future covariates (rows, ahead, known)."""

    values: Tensor
    valid: Tensor
    future: Tensor
    answered: None = None

    def by_row(self, values: Tensor) -> Sequence[Tensor]:
        return values.unbind()


class SeriesWindows(FieldBase):
    """Windows (back + ahead, numbers) of ``data.series_arrays.encode_series``: views of the whole series.

    A row also holds the predicted values, which ``pad`` leaves out.

    Args:
        back, ahead: time steps of the history and of the forecast.
        together: whether all series of a table are one sequence; otherwise each one is.
        columns: how tables of requests are read.
        positions: encoded positions of a history; 0: one for each time step.
    """

    reads_json = True
    packed = False
    kind: ClassVar[SurfaceKind] = "series"
    hiding: ClassVar[str] = "replaced by the mean of the history"
    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".tsv")
    contents: ClassVar[Literal["table"]] = "table"

    def __init__(self, *, back: int, ahead: int, together: bool, columns: SeriesColumns, positions: int = 0) -> None:
        self.columns: tuple[int | str, ...] = ("history",)
        self.back, self.ahead, self.together, self.table = back, ahead, together, columns
        self.scales, self.positions = Scales({}, 1, ()), positions or back
        self._encoded: WeakKeyDictionary[Series, Values] = WeakKeyDictionary()

    @property
    def sizes(self) -> Mapping[str, int]:
        series, scale = len(self.scales.targets), self.scales.any
        own = 2 * (series if self.together else 1)  # values and marks of missing ones
        known = {"known": self.known} if self.known else {}
        return {"targets": series, "features": own + scale.past.shape[1] + self.known, **known}

    @property
    def known(self) -> int:
        """The number of covariates that are known in advance."""
        return int(self.scales.any.known.shape[1])

    def value(self, row: Row) -> SeriesWindow:
        window: Any = row.cells["history"]
        return window

    def accept(self, value: Any, where: str | None = None) -> SeriesWindow:
        if not isinstance(value, SeriesWindow):
            series = series_of(value, self.table, where)
            value = SeriesWindow(series, len(series), self.back, self.ahead)
        if self.scales.scales:
            require_fit(value, self.scales)
        return value

    def is_value(self, value: Any) -> bool:
        return isinstance(value, Series | SeriesWindow) or is_table(value) or is_number_array(value, 2)

    def parse(self, text: str) -> SeriesWindow:
        return self.accept(parse_series(text, self.table))

    def read_file(self, contents: bytes, name: str) -> SeriesWindow:
        try:
            text = contents.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise DataError("the table is not UTF-8", where=name, why=str(error)) from error
        return self.accept(series_in_text(text, name, self.table), name)

    def learn(self, run: RunFiles, values: Sequence[SeriesWindow], log: Report) -> SeriesWindows:
        save_codec_file(run.tokenizers / FILE, Scales.learn(values, None).to_json())
        return self.open(run)

    def open(self, run: RunFiles) -> SeriesWindows:
        self.scales = open_codec_file(run.tokenizers / FILE, Scales.from_json)
        return self

    def encode(self, values: Sequence[SeriesWindow]) -> EncodedRows:
        rows = [self._numbers(window.series)[window.end - self.back : window.end + self.ahead] for window in values]
        return EncodedRows(rows, [False] * len(rows))

    def _numbers(self, series: Series) -> Values:
        """Return (rows + ahead, numbers) of a whole series, computed once."""
        if series not in self._encoded:
            self._encoded[series] = encode_series(series, self.scales.of(series), self.ahead)
        return self._encoded[series]

    def parts(self, row: EncodedRow) -> list[EncodedRow]:
        return [*sequences(row[None, : self.back], len(self.scales.targets), together=self.together)[0]]

    def pad(self, rows: Sequence[EncodedRow]) -> SeriesBatch:
        table = np.stack(rows)
        future = table[:, self.back :, table.shape[2] - self.known :]
        values = torch.from_numpy(sequences(table[:, : self.back], len(self.scales.targets), together=self.together))
        return SeriesBatch(values, torch.ones(values.shape[:3], dtype=torch.bool), torch.from_numpy(future))

    def labels(self, row: EncodedRow) -> tuple[str, ...]:
        return tuple(f"{number - self.back:+d}" for number in range(1, len(row) + 1))

    def unpad(self, row: EncodedRow, values: Tensor) -> Tensor:
        return values.flatten()

    def numbers(self, value: SeriesWindow, row: EncodedRow) -> SurfaceNumbers:
        return SurfaceNumbers(value.history, value.series.targets)

    def hidden(self, value: SeriesWindow, row: EncodedRow) -> list[list[Hidden | None]]:
        series, variants = len(self.scales.targets), list[Hidden | None]()
        mean = row[: self.back, :series].mean(0)
        for step in range(self.back):
            other = row.copy()
            other[step, :series] = mean
            variants.append(Hidden(other, value))
        return [variants]

    def text(self, value: SeriesWindow) -> str:
        return series_text(value)

    def summary(self, value: SeriesWindow) -> str:
        return f"{value.series.name} before {value.series.labels([value.end])[0]}"

    def cost(self, value: SeriesWindow) -> int:
        return (1 if self.together else len(self.scales.targets)) * self.positions**2
