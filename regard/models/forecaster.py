"""A forecaster: an encoder over patches of each series, a head or a decoder, and an optional linear map."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import softplus

from regard.attention.contract import Decoder, Encoded, Encoder
from regard.attention.span import Span
from regard.models.dropout import Dropout

EPSILON = 1e-5  # added to the variance of a window
Normalization = Literal["window", "last", "train"]
Output = Literal["point", "quantiles", "gaussian"]
Skip = Literal["none", "linear", "average"]


class ForecastSizes(NamedTuple):
    """Sizes of a forecaster.

    Attributes:
        back: time steps of the history.
        ahead: time steps of the forecast.
        targets: predicted series.
        numbers: outputs of each predicted value: 1, the number of quantiles, or 2.
        known: covariates of each predicted time step.
        positions: encoded positions of a history.
        patch: time steps that a decoder writes at once.
    """

    back: int
    ahead: int
    targets: int
    numbers: int
    known: int
    positions: int
    patch: int = 1


class ForecastNet(nn.Module):
    """y = m + s · W [h_1; …; h_J], with h the encoder's states of the window (x − m) / s (Nie et al. 2023, §3.1).

    Each of the C series is encoded on its own with the same weights (``together`` false), or all of them in one
    sequence. m and s are the mean and the deviation of the window (``normalize`` ``window``; Kim et al. 2022 without
    its affine part), its last value and 1 (``last``), or 0 and 1 (``train``: the data are standardized by their
    training part).

    ``skip`` ``linear``: y = r + s · W [h_1; …; h_J], r = l + A (x − l), with l the last value of the window and A
    (ahead, back) one matrix for all series. ``start_skip`` sets A to a ridge regression, and W is 0 at first.
    ``average``: the network is trained without A; its forecasts then are moved to the mean of both point forecasts.

    With a ``decoder``, a linear map of its state writes the next ``patch`` time steps in place of W [h_1; …; h_J]:
    z_k = W decoder(z_0, …, z_{k−1}; h), z_0 the last patch of the history. It reads its own point forecasts, also in
    training; gradients do not pass from a patch to those before it. Cost: that of ahead / patch steps of the decoder,
    and of one pass over all of them.

    Outputs are ``point`` forecasts, ``quantiles``, or the mean and the logarithm of the deviation of a ``gaussian``.
    The middle quantile is free, and the others follow by steps softplus(·) > 0: they cannot cross. ``known``
    covariates of a predicted time step add a linear map of themselves.

    Shapes: history (rows, series, back, features), whose first features are the values of the series, missing ones
    filled; future (rows, ahead, known). Result (rows, ahead · C · numbers), the numbers of a value last. Cost: that of
    the encoder for series · rows sequences, and positions · width · ahead · numbers multiply-adds per series.
    """

    def __init__(
        self, encoder: Encoder, sizes: ForecastSizes, *, normalize: Normalization, output: Output, together: bool,
        skip: Skip, dropout: float, decoder: Decoder | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.encoder, self.sizes, self.normalize, self.output_kind = encoder, sizes, normalize, output
        self.together, self.dropout = together, Dropout(dropout)
        self.decoder, series = decoder, sizes.targets if together else 1
        read = sizes.positions * encoder.width if decoder is None else decoder.width
        written = sizes.ahead if decoder is None else sizes.patch
        self.forecast_head = nn.Linear(read, written * series * sizes.numbers)
        self.known = nn.Linear(sizes.known, sizes.numbers, bias=False) if sizes.known else None
        self.skip = None if skip == "none" else nn.Linear(sizes.back, sizes.ahead, bias=False)
        self.averages = skip == "average"
        if skip == "linear":
            nn.init.zeros_(self.forecast_head.weight)
            nn.init.zeros_(self.forecast_head.bias)
            if self.known is not None:
                nn.init.zeros_(self.known.weight)

    @torch.no_grad()
    def start_skip(self, weights: Float[Tensor, "ahead back"]) -> None:
        """Set the linear map to a ridge regression of windows less their last value."""
        assert self.skip is not None
        self.skip.weight.copy_(weights)

    def forward(
        self,
        history: Float[Tensor, "rows series back features"],
        valid: Bool[Tensor, "rows series back"],
        future: Float[Tensor, "rows ahead known"],
    ) -> Float[Tensor, "rows numbers"]:
        sizes, rows = self.sizes, len(history)
        history = history.to(self.forecast_head.weight.dtype)
        values = self._values(history)  # (rows, targets, back)
        center, scale = self._scale(values)
        standard = (values - center) / scale
        own = standard.transpose(1, 2)[:, None] if self.together else standard[..., None]
        frames = torch.cat([own, history[..., own.shape[-1] :]], -1).flatten(0, 1)
        encoded = self.encoder(frames, Span.of(valid.flatten(0, 1)))
        if self.decoder is None:
            raw = self.forecast_head(self.dropout(encoded.states.flatten(1)))
        else:
            raw = self._by_patch(self.decoder, encoded, own.flatten(0, 1)[:, -sizes.patch :])
        raw = raw.view(rows, -1, sizes.ahead, sizes.numbers)  # (rows, targets, …)
        if self.known is not None:
            raw = raw + self.known(future.to(raw.dtype))[:, None]
        if self.skip is not None and not self.averages:
            center = self._linear(values)
        numbers = self._numbers(raw, center[..., None], scale[..., None])
        if self.averages and not self.training:
            numbers = self._averaged(numbers, self._linear(values)[..., None])
        return numbers.transpose(1, 2).flatten(1)

    def _by_patch(
        self, decoder: Decoder, encoded: Encoded, last: Float[Tensor, "sequences patch series"]
    ) -> Float[Tensor, "sequences series ahead numbers"]:
        """Return the outputs of a decoder that starts with the last patch of the history."""
        memory = decoder.prepare(encoded)
        start = decoder.start(memory, torch.arange(len(last), device=last.device))
        read, count = last.transpose(1, 2).flatten(1)[:, None], -(-self.sizes.ahead // self.sizes.patch)
        with torch.no_grad():
            state = start
            for _ in range(count - 1):
                newest = read[:, -1:]
                features, state, _ = decoder(newest, Span.without_padding(newest, state.length), memory, state)
                written = self._point(self._patches(features)).transpose(1, 2).flatten(2)
                read = torch.cat([read, written], 1)
        features = decoder(read, Span.without_padding(read, start.length), memory, start).features
        whole = self._patches(self.dropout(features)).flatten(2, 3)
        return whole[:, :, : self.sizes.ahead]

    def _patches(
        self, features: Float[Tensor, "sequences patches width"]
    ) -> Float[Tensor, "sequences series patches patch numbers"]:
        raw: Tensor = self.forecast_head(features)
        series = self.sizes.targets if self.together else 1
        return raw.view(*features.shape[:2], series, self.sizes.patch, self.sizes.numbers).transpose(1, 2)

    def _point(self, raw: Float[Tensor, "*shape numbers"]) -> Float[Tensor, "*shape"]:
        return raw[..., 0 if self.output_kind == "gaussian" else self.sizes.numbers // 2]

    def _linear(self, values: Float[Tensor, "rows targets back"]) -> Float[Tensor, "rows targets ahead"]:
        """Return the forecasts of the linear map."""
        assert self.skip is not None
        last = values[..., -1:]
        return last + self.skip(values - last)

    def _values(self, history: Float[Tensor, "rows series back features"]) -> Float[Tensor, "rows targets back"]:
        return history[:, 0, :, : self.sizes.targets].transpose(1, 2) if self.together else history[..., 0]

    def _scale(self, values: Float[Tensor, "rows targets back"]) -> tuple[Tensor, Tensor]:
        """Return m and s, both (rows, targets, 1)."""
        if self.normalize == "window":
            center = values.mean(-1, keepdim=True)
            return center, ((values - center).square().mean(-1, keepdim=True) + EPSILON).sqrt()
        center = values[..., -1:] if self.normalize == "last" else torch.zeros_like(values[..., -1:])
        return center, torch.ones_like(center)

    def _numbers(self, raw: Tensor, center: Tensor, scale: Tensor) -> Tensor:
        """Return the outputs (rows, targets, ahead, numbers) in the unit of the input."""
        if self.output_kind == "gaussian":
            mean, deviation = raw.split(1, -1)
            return torch.cat([center + scale * mean, deviation + scale.log()], -1)
        if self.output_kind == "quantiles":
            middle = self.sizes.numbers // 2
            steps = softplus(raw)
            below = -steps[..., :middle].flip(-1).cumsum(-1).flip(-1)
            above = steps[..., middle + 1 :].cumsum(-1)
            raw = raw[..., middle : middle + 1] + torch.cat([below, torch.zeros_like(steps[..., :1]), above], -1)
        return center + scale * raw

    def _averaged(self, numbers: Tensor, linear: Tensor) -> Tensor:
        """Return the outputs, moved to the mean of their point forecasts and the linear ones."""
        if self.output_kind == "gaussian":
            mean, deviation = numbers.split(1, -1)
            return torch.cat([(mean + linear) / 2, deviation], -1)
        place = self.sizes.numbers // 2  # of the median; 0 for points
        return numbers + (linear - numbers[..., place : place + 1]) / 2
