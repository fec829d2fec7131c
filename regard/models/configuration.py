"""Config of an encoder-decoder. Imports no torch, to keep commands that read configs fast."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, model_validator

from regard.config.explain import InvalidCombination
from regard.models.attention_config import MechanismConfig, unprojected
from regard.models.convolutional.config import ConvolutionalDecoderConfig, ConvolutionalEncoderConfig
from regard.models.net_config import NetConfig
from regard.models.presets import PRESETS
from regard.models.recurrent.config import RecurrentDecoderConfig, RecurrentEncoderConfig
from regard.models.transformer.config import TransformerDecoderConfig, TransformerEncoderConfig

EncoderConfig = Annotated[
    TransformerEncoderConfig | RecurrentEncoderConfig | ConvolutionalEncoderConfig, Discriminator("kind")
]
DecoderConfig = Annotated[
    TransformerDecoderConfig | RecurrentDecoderConfig | ConvolutionalDecoderConfig, Discriminator("kind")
]


class ModelConfig(NetConfig):
    """Encoder and decoder of the same or different kinds, and their shared embeddings."""

    sides: ClassVar[tuple[str, ...]] = ("encoder", "decoder")
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS

    preset: Literal[tuple(PRESETS)] | None = Field(None, description="defaults for keys that are not set")  # type: ignore[valid-type]
    encoder: EncoderConfig = TransformerEncoderConfig()
    decoder: DecoderConfig = TransformerDecoderConfig()
    share: Literal["all", "target", "none"] = Field(
        "all",
        description="matrices that are shared: both embeddings and the output projection, target embedding and output, "
        "or none",
    )
    output_bias: bool = Field(False, description="add a bias to the output logits, as in Marian's models")
    copying: bool = Field(
        False, description="outputs may copy source tokens (See et al. 2017); requires one vocabulary, data.joint"
    )
    init_uniform: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="initialize every parameter from U(−a, a), 0.1 in Luong et al. 2015; not for a Transformer",
    )

    @model_validator(mode="after")
    def _check_attention(self) -> ModelConfig:
        decoder = self.decoder
        if decoder.kind == "recurrent" and decoder.order == "none":
            defaults = [{}, PRESETS.get(str(self.preset), {}).get("decoder", {}).get("cross_attention", {})]
            if decoder.cross_attention not in [MechanismConfig(**unprojected(default)) for default in defaults]:
                raise InvalidCombination(
                    "model.decoder.order",
                    "model.decoder.cross_attention",
                    why="a decoder with order none does not attend to the source",
                    help="remove model.decoder.cross_attention, or set another model.decoder.order",
                )
        return self

    @model_validator(mode="after")
    def _check_initialization(self) -> ModelConfig:
        if self.init_uniform is not None and "transformer" in (self.encoder.kind, self.decoder.kind):
            raise ValueError(
                "init_uniform cannot be used with a Transformer, whose norms need gains near 1: set init_std"
            )
        return self

    @model_validator(mode="after")
    def _check_embeddings(self) -> ModelConfig:
        source, target = self.encoder.embedding_width, self.decoder.embedding_width
        if self.share == "all" and source != target:
            raise ValueError(
                f"embeddings of width {source} (encoder) and {target} (decoder) cannot be shared: "
                'set model.share = "target" or "none"'
            )
        if self.share != "none" and self.decoder.features != target:
            raise ValueError(
                f"the output projection ({self.decoder.features} features) cannot share the matrix of embeddings "
                f'({target}): set model.share = "none"'
            )
        return self

    @model_validator(mode="after")
    def _check_cells(self) -> ModelConfig:
        encoder, decoder = self.encoder, self.decoder
        if decoder.kind != "recurrent" or decoder.start == "learned":
            return self
        if encoder.kind != "recurrent" or encoder.bidirectional:
            raise ValueError('start = "copied" requires a recurrent encoder with one direction')
        encoder_cells, decoder_cells = ((side.cell.kind, side.width, side.layers) for side in (encoder, decoder))
        if encoder_cells != decoder_cells:
            stacks = ["{2} layers of {0} cells of width {1}".format(*cells) for cells in (encoder_cells, decoder_cells)]
            raise ValueError(
                f'start = "copied" requires equal cells: the encoder has {stacks[0]}, the decoder has {stacks[1]}'
            )
        return self
