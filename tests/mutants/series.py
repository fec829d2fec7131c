"""Wrong versions of windows, scales and forecasts of series, each with the test that catches it."""

from __future__ import annotations

from collections.abc import Callable

from regard.answers.forecast import FutureValues
from regard.data.series_files import _with_calendar
from regard.data.time_series import Series, SeriesWindow, windows
from regard.fields.series import SeriesWindows
from regard.models.forecaster import ForecastNet
from regard.models.frame_input import PatchInput
from tests.data import test_time_series
from tests.hand import test_forecast

from .editing import Edit
from .table import Mutant

__all__ = ["SERIES"]

READS: Callable[..., None] = test_forecast.test_the_network_reads_the_rows_before_the_forecast_only
EVERY: Callable[..., None] = test_time_series.test_every_window_of_a_part_is_read_with_the_history_before_it
DECODED: Callable[..., None] = test_forecast.test_a_decoder_reads_the_patches_that_it_has_written

SERIES = {
    "a history one step ahead": Mutant(
        Edit(
            SeriesWindow.history.fget,  # type: ignore[attr-defined]
            "[self.end - self.back : self.end]", "[self.end - self.back + 1 : self.end + 1]",
        ),
        EVERY,
    ),
    "a window one step ahead": Mutant(
        Edit(
            SeriesWindows.encode, "[window.end - self.back : window.end + self.ahead]",
            "[window.end - self.back + 1 : window.end + self.ahead + 1]",
        ),
        READS,
    ),
    "predicted values in the input": Mutant(
        Edit(SeriesWindows.pad, "sequences(table[:, : self.back]", "sequences(table[:, -self.back :]"), READS
    ),
    "a forecast from before the last row": Mutant(
        Edit(SeriesWindows.accept, "SeriesWindow(series, len(series),", "SeriesWindow(series, len(series) - 1,"), READS
    ),
    "a scaler over all rows": Mutant(
        Edit(Series.training.fget, "self.values[: self.borders[0]]", "self.values"),  # type: ignore[attr-defined]
        test_time_series.test_the_scale_is_that_of_the_training_part,
    ),
    "the last window of a part dropped": Mutant(Edit(windows, "stop - ahead + 1", "stop - ahead"), EVERY),
    "windows that begin in the part": Mutant(Edit(windows, "max(begin, back)", "begin + back"), EVERY),
    "quantiles that cross": Mutant(
        Edit(ForecastNet._numbers, "steps = softplus(raw)", "steps = raw"),
        test_forecast.test_quantiles_never_cross_and_the_middle_one_is_free,
    ),
    "a decoder that reads the history's last patch for ever": Mutant(
        Edit(ForecastNet._by_patch, "read = torch.cat([read, written], 1)", "read = torch.cat([read, read[:, :1]], 1)"),
        DECODED, {"kind": "transformer", "together": False},
    ),
    "a patch with padding": Mutant(
        Edit(PatchInput.forward, "_masked(inputs, span.valid)", "inputs"), test_forecast.test_patches_by_hand
    ),
    "a calendar that ends with the table": Mutant(
        Edit(_with_calendar, "0 if options.known else options.ahead", "0"),
        test_time_series.test_the_calendar_goes_on_after_the_table,
    ),
    "a loss of missing values": Mutant(
        Edit(FutureValues.loss, "torch.where(observed, self.distribution.loss(numbers, true), 0.0)",
             "self.distribution.loss(numbers, true)"),
        test_forecast.test_missing_values_have_no_loss,
    ),
}  # fmt: skip
