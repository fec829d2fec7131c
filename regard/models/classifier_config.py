"""Config of an encoder that ends in classes. Imports no torch."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from regard.models.configuration import EncoderConfig
from regard.models.net_config import NetConfig
from regard.models.transformer.config import TransformerEncoderConfig

CLASSIFIER_PRESETS: dict[str, dict[str, Any]] = {
    "tiny": dict(layers=2, width=128, feed_forward=256, heads=4, dropout=0.3),
    "small": dict(layers=4, width=256, feed_forward=1024, heads=4, dropout=0.2),
    "base": dict(layers=6, width=512, feed_forward=2048, heads=8, dropout=0.1),
}


class ClassifierModelConfig(NetConfig):
    """An encoder of any kind, and how its states become one vector."""

    sides: ClassVar[tuple[str, ...]] = ("encoder",)
    presets: ClassVar[dict[str, dict[str, Any]]] = CLASSIFIER_PRESETS

    preset: Literal[tuple(CLASSIFIER_PRESETS)] | None = Field(None, description="values of the keys that are not set")  # type: ignore[valid-type]
    encoder: EncoderConfig = TransformerEncoderConfig()
    pooling: Literal["first", "last", "mean", "attention"] = Field(
        "mean",
        description="the states that classes are told from: that of the symbol before the text, that of the one after "
        "it, their mean, or their mean by learned weights, which can be shown",
    )
    affixes: int = Field(
        0,
        ge=0,
        le=1 << 22,
        description="vectors that beginnings, ends and shapes of words, or of smaller pieces, are hashed into, and "
        "added to a word's own; 0: none. They tell of words that training met seldom or never",
    )
    pairs: Literal["together", "apart"] = Field(
        "together",
        description="of two texts: one row after the other, each looking at the other, or each read by "
        "itself and both compared",
    )
