"""Config of an encoder-decoder. Imports no torch, so that commands read configs fast."""

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
    """Encoder and decoder of one kind or of two, and the embeddings that they share."""

    sides: ClassVar[tuple[str, ...]] = ("encoder", "decoder")
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS

    preset: Literal[tuple(PRESETS)] | None = Field(None, description="values of the keys that are not set")  # type: ignore[valid-type]
    encoder: EncoderConfig = TransformerEncoderConfig()
    decoder: DecoderConfig = TransformerDecoderConfig()
    share: Literal["all", "target", "none"] = Field(
        "all",
        description="one matrix for both embeddings and the output projection; target embedding and output; none",
    )
    output_bias: bool = Field(False, description="a bias for each type of the output, as Marian's models have")
    copying: bool = Field(
        False, description="outputs may copy pieces of the source (See et al. 2017); needs one vocabulary, data.joint"
    )
    init_uniform: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="every parameter starts U(−this, this), 0.1 in Luong et al. 2015; not for a Transformer",
    )

    @model_validator(mode="after")
    def _check_attention(self) -> ModelConfig:
        decoder = self.decoder
        if decoder.kind == "recurrent" and decoder.order == "none":
            defaults = [{}, PRESETS.get(str(self.preset), {}).get("decoder", {}).get("cross_attention", {})]
            if decoder.cross_attention not in [MechanismConfig(**unprojected(each)) for each in defaults]:
                raise InvalidCombination(
                    "model.decoder.order",
                    "model.decoder.cross_attention",
                    why="a decoder of order none does not read the source, so it has no attention",
                    help="--set model.decoder.cross_attention=, or another model.decoder.order",
                )
        return self

    @model_validator(mode="after")
    def _check_initialization(self) -> ModelConfig:
        if self.init_uniform is not None and "transformer" in (self.encoder.kind, self.decoder.kind):
            raise ValueError(
                "init_uniform would start the gains of a Transformer's norms near 0; init_std is for its matrices"
            )
        return self

    @model_validator(mode="after")
    def _check_embeddings(self) -> ModelConfig:
        source, target = self.encoder.embedding_width, self.decoder.embedding_width
        if self.share == "all" and source != target:
            raise ValueError(
                f"the encoder's embeddings are {source} wide, the decoder's {target}: one matrix cannot serve both; "
                'set model.share = "target" or "none"'
            )
        if self.share != "none" and self.decoder.features != target:
            raise ValueError(
                f"the decoder ends in {self.decoder.features} features and embeddings have {target}: one matrix cannot "
                'serve both; set model.share = "none"'
            )
        return self

    @model_validator(mode="after")
    def _check_cells(self) -> ModelConfig:
        encoder, decoder = self.encoder, self.decoder
        if decoder.kind != "recurrent" or decoder.start == "learned":
            return self
        if encoder.kind != "recurrent" or encoder.bidirectional:
            raise ValueError('a decoder with start = "copied" needs a recurrent encoder of one direction')
        theirs, ours = ((side.cell.kind, side.width, side.layers) for side in (encoder, decoder))
        if theirs != ours:
            spelled = ["{2} layers of {0} cells, {1} wide".format(*cells) for cells in (theirs, ours)]
            raise ValueError(
                f"the decoder's cells cannot start as copies: the encoder has {spelled[0]}, the decoder {spelled[1]}"
            )
        return self
