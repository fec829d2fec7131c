"""Config common to all encoders and decoders. Imports no torch."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from regard.config.toml_layers import merge_into

LARGEST, MOST_LAYERS = 1 << 20, 1000  # limits of memory and time for untrusted configs


class StackConfig(BaseModel):
    """Layers of one kind: an encoder or a decoder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    layers: int = Field(6, ge=1, le=MOST_LAYERS, description="number of layers")
    width: int = Field(512, ge=2, le=LARGEST, description="d_model")
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout probability of sub-layer outputs and embeddings")

    @property
    def embedding_width(self) -> int:
        """Features of the embeddings, the input of the first layer."""
        raise NotImplementedError

    @property
    def features(self) -> int:
        """Features of the last layer's output."""
        return self.width

    @property
    def depth(self) -> int:
        """Number of layers, including those of blocks."""
        return self.layers

    @classmethod
    def with_shared(cls, shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
        """Return the table of a side: shared keys that this kind has, overridden by the side's own keys."""
        table = {key: copy.deepcopy(value) for key, value in shared.items() if key in cls.model_fields}
        merge_into(table, own)
        return table


class NoDecoderConfig(StackConfig):
    """No decoder: the network's outputs are computed from the states of its encoder."""

    kind: Literal["none"] = "none"

    @property
    def embedding_width(self) -> int:
        return self.width

    @property
    def depth(self) -> int:
        return 0
