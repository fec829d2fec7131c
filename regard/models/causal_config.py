"""Config of a decoder without a source, for language models. Imports no torch."""

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
    """N layers of a causal mixer and a feed-forward, with the defaults of language models."""

    layers: int = Field(4, ge=1, le=1000, description="number of layers")
    width: int = Field(128, ge=2, le=1 << 20, description="features of a position (d_model)")
    feed_forward: int = Field(512, ge=1, le=1 << 20, description="inner units of the feed-forward (d_ff)")
    heads: int = Field(4, ge=1, le=1 << 20, description="number of attention heads")
    activation: Activation = Field("gelu", description="activation of the feed-forward; gated ones have a third matrix")
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout probability of sub-layer outputs and embeddings")
    init_std: float | None = Field(
        0.02,
        gt=0,
        allow_inf_nan=False,
        description="standard deviation of initial matrices, N(0, std²); unset: Glorot-uniform",
    )
    norm: Literal["post", "pre"] = Field("pre", description="normalize after or before the sub-layer")
    position: PositionConfig = Field(RotaryConfig(), description="kind of positions")
    embedding_scale: float | None = Field(
        None, gt=0, le=LARGEST, description="factor of the embeddings; default: √width, as in the paper; GPT: 1"
    )


class CausalModelConfig(NetConfig):
    """Decoder without a source, and its sharing with the output projection."""

    sides: ClassVar[tuple[str, ...]] = ("decoder",)
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS

    preset: Literal[tuple(PRESETS)] | None = Field(None, description="defaults for keys that are not set")  # type: ignore[valid-type]
    decoder: CausalStackConfig = CausalStackConfig()
    share: Literal["all", "none"] = Field(
        "all", description="share one matrix between embedding and output projection, or none"
    )
    output_bias: bool = Field(False, description="add a bias to the output logits")
    wide: bool = Field(
        False,
        description="language models: interpolate the network with the n-grams of the baseline, with weights by the "
        "count of the context (Jelinek and Mercer 1980); next items: add the log-probabilities of the baseline to the "
        "outputs of the network, which start at zero",
    )
    never_predicted: tuple[Annotated[int, Field(ge=0, lt=1 << 24)], ...] = Field(
        (), max_length=64, description="types that are never predicted: duplicate rows of an imported table"
    )

    @model_validator(mode="after")
    def _check_output(self) -> CausalModelConfig:
        if self.output_bias and self.never_predicted:
            raise ValueError(
                "output_bias cannot be combined with never_predicted, which replaces the bias: remove one of them"
            )
        return self
