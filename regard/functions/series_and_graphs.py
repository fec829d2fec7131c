"""The verbs that predict series and graphs, as functions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from regard.answers.forecast_table import Forecast
from regard.functions.opening import RunPath, load_options, open_model, predict_with, without_none
from regard.tasks.forecasting.anomalies import Anomalies, alarms_for, score_series
from regard.tasks.forecasting.automatic_config import tables_of
from regard.tasks.forecasting.parts import series_in, window_at
from regard.tasks.input_files import paths_in
from regard.tasks.links.linker import BestLinks, Link
from regard.tasks.nodes.classifier import NodeClass


def forecast(
    run: RunPath, tables: Any, *, begin: str | None = None, checkpoint: str | None = None, device: str | None = None,
    threads: int | None = None, **settings: Any,
) -> list[Forecast]:  # fmt: skip
    """Predict the next values of series: ``regard.forecast("runs/load", table)[0].columns["load"]``.

    Args:
        run: the run folder.
        tables: a table or an array of one series, a list of them, or the paths of files.
        begin: the date at which the forecasts of files begin. Default: after the last row.
        checkpoint: see ``regard.load``.
        device: see ``regard.load``.
        threads: see ``regard.predict``.
        settings: ``horizon`` and ``level``.
    """
    loading = load_options(checkpoint, device, threads)
    if not (paths := paths_in(tables)):
        return predict_with(run, tables, ("forecasting",), None, loading, settings)
    model: Any = open_model(run, ("forecasting",), loading)
    data = model.config.data
    windows = [window_at(series, begin, data) for path in paths for series in series_in(path, data)]
    return cast("list[Forecast]", model.predict(windows, **without_none(settings)))


def anomalies(
    run: RunPath, *files: str | Path, budget: str = "1/week", over: int = 1, level: bool = False,
    checkpoint: str | None = None, device: str | None = None, threads: int | None = None,
) -> list[Anomalies]:  # fmt: skip
    """Find the rows of series that a forecaster did not expect: ``regard.anomalies("runs/load", "new.csv")[0].alarms``.

    Args:
        run: the run folder.
        files: tables, or folders of tables.
        budget: the allowed false alarms, such as ``1/week`` or ``3/1000 rows``.
        over: the number of rows whose scores are averaged.
        level: whether values count that stay where they rarely are.
        checkpoint: see ``regard.load``.
        device: see ``regard.load``.
        threads: see ``regard.predict``.
    """
    model: Any = open_model(run, ("forecasting",), load_options(checkpoint, device, threads))
    series = [one for path in tables_of([Path(file) for file in files]) for one in series_in(path, model.config.data)]
    return [alarms_for(score_series(model, one, over=over, level=level), budget) for one in series]


def nodes(
    run: RunPath, inputs: Any, *, column: str | None = None, checkpoint: str | None = None, device: str | None = None,
    threads: int | None = None,
) -> list[NodeClass]:  # fmt: skip
    """Classify nodes of the graph of a run: ``regard.nodes("runs/cora", ["31336"])[0].label``.

    Args:
        run: the run folder.
        inputs: see ``regard.predict``; an input is the name of a node.
        column: see ``regard.predict``.
        checkpoint: see ``regard.load``.
        device: see ``regard.load``.
        threads: see ``regard.predict``.
    """
    return predict_with(run, inputs, ("nodes",), column, load_options(checkpoint, device, threads), {})


def links(
    run: RunPath, inputs: Any = (), *, top_k: int | None = None, missing: int | None = None,
    column: str | Sequence[str] | None = None, checkpoint: str | None = None, device: str | None = None,
    threads: int | None = None,
) -> list[Link | BestLinks]:  # fmt: skip
    """Predict links of the graph of a run: ``regard.links("runs/papers", [("17", "90")])[0].probability``.

    Args:
        run: the run folder.
        inputs: see ``regard.predict``; an input is a tuple of two names, or one name.
        top_k: the number of links of one node.
        missing: return this number of the most probable missing links instead.
        column: see ``regard.predict``.
        checkpoint: see ``regard.load``.
        device: see ``regard.load``.
        threads: see ``regard.predict``.
    """
    loading = load_options(checkpoint, device, threads)
    if missing is None:
        return predict_with(run, inputs, ("links",), column, loading, {"top_k": top_k})
    model: Any = open_model(run, ("links",), loading)
    return list(model.missing(missing))


def graphs(
    run: RunPath, inputs: Any, *, column: str | Sequence[str] | None = None, checkpoint: str | None = None,
    device: str | None = None, threads: int | None = None,
) -> list[Any]:  # fmt: skip
    """Classify whole graphs, or predict their number: ``regard.graphs("runs/rings", {"edges": [[0, 1]]})[0].label``.

    Args:
        run: the run folder.
        inputs: see ``regard.predict``; an input is a dict, as in a line of a file.
        column: see ``regard.predict``.
        checkpoint: see ``regard.load``.
        device: see ``regard.load``.
        threads: see ``regard.predict``.

    Returns:
        A ``ClassPrediction`` or ``NumberPrediction`` for each graph.
    """
    return predict_with(run, inputs, ("graphs",), column, load_options(checkpoint, device, threads), {})
