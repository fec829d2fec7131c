"""What a config says of an encoder or a decoder of each kind. Imports no torch."""

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
    mixer: MixerConfig | None = Field(None, description="what stands in self-attention's place; unset: self-attention")


class CellConfig(Named):
    """``"lstm"``, or ``{kind = "gru", reset = "before"}``: a recurrent cell and how it starts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["elman", "lstm", "gru"] = "lstm"
    reset: Literal["after", "before"] = Field(
        "after", description="of a GRU: r ∘ (U h) as torch has it, or U (r ∘ h) as Cho et al. 2014 print it"
    )
    update: Literal["keeps", "renews"] = Field(
        "keeps", description="of a GRU: what z = 1 does with the old state (Bahdanau et al. 2015: renews)"
    )
    orthogonal: bool = Field(False, description="recurrent matrices start orthogonal")
    forget_bias: float = Field(0.0, description="added to the bias of the gate that keeps the old state")

    @model_validator(mode="after")
    def _has_these_gates(self) -> CellConfig:
        if self.kind != "gru" and (self.reset, self.update) != ("after", "keeps"):
            raise ValueError(f"reset and update are choices of a GRU, not of the {self.kind} cell")
        if self.kind == "elman" and self.forget_bias:
            raise ValueError("an Elman cell has no gate that a forget bias could open")
        return self


class RecurrentEncoderConfig(BaseModel):
    """Cells from left to right, or from both sides."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["recurrent"] = "recurrent"
    cell: CellConfig = CellConfig()
    bidirectional: bool = Field(True, description="states are those of both directions, side by side")
    reversed: bool = Field(
        False, description="one direction: read from the last word to the first (Sutskever 2014, Luong 2015)"
    )
    scale_embedding: bool = Field(True, description="embeddings times √width, as a Transformer's are")
    width: int | None = Field(
        None, ge=1, le=LARGEST, description="of one direction; unset: states are as wide as the decoder's"
    )

    @model_validator(mode="after")
    def _reads_one_way(self) -> RecurrentEncoderConfig:
        if self.reversed and self.bidirectional:
            raise ValueError("reversed is of an encoder that reads one way: set bidirectional = false")
        return self


class RecurrentDecoderConfig(BaseModel):
    """Cells that read the source at every step, or only its summary."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["recurrent"] = "recurrent"
    cell: CellConfig = CellConfig()
    order: Literal["luong", "bahdanau", "none"] = Field(
        "luong", description="read after the cells (Luong 2015), before them (Bahdanau 2015), or not at all"
    )
    start: Literal["learned", "copied"] = Field(
        "learned", description="tanh(W · the encoder's summary), or the encoder's last states as they are (Luong 2015)"
    )
    input_feeding: bool = Field(True, description="`luong`: the last read-out enters the first cell")
    readout: int | None = Field(None, ge=1, le=LARGEST, description="`bahdanau`: l, the maxout units; unset: the width")
    scale_embedding: bool = Field(True, description="embeddings times √width, as a Transformer's are")


class ConvolutionalEncoderConfig(BaseModel):
    """Gated convolutions around each position (Gehring et al. 2017)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["convolutional"] = "convolutional"
    blocks: tuple[Block, ...] | None = Field(
        None,
        min_length=1,
        max_length=100,
        description="[width, kernel, layers] each; unset: `encoder_layers` of kernel 3",
    )


class ConvolutionalDecoderConfig(BaseModel):
    """Gated convolutions over what came before, each of them reading the source (Gehring et al. 2017)."""

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
