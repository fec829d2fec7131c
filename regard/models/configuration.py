"""The model part of a config: sizes, places, mechanisms. Imports no torch, so that commands can read configs fast."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["PRESETS", "MechanismConfig", "ModelConfig"]

# width, feed_forward, heads, layers, dropout: `base` and `big` are the paper's (Vaswani et al. 2017, Table 3).
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": dict(encoder_layers=4, decoder_layers=4, width=128, feed_forward=256, heads=4, dropout=0.3),
    "small": dict(encoder_layers=4, decoder_layers=4, width=256, feed_forward=1024, heads=4, dropout=0.2),
    "base": dict(encoder_layers=6, decoder_layers=6, width=512, feed_forward=2048, heads=8, dropout=0.1),
    "big": dict(encoder_layers=6, decoder_layers=6, width=1024, feed_forward=4096, heads=16, dropout=0.3),
}


class MechanismConfig(BaseModel):
    """``{kind = "dot", …}``: a name of the catalogue and that mechanism's own options."""

    model_config = ConfigDict(frozen=True, extra="allow")

    kind: str = "dot"


class ModelConfig(BaseModel):
    """A Transformer (Vaswani et al. 2017). ``preset`` fills in sizes that are not given."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["transformer"] = "transformer"
    preset: Literal["tiny", "small", "base", "big"] | None = None
    encoder_layers: int = Field(6, ge=1, description="N of the encoder")
    decoder_layers: int = Field(6, ge=1, description="N of the decoder")
    width: int = Field(512, ge=2, description="d_model")
    feed_forward: int = Field(2048, ge=1, description="d_ff")
    heads: int = Field(8, ge=1, description="h")
    key_heads: int | None = Field(None, ge=1, description="heads of keys and values; fewer than heads: MQA, GQA")
    key_width: int | None = Field(None, ge=1, description="d_k, per head; width / heads unless given")
    value_width: int | None = Field(None, ge=1, description="d_v, per head; width / heads unless given")
    attention_bias: bool = Field(False, description="biases in the four projections; the paper prints none")
    dropout: float = Field(0.1, ge=0, lt=1, description="P_drop, on sub-layer outputs and embeddings")
    norm: Literal["post", "pre"] = Field("post", description="LayerNorm after (paper) or before the sub-layer")
    position: Literal["sinusoidal", "learned", "none"] = "sinusoidal"
    longest: int = Field(1024, ge=1, description="rows of a learned position table")
    share: Literal["all", "target", "none"] = Field(
        "all",
        description="one matrix for both embeddings and the output projection; target embedding and output; none",
    )
    self_attention: MechanismConfig = MechanismConfig()
    cross_attention: MechanismConfig = MechanismConfig()

    @model_validator(mode="before")
    @classmethod
    def _fill_preset(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("preset") in PRESETS:
            return PRESETS[given["preset"]] | given
        return given

    @model_validator(mode="after")
    def _heads_divide(self) -> ModelConfig:
        if self.width % self.heads and (self.key_width is None or self.value_width is None):
            raise ValueError(f"heads = {self.heads} does not divide width = {self.width}")
        if self.heads % (self.key_heads or self.heads):
            raise ValueError(f"key_heads = {self.key_heads} does not divide heads = {self.heads}")
        if self.position == "sinusoidal" and self.width % 2:
            raise ValueError(f"sinusoidal positions need an even width, not {self.width}")
        return self
