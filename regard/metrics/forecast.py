"""Distributions of forecasts as networks predict them, and the metrics of forecasts as ratios of sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from regard.core.task import Metric, MetricSums, MetricTable
from regard.core.wording import pluralize

BAND = 80  # percent: the band whose coverage is measured
WIDTHS = tuple(0.5 * 1.1**number for number in range(21))  # factors of the width of a band, up to 3.4
POINT_METRICS = {
    "mse": Metric(lower_is_better=True, baseline="last_mse"),
    "last_mse": Metric(lower_is_better=True),
    "mae": Metric(lower_is_better=True),
    "mase": Metric(lower_is_better=True),
    "crps": Metric(lower_is_better=True),
}
BAND_METRICS = POINT_METRICS | {
    "coverage_80": Metric(lower_is_better=False),
    "band_width": Metric(lower_is_better=True, ratio=False),
    "scaled_coverage_80": Metric(lower_is_better=False, by_predictor=True),
    "scaled_crps": Metric(lower_is_better=True, by_predictor=True),
}
NORMAL = torch.distributions.Normal(0.0, 1.0)


class Distribution(Protocol):
    """The meaning of the ``numbers`` outputs of one predicted value, which are the last dimension of tensors."""

    numbers: int

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each value."""

    def point(self, outputs: Tensor) -> Tensor:
        """Return the point forecast of each value: its mean or median."""

    def crps(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the continuous ranked probability score of each value, in its unit."""

    def quantile(self, outputs: Tensor, level: float) -> Tensor:
        """Return the quantile of a level. Raises ValueError if the distribution does not have it."""

    def widened(self, outputs: Tensor, factor: float) -> Tensor:
        """Return outputs whose quantiles have ``factor`` times the distance from the point forecast."""


class Point:
    """One number, trained by the squared error. Its CRPS is the absolute error."""

    numbers = 1

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs[..., 0] - targets).square()

    def point(self, outputs: Tensor) -> Tensor:
        return outputs[..., 0]

    def crps(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs[..., 0] - targets).abs()

    def quantile(self, outputs: Tensor, level: float) -> Tensor:
        raise ValueError("the model predicts single numbers without a band (model.output)")

    def widened(self, outputs: Tensor, factor: float) -> Tensor:
        return outputs


class Quantiles:
    """Quantiles q_1 < … < q_n at ``levels``, trained by twice the mean pinball loss, which approximates the CRPS."""

    def __init__(self, levels: Sequence[float]) -> None:
        self.levels, self.numbers = tuple(levels), len(levels)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        level = torch.tensor(self.levels, dtype=outputs.dtype, device=outputs.device)
        error = targets[..., None] - outputs
        return 2 * torch.maximum(level * error, (level - 1) * error).mean(-1)

    def point(self, outputs: Tensor) -> Tensor:
        return outputs[..., self.numbers // 2]

    def crps(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.loss(outputs, targets)

    def quantile(self, outputs: Tensor, level: float) -> Tensor:
        """Return the quantile, interpolated linearly between those of ``levels``."""
        if not self.levels[0] - 1e-9 <= level <= self.levels[-1] + 1e-9:
            raise ValueError(f"the model predicts quantiles from {self.levels[0]:g} to {self.levels[-1]:g}")
        after = next((n for n, own in enumerate(self.levels) if own >= level - 1e-9), self.numbers - 1)
        before = max(after - 1, 0)
        width = self.levels[after] - self.levels[before]
        share = 1.0 if width == 0 else min((level - self.levels[before]) / width, 1.0)
        return torch.lerp(outputs[..., before], outputs[..., after], share)

    def widened(self, outputs: Tensor, factor: float) -> Tensor:
        return torch.lerp(self.point(outputs)[..., None].expand_as(outputs), outputs, factor)


class Gaussian:
    """Mean and logarithm of the deviation, trained by the negative log-likelihood, in nats."""

    numbers = 2

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        mean, log_deviation = outputs.unbind(-1)
        z = (targets - mean) * (-log_deviation).exp()
        return 0.5 * z.square() + log_deviation + 0.5 * math.log(2 * math.pi)

    def point(self, outputs: Tensor) -> Tensor:
        return outputs[..., 0]

    def crps(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """σ (z (2 Φ(z) − 1) + 2 φ(z) − 1/√π) (Gneiting and Raftery 2007, §4.2)."""
        mean, deviation = outputs[..., 0], outputs[..., 1].exp()
        z = (targets - mean) / deviation
        density = NORMAL.log_prob(z).exp()
        return deviation * (z * (2 * NORMAL.cdf(z) - 1) + 2 * density - 1 / math.sqrt(math.pi))

    def quantile(self, outputs: Tensor, level: float) -> Tensor:
        return outputs[..., 0] + outputs[..., 1].exp() * float(NORMAL.icdf(torch.tensor(level, dtype=torch.float64)))

    def widened(self, outputs: Tensor, factor: float) -> Tensor:
        return torch.stack([outputs[..., 0], outputs[..., 1] + math.log(factor)], -1)


def distribution(kind: str, levels: Sequence[float]) -> Distribution:
    """Return the distribution of ``model.output``."""
    if kind == "quantiles":
        return Quantiles(levels)
    return Gaussian() if kind == "gaussian" else Point()


class Errors(NamedTuple):
    """Sums of the errors of one forecaster over observed values, as a vector in this order."""

    number: float
    square: float
    absolute: float
    scaled: float  # absolute, in units of the naive error, over series that have one
    scaled_count: float


def error_sums(points: Tensor, targets: Tensor, naive: Tensor, observed: Tensor) -> Tensor:
    """Return the vector of ``Errors``; points, targets: (rows, ahead, series), naive errors: (rows, 1, series)."""
    error = torch.where(observed, points - targets, 0.0).double().abs()
    has_naive = observed & (naive > 0)
    scaled = torch.where(has_naive, error / naive.clamp(min=1e-12), 0.0)
    sums = observed.sum(), error.square().sum(), error.sum(), scaled.sum(), has_naive.sum()
    return torch.stack([part.double() for part in sums])


def error_metrics(sums: Tensor, prefix: str = "") -> dict[str, float]:
    """Return the metrics of a vector of ``Errors``; a constant training part has no MASE."""
    errors = Errors(*sums.tolist())
    count = max(errors.number, 1)
    metrics = {f"{prefix}mse": errors.square / count, f"{prefix}mae": errors.absolute / count}
    return metrics | ({f"{prefix}mase": errors.scaled / errors.scaled_count} if errors.scaled_count else {})


def _band(kind: Distribution, outputs: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return the limits of the band; None for a distribution without one."""
    try:
        return kind.quantile(outputs, 0.5 - BAND / 200), kind.quantile(outputs, 0.5 + BAND / 200)
    except ValueError:
        return None


def band_sums(kind: Distribution, outputs: Tensor, targets: Tensor, observed: Tensor) -> MetricSums:
    """Return the sum of the CRPS, and for a distribution with a band the numbers of values inside it and of all."""
    crps = torch.where(observed, kind.crps(outputs, targets), 0.0).double().sum()
    band = _band(kind, outputs)
    if band is None:
        return {"crps": crps}
    inside = observed & (band[0] <= targets) & (targets <= band[1])
    return {"crps": crps, "band": torch.stack([inside.sum(), observed.sum()]).double()}


def width_sums(kind: Distribution, outputs: Tensor, targets: Tensor, observed: Tensor) -> MetricSums:
    """Return the numbers of values that need each of WIDTHS to be in the band, the last one: a wider band.

    A distribution without a band has no sums.
    """
    band, point = _band(kind, outputs), kind.point(outputs)
    if band is None:
        return {}
    distance = targets - point
    side = torch.where(distance < 0, point - band[0], band[1] - point)
    needed = (distance.abs() / side.clamp(min=1e-12))[observed]
    factor = torch.bucketize(needed.double(), torch.tensor(WIDTHS, dtype=torch.float64, device=needed.device))
    return {"widths": torch.bincount(factor, minlength=len(WIDTHS) + 1).double()}


def fitting_width(counts: Tensor) -> float:
    """Return the factor of the width with which a band holds its share of the values, from ``width_sums``.

    Angelopoulos and Bates 2023, §2.3, with one factor for all time steps, and interpolated between WIDTHS.
    """
    shares = (counts.cumsum(0) / counts.sum().clamp(min=1)).tolist()
    after = next((number for number, share in enumerate(shares[:-1]) if share >= BAND / 100), len(WIDTHS) - 1)
    if after == 0 or shares[after] <= BAND / 100:
        return WIDTHS[after]
    part = (BAND / 100 - shares[after - 1]) / (shares[after] - shares[after - 1])
    return WIDTHS[after - 1] + part * (WIDTHS[after] - WIDTHS[after - 1])


def forecast_metrics(sums: MetricSums, marker: str) -> dict[str, float]:
    """Return the metrics of an evaluation, with those of the last value and of the last season if they are known.

    ``band_width`` fits these examples; ``scaled_coverage_80`` and ``scaled_crps`` are those of the predicted bands.
    """
    if marker not in sums:
        return _band_metrics(sums, "scaled_")
    count = max(float(sums[marker][0]), 1.0)
    loss, rows = sums["loss_and_rows"].tolist()
    metrics = {"loss": loss / max(rows, 1.0), **error_metrics(sums[marker])}
    metrics["crps"] = float(sums["crps"]) / count
    metrics |= _band_metrics(sums, "") | _band_metrics(sums, "scaled_")
    if "widths" in sums:
        metrics["band_width"] = fitting_width(sums["widths"])
    for name in ("last", "season"):
        metrics |= error_metrics(sums[name], f"{name}_") if name in sums else {}
    return metrics


def _band_metrics(sums: MetricSums, prefix: str) -> dict[str, float]:
    """Return coverage and, for predicted bands, CRPS."""
    if f"{prefix}band" not in sums:
        return {}
    inside, values = sums[f"{prefix}band"].tolist()
    own = {f"{prefix}coverage_{BAND}": inside / max(values, 1.0)}
    return own | ({f"{prefix}crps": float(sums[f"{prefix}crps"]) / max(values, 1.0)} if prefix else {})


def forecast_table(sums: MetricSums, marker: str, season: int) -> MetricTable:
    """Return the errors of the forecasts, of the values a season earlier, and of the last value."""
    names = {"this run": marker, f"a season ({pluralize(season, 'step')}) earlier": "season", "last value": "last"}
    metrics = {name: error_metrics(sums[key]) for name, key in names.items() if key in sums}
    rows = tuple((name, *(own.get(key, "–") for key in ("mse", "mae", "mase"))) for name, own in metrics.items())
    return MetricTable(("forecast", "mse", "mae", "mase"), rows)
