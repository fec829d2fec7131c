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
    feed_forward: int = Field(2048, ge=1, le=LARGEST, description="inner units of the feed-forward (d_ff)")
    activation: Activation = Field("relu", description="activation of the feed-forward; gated ones have a third matrix")
    feed_forward_dropout: float = Field(0.0, ge=0, lt=1, description="dropout probability of inner units")
    feed_forward_chunks: int = Field(
        1,
        ge=1,
        le=LARGEST,
        description="number of pieces of a sequence that the feed-forward processes one by one: less memory, more time",
    )
    init_std: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="standard deviation of initial matrices, N(0, std²); unset: Glorot-uniform",
    )
    zero_output: bool = Field(False, description="initialize output matrices of attention and feed-forward as 0")
    embedding_residual: bool = Field(
        False, description="input of each layer is λ x + μ e, e the token embeddings; λ and μ learned from 1 and 0"
    )
    value_embedding: bool = Field(
        False,
        description="add a second table of embeddings E: each layer's values are λ v + μ E[token], λ and μ learned "
        "from 1/2 (Jordan et al. 2024)",
    )
    norm: Literal["post", "pre"] = Field("post", description="normalize after (paper) or before the sub-layer")
    normalization: Literal["layer", "rms", "batch", "none"] = Field("layer", description="kind of normalization")
    normalization_epsilon: float | None = Field(
        None, gt=0, le=1, description="ε in the denominator of the norm; default: 1e-5, and 1e-6 for `rms`"
    )
    position: PositionConfig = Field(SinusoidalConfig(), description="kind of positions")
    mixer: MixerConfig = Field(
        MixerConfig(),
        description="mechanism of self-attention, or a mixer that replaces it",
    )
    execution: Literal["plain", "checkpointed", "reversible"] = Field(
        "plain",
        description="`checkpointed`: recompute each layer for its gradient: less memory, more time; "
        "`reversible`: two streams, memory independent of depth, a different function; "
        'requires `norm = "pre"`',
    )

    @property
    def embedding_width(self) -> int:
        return self.width

    @property
    def newer_parts(self) -> list[str]:
        """Keys of newer components that are enabled, for summaries."""
        return [key for key in NEWER if getattr(self, key)]

    @classmethod
    def with_shared(cls, shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
        default = cls.model_fields["position"].default.kind
        return with_longest(super().with_shared(shared, own), shared.get("longest"), default=default)

    @model_validator(mode="after")
    def _check_widths(self) -> TransformerStackConfig:
        self._require_whole_heads(self.width)
        if self.position.kind == "sinusoidal" and self.width % 2:
            raise ValueError(f"sinusoidal positions require an even width, got {self.width}")
        return self

    @model_validator(mode="after")
    def _check_reversible(self) -> TransformerStackConfig:
        if self.execution == "reversible":
            if self.norm == "post":
                raise ValueError('execution = "reversible" requires norm = "pre": post-norm layers cannot be inverted')
            if self.embedding_residual:
                raise ValueError(
                    'execution = "reversible" cannot be combined with embedding_residual, whose factor may be 0'
                )
            if self.mixer.kind == "compressive":
                raise ValueError(
                    'execution = "reversible" does not support the losses of mixers, which compressive memory requires'
                )
            if self.normalization == "batch":
                raise ValueError(
                    'execution = "reversible" cannot be combined with batch normalization: its running means would '
                    "count every batch twice"
                )
        return self


class TransformerEncoderConfig(EncoderStart, TransformerStackConfig):
    """N layers of a mixer of the source and a feed-forward (Vaswani et al. 2017)."""

    causal: bool = Field(
        False,
        description="positions see no later ones, and a source can be encoded word by word as it arrives",
    )
    embedding_scale: float | None = Field(
        None, gt=0, le=LARGEST, description="factor of the embeddings; default: √width, as in the paper; BERT: 1"
    )
    embedding_norm: bool = Field(False, description="normalize the sum of embeddings and positions, as in BERT")
    segments: int = Field(
        0,
        ge=0,
        le=1024,
        description="number of learned vectors that mark the texts of a row, as in BERT: 2 for a pair; 0: none",
    )
    separators: Literal[1, 2] = Field(
        1, description="number of end symbols between two texts that are encoded together, 2 as in RoBERTa"
    )
    token_dropout: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="share s of masks in earlier training, as in ESM-2: embeddings are multiplied by 1 − s over the "
        "share of tokens that are not masked, and masks have no embedding",
    )
    reads_end: bool = Field(
        True, description="read the end symbol of a source; false as in OpenNMT-py, which has no such symbol in sources"
    )
    global_every: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="with `mixer.neighborhood`: every N-th layer, from the first, attends to all positions, as in "
        "ModernBERT",
    )
    global_base: float | None = Field(
        None,
        gt=1,
        allow_inf_nan=False,
        description="base of rotary positions in these layers; default: `position.base`",
    )
    first_norm: bool = Field(
        True, description="normalize before the first attention; false as in ModernBERT, whose `embedding_norm` does it"
    )

    @model_validator(mode="after")
    def _check_layers(self) -> TransformerEncoderConfig:
        if self.global_every is not None and self.mixer.neighborhood is None:
            raise ValueError("global_every requires mixer.neighborhood: without it, all layers attend to all positions")
        if self.global_base is not None and (self.global_every is None or self.position.kind != "rotary"):
            raise ValueError('global_base requires global_every and position = "rotary"')
        if not self.first_norm and (self.norm, self.execution == "reversible") != ("pre", False):
            raise ValueError('first_norm = false requires norm = "pre" and layers that are not reversible')
        return self


class TransformerDecoderConfig(TransformerStackConfig):
    """N layers of a mixer of the target, attention to the source, and a feed-forward (Vaswani et al. 2017)."""

    cross_attention: MechanismConfig = Field(MechanismConfig(), description="attention to the source")
