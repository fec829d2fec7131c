"""Config of a decoder without a source, as language models have it. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from regard.models.net_config import NetConfig
from regard.models.position_config import PositionConfig, RotaryConfig
from regard.models.stack_config import LARGEST
from regard.models.transformer.config import Activation, TransformerStackConfig

PRESETS: dict[str, dict[str, Any]] = {
    "tiny": dict(layers=4, width=128, feed_forward=512, heads=4, dropout=0.0),
    "small": dict(layers=6, width=256, feed_forward=1024, heads=4, dropout=0.1),
    "base": dict(layers=12, width=768, feed_forward=3072, heads=12, dropout=0.1),
}


class CausalStackConfig(TransformerStackConfig):
    """N layers of a causal mixer and a feed-forward, with the habits of language models."""

    layers: int = Field(4, ge=1, le=1000, description="N")
    width: int = Field(128, ge=2, le=1 << 20, description="d_model")
    feed_forward: int = Field(512, ge=1, le=1 << 20, description="d_ff")
    heads: int = Field(4, ge=1, le=1 << 20, description="h")
    activation: Activation = Field("gelu", description="activation of the feed-forward; gated ones have a third matrix")
    dropout: float = Field(0.0, ge=0, lt=1, description="P_drop, on sub-layer outputs and embeddings")
    init_std: float | None = Field(
        0.02, gt=0, allow_inf_nan=False, description="matrices start N(0, this²); unset: Glorot-uniform"
    )
    norm: Literal["post", "pre"] = Field("pre", description="normalize after or before the sub-layer")
    position: PositionConfig = Field(RotaryConfig(), description="kind of positions")
    embedding_scale: float | None = Field(
        None, gt=0, le=LARGEST, description="embeddings are multiplied by this; unset: √width, as in the paper; GPT: 1"
    )


class CausalModelConfig(NetConfig):
    """Decoder without a source, and what it shares with the output projection."""

    sides: ClassVar[tuple[str, ...]] = ("decoder",)
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS

    preset: Literal[tuple(PRESETS)] | None = Field(None, description="values of the keys that are not set")  # type: ignore[valid-type]
    decoder: CausalStackConfig = CausalStackConfig()
    share: Literal["all", "none"] = Field("all", description="one matrix for embedding and output projection; none")
    output_bias: bool = Field(False, description="a bias for each type of the output")
    never_predicted: tuple[Annotated[int, Field(ge=0, lt=1 << 24)], ...] = Field(
        (), max_length=64, description="types that no output gives: rows of an imported table that stand in it twice"
    )

    @model_validator(mode="after")
    def _check_output(self) -> CausalModelConfig:
        if self.output_bias and self.never_predicted:
            raise ValueError("output_bias would learn the place of never_predicted: one or the other")
        return self
