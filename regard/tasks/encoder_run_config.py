"""Base config of tasks whose network is an encoder with a classification head. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import model_validator

from regard.config.explain import InvalidCombination
from regard.models.origin_config import trained_positions
from regard.models.position_config import LearnedConfig
from regard.models.wide_config import require_baseline
from regard.runs.run_config import UnsmoothedRunConfig


class EncoderRunConfig(UnsmoothedRunConfig):
    """Base config: the sizes of the encoder, the vocabulary and the classes. Label smoothing is 0 by default."""

    codec_keys: ClassVar[tuple[str, ...]] = ("tokenizer",)
    inherited_keys: ClassVar[tuple[str, ...]] = ("max_length",)

    data: Any
    model: Any

    @property
    def wide(self) -> bool:
        return bool(self.model.wide)

    @property
    def is_combined(self) -> bool:
        return bool(self.model.is_combined)

    @property
    def width(self) -> int:
        return int(self.model.encoder.width)

    @property
    def layers(self) -> int:
        return int(self.model.encoder.depth)

    @property
    def longest(self) -> int:
        """Maximum number of positions that the encoder reads."""
        raise NotImplementedError

    def check_sizes(self, spec: Mapping[str, int]) -> None:
        if spec.keys() != {"types", "classes"}:
            raise ValueError("expected the keys `types` (size of the vocabulary) and `classes` (number of classes)")

    @classmethod
    def fitting_length(cls, positions: int, data: Mapping[str, Any]) -> int:
        """Return the largest ``data.max_length`` of rows with this number of positions, for a table ``data``."""
        raise NotImplementedError

    @model_validator(mode="before")
    @classmethod
    def _reads_what_the_encoder_can(cls, values: Any) -> Any:
        """Limit the default of ``data.max_length`` to the positions of the encoder that training starts from."""
        model, data = (values.get(name) if isinstance(values, dict) else None for name in ("model", "data"))
        positions = trained_positions(model)
        if positions is None or not isinstance(data, dict) or "max_length" in data:
            return values
        fields = cls.model_fields["data"].annotation.model_fields  # type: ignore[union-attr]
        fitting = max(cls.fitting_length(positions, data), 1)
        return values | {"data": data | {"max_length": min(fields["max_length"].default, fitting)}}

    @model_validator(mode="after")
    def _wide_part_is_fitted(self) -> Self:
        require_baseline(self.wide, self.train.baseline)
        return self

    @model_validator(mode="after")
    def _positions_suffice(self) -> Self:
        encoder = self.model.encoder
        position = None if encoder.kind == "recurrent" else encoder.position
        if isinstance(position, LearnedConfig) and position.longest < self.longest:
            fewer = f"data.max_length={self.fitting_length(position.longest, self.data.model_dump())}"
            raise InvalidCombination(
                "model.encoder.position.longest",
                "data.max_length",
                why=f"{self.data.max_length} pieces and special tokens need {self.longest} learned positions; the "
                f"encoder has {position.longest}",
                help=f"--set {fewer}" if encoder.origin is not None
                else f"--set model.position.longest={self.longest}, or lower data.max_length",
            )  # fmt: skip
        return self
