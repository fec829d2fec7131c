"""Configs of an encoder or decoder of each kind. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, model_validator

from regard.models.attention_config import MechanismConfig, MixerConfig, Named

__all__ = [
    "CellConfig", "ConvolutionalDecoderConfig", "ConvolutionalEncoderConfig", "DecoderConfig", "EncoderConfig",
    "RecurrentDecoderConfig", "RecurrentEncoderConfig", "TransformerDecoderConfig", "TransformerEncoderConfig",
]  # fmt: skip

LARGEST = 1 << 20
Size = Annotated[int, Field(ge=1, le=LARGEST)]
Block = tuple[Size, Size, Annotated[int, Field(ge=1, le=100)]]  # width, kernel, layers


class TransformerEncoderConfig(BaseModel):
    """N layers of mixing within the source and a feed-forward (Vaswani et al. 2017)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["transformer"] = "transformer"
    self_attention: MechanismConfig | None = Field(None, description="unless given: `model.self_attention`")


class TransformerDecoderConfig(BaseModel):
    """N layers of mixing within the target, reading the source and a feed-forward (Vaswani et al. 2017)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["transformer"] = "transformer"
    self_attention: MechanismConfig | None = Field(None, description="unless given: `model.self_attention`")
    mixer: MixerConfig | None = Field(None, description="replaces self-attention; unset: self-attention")


class CellConfig(Named):
    """Recurrent cell and its initialisation: ``"lstm"``, or ``{kind = "gru", reset = "before"}``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["elman", "lstm", "gru"] = "lstm"
    reset: Literal["after", "before"] = Field(
        "after", description="GRU only: r ∘ (U h) as in torch, or U (r ∘ h) as in Cho et al. 2014"
    )
    update: Literal["keeps", "renews"] = Field(
        "keeps", description="GRU only: effect of z = 1 on the old state (Bahdanau et al. 2015: renews)"
    )
    orthogonal: bool = Field(False, description="recurrent matrices start orthogonal")
    forget_bias: float = Field(0.0, description="added to the bias of the gate that keeps the old state")

    @model_validator(mode="after")
    def _check_gates(self) -> CellConfig:
        if self.kind != "gru" and (self.reset, self.update) != ("after", "keeps"):
            raise ValueError(f"reset and update are options of a GRU, not of the {self.kind} cell")
        if self.kind == "elman" and self.forget_bias:
            raise ValueError("an Elman cell has no gate that a forget bias could open")
        return self


class RecurrentEncoderConfig(BaseModel):
    """Recurrent cells over the source, in one direction or both."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["recurrent"] = "recurrent"
    cell: CellConfig = CellConfig()
    bidirectional: bool = Field(True, description="concatenate the states of both directions")
    reversed: bool = Field(
        False, description="one direction only: from the last token to the first (Sutskever 2014, Luong 2015)"
    )
    scale_embedding: bool = Field(True, description="multiply embeddings by √width, as a Transformer does")
    width: int | None = Field(
        None, ge=1, le=LARGEST, description="width of one direction; unset: states are `model.width` wide"
    )

    @model_validator(mode="after")
    def _check_direction(self) -> RecurrentEncoderConfig:
        if self.reversed and self.bidirectional:
            raise ValueError("reversed needs an encoder of one direction: set bidirectional = false")
        return self


class RecurrentDecoderConfig(BaseModel):
    """Recurrent cells that read the source at every step, or a summary of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["recurrent"] = "recurrent"
    cell: CellConfig = CellConfig()
    order: Literal["luong", "bahdanau", "none"] = Field(
        "luong", description="attention after the cells (Luong 2015), before them (Bahdanau 2015), or none"
    )
    start: Literal["learned", "copied"] = Field(
        "learned", description="first state: tanh(W · summary), or a copy of the encoder's last states (Luong 2015)"
    )
    input_feeding: bool = Field(True, description="`luong`: the first cell also gets the last read-out")
    readout: int | None = Field(None, ge=1, le=LARGEST, description="`bahdanau`: l, maxout units; unset: `model.width`")
    scale_embedding: bool = Field(True, description="multiply embeddings by √width, as a Transformer does")


class ConvolutionalEncoderConfig(BaseModel):
    """Gated convolutions centred on each position (Gehring et al. 2017)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["convolutional"] = "convolutional"
    blocks: tuple[Block, ...] | None = Field(
        None,
        min_length=1,
        max_length=100,
        description="[width, kernel, layers] each; unset: `encoder_layers` of kernel 3",
    )


class ConvolutionalDecoderConfig(BaseModel):
    """Gated convolutions over earlier positions, with attention to the source in each (Gehring et al. 2017)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["convolutional"] = "convolutional"
    blocks: tuple[Block, ...] | None = Field(
        None,
        min_length=1,
        max_length=100,
        description="[width, kernel, layers] each; unset: `decoder_layers` of kernel 3",
    )


EncoderConfig = Annotated[
    TransformerEncoderConfig | RecurrentEncoderConfig | ConvolutionalEncoderConfig, Discriminator("kind")
]
DecoderConfig = Annotated[
    TransformerDecoderConfig | RecurrentDecoderConfig | ConvolutionalDecoderConfig, Discriminator("kind")
]
