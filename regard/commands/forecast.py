"""``regard forecast``: predict the next values of the series of a table, as a CSV and as a picture."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.commands.options import CheckpointName, DeviceName, Run, Threads, epilog, open_predictor
from regard.commands.setting_options import takes_settings
from regard.config.prediction_settings import ForecastSettings

if TYPE_CHECKING:
    from regard.answers.forecast_table import Forecast
    from regard.data.time_series import SeriesWindow

EXAMPLES = epilog(
    "regard forecast runs/etth1 ETTh1.csv > next.csv",
    "regard forecast runs/etth1 ETTh1.csv --from 2018-03-01 --plot march.png",
    "regard forecast runs/sales sales.csv --horizon 7 --level 60 --json",
)
Table = Annotated[
    list[Path],
    typer.Argument(metavar="FILE", help="Tables of series: CSV, TSV, Parquet, or an .npz with an array x."),
]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="DATE", help="Forecast from this date on, from the rows before it."),
]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw history, forecast and band to this .png or .svg file."),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object for each series.", rich_help_panel="Output")
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file.", rich_help_panel="Output")
]


def register(app: typer.Typer) -> None:
    """Add ``regard forecast`` to the command line."""
    app.command("forecast", epilog=EXAMPLES)(forecast)


@takes_settings("settings", ForecastSettings)
def forecast(
    run: Run,
    files: Table,
    *,
    settings: dict[str, Any],
    begin: From = None,
    plot: Plot = None,
    as_json: AsJson = False,
    output: Output = None,
    checkpoint: CheckpointName = None,
    device: DeviceName = None,
    threads: Threads = None,
) -> None:
    """Predict the next values of each series of a table with a trained forecaster.

    The output is a CSV: the date, and for each series its forecast and both ends of its band. A table of several series
    adds a column with their names. Without --from, the forecast begins after the last row.
    """
    from regard.core.atomic_files import write_bytes_atomically
    from regard.core.figure import require_drawing
    from regard.runs.run_folder import RunFolder
    from regard.tasks.forecasting.parts import series_in, window_at
    from regard.tasks.load import require_task

    require_task(RunFolder.open(run), "forecasting")
    if plot is not None:
        require_plot(plot)
        require_drawing("--plot")
    model = open_predictor(run, checkpoint=checkpoint, device=device, threads=threads)
    data = model.config.data
    windows = [window_at(series, begin, data) for path in files for series in series_in(path, data)]
    chosen = {name: value for name, value in settings.items() if value is not None}
    forecasts = model(windows, **chosen)
    text = "".join(_lines(windows, forecasts, as_json=as_json))
    if output is None:
        sys.stdout.write(text)
    else:
        write_bytes_atomically(output, text.encode())
    if plot is not None:
        from regard.inspection.forecast_pictures import draw_forecasts

        draw_forecasts(windows, forecasts, plot, title=f"{run}, forecast from {begin or 'the last row'}")


def require_plot(path: Path) -> None:
    """Raise ConfigError unless the name ends in .png or .svg."""
    from regard.errors import ConfigError

    if path.suffix.lower() not in (".png", ".svg"):
        raise ConfigError("pictures are .png or .svg files", where=f"--plot {path}", help="--plot forecast.png")


def _lines(windows: Sequence[SeriesWindow], forecasts: Sequence[Forecast], *, as_json: bool) -> list[str]:
    """Return the lines of the output, each with its line end."""
    if as_json:
        return [f"{forecast.to_json()}\n" for forecast in forecasts]
    from io import StringIO

    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    several = len(windows) > 1
    for number, (window, forecast) in enumerate(zip(windows, forecasts, strict=True)):
        if not number:
            writer.writerow([*(["unique_id"] if several else []), "date", *forecast.columns])
        for date, *values in zip(forecast.dates, *forecast.columns.values(), strict=True):
            name = [window.series.name] if several else []
            writer.writerow([*name, date, *(f"{value:.7g}" for value in values)])
    return [out.getvalue()]
