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
    layers: Literal[1] = Field(1, description="there is one")
    window: int | None = Field(
        None, ge=1, le=1 << 20, description="tokens of each side that are averaged; unset: all of the text"
    )

    @property
    def embedding_width(self) -> int:
        return self.width


Sides = Annotated[
    TransformerEncoderConfig | RecurrentEncoderConfig | ConvolutionalEncoderConfig | ContextMeanConfig,
    Discriminator("kind"),
]
_HABITS: dict[str, Any] = dict(norm="pre", position="rotary", activation="gelu", init_std=0.02)
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": dict(layers=4, width=128, feed_forward=512, heads=4, dropout=0.1, **_HABITS),
    "small": dict(layers=6, width=256, feed_forward=1024, heads=4, dropout=0.1, **_HABITS),
    "base": dict(layers=12, width=768, feed_forward=3072, heads=12, dropout=0.1, **_HABITS),
    "cbow": dict(kind="context-mean", width=128, window=5, dropout=0.0),
}


class MaskedModelConfig(NetConfig):
    """Encoder whose states see both sides, and what it shares with the output projection."""

    sides: ClassVar[tuple[str, ...]] = ("encoder",)
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS

    preset: Literal[tuple(PRESETS)] | None = Field(None, description="values of the keys that are not set")  # type: ignore[valid-type]
    encoder: Sides = TransformerEncoderConfig()
    share: Literal["all", "none"] = Field("all", description="one matrix for embedding and output projection; none")
    output_bias: bool = Field(True, description="a bias for each type of the output, as BERT has")

    @model_validator(mode="after")
    def _sees_both_sides(self) -> MaskedModelConfig:
        if isinstance(self.encoder, RecurrentEncoderConfig) and not self.encoder.bidirectional:
            raise InvalidCombination(
                "model.encoder.bidirectional",
                why="what stands in a gap is predicted from both sides of it",
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
                why=f"the encoder ends in {encoder.features} features and embeddings have {encoder.embedding_width}: "
                "one matrix cannot serve both",
                help="--set model.share=none",
            )
        return self
