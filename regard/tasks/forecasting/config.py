"""The config of a forecaster: tables of series, a network, the form of forecasts. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import model_validator

from regard.config.explain import InvalidCombination
from regard.core.wording import pluralize
from regard.models.forecaster_config import ForecasterModelConfig
from regard.runs.run_config import Confidence, Proposal
from regard.tasks.encoder_run_config import EncoderRunConfig
from regard.tasks.forecasting.data_config import SeriesDataConfig


class ForecastingConfig(EncoderRunConfig):
    """Config of a forecasting run. Frozen; the saved file has a value for every key."""

    metric_names: ClassVar[tuple[str, ...]] = ("mse", "mae", "mase", "crps")
    codec_keys: ClassVar[tuple[str, ...]] = ()
    inherited_keys: ClassVar[tuple[str, ...]] = ("look_back", "horizon", "known", "covariates", "calendar")
    encoder_obstacle: ClassVar[str | None] = "its inputs are series, and an encoder of tokens cannot read them"

    data: SeriesDataConfig
    model: ForecasterModelConfig = ForecasterModelConfig()

    @property
    def wide(self) -> bool:
        return False

    @property
    def is_combined(self) -> bool:
        return False

    @property
    def reads_files(self) -> bool:
        return True

    @property
    def reads_frames(self) -> bool:
        return True

    @property
    def loss_unit(self) -> str:
        return "nats" if self.model.output == "gaussian" else ""

    @property
    def longest(self) -> int:
        return self.encoded_length(self.data.max_length)

    def encoded_length(self, length: int) -> int:
        return self.model.encoder.input.positions(self.data.look_back)

    @classmethod
    def fitting_length(cls, positions: int, data: Mapping[str, Any]) -> int:
        return positions

    @property
    def summary(self) -> str:
        side, model = self.model.encoder, self.model
        parts = "" if side.input.patch is None else f", patches of {side.input.patch}"
        skip = f", skip {model.skip}" if model.skip != "none" else ""
        return (
            f"forecaster, {side.kind}, {pluralize(side.depth, 'layer')}, width {side.width}{parts}, look-back "
            f"{self.data.look_back}, horizon {self.data.horizon}, channels {model.channels}, {model.output}{skip}, "
            f"dropout {side.dropout}"
        )

    def check_sizes(self, spec: Mapping[str, int]) -> None:
        if spec.keys() - {"known"} != {"targets", "features", "outputs"}:
            raise ValueError("expected the keys `targets`, `features` and `outputs`")
        if spec["outputs"] != self.data.horizon * spec["targets"] * self.model.numbers:
            raise ValueError("the number of outputs does not match the horizon, the series and the form of forecasts")

    @classmethod
    def confidence(cls, files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Confidence:
        from regard.tasks.forecasting.automatic_config import confidence

        return confidence(files, overrides)

    @classmethod
    def propose(cls, files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Proposal | None:
        """Propose a config for tables with a column of dates and columns of numbers, or for arrays of series."""
        from regard.tasks.forecasting.automatic_config import choose

        return choose(files, valid, overrides)

    @model_validator(mode="after")
    def _patches_fit(self) -> Self:
        options = self.model.encoder.input
        if options.patch is not None and options.patch > self.data.look_back:
            raise InvalidCombination(
                "model.encoder.input.patch", "data.look_back",
                why=f"a patch of {pluralize(options.patch, 'time step')} is longer than the look-back",
                help=f"--set model.encoder.input.patch={self.data.look_back}",
            )  # fmt: skip
        return self

    @model_validator(mode="after")
    def _skip_starts_at_the_baseline(self) -> Self:
        if self.model.skip != "none" and not self.train.baseline:
            raise InvalidCombination(
                "model.skip", "train.baseline", why="the linear map starts at the baseline, a ridge regression",
                help="--set train.baseline=true",
            )  # fmt: skip
        return self
