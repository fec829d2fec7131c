"""Forecasts with numbers that a pencil checks: quantiles, scores, the ridge regression, and the linear skip."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from regard.answers.forecast import FuturePoints
from regard.attention.span import Span
from regard.baselines.series_ridge import SeriesRidge
from regard.data.series_files import SeriesColumns
from regard.data.time_series import Scales, Series, SeriesWindow, windows
from regard.fields.series import SeriesWindows
from regard.metrics.forecast import (
    WIDTHS,
    Gaussian,
    Point,
    Quantiles,
    band_sums,
    error_metrics,
    error_sums,
    fitting_width,
    width_sums,
)
from regard.models.build import ARCHITECTURES
from regard.models.convolutional.config import ConvolutionalDecoderConfig
from regard.models.forecaster import ForecastNet, ForecastSizes
from regard.models.frame_input import FrameInput, PatchInput, frame_input
from regard.models.input_config import InputOptions
from regard.models.recurrent.config import RecurrentDecoderConfig
from regard.models.transformer.config import TransformerDecoderConfig, TransformerEncoderConfig

BACK, AHEAD = 6, 2


def network(output: str, numbers: int, *, skip: str = "none", together: bool = False, known: int = 0) -> ForecastNet:
    torch.manual_seed(1)
    options = InputOptions(patch=3, stride=2)
    config = TransformerEncoderConfig(layers=1, width=8, heads=2, feed_forward=8, dropout=0.0)
    features = (4 if together else 2) + known
    encoder = ARCHITECTURES["transformer"].encoder(config, frame_input(features, 8, options))
    sizes = ForecastSizes(BACK, AHEAD, 2, numbers, known, options.positions(BACK))
    net = ForecastNet(
        encoder,
        sizes,
        normalize="window",
        output=output,
        together=together,
        skip=skip,
        dropout=0.0,  # type: ignore[arg-type]
    )
    return net.eval()


def inputs(rows: int = 3, *, together: bool = False, known: int = 0) -> tuple[torch.Tensor, ...]:
    series, features = (1, 4) if together else (2, 2)
    history = torch.randn(rows, series, BACK, features + known)
    marks = slice(features // 2, features)
    history[..., marks] = 0
    return history, torch.ones(rows, series, BACK, dtype=torch.bool), torch.randn(rows, AHEAD, known)


def test_quantiles_never_cross_and_the_middle_one_is_free() -> None:
    for _ in range(5):
        numbers = network("quantiles", 5)(*inputs()).view(3, AHEAD, 2, 5)
        assert bool((numbers.diff(dim=-1) > 0).all())


def test_a_forecast_moves_and_scales_with_its_window() -> None:
    """The window is normalized by its own mean and deviation, and the forecast is in the unit of the window."""
    history, valid, future = inputs()
    for output, numbers in (("point", 1), ("quantiles", 3)):
        net = network(output, numbers)
        plain = net(history, valid, future).detach().numpy()
        moved = history.clone()
        moved[..., :1] = 5 * history[..., :1] + 100
        assert net(moved, valid, future).detach().numpy() == pytest.approx(5 * plain + 100, abs=1e-2)


@pytest.mark.parametrize("together", [False, True])
def test_the_linear_skip_starts_at_its_matrix(together: bool) -> None:
    net = network("point", 1, skip="linear", together=together)
    weights = torch.randn(AHEAD, BACK)
    net.start_skip(weights)
    history, valid, future = inputs(together=together)
    values = history[:, 0, :, :2].transpose(1, 2) if together else history[..., 0]
    last = values[..., -1:]
    expected = last + (values - last) @ weights.T
    assert torch.allclose(net(history, valid, future).view(3, AHEAD, 2), expected.transpose(1, 2), atol=1e-5)


def test_an_average_is_between_the_network_and_its_linear_map() -> None:
    for output, numbers in (("point", 1), ("quantiles", 3), ("gaussian", 2)):
        net = network(output, numbers, skip="average")
        net.start_skip(torch.randn(AHEAD, BACK))
        history, valid, future = inputs()
        averaged = net(history, valid, future).view(3, AHEAD, 2, numbers)
        alone = net.train()(history, valid, future).view(3, AHEAD, 2, numbers)  # no dropout
        linear = net._linear(history[..., 0]).transpose(1, 2)
        place = numbers // 2 if output != "gaussian" else 0
        assert torch.allclose(averaged[..., place], (alone[..., place] + linear) / 2, atol=1e-5)
        if output == "quantiles":  # the band moves with its median
            assert torch.allclose(averaged.diff(dim=-1), alone.diff(dim=-1), atol=1e-5)


def test_known_covariates_of_a_time_step_change_that_step_only() -> None:
    net = network("point", 1, known=1)
    history, valid, future = inputs(known=1)
    other = future.clone()
    other[:, 1] += 1
    change = (net(history, valid, other) - net(history, valid, future)).view(3, AHEAD, 2)
    assert bool((change[:, 0] == 0).all()) and bool((change[:, 1].abs() > 0).all())


def test_series_apart_do_not_see_each_other() -> None:
    history, valid, future = inputs()
    other = history.clone()
    other[:, 1] = torch.randn_like(other[:, 1])
    for together in (False,):
        net = network("point", 1, together=together)
        one, two = (net(x, valid, future).view(3, AHEAD, 2) for x in (history, other))
        assert torch.equal(one[..., 0], two[..., 0]) and not torch.equal(one[..., 1], two[..., 1])


def test_patches_by_hand() -> None:
    """Frames 0 1 2 3 4 in patches of 3 with stride 2: [0 1 2], [2 3 4]; of 4 frames: [0 1 2], [2 3 0]."""
    net = PatchInput(1, 3, patch=3, stride=2)
    with torch.no_grad():
        net.linear.weight.copy_(torch.eye(3))
        net.linear.bias.zero_()
    valid = torch.tensor([[True] * 5, [True] * 4 + [False]])
    frames = torch.arange(5.0).repeat(2, 1)[..., None]
    embedded = net(frames, Span.of(valid))
    assert embedded.x.tolist() == [[[0, 1, 2], [2, 3, 4]], [[0, 1, 2], [2, 3, 0]]]
    assert embedded.span.valid.tolist() == [[True, True]] * 2 and net.ranges(5) == [(0, 3), (2, 5)]


def test_pinball_and_its_interpolated_quantiles() -> None:
    kind, outputs = Quantiles((0.1, 0.5, 0.9)), torch.tensor([1.0, 2.0, 4.0])
    # errors 2, 1, −1: ρ = 0.1 · 2, 0.5 · 1, 0.1 · 1, twice their mean
    assert float(kind.loss(outputs, torch.tensor(3.0))) == pytest.approx(2 * (0.2 + 0.5 + 0.1) / 3)
    assert float(kind.quantile(outputs, 0.7)) == 3.0 and float(kind.quantile(outputs, 0.1)) == 1.0
    with pytest.raises(ValueError, match=r"from 0\.1 to 0\.9"):
        kind.quantile(outputs, 0.95)


def test_the_score_of_a_gaussian_is_the_integral_of_its_definition() -> None:
    mean, deviation, true = 0.3, 1.7, 1.1
    kind, outputs = Gaussian(), torch.tensor([mean, math.log(deviation)], dtype=torch.float64)
    x = torch.linspace(-20, 20, 400_001, dtype=torch.float64)
    below = torch.distributions.Normal(mean, deviation).cdf(x)
    expected = torch.trapezoid((below - (x >= true).double()).square(), x)
    assert float(kind.crps(outputs, torch.tensor(true, dtype=torch.float64))) == pytest.approx(
        float(expected), abs=1e-4
    )
    assert float(kind.quantile(outputs, 0.9)) == pytest.approx(mean + 1.2815516 * deviation)
    assert float(Point().crps(torch.tensor([2.0]), torch.tensor(5.0))) == 3.0


def test_errors_leave_out_missing_values_and_series_without_a_naive_error() -> None:
    points, true = torch.tensor([[[1.0, 5.0], [2.0, 5.0]]]), torch.tensor([[[2.0, 5.0], [0.0, 8.0]]])
    naive = torch.tensor([[[0.5, 0.0]]])
    observed = torch.tensor([[[True, True], [False, True]]])
    metrics = error_metrics(error_sums(points, true, naive, observed))
    assert metrics == {"mse": pytest.approx(10 / 3), "mae": pytest.approx(4 / 3), "mase": pytest.approx(2.0)}
    sums = band_sums(Quantiles((0.1, 0.5, 0.9)), torch.tensor([[[[0.0, 1.0, 3.0]]]]), torch.tensor([[[2.0]]]),
                     torch.tensor([[[True]]]))  # fmt: skip
    assert sums["band"].tolist() == [1.0, 1.0]


def sine(rows: int = 80) -> Series:
    time = np.arange(rows)
    values = np.stack([np.sin(time / 3) + 0.01 * time, np.cos(time / 4)], 1).astype(np.float32)
    none = np.zeros((rows, 0), np.float32)
    return Series("s", ("a", "b"), values, none, none)


def targets_of(own: list[SeriesWindow], ridge_scale: object) -> np.ndarray:
    scale: object = ridge_scale
    return np.stack([np.concatenate([scale.standardize(w.future), scale.naive[None]]) for w in own])  # type: ignore[attr-defined]


def test_the_network_reads_the_rows_before_the_forecast_only() -> None:
    series = sine()
    field = SeriesWindows(back=BACK, ahead=AHEAD, together=False, columns=SeriesColumns())
    field.scales = Scales.learn([SeriesWindow(series, BACK, BACK, AHEAD)], None)
    window = SeriesWindow(series, 40, BACK, AHEAD)
    batch = field.pad(field.encode([window]).rows)
    expected = field.scales.any.standardize(series.values[40 - BACK : 40]).T
    assert batch.values.shape == (1, 2, BACK, 2) and batch.future.shape == (1, AHEAD, 0)
    assert batch.values[0, :, :, 0].numpy() == pytest.approx(expected) and not batch.values[..., 1].any()
    (part, other) = field.parts(field.encode([window]).rows[0])
    assert part[:, 0] == pytest.approx(expected[0]) and other[:, 0] == pytest.approx(expected[1])
    assert field.accept(series).history.tolist() == series.values[-BACK:].tolist()


def test_series_without_a_scale_keep_their_unit() -> None:
    """One naive error for all: the mean change of the series 1, 3, 5, … and 0, 4, 8, … from row to row is 3."""
    steps = np.arange(20, dtype=np.float32)[:, None]
    tables = [1 + 2 * steps, 4 * steps]
    own = [Series(f"s {step}", ("a",), values, values[:, :0], values[:, :0], scaled=False)
           for step, values in enumerate(tables)]  # fmt: skip
    scales = Scales.learn([SeriesWindow(one, BACK, BACK, AHEAD) for one in own], 1)
    other = Series("new", ("a",), tables[0] * 100, tables[0][:, :0], tables[0][:, :0])
    assert scales.of(other).standardize(other.values).tolist() == other.values.tolist()
    assert scales.of(other).naive.tolist() == [3.0]
    assert Scales.from_json(scales.to_json()).of(other).naive.tolist() == [3.0]


def test_the_ridge_regression_is_the_closed_form_over_all_windows() -> None:
    own = [*windows(sine(), 0, 80, back=BACK, ahead=AHEAD)]
    scale = Scales.learn(own, None).any
    ridge = SeriesRidge(back=BACK, ahead=AHEAD, levels=())
    targets = targets_of(own, scale)
    ridge.learn([own], targets, np.ones(len(own)), AHEAD * 2)
    x = np.concatenate([scale.standardize(w.history).T for w in own]).astype(np.float64)
    y = np.concatenate([t[:-1].T for t in targets]).astype(np.float64)
    x, y = x - x[:, -1:], y - x[:, -1:]
    expected = np.linalg.solve(x.T @ x + ridge.penalty * np.eye(BACK), x.T @ y).T
    assert np.allclose(ridge.weights, expected, atol=1e-6)
    outputs = ridge.outputs([own]).reshape(len(own), AHEAD, 2)
    assert np.square(outputs - targets[:, :-1]).mean() < 1e-2


def test_the_band_of_the_ridge_regression_holds_its_share() -> None:
    noise = np.random.default_rng(0).normal(0, 1, (600, 2)).astype(np.float32)
    series = Series("s", ("a", "b"), noise, noise[:, :0], noise[:, :0])
    own = [*windows(series, 0, 600, back=BACK, ahead=AHEAD)]
    targets = targets_of(own, Scales.learn(own, None).any)
    for levels, numbers in (((0.1, 0.5, 0.9), 3), (None, 2)):
        ridge = SeriesRidge(back=BACK, ahead=AHEAD, levels=levels)
        ridge.learn([own], targets, np.ones(len(own)), AHEAD * 2 * numbers)
        outputs = torch.from_numpy(ridge.outputs([own]).reshape(len(own), AHEAD, 2, numbers))
        kind = Quantiles(levels) if levels else Gaussian()
        inside = band_sums(kind, outputs, torch.from_numpy(targets[:, :-1]), torch.ones(len(own), AHEAD, 2).bool())
        assert float(inside["band"][0]) / (len(own) * AHEAD * 2) == pytest.approx(0.8, abs=0.04)


def test_missing_values_have_no_loss() -> None:
    """The loss of a row is the mean over its known values: |3 − 1| alone of [3, missing]."""
    answer = FuturePoints(Point(), ahead=2)
    targets, outputs = torch.tensor([[[3.0], [float("nan")], [1.0]]]), torch.tensor([[1.0, 50.0]])
    loss = answer.loss(outputs, targets, torch.ones(1), smoothing=0.0, evaluating=False)
    assert loss.loss.tolist() == Point().loss(torch.tensor([[1.0]]), torch.tensor([3.0])).tolist()
    assert float(loss.sums["loss_and_rows"][1]) == 1 and answer.row_weights(targets.numpy()).tolist() == [1.0]


@pytest.mark.parametrize("kind", [Quantiles((0.1, 0.3, 0.5, 0.7, 0.9)), Gaussian()], ids=["quantiles", "gaussian"])
def test_a_widened_band_has_the_same_point_and_a_multiple_of_each_distance(kind: Any) -> None:
    outputs = torch.randn(3, 4, kind.numbers, generator=torch.Generator().manual_seed(1)).sort(-1).values
    wider = kind.widened(outputs, 1.7)
    assert torch.equal(kind.point(wider), kind.point(outputs))
    for level in (0.1, 0.4, 0.9):
        distances = [kind.quantile(own, level) - kind.point(outputs) for own in (wider, outputs)]
        torch.testing.assert_close(distances[0], 1.7 * distances[1])
    assert Point().widened(outputs, 1.7) is outputs


@pytest.mark.parametrize("kind", [Quantiles((0.1, 0.5, 0.9)), Gaussian()], ids=["quantiles", "gaussian"])
def test_the_fitted_width_holds_four_fifths_of_the_values(kind: Any) -> None:
    """Bands that are 2.5 times too narrow: the factor is 2.5, and the coverage with it is 80 %."""
    random = torch.Generator().manual_seed(2)
    values, observed = torch.randn(40_000, generator=random), torch.ones(40_000, dtype=torch.bool)
    quantiles = torch.tensor([-1.2816, 0.0, 1.2816]) if kind.numbers == 3 else torch.tensor([0.0, 0.0])
    narrow = kind.widened(quantiles.expand(40_000, -1), 0.4)
    factor = fitting_width(width_sums(kind, narrow, values, observed)["widths"])
    assert factor == pytest.approx(2.5, rel=0.03)
    inside, count = band_sums(kind, kind.widened(narrow, factor), values, observed)["band"].tolist()
    assert inside / count == pytest.approx(0.8, abs=0.01)
    assert width_sums(Point(), values[:, None], values, observed) == {}


def test_a_width_beyond_all_factors_is_the_last_one() -> None:
    counts = torch.zeros(len(WIDTHS) + 1, dtype=torch.float64)
    assert fitting_width(counts + torch.eye(len(counts), dtype=torch.float64)[0]) == WIDTHS[0]
    assert fitting_width(counts + torch.eye(len(counts), dtype=torch.float64)[-1]) == WIDTHS[-1]


def decoding(kind: str, *, together: bool = False, output: str = "point", numbers: int = 1) -> ForecastNet:
    """A forecaster of seven steps whose decoder writes three at once."""
    torch.manual_seed(2)
    options = InputOptions(patch=3)
    config = TransformerEncoderConfig(layers=1, width=8, heads=2, feed_forward=8, dropout=0.0)
    encoder = ARCHITECTURES["transformer"].encoder(config, frame_input(4 if together else 2, 8, options))
    side: Any = {
        "transformer": TransformerDecoderConfig(layers=2, width=8, heads=2, feed_forward=8, dropout=0.0),
        "recurrent": RecurrentDecoderConfig(layers=1, width=8, heads=2, dropout=0.0),
        "convolutional": ConvolutionalDecoderConfig(layers=2, width=8, heads=1, dropout=0.0),
    }[kind]
    decoder = ARCHITECTURES[kind].decoder(side, FrameInput(6 if together else 3, 8), states=8, summary=encoder.summary)
    sizes = ForecastSizes(BACK, 7, 2, numbers, 0, 2, 3)
    return ForecastNet(
        encoder, sizes, normalize="last", output=output, together=together, skip="none", dropout=0.0,  # type: ignore
        decoder=decoder,
    ).eval()  # fmt: skip


@pytest.mark.parametrize("kind", ["transformer", "recurrent", "convolutional"])
@pytest.mark.parametrize("together", [False, True])
def test_a_decoder_reads_the_patches_that_it_has_written(kind: str, together: bool) -> None:
    """The forecast of seven steps is that of three steps, then of the three after them, then of the last one.

    Each patch is recomputed by a decoder that reads the history's last patch and the point forecasts so far.
    """
    net = decoding(kind, together=together)
    history, valid, future = inputs(together=together)
    values = history[:, 0, :, :2].transpose(1, 2) if together else history[..., 0]  # (rows, series, back)
    last = values[..., -1:]
    own = (values - last).flatten(0, 1)[..., None] if not together else (values - last).transpose(1, 2)
    marks = history[:, 0, :, 2:] if together else history[..., 1:].flatten(0, 1)
    encoded = net.encoder(torch.cat([own, marks], -1), Span.of(valid.flatten(0, 1)))
    decoder = net.decoder
    assert decoder is not None
    memory = decoder.prepare(encoded)
    written = own[:, -3:].transpose(1, 2).flatten(1)[:, None]
    for _ in range(3):
        state = decoder.start(memory, torch.arange(len(own)))
        features = decoder(written, Span.without_padding(written), memory, state).features[:, -1:]
        patch = net.forecast_head(features)  # series, then steps
        written = torch.cat([written, patch], 1)
    steps = written[:, 1:].unflatten(2, (-1, 3)).transpose(1, 2).flatten(2)[..., :7]  # (sequences, series, 7)
    expected = steps.view(3, 2, 7) + last
    assert torch.allclose(net(history, valid, future).view(3, 7, 2).transpose(1, 2), expected, atol=1e-5)


@pytest.mark.parametrize(("output", "numbers"), [("quantiles", 3), ("gaussian", 2)])
def test_a_decoder_reads_its_point_forecasts(output: str, numbers: int) -> None:
    """Other numbers than the point forecast change their own patch only."""
    net = decoding("transformer", output=output, numbers=numbers)
    history, valid, future = inputs()
    before = net(history, valid, future).view(3, 7, 2, numbers).clone()
    point = 1 if output == "quantiles" else 0
    others = [number for number in range(numbers) if number != point]
    with torch.no_grad():
        net.forecast_head.bias.view(3, numbers)[:, others] += 1
    after = net(history, valid, future).view(3, 7, 2, numbers)
    assert torch.allclose(after[..., point], before[..., point], atol=1e-5)
    assert all(bool((after[..., number] != before[..., number]).all()) for number in others)


def test_a_decoder_learns_from_what_it_has_written() -> None:
    """In training, gradients reach every parameter, and a patch is written from the patches before it."""
    net = decoding("transformer").train()
    history, valid, future = inputs()
    net(history, valid, future).square().sum().backward()
    assert all(parameter.grad is not None and bool(parameter.grad.any()) for parameter in net.parameters()
               if parameter.requires_grad and parameter.ndim > 1)  # fmt: skip
