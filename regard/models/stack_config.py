"""Config that every encoder and decoder has, whatever its kind. Imports no torch."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from regard.config.toml_layers import merge_into

LARGEST, MOST_LAYERS = 1 << 20, 1000  # limits, so that an untrusted config cannot ask for any memory or time


class StackConfig(BaseModel):
    """Layers of one kind: an encoder, or a decoder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    layers: int = Field(6, ge=1, le=MOST_LAYERS, description="N")
    width: int = Field(512, ge=2, le=LARGEST, description="d_model")
    dropout: float = Field(0.1, ge=0, lt=1, description="P_drop, on sub-layer outputs and embeddings")

    @property
    def embedding_width(self) -> int:
        """Features of the embeddings that the first layer takes."""
        raise NotImplementedError

    @property
    def features(self) -> int:
        """Features that the last layer gives."""
        return self.width

    @property
    def depth(self) -> int:
        """Layers, those of blocks included."""
        return self.layers

    @classmethod
    def with_shared(cls, shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
        """The table of a side: keys that both sides share, as far as this kind has them, under the side's own."""
        table = {key: copy.deepcopy(value) for key, value in shared.items() if key in cls.model_fields}
        merge_into(table, own)
        return table
