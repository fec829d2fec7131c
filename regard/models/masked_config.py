"""Config of an encoder that predicts masked tokens. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, model_validator

from regard.config.explain import InvalidCombination
from regard.models.convolutional.config import ConvolutionalEncoderConfig
from regard.models.net_config import NetConfig
from regard.models.origin_config import EncoderStart
from regard.models.recurrent.config import RecurrentEncoderConfig
from regard.models.stack_config import StackConfig
from regard.models.transformer.config import TransformerEncoderConfig


class ContextMeanConfig(EncoderStart, StackConfig):
    """Mean of the embeddings around each token, the continuous bag of words (Mikolov et al. 2013)."""

    kind: Literal["context-mean"] = "context-mean"
    layers: Literal[1] = Field(1, description="always 1")
    window: int | None = Field(
        None, ge=1, le=1 << 20, description="number of tokens on each side that are averaged; default: the whole text"
    )

    @property
    def embedding_width(self) -> int:
        return self.width


Sides = Annotated[
    TransformerEncoderConfig | RecurrentEncoderConfig | ConvolutionalEncoderConfig | ContextMeanConfig,
    Discriminator("kind"),
]
_DEFAULTS: dict[str, Any] = dict(norm="pre", position="rotary", activation="gelu", init_std=0.02)
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": dict(layers=4, width=128, feed_forward=512, heads=4, dropout=0.1, **_DEFAULTS),
    "small": dict(layers=6, width=256, feed_forward=1024, heads=4, dropout=0.1, **_DEFAULTS),
    "base": dict(layers=12, width=768, feed_forward=3072, heads=12, dropout=0.1, **_DEFAULTS),
    "cbow": dict(kind="context-mean", width=128, window=5, dropout=0.0),
}


class MaskedModelConfig(NetConfig):
    """Bidirectional encoder, and its sharing with the output projection."""

    sides: ClassVar[tuple[str, ...]] = ("encoder",)
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS

    preset: Literal[tuple(PRESETS)] | None = Field(None, description="defaults for keys that are not set")  # type: ignore[valid-type]
    encoder: Sides = TransformerEncoderConfig()
    share: Literal["all", "none"] = Field(
        "all", description="share one matrix between embedding and output projection, or none"
    )
    output_bias: bool = Field(True, description="add a bias to the output logits, as in BERT")
    wide: bool = Field(
        False,
        description="multiply the distribution of the network by that of the baseline, with learned exponents by the "
        "contexts that the tables know; they start at the baseline alone",
    )
    transform: Literal["none", "relu", "gelu", "gelu-tanh", "swish"] = Field(
        "none", description="activation of a dense layer with a norm before the output projection, as in BERT"
    )
    head: bool = Field(
        True,
        description="false: an imported encoder without a masked head, which can only start other models",
    )

    @model_validator(mode="after")
    def _sees_both_sides(self) -> MaskedModelConfig:
        if isinstance(self.encoder, RecurrentEncoderConfig) and not self.encoder.bidirectional:
            raise InvalidCombination(
                "model.encoder.bidirectional",
                why="a masked token is predicted from both sides",
                help="--set model.encoder.bidirectional=true",
            )
        return self

    @model_validator(mode="after")
    def _one_matrix_fits(self) -> MaskedModelConfig:
        encoder = self.encoder
        if self.share == "all" and encoder.features != encoder.embedding_width:
            raise InvalidCombination(
                "model.share",
                "model.encoder.embedding",
                why=f"the output projection ({encoder.features} features) cannot share the matrix of embeddings "
                f"({encoder.embedding_width})",
                help="--set model.share=none",
            )
        return self
