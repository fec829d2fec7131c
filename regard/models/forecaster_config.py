"""Config of a forecaster: an encoder of any kind, and the form of its forecasts. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, model_validator

from regard.config.explain import InvalidCombination
from regard.models.configuration import EncoderConfig
from regard.models.convolutional.config import ConvolutionalDecoderConfig
from regard.models.net_config import NetConfig
from regard.models.recurrent.config import RecurrentDecoderConfig
from regard.models.stack_config import NoDecoderConfig
from regard.models.transformer.config import TransformerDecoderConfig, TransformerEncoderConfig

MAX_LEVELS = 99
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_MODERN = dict(norm="pre", activation="gelu", position="learned")
FORECASTER_PRESETS: dict[str, dict[str, Any]] = {
    "tiny": dict(layers=2, width=32, feed_forward=64, heads=4, dropout=0.2, **_MODERN),
    "small": dict(layers=3, width=64, feed_forward=128, heads=4, dropout=0.2, **_MODERN),
    "base": dict(layers=3, width=128, feed_forward=256, heads=8, dropout=0.2, **_MODERN),
}


ForecastDecoderConfig = Annotated[
    TransformerDecoderConfig | RecurrentDecoderConfig | ConvolutionalDecoderConfig | NoDecoderConfig,
    Discriminator("kind"),
]


class ForecasterModelConfig(NetConfig):
    """An encoder over patches of each series, a head or a decoder, and an optional linear map."""

    sides: ClassVar[tuple[str, ...]] = ("encoder", "decoder")
    presets: ClassVar[dict[str, dict[str, Any]]] = FORECASTER_PRESETS

    preset: Literal[tuple(FORECASTER_PRESETS)] | None = Field(None, description="defaults for keys that are not set")  # type: ignore[valid-type]
    encoder: EncoderConfig = TransformerEncoderConfig()
    decoder: ForecastDecoderConfig = Field(
        NoDecoderConfig(),
        description="`none`: one linear map of all states of the encoder to all time steps; otherwise a decoder that "
        "writes one patch after the other and reads the patches that it has written",
    )
    channels: Literal["apart", "together"] = Field(
        "apart", description="encode each series of a table on its own, with the same weights, or all as one sequence"
    )
    normalize: Literal["window", "last", "train"] = Field(
        "window",
        description="subtract the mean of the look-back and divide by its deviation; subtract its last value; or use "
        "the statistics of the training part",
    )
    skip: Literal["none", "linear", "average"] = Field(
        "none",
        description="`linear`: add a linear map of the look-back, which starts at a ridge regression; the network then "
        "starts at zero; `average`: train the network alone, and predict the mean of both",
    )
    skip_frozen: bool = Field(False, description="do not train this linear map")
    output: Literal["point", "quantiles", "gaussian"] = Field(
        "quantiles", description="numbers, quantiles that cannot cross, or mean and deviation of a normal distribution"
    )
    quantiles: tuple[float, ...] = Field(
        LEVELS, min_length=3, max_length=MAX_LEVELS, description="levels of the quantiles, an odd number of them"
    )
    head_dropout: float = Field(0.0, ge=0, lt=1, description="dropout probability of the states before the head")

    @classmethod
    def _side(cls, side: str, own: Any, shared: Mapping[str, Any]) -> Any:
        """Return the table of a side; ``model.kind`` is that of the encoder."""
        return super()._side(side, own, {key: shared[key] for key in shared if side == "encoder" or key != "kind"})

    @property
    def patch(self) -> int:
        """Time steps that a decoder writes at once."""
        return self.encoder.input.patch or 1

    @property
    def numbers(self) -> int:
        """Outputs of the network for each predicted value."""
        return {"point": 1, "gaussian": 2}.get(self.output, len(self.quantiles))

    @model_validator(mode="after")
    def _check_levels(self) -> ForecasterModelConfig:
        levels = self.quantiles
        rising = all(one < other for one, other in pairwise(levels))
        if not rising or levels[0] <= 0 or levels[-1] >= 1 or len(levels) % 2 == 0:
            why = "levels must rise between 0 and 1, and the middle one of an odd number is the point forecast"
            raise InvalidCombination("model.quantiles", why=why, help="--set model.quantiles=[0.1,0.5,0.9]")
        return self

    @model_validator(mode="after")
    def _check_skip(self) -> ForecasterModelConfig:
        if self.skip_frozen and self.skip != "linear":
            why = "only the linear map of skip = linear is trained"
            raise InvalidCombination("model.skip_frozen", "model.skip", why=why, help="--set model.skip=linear")
        return self

    @model_validator(mode="after")
    def _check_decoder(self) -> ForecasterModelConfig:
        if self.decoder.kind != "none" and self.skip == "linear":
            why = "a decoder reads the values that it writes, and with skip = linear these are not the forecast"
            raise InvalidCombination("model.decoder", "model.skip", why=why, help="--set model.skip=average")
        return self
