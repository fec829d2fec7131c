"""Configs of one attention or mixer: kind, heads and options. Imports no torch."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

# Mixers that replace self-attention, kind → class. A new one is a file and a line here. Its constructor takes
# ``width``, and any other ``BUILDER_ARGUMENTS`` it names: see ``build_mixer``. All other arguments are options.
OTHER_MIXERS = {
    "average": "regard.models.transformer.average_attention:AverageAttention",
    "compressive": "regard.models.transformer.compressive:Compressive",
    "global-local": "regard.models.transformer.global_local:GlobalLocal",
    "hashed": "regard.models.transformer.hashed:HashedAttention",
    "linear": "regard.models.transformer.linear_attention:LinearAttention",
    "mamba2": "regard.models.transformer.mamba2:Mamba2",
    "segment-memory": "regard.models.transformer.segment_memory:SegmentMemory",
    "ssru": "regard.models.transformer.ssru:SimpleRecurrent",
}
# Mixers whose constructor takes ``rotary``.
ROTATED_MIXERS = frozenset({"compressive", "global-local", "hashed", "segment-memory"})
Projection = Literal["query", "key", "value", "output"]


class Named(BaseModel):
    """Kind with options, ``{kind = "dot", …}``; the string ``"dot"`` means ``{kind = "dot"}``."""

    model_config = ConfigDict(frozen=True, extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @property
    def options(self) -> dict[str, Any]:
        """Keys other than the declared fields, for the constructor of that kind."""
        return dict(self.model_extra or {})


class MechanismConfig(Named):
    """Mechanism of the catalog, with its heads and projections."""

    kind: str = "dot"
    heads: int | None = Field(None, ge=1, le=1 << 20, description="number of heads; default: `heads` of the side")
    project: tuple[Projection, ...] | None = Field(None, description="projections that are linear; default: all four")
    bias: tuple[Projection, ...] | None = Field(
        None, description="projections with a bias; default: all or none, by `attention_bias` of the side"
    )

    @model_validator(mode="after")
    def _check_neighborhood(self) -> MechanismConfig:
        if "neighborhood" in self.options:
            raise ValueError("neighborhood is an option of self-attention; for local cross_attention set kind local-m")
        return self


class MixerConfig(MechanismConfig):
    """Mixer of one sequence: self-attention with a mechanism of that kind, or another mixer (``"ssru"``)."""

    neighborhood: int | None = Field(
        None,
        ge=1,
        le=1 << 20,
        description="r of restricted self-attention: maximum visible distance (Vaswani et al. 2017, Table 1)",
    )

    sinks: int | None = Field(
        None,
        ge=0,
        le=1 << 20,
        description="number of first positions visible to all, in addition to the neighborhood (Xiao et al. 2023)",
    )

    @model_validator(mode="after")
    def _check_sinks(self) -> MixerConfig:
        if self.sinks and self.neighborhood is None:
            raise ValueError("sinks require a neighborhood: without it all positions are visible")
        return self

    @property
    def is_attention(self) -> bool:
        """Return whether it is self-attention with a mechanism."""
        return self.kind not in OTHER_MIXERS


class AttentionSizes(BaseModel):
    """Heads of a side, for its self-attention and its attention to the source, unless these have their own."""

    heads: int = Field(8, ge=1, le=1 << 20, description="number of attention heads")
    key_heads: int | None = Field(
        None, ge=1, le=1 << 20, description="number of key and value heads; fewer than heads: MQA, GQA"
    )
    key_width: int | None = Field(
        None, ge=1, le=1 << 20, description="features of a key per head; default: width / heads"
    )
    value_width: int | None = Field(
        None, ge=1, le=1 << 20, description="features of a value per head; default: width / heads"
    )
    attention_bias: bool = Field(False, description="add biases to the four projections, unlike the paper")
    qk_norm: bool = Field(
        False,
        description="apply RMSNorm to each head's queries and keys (Henry et al. 2020; Dehghani et al. 2023)",
    )
    context_norm: bool = Field(
        False, description="apply RMSNorm to each head's context (Ye et al. 2025, for differential attention)"
    )
    attention_gate: bool = Field(
        False, description="multiply each head's context by σ(W x), elementwise (Qiu et al. 2025)"
    )
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="dropout probability of attention weights")

    @model_validator(mode="after")
    def _check_key_heads(self) -> AttentionSizes:
        if self.heads % (self.key_heads or self.heads):
            raise ValueError(f"key_heads = {self.key_heads} does not divide heads = {self.heads}")
        return self

    def _require_whole_heads(self, width: int) -> None:
        """Raise ValueError if heads of these sizes do not divide ``width``."""
        if width % self.heads and (self.key_width is None or self.value_width is None):
            raise ValueError(f"heads = {self.heads} does not divide width = {width}")


def unprojected(attention: Any) -> Any:
    """Return an attention config with one head and no projections, unless it sets either.

    This is the attention of these decoders' papers.
    """
    if isinstance(attention, MechanismConfig):
        attention = attention.model_dump(exclude_unset=True)
    table = {"kind": attention} if isinstance(attention, str) else attention
    has_own_layout = not isinstance(table, dict) or not table.keys().isdisjoint({"heads", "project"})
    return table if has_own_layout else table | {"heads": 1, "project": []}


def kind_of(value: Any) -> Any:
    """Return the kind of a table, a config or a name; None if it has no kind."""
    return value.get("kind") if isinstance(value, dict) else getattr(value, "kind", value)
