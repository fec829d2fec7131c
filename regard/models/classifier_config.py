"""Configs of encoders with a classification head, for a whole sequence or for each token. Imports no torch."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from regard.models.configuration import EncoderConfig
from regard.models.net_config import NetConfig
from regard.models.transformer.config import TransformerEncoderConfig
from regard.models.wide_config import CombinedWideConfig

CLASSIFIER_PRESETS: dict[str, dict[str, Any]] = {
    "tiny": dict(layers=2, width=128, feed_forward=256, heads=4, dropout=0.3),
    "small": dict(layers=4, width=256, feed_forward=1024, heads=4, dropout=0.2),
    "base": dict(layers=6, width=512, feed_forward=2048, heads=8, dropout=0.1),
}


class ClassifierModelConfig(NetConfig, CombinedWideConfig):
    """An encoder of any kind, and how its states are pooled to one vector."""

    sides: ClassVar[tuple[str, ...]] = ("encoder",)
    presets: ClassVar[dict[str, dict[str, Any]]] = CLASSIFIER_PRESETS

    preset: Literal[tuple(CLASSIFIER_PRESETS)] | None = Field(None, description="defaults for keys that are not set")  # type: ignore[valid-type]
    encoder: EncoderConfig = TransformerEncoderConfig()
    pooling: Literal["first", "last", "mean", "attention"] = Field(
        "mean",
        description="pooling of the states: first state, last state, mean, or mean with learned weights, which can be "
        "displayed",
    )
    affixes: int = Field(
        0,
        ge=0,
        le=1 << 22,
        description="number of hashed vectors for prefixes, suffixes and shapes of tokens, which are added to token "
        "embeddings; 0: none. They help with rare and unknown words",
    )
    pairs: Literal["together", "apart"] = Field(
        "together",
        description="encoding of two texts: together in one row with attention between them, or apart, with a "
        "comparison of both vectors",
    )

    matches: bool = Field(
        False,
        description="add a learned vector to each word of a pair, by its match in the other text: the same word, one "
        "with the same first four letters, or none; requires model.affixes",
    )

    @property
    def separators(self) -> int:
        """Number of end symbols between two texts that are encoded together."""
        return int(getattr(self.encoder, "separators", 1))


class TaggerModelConfig(NetConfig, CombinedWideConfig):
    """An encoder of any kind, and the subword features of its input."""

    sides: ClassVar[tuple[str, ...]] = ("encoder",)
    presets: ClassVar = CLASSIFIER_PRESETS

    preset: Literal[tuple(CLASSIFIER_PRESETS)] | None = Field(None, description="defaults for keys that are not set")  # type: ignore[valid-type]
    encoder: EncoderConfig = TransformerEncoderConfig()
    affixes: int = Field(
        0,
        ge=0,
        le=1 << 22,
        description="number of hashed vectors for prefixes, suffixes and shapes of words, which are added to token "
        "embeddings; 0: none. They help with unknown words",
    )
