"""Configs of a Transformer's stacks. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from regard.models.attention_config import AttentionSizes, MechanismConfig, MixerConfig
from regard.models.origin_config import EncoderStart
from regard.models.position_config import PositionConfig, SinusoidalConfig, with_longest
from regard.models.stack_config import LARGEST, StackConfig

Activation = Literal["relu", "relu2", "gelu", "gelu-tanh", "swish", "glu", "geglu", "swiglu"]


NEWER = ("qk_norm", "context_norm", "attention_gate", "zero_output", "embedding_residual", "value_embedding")


class TransformerStackConfig(AttentionSizes, StackConfig):
    """N layers of a mixer of one sequence and a feed-forward (Vaswani et al. 2017)."""

    kind: Literal["transformer"] = "transformer"
    feed_forward: int = Field(2048, ge=1, le=LARGEST, description="d_ff")
    activation: Activation = Field("relu", description="activation of the feed-forward; gated ones have a third matrix")
    feed_forward_dropout: float = Field(0.0, ge=0, lt=1, description="probability, on inner units")
    feed_forward_chunks: int = Field(
        1,
        ge=1,
        le=LARGEST,
        description="pieces of a sequence that go through the feed-forward one after the other: less memory, more time",
    )
    init_std: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="matrices start N(0, this²); unset: Glorot-uniform"
    )
    zero_output: bool = Field(False, description="matrices that end a part (attention, feed-forward) start at 0")
    embedding_residual: bool = Field(
        False, description="each layer starts from λ x + μ e, e the embedded tokens; λ and μ learned from 1 and 0"
    )
    value_embedding: bool = Field(
        False,
        description="a second table of embeddings, E: each layer's values are λ v + μ E[token], λ and μ learned from "
        "1/2 (Jordan et al. 2024)",
    )
    norm: Literal["post", "pre"] = Field("post", description="normalize after (paper) or before the sub-layer")
    normalization: Literal["layer", "rms", "batch", "none"] = Field("layer", description="kind of normalization")
    normalization_epsilon: float | None = Field(
        None, gt=0, le=1, description="added to what the norm divides by; unset: 1e-5, and 1e-6 for `rms`"
    )
    position: PositionConfig = Field(SinusoidalConfig(), description="kind of positions")
    mixer: MixerConfig = Field(
        MixerConfig(),
        description="a mechanism of self-attention, or a mixer in its place",
    )
    execution: Literal["plain", "checkpointed", "reversible"] = Field(
        "plain",
        description="`checkpointed`: each layer is computed again for its gradient: less memory, more time; "
        '`reversible`: two streams, memory that does not grow with depth, another function; needs `norm = "pre"`',
    )

    @property
    def embedding_width(self) -> int:
        return self.width

    @property
    def newer_parts(self) -> list[str]:
        """Keys of newer parts that are on, for summaries."""
        return [key for key in NEWER if getattr(self, key)]

    @classmethod
    def with_shared(cls, shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
        default = cls.model_fields["position"].default.kind
        return with_longest(super().with_shared(shared, own), shared.get("longest"), default=default)

    @model_validator(mode="after")
    def _check_widths(self) -> TransformerStackConfig:
        self._require_whole_heads(self.width)
        if self.position.kind == "sinusoidal" and self.width % 2:
            raise ValueError(f"sinusoidal positions need an even width, not {self.width}")
        return self

    @model_validator(mode="after")
    def _check_reversible(self) -> TransformerStackConfig:
        if self.execution == "reversible":
            if self.norm == "post":
                raise ValueError('reversible layers add to a stream, which norm = "post" changes: set norm = "pre"')
            if self.embedding_residual:
                raise ValueError(
                    "reversible layers cannot take embedding_residual: its factor may be 0, without a way back"
                )
            if self.mixer.kind == "compressive":
                raise ValueError(
                    "reversible layers keep no losses of their own, from which compressive memory learns to compress"
                )
            if self.normalization == "batch":
                raise ValueError(
                    "reversible layers are computed twice, which the means of batch normalization would count"
                )
        return self


class TransformerEncoderConfig(EncoderStart, TransformerStackConfig):
    """N layers of a mixer of the source and a feed-forward (Vaswani et al. 2017)."""


class TransformerDecoderConfig(TransformerStackConfig):
    """N layers of a mixer of the target, attention to the source and a feed-forward (Vaswani et al. 2017)."""

    cross_attention: MechanismConfig = Field(MechanismConfig(), description="attention to the source")
