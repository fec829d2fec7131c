"""Configs of convolutional encoders and decoders. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from regard.models.attention_config import AttentionSizes, MechanismConfig, kind_of, unprojected
from regard.models.origin_config import EncoderStart
from regard.models.position_config import RELATIVE, LearnedConfig, PositionConfig, with_longest
from regard.models.stack_config import LARGEST, StackConfig

Size = Annotated[int, Field(ge=1, le=LARGEST)]
Block = tuple[Size, Size, Annotated[int, Field(ge=1, le=100)]]  # width, kernel, layers
KERNEL = 3  # of the paper's layers, except the last layers of its widest models


class ConvolutionalStackConfig(StackConfig):
    """Gated convolutions over token embeddings (Gehring et al. 2017)."""

    kind: Literal["convolutional"] = "convolutional"
    embedding: int | None = Field(None, ge=1, le=LARGEST, description="width of embeddings; default: `width`")
    position: PositionConfig = Field(LearnedConfig(), description="kind of positions")
    blocks: tuple[Block, ...] | None = Field(
        None,
        min_length=1,
        max_length=100,
        description="list of [width, kernel, layers]; default: `layers` with kernel 3",
    )

    @property
    def embedding_width(self) -> int:
        return self.embedding or self.width

    @property
    def features(self) -> int:
        return self.embedding_width

    @property
    def depth(self) -> int:
        return sum(layers for _, _, layers in self.all_blocks)

    @property
    def all_blocks(self) -> tuple[Block, ...]:
        """Blocks, including the default ones."""
        return self.blocks or ((self.width, KERNEL, self.layers),)

    @classmethod
    def with_shared(cls, shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
        table = with_longest(super().with_shared(shared, own), shared.get("longest"), default="learned")
        if "position" not in own and kind_of(table.get("position")) in RELATIVE:
            table["position"] = {"kind": "none"}  # relative positions apply to the self-attention of the other side
        return table

    @model_validator(mode="after")
    def _check_positions(self) -> ConvolutionalStackConfig:
        if self.position.kind in RELATIVE:
            raise ValueError(
                f"{self.position.kind} positions require self-attention, which a convolutional stack lacks"
            )
        if self.position.kind == "sinusoidal" and self.embedding_width % 2:
            raise ValueError(f"sinusoidal positions require an even width, got {self.embedding_width}")
        return self


class ConvolutionalEncoderConfig(EncoderStart, ConvolutionalStackConfig):
    """Gated convolutions centered on each position (Gehring et al. 2017)."""


class ConvolutionalDecoderConfig(AttentionSizes, ConvolutionalStackConfig):
    """Gated convolutions over earlier positions, with attention to the source in each layer (Gehring et al. 2017)."""

    cross_attention: Annotated[MechanismConfig, BeforeValidator(unprojected)] = Field(
        MechanismConfig.model_validate({"kind": "dot", "scale": 1.0, "heads": 1, "project": ()}),
        description="attention to the source; default: one head, no projections, unless it sets `heads` or `project`",
    )

    @model_validator(mode="after")
    def _check_heads(self) -> ConvolutionalDecoderConfig:
        if self.cross_attention.heads is None:
            self._require_whole_heads(self.width)
        return self
