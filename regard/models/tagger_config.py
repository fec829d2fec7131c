"""Config of an encoder that predicts a class for each token. Imports no torch."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from regard.models.classifier_config import CLASSIFIER_PRESETS
from regard.models.configuration import EncoderConfig
from regard.models.net_config import NetConfig
from regard.models.transformer.config import TransformerEncoderConfig


class TaggerModelConfig(NetConfig):
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
