"""Forecasting: predict the next values of one or several series from the values before them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from torch import nn

from regard.answers.forecast import FuturePoints, FutureValues
from regard.baselines.series_ridge import SeriesRidge
from regard.core.field import InputBatch
from regard.core.task import Card, Data, ProgressCallback, RunFiles
from regard.data.lint.check import LintReport
from regard.data.lint.tables import lint_tables
from regard.data.rows import Column
from regard.data.series_input import series_text
from regard.data.time_series import SeriesWindow
from regard.fields.series import SeriesBatch, SeriesWindows
from regard.metrics.forecast import distribution
from regard.models.build import build_forecaster
from regard.models.forecaster import ForecastNet, ForecastSizes
from regard.tasks.forecasting.config import ForecastingConfig
from regard.tasks.forecasting.data_config import SeriesFiles
from regard.tasks.forecasting.parts import series_of, window_rows
from regard.tasks.forecasting.predictor import ForecastPredictor
from regard.tasks.net_outputs import NetOutputs
from regard.tasks.row_inputs import forward_form
from regard.tasks.supervised import Supervised
from regard.tasks.supervised_wording import Wording


def _field(config: ForecastingConfig) -> SeriesWindows:
    data, together = config.data, config.model.channels == "together"
    positions = config.encoded_length(data.look_back)
    return SeriesWindows(
        back=data.look_back, ahead=data.horizon, together=together, columns=data.columns, positions=positions
    )


def _answer(config: ForecastingConfig) -> FutureValues:
    kind = distribution(config.model.output, config.model.quantiles)
    answer = FuturePoints if config.model.output == "point" else FutureValues
    return answer(kind, ahead=config.data.horizon, season=config.data.season)


def _baseline(config: ForecastingConfig) -> SeriesRidge:
    levels = {"point": (), "gaussian": None}.get(config.model.output, config.model.quantiles)
    return SeriesRidge(back=config.data.look_back, ahead=config.data.horizon, levels=levels)


def _build(config: ForecastingConfig, spec: Mapping[str, int]) -> ForecastNet:
    model, data = config.model, config.data
    positions = model.encoder.input.positions(data.look_back)
    sizes = ForecastSizes(
        data.look_back, data.horizon, spec["targets"], model.numbers, spec.get("known", 0), positions, model.patch
    )
    return build_forecaster(model, sizes, features=spec["features"])


def _initialize(run: RunFiles, net: nn.Module, data: Data) -> None:
    """Set the linear map to the ridge regression that was fitted on the training part."""
    network, baseline = cast("ForecastNet", net), TASK.open_baseline(run, data.codecs)
    if network.skip is not None and baseline is not None:
        ridge: Any = cast("Any", baseline).model
        network.start_skip(network.skip.weight.new_tensor(ridge.weights))


def _run_network(net: nn.Module, inputs: Mapping[str, InputBatch]) -> NetOutputs:
    """Call a forecaster with the only field of a batch."""
    batch = cast("SeriesBatch", inputs["series"])
    return NetOutputs(net(batch.values, batch.valid, batch.future), {})


def _row_inputs(config: ForecastingConfig, path: Path, columns: Sequence[Column]) -> Iterator[tuple[str, str]]:
    """Yield each series of a file, as the input whose forecast follows its end."""
    for series in series_of([SeriesFiles(source=path)], config.data.columns):
        back = min(config.data.look_back, len(series))
        yield f"{series.file}: {series.name}", series_text(SeriesWindow(series, len(series), back, config.data.horizon))


def _sample(folder: Path) -> dict[str, Any]:
    """Write two series whose values repeat after four steps, with a trend and a gap."""
    rows = ["date,load,heat"]
    for step in range(40):
        wave = np.sin(2 * np.pi * step / 4)
        rows.append(f"2020-01-{1 + step // 24:02d} {step % 24:02d}:00:00,{wave + step / 40:.3f},{3 - wave:.3f}")
    rows[12] = rows[12].rsplit(",", 1)[0] + ","
    (folder / "sample.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    source = str(folder / "sample.csv")
    parts = {"train": [{"source": source, "period": "train"}], "valid": [{"source": source, "period": "valid"}]}
    return {
        "data": {**parts, "horizon": 2, "look_back": 8, "season": 4, "valid_from": 24, "test_from": 32},
        "model": {
            "layers": 1, "width": 8, "feed_forward": 8, "heads": 2, "skip": "linear",
            "encoder": {"input": {"patch": 4, "stride": 2}},
        },
        "train": {"batch_tokens": 40},
    }  # fmt: skip


def _held_out_samples(folder: Path, sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    configs = []
    for number, scale in enumerate((1.0, 50.0)):
        path = folder / f"held-out-{number}.csv"
        lines = [f"2021-01-01 {hour:02d}:00:00,{scale * hour},{scale * (hour % 3)}" for hour in range(14 - 2 * number)]
        path.write_text("\n".join(["date,load,heat", *lines]) + "\n", encoding="utf-8")
        configs.append({**sample, "data": {**sample["data"], "valid": [{"source": str(path)}]}})
    return configs


FORECASTING = Supervised(
    fields=lambda config: {"series": _field(config)},
    answer=_answer,
    answers=(FutureValues, FuturePoints),
    rows=lambda data, corpora: window_rows(data, cast("Any", corpora)),
    noun="window",
    wording=Wording("time step"),
    network=_run_network,
    predictor=ForecastPredictor,
    baseline=_baseline,
)


def _lint(config: ForecastingConfig, max_findings: int, progress: ProgressCallback) -> LintReport:
    tables = series_of(config.data.train, config.data.columns)
    return lint_tables(tables, max_findings=max_findings, progress=progress)


_LINE = '{"values": [[1, 2], [2, 3], [3, 2], [2, 1], [1, 2], [2, 3], [3, null], [2, 1], [1, 2]]}'
TASK = FORECASTING.task(
    name="forecasting",
    unit="windows",
    serves=frozenset({"forecast"}),
    build=_build,
    small_spec={"targets": 2, "features": 2, "outputs": 2},
    sample=_sample,
    held_out_samples=_held_out_samples,
    row_inputs=_row_inputs,
    export_form=lambda config: forward_form(config, _row_inputs),
    initialize=_initialize,
    lint=_lint,
    sample_lines=(_LINE, _LINE.replace("[1, 2]]", "[4, 0.5]]")),
    card=Card("time-series-forecasting", 'print(model([table])[0].columns["…"])', "forecast {run} table.csv"),
)
