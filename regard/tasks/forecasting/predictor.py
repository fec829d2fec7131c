"""The predictor of forecasts: tables in, tables out, and their pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from regard.answers.forecast_table import Forecast
from regard.attention.observe import attention_maps
from regard.attention.weight_terms import AttentionCall
from regard.core.answer import InputContext
from regard.core.observation import WHOLE, AttentionMap, Axis, Observation, Prediction, Surface, SurfaceNumbers
from regard.core.predictor_interface import InputForm, PredictorInterface
from regard.core.wording import pluralize
from regard.data.time_series import SeriesWindow
from regard.tasks.net_outputs import encoded_labels
from regard.tasks.supervised_codecs import Row
from regard.tasks.supervised_predictor import SupervisedPredictor


class ForecastPredictor(SupervisedPredictor[Forecast]):
    """A trained network and the scales of its series: ``regard.load("runs/etth1")([table])[0].columns["OT"]``.

    An input is a table of pandas or pyarrow, an array (rows, columns), or a JSON line; the forecast follows its last
    row.
    """

    @property
    def interface(self) -> PredictorInterface:
        own, data = super().interface, self.config.data
        targets = self.codec.answer.scales.targets  # type: ignore[attr-defined]
        names = ", ".join(targets[:4]) + (", …" if len(targets) > 4 else "")
        takes = f'a table with a column of dates, as {{"table": CSV}}; its last {data.look_back} rows are read'
        gives = f"the next {pluralize(data.horizon, 'row')} of {names}"
        purpose = f"Predicts the next {pluralize(data.horizon, 'time step')} of {names}."
        return own._replace(takes=takes, gives=gives, purpose=purpose, form=InputForm("table"))

    def _decoder_maps(
        self, calls: Mapping[str, AttentionCall], values: tuple[Any, ...]
    ) -> tuple[list[AttentionMap], Mapping[str, AttentionCall]]:
        """Return the attention of each patch that a decoder writes, to the patches before it and to the history."""
        window: SeriesWindow = values[0]
        own = {name: call for name, call in calls.items() if name.split(".")[0] == "decoder"}
        history = window.series.labels(range(window.end - window.back, window.end))
        dates = window.series.labels(range(window.end, window.end + self.config.data.horizon))
        written, read = _ranges(dates, self.config.model.patch), encoded_labels(self.net, history)
        last = _ranges(history[-self.config.model.patch :], self.config.model.patch)
        maps: list[AttentionMap] = []
        for name, call in own.items():
            key = read if name.endswith("source") else (*last, *written[:-1])
            axes = Axis("written time step", written), Axis("time step attended to", key)
            for row in range(len(call.weights)):
                (table,) = attention_maps({name: call}, *axes, row=row)
                part = table.part if len(call.weights) == 1 else f"{table.part} of series {row + 1}"
                maps.append(table._replace(part=part))
        return maps, {name: call for name, call in calls.items() if name not in own}

    def _displayed(
        self, values: tuple[Any, ...], row: Row, logits: Tensor
    ) -> tuple[tuple[Surface, ...], tuple[Prediction, ...]]:
        """Return the history and the forecast as two surfaces, and the mean of each predicted series."""
        window: SeriesWindow = values[0]
        answer: Any = self.codec.answer
        forecast = answer.predict(logits[0], answer.settings(), InputContext(values=values))
        first = window.end - window.back
        rate = None if window.series.step is None or window.series.step.unit == "month" else 1 / window.series.step.size
        history = Surface(
            "series", tuple(window.series.labels(range(first, window.end))),
            numbers=SurfaceNumbers(window.history, window.series.targets, rate=rate),
        )  # fmt: skip
        table = np.stack([*forecast.columns.values()], 1).astype(np.float32)
        future = Surface("series", forecast.dates, numbers=SurfaceNumbers(table, tuple(forecast.columns), rate=rate))
        means = [(name, float(np.mean(forecast.columns[name]))) for name in window.series.targets]
        predictions = [Prediction(WHOLE, "series", f"{name}: mean {mean:.5g}") for name, mean in means]
        return (history, future), tuple(predictions)

    def _scores(self, observation: Observation, outputs: Sequence[Tensor]) -> list[list[float]]:
        """Return the mean of the forecast of each series, in deviations of its training part."""
        answer: Any = self.codec.answer
        shape = (answer.ahead, answer.series, answer.distribution.numbers)
        return [answer.distribution.point(rows[0].view(shape)).mean(0).tolist() for rows in outputs]


def _ranges(labels: Sequence[str], size: int) -> tuple[str, ...]:
    """Return the first and last label of each patch."""
    parts = [labels[start : start + size] for start in range(0, len(labels), size)]
    return tuple(part[0] if len(part) == 1 else f"{part[0]}–{part[-1]}" for part in parts)
