"""``regard anomalies``: rows of series, or lines of texts, that a trained model did not expect."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.commands.options import CheckpointName, DeviceName, Run, Threads, epilog, open_predictor
from regard.core.wording import pluralize

if TYPE_CHECKING:
    from regard.metrics.events import EventMetrics, Window
    from regard.tasks.forecasting.anomalies import Anomalies

EXAMPLES = epilog(
    "regard anomalies runs/load load.csv --false-alarms 1/week",
    "regard anomalies runs/servers metrics/ --false-alarms 1/day --plot alarms.png",
    "regard anomalies runs/servers metrics/ --windows incidents.json",
    "regard anomalies runs/log access.log --false-alarms '1/1000 rows'",
)
BUDGETS = ("1/month", "1/week", "2/week", "1/day", "2/day")
Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE", help="Tables of series, folders of them, or texts for a language model."),
]
Budget = Annotated[
    str,
    typer.Option(
        "--false-alarms",
        metavar="N/TIME",
        help="Raise at most this number of alarms: 1/week, 2/day, or 1/1000 rows.",
    ),
]
Windows = Annotated[
    Path | None,
    typer.Option(
        "--windows",
        metavar="FILE",
        help="Measure the alarms on these events: JSON with a list of [start, end] for each series.",
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw values, forecasts and alarms to a .png or .svg file."),
]
Over = Annotated[
    int,
    typer.Option(
        "--over", min=1, metavar="ROWS", help="Average the scores of this number of rows, for lasting faults."
    ),
]
Level = Annotated[bool, typer.Option("--level", help="Add the distance of a value from the usual level of its series.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object for each alarm.", rich_help_panel="Output")]


def register(app: typer.Typer) -> None:
    """Add ``regard anomalies`` to the command line."""
    app.command("anomalies", epilog=EXAMPLES)(anomalies)


def anomalies(
    run: Run,
    files: Files,
    *,
    budget: Budget = "1/week",
    over: Over = 1,
    level: Level = False,
    windows: Windows = None,
    plot: Plot = None,
    as_json: AsJson = False,
    checkpoint: CheckpointName = None,
    device: DeviceName = None,
    threads: Threads = None,
) -> None:
    """Find rows of series, or lines of a text, that a trained model did not expect.

    The threshold of each series follows from a budget of false alarms, never from labels: the alarms are its highest
    scores. The score of a row is the distance of its value from the forecast, in units of the usual distance. The score
    of a line is its bits per byte.
    """
    from regard.runs.run_folder import RunFolder
    from regard.tasks.load import require_task

    folder = RunFolder.open(run)
    if folder.task.scores == "texts":
        _refuse({"--over": over > 1, "--level": level, "--windows": windows is not None, "--plot": plot is not None})
        model = open_predictor(run, checkpoint=checkpoint, device=device, threads=threads)
        return _print_lines(model, files, budget, as_json=as_json)
    require_task(folder, "forecasting")
    model = open_predictor(run, checkpoint=checkpoint, device=device, threads=threads)
    results = _results(model, files, budget, over=over, level=level)
    for result in results:
        for alarm in result.alarms:
            record = {"series": result.scored.series.name, **alarm._asdict()}
            values = record.values()
            print(json.dumps(record) if as_json else "\t".join(_cell(value) for value in values))
    sys.stdout.flush()
    if windows is not None:
        _print_measures(results, read_windows(windows), budget)
    if plot is not None:
        from regard.commands.forecast import require_plot
        from regard.core.figure import require_drawing
        from regard.inspection.anomaly_pictures import draw_anomalies

        require_plot(plot)
        require_drawing("--plot")
        draw_anomalies(results, plot, title=f"{run}, alarms {budget}")
    return None


def _refuse(options: Mapping[str, bool]) -> None:
    """Raise ConfigError for an option of series that was given for texts."""
    from regard.errors import ConfigError

    for option in (name for name, is_set in options.items() if is_set):
        why = "lines of a text have no values, dates or neighbors"
        raise ConfigError(f"{option} is for series", why=why, help=f"leave out {option}")


def _results(model: Any, files: Sequence[Path], budget: str, *, over: int, level: bool) -> list[Anomalies]:
    """Return the alarms of each series of tables and of folders of tables."""
    from regard.tasks.forecasting.anomalies import alarms_for, score_series
    from regard.tasks.forecasting.automatic_config import tables_of
    from regard.tasks.forecasting.parts import series_in

    series = [one for path in tables_of(files) for one in series_in(path, model.config.data)]
    return [alarms_for(score_series(model, one, over=over, level=level), budget) for one in series]


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def read_windows(path: Path) -> dict[str, list[list[str]]]:
    """Return the events of each series: a list of [start, end] by the end of its file name. Raises DataError."""
    from regard.core.untrusted_files import LARGE, parse_json, read_bytes
    from regard.errors import DataError

    try:
        saved = parse_json(read_bytes(path, LARGE))
        if not isinstance(saved, dict):
            raise ValueError("it is not an object")
        events = {str(name): [[str(start), str(end)] for start, end in own] for name, own in saved.items()}
    except (OSError, TypeError, ValueError) as error:
        help = 'write {"load.csv": [["2020-01-01 10:00:00", "2020-01-01 12:00:00"]]}'
        raise DataError("cannot read the events", where=str(path), why=str(error), help=help) from error
    return events


def _print_measures(results: Sequence[Anomalies], events: Mapping[str, list[list[str]]], budget: str) -> None:
    """Print recall, precision, false alarms and delays for the budget and for others."""
    from regard.tasks.forecasting.anomalies import alarms_for

    print(f"\n{'budget':<14}recall  precision  false alarms/day  median delay (rows)")
    for name in dict.fromkeys([budget, *BUDGETS]):
        total = _measured([alarms_for(result.scored, name) for result in results], events)
        if not total.events:
            print("no event is in the scored rows")
            return
        delay = sorted(total.delays)[len(total.delays) // 2] if total.delays else "–"
        figures = f"{total.recall:6.2f}  {total.precision:9.2f}  {total.false_alarms_per_day:16.4f}  {delay:>19}"
        print(f"{name:<14}{figures}")
    size = f"{pluralize(total.events, 'event')}, {pluralize(round(total.days), 'day')}"
    print(f"{size}; an event counts as found at its first alarm")


def _measured(results: Sequence[Anomalies], events: Mapping[str, list[list[str]]]) -> EventMetrics:
    from regard.metrics.events import EventMetrics, event_metrics

    total = EventMetrics(0, 0, 0, 0, 0.0, ())
    for result in results:
        rows = [alarm.row for alarm in result.alarms]
        total = total.joined(event_metrics(rows, event_rows(result, events), result.scored.days))
    return total


def event_rows(result: Anomalies, events: Mapping[str, list[list[str]]]) -> list[Window]:
    """Return the events of a series as rows, without those that end before the scored rows."""
    import numpy as np

    from regard.data.series_files import parse_date
    from regard.errors import DataError

    series, first = result.scored.series, result.scored.first
    own = next(
        (dates for name, dates in events.items() if f"/{series.file.removesuffix('.gz')}".endswith(f"/{name}")), []
    )
    seconds = series.seconds(range(len(series))) if series.start is not None else np.arange(len(series))
    windows = []
    for start, end in own:
        begin, last = (parse_date(date.split(".")[0]) for date in (start, end))
        if begin is None or last is None:
            raise DataError(f"cannot read the event {start} to {end}", where=series.file, help="2020-01-01 10:00:00")
        rows = int(np.searchsorted(seconds, begin)), int(np.searchsorted(seconds, last, side="right"))
        if rows[1] > first:
            windows.append((max(rows[0], first), rows[1]))
    return windows


def _print_lines(model: Any, files: Sequence[Path], budget: str, *, as_json: bool) -> None:
    """Print the lines of texts with the highest bits per byte."""
    import numpy as np

    from regard.data.text_files import read_lines
    from regard.errors import DataError, RegardError
    from regard.metrics.events import alarm_rows
    from regard.tasks.forecasting.anomalies import rows_in

    for path in files:
        lines = list(read_lines(path))
        allowed = round(rows_in(budget, len(lines)))
        scores = np.full(len(lines), -np.inf)
        for row, line in enumerate(lines):
            if line.strip():
                try:
                    scores[row] = model.score(line).bits_per_byte
                except RegardError as error:
                    where = f"{path}:{row + 1}"
                    raise DataError(error.what, where=where, why=error.why, help=error.help) from error
        for row in alarm_rows(scores, allowed, 0):
            record = {"file": str(path), "line": row + 1, "bits_per_byte": float(scores[row]), "text": lines[row]}
            print(json.dumps(record, ensure_ascii=False) if as_json else "\t".join(map(_cell, record.values())))
