"""Config of an encoder that tells a class of each token. Imports no torch."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from regard.models.classifier_config import CLASSIFIER_PRESETS
from regard.models.configuration import EncoderConfig
from regard.models.net_config import NetConfig
from regard.models.transformer.config import TransformerEncoderConfig


class TaggerModelConfig(NetConfig):
    """An encoder of any kind, and what it reads of a token."""

    sides: ClassVar[tuple[str, ...]] = ("encoder",)
    presets: ClassVar = CLASSIFIER_PRESETS

    preset: Literal[tuple(CLASSIFIER_PRESETS)] | None = Field(None, description="values of the keys that are not set")  # type: ignore[valid-type]
    encoder: EncoderConfig = TransformerEncoderConfig()
    affixes: int = Field(
        0,
        ge=0,
        le=1 << 22,
        description="vectors that beginnings, ends and shapes of words are hashed into, and added to a token's own; 0: "
        "none. They tell of words that training never met",
    )
