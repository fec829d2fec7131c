"""Configs of one attention or mixer: kind, heads and options. Imports no torch."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

# Mixers in the place of self-attention, kind -> class. A new one is a file and a line here. Its constructor takes
# ``width`` and, where it names them, what its site gives: see ``build_mixer``. All other arguments are options.
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
# Those of them whose constructor takes ``rotary``.
ROTATED_MIXERS = frozenset({"compressive", "global-local", "hashed", "segment-memory"})
Projection = Literal["query", "key", "value", "output"]


class Named(BaseModel):
    """Kind with options, ``{kind = "dot", …}``; ``"dot"`` alone is ``{kind = "dot"}``."""

    model_config = ConfigDict(frozen=True, extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, given: Any) -> Any:
        return {"kind": given} if isinstance(given, str) else given

    @property
    def options(self) -> dict[str, Any]:
        """Keys beside the declared fields, for the constructor of that kind."""
        return dict(self.model_extra or {})


class MechanismConfig(Named):
    """Mechanism of the catalog, with its heads and projections."""

    kind: str = "dot"
    heads: int | None = Field(None, ge=1, le=1 << 20, description="number of heads; unset: `heads` of the side")
    project: tuple[Projection, ...] | None = Field(None, description="projections that are linear; unset: all four")
    bias: tuple[Projection, ...] | None = Field(
        None, description="projections that have a bias; unset: all or none, by `attention_bias` of the side"
    )

    @model_validator(mode="after")
    def _check_neighborhood(self) -> MechanismConfig:
        if "neighborhood" in self.options:
            raise ValueError(
                "neighborhood is an option of self-attention; for cross_attention near a position use kind local-m"
            )
        return self


class MixerConfig(MechanismConfig):
    """Mixer of one sequence: self-attention with a mechanism of that kind, or another mixer (``"ssru"``)."""

    neighborhood: int | None = Field(
        None,
        ge=1,
        le=1 << 20,
        description="r of restricted self-attention: greatest distance seen (Vaswani et al. 2017, Table 1)",
    )

    sinks: int | None = Field(
        None, ge=0, le=1 << 20, description="first positions that all see beside their neighborhood (Xiao et al. 2023)"
    )

    @model_validator(mode="after")
    def _check_sinks(self) -> MixerConfig:
        if self.sinks and self.neighborhood is None:
            raise ValueError("sinks are seen beside a neighborhood, which is unset: everything is seen")
        return self

    @property
    def is_attention(self) -> bool:
        """Return whether it is self-attention with a mechanism."""
        return self.kind not in OTHER_MIXERS


class AttentionSizes(BaseModel):
    """Heads of a side, its self-attention and its attention to the source alike, unless one has its own."""

    heads: int = Field(8, ge=1, le=1 << 20, description="h")
    key_heads: int | None = Field(
        None, ge=1, le=1 << 20, description="heads of keys and values; fewer than heads: MQA, GQA"
    )
    key_width: int | None = Field(None, ge=1, le=1 << 20, description="d_k, per head; width / heads unless given")
    value_width: int | None = Field(None, ge=1, le=1 << 20, description="d_v, per head; width / heads unless given")
    attention_bias: bool = Field(False, description="bias in the four projections; the paper has none")
    qk_norm: bool = Field(
        False,
        description="RMSNorm of each head's queries and keys, with gains (Henry et al. 2020; Dehghani et al. 2023)",
    )
    context_norm: bool = Field(
        False, description="RMSNorm of each head's context, with gains (Ye et al. 2025, for differential attention)"
    )
    attention_gate: bool = Field(
        False, description="each head's context times σ(W x), feature by feature (Qiu et al. 2025)"
    )
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="probability, on attention weights")

    @model_validator(mode="after")
    def _check_key_heads(self) -> AttentionSizes:
        if self.heads % (self.key_heads or self.heads):
            raise ValueError(f"key_heads = {self.key_heads} does not divide heads = {self.heads}")
        return self

    def _require_whole_heads(self, width: int) -> None:
        """Raise ValueError where heads of these sizes would not divide ``width``."""
        if width % self.heads and (self.key_width is None or self.value_width is None):
            raise ValueError(f"heads = {self.heads} does not divide width = {width}")


def unprojected(attention: Any) -> Any:
    """Attention config, with one head and no projections, as in these decoders' papers, unless it sets either."""
    if isinstance(attention, MechanismConfig):
        attention = attention.model_dump(exclude_unset=True)
    table = {"kind": attention} if isinstance(attention, str) else attention
    laid_out = not isinstance(table, dict) or not table.keys().isdisjoint({"heads", "project"})
    return table if laid_out else table | {"heads": 1, "project": []}


def kind_of(given: Any) -> Any:
    """Kind of a table, a config, or a name alone; None where it says none."""
    return given.get("kind") if isinstance(given, dict) else getattr(given, "kind", given)
