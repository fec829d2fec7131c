"""The values of the next time steps of one or several series: points, quantiles, or a normal distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt
import torch
from pydantic import BaseModel
from torch import Tensor

from regard.answers.answer_base import AnswerBase, NoSettings
from regard.answers.forecast_table import Forecast, forecast_of
from regard.config.prediction_settings import ForecastSettings as DeclaredSettings
from regard.config.setting_models import request_model
from regard.core.answer import InputContext, LossAndSums
from regard.core.codec_files import open_codec_file, save_codec_file
from regard.core.observation import Alternative, PredictionKind
from regard.core.outcomes import TargetOutcome
from regard.core.task import Metric, MetricSums, MetricTable, Report, RunFiles
from regard.data.rows import Row
from regard.data.series_arrays import future_values, last_seasons
from regard.data.time_series import Scales, SeriesWindow
from regard.metrics import forecast as measures
from regard.metrics.forecast import Distribution
from regard.runs.validated_figure import validated_figure

if TYPE_CHECKING:
    ForecastSettings = DeclaredSettings
else:
    ForecastSettings = request_model(DeclaredSettings, base=NoSettings)
FILE = "forecast.json"


class FutureValues(AnswerBase):
    """Future values (ahead, series), learned in units of the deviation of each series' training part.

    Outputs are (rows, ahead · series · numbers of the distribution). Missing values have no loss.
    """

    kind: ClassVar[PredictionKind] = "series"
    marker: ClassVar[str] = "forecast"
    settings: ClassVar[type[BaseModel]] = ForecastSettings
    metrics: ClassVar[Mapping[str, Metric]] = measures.BAND_METRICS
    width = 1.0  # factor of the width of bands, fitted to the validation data
    class_names: tuple[str, ...] = ()
    baseline = None

    def __init__(self, distribution: Distribution, *, ahead: int, season: int | None = None) -> None:
        super().__init__(("future",))
        self.distribution, self.ahead, self.season = distribution, ahead, season
        self.scales, self.series = Scales({}, 1, ()), 1

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"outputs": self.ahead * self.series * self.distribution.numbers}

    def value(self, row: Row) -> SeriesWindow:
        return cast("SeriesWindow", row.cells["future"])

    def learn(
        self, run: RunFiles, values: Sequence[SeriesWindow], locations: Sequence[str], log: Report, *, where: str
    ) -> Self:
        scales = Scales.learn(values, self.season)
        save_codec_file(run.tokenizers / FILE, scales.to_json())
        for line in scales.report():
            log(line)
        return self.open(run)

    def open(self, run: RunFiles) -> Self:
        self.scales = open_codec_file(run.tokenizers / FILE, Scales.from_json)
        self.series, self.width = len(self.scales.targets), validated_figure(run, "band_width")
        return self

    def targets(self, values: Sequence[SeriesWindow], locations: Sequence[str]) -> npt.NDArray[Any]:
        return future_values(values, self.scales, self.ahead)

    def row_weights(self, targets: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.isfinite(targets[:, :-1]).any((1, 2)).astype(np.float64)

    def baseline_targets(self, values: Sequence[SeriesWindow]) -> npt.NDArray[Any]:
        return last_seasons(values, self.scales)

    def compare(self, outputs: Tensor, targets: Tensor, baseline: Tensor) -> MetricSums:
        true, naive, observed = self._split(targets)
        last = baseline[:, -1:].nan_to_num().expand(-1, self.ahead, -1)
        place = torch.arange(self.ahead, device=baseline.device) % baseline.shape[1]
        seasonal = torch.where(baseline.isfinite(), baseline, baseline[:, -1:]).nan_to_num()[:, place]
        return {
            "last": measures.error_sums(last, true, naive, observed),
            "season": measures.error_sums(seasonal, true, naive, observed),
        }

    def loss(
        self, outputs: Tensor, targets: Tensor, unit: Tensor, *, smoothing: float, evaluating: bool
    ) -> LossAndSums:
        true, naive, observed = self._split(targets.to(outputs.dtype))
        numbers, true = outputs.view(*true.shape, self.distribution.numbers), true.nan_to_num()
        values = torch.where(observed, self.distribution.loss(numbers, true), 0.0)
        loss = values.sum((1, 2)) / observed.sum((1, 2)).clamp(min=1)
        errors = measures.error_sums(self.distribution.point(numbers.detach()), true, naive, observed)
        bands = measures.band_sums(self.distribution, numbers.detach(), true, observed)
        bands |= measures.width_sums(self.distribution, numbers.detach(), true, observed) if evaluating else {}
        total = torch.stack([loss.detach().double().sum(), observed.any(-1).any(-1).sum().double()])
        return LossAndSums(loss, {"loss_and_rows": total, self.marker: errors, **bands})

    def _split(self, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # true values, naive errors, observed
        return targets[:, :-1], targets[:, -1:], targets[:, :-1].isfinite()

    @classmethod
    def compute_metrics(cls, sums: MetricSums) -> dict[str, float]:
        return measures.forecast_metrics(sums, cls.marker)

    def tables(self, sums: MetricSums) -> Mapping[str, MetricTable]:
        return {"forecasts": measures.forecast_table(sums, self.marker, self.scales.season)}

    def measure(self, outputs: Tensor, targets: Tensor) -> MetricSums:
        true, _, observed = self._split(targets.to(outputs.dtype))
        numbers = self.distribution.widened(outputs.view(*true.shape, self.distribution.numbers), self.width)
        sums = measures.band_sums(self.distribution, numbers, true.nan_to_num(), observed)
        return {f"scaled_{name}": value for name, value in sums.items()}

    def predict(self, outputs: Tensor, settings: Any, context: InputContext) -> Forecast:
        window: SeriesWindow = context.values[0]
        numbers = outputs.view(self.ahead, self.series, self.distribution.numbers).double()
        numbers = self.distribution.widened(numbers, self.width)
        return forecast_of(self.distribution, numbers, settings, window, self.scales.of(window.series))

    def write(self, output: Forecast, *, json: bool) -> str:
        """Return the columns as a JSON object of lists, or the names and numbers of the series."""
        return output.to_json() if json else output.to_line()

    def outcomes(self, outputs: Tensor, targets: Tensor) -> list[TargetOutcome]:
        points = self.distribution.point(outputs.view(len(outputs), self.ahead, self.series, -1)).mean((1, 2))
        return [*map(TargetOutcome, targets[:, :-1].double().nanmean((1, 2)).tolist(), points.tolist())]

    def alternatives(self, outputs: Tensor) -> tuple[Alternative, ...]:
        return ()


class FuturePoints(FutureValues):
    """Future values without a distribution, and therefore without a band."""

    marker: ClassVar[str] = "point_forecast"
    metrics: ClassVar[Mapping[str, Metric]] = measures.POINT_METRICS
