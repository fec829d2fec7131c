"""Config of a model: sizes, architectures, mechanisms. Imports no torch, so that commands read configs fast."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from regard.config.explain import Misfit
from regard.config.toml_layers import merge_into
from regard.models.architectures import DecoderConfig, EncoderConfig, TransformerDecoderConfig, TransformerEncoderConfig
from regard.models.attention_config import MechanismConfig
from regard.models.position_config import RELATIVE, PositionConfig, SinusoidalConfig
from regard.models.presets import DEFAULTS, PRESETS

__all__ = ["ModelConfig"]

SIZE, LAYERS = 1 << 20, 1000  # limits, so that an untrusted config cannot ask for any memory or time
RECURRENT_LAYERS = 2  # default: cells are seldom stacked as high as layers of attention

SIDES = ("encoder", "decoder")
Activation = Literal["relu", "gelu", "swish", "glu", "geglu", "swiglu"]


class ModelConfig(BaseModel):
    """Encoder and decoder of one kind or of two; ``preset`` gives values for keys that are not set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["transformer", "recurrent", "convolutional"] = Field(
        "transformer", description="architecture of encoder and decoder, unless they name one"
    )
    preset: Literal[tuple(PRESETS)] | None = None  # type: ignore[valid-type]
    encoder: EncoderConfig = TransformerEncoderConfig()
    decoder: DecoderConfig = TransformerDecoderConfig()
    encoder_layers: int = Field(6, ge=1, le=LAYERS, description="layers of the encoder, N; unset: 2 if recurrent")
    decoder_layers: int = Field(6, ge=1, le=LAYERS, description="layers of the decoder, N; unset: 2 if recurrent")
    width: int = Field(512, ge=2, le=SIZE, description="d_model")
    embedding: int | None = Field(
        None, ge=1, le=SIZE, description="width of embeddings; a Transformer's equals `width`"
    )
    feed_forward: int = Field(2048, ge=1, le=SIZE, description="d_ff")
    activation: Activation = Field("relu", description="activation of the feed-forward; gated ones have a third matrix")
    heads: int = Field(8, ge=1, le=SIZE, description="h")
    key_heads: int | None = Field(
        None, ge=1, le=SIZE, description="heads of keys and values; fewer than heads: MQA, GQA"
    )
    key_width: int | None = Field(None, ge=1, le=SIZE, description="d_k, per head; width / heads unless given")
    value_width: int | None = Field(None, ge=1, le=SIZE, description="d_v, per head; width / heads unless given")
    attention_bias: bool = Field(False, description="bias in the four projections; the paper has none")
    dropout: float = Field(0.1, ge=0, lt=1, description="P_drop, on sub-layer outputs and embeddings")
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="probability, on attention weights")
    feed_forward_dropout: float = Field(0.0, ge=0, lt=1, description="probability, on a Transformer's inner units")
    init_std: float | None = Field(
        None, gt=0, description="Transformer only: matrices of layers start N(0, this²); unset: Glorot-uniform"
    )
    init_uniform: float | None = Field(
        None, gt=0, description="every parameter starts U(−this, this), 0.1 in Luong et al. 2015; not for a Transformer"
    )
    norm: Literal["post", "pre"] = Field("post", description="normalise after (paper) or before the sub-layer")
    normalisation: Literal["layer", "rms", "batch", "none"] = Field("layer", description="kind of normalisation")
    position: PositionConfig = SinusoidalConfig()
    longest: int = Field(1024, ge=1, le=1 << 24, description="rows of a learned position table")
    share: Literal["all", "target", "none"] = Field(
        "all",
        description="one matrix for both embeddings and the output projection; target embedding and output; none",
    )
    output_bias: bool = Field(False, description="a bias for each type of the output, as Marian's models have")
    self_attention: MechanismConfig = MechanismConfig()
    cross_attention: MechanismConfig = MechanismConfig()

    @model_validator(mode="before")
    @classmethod
    def _fill_defaults(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        filled = _of_preset(given)
        merge_into(filled, given)
        for side in SIDES:
            own = filled.get(side, {})
            own = {"kind": own} if isinstance(own, str) else own
            if isinstance(own, dict):
                filled[side] = own = {"kind": filled.get("kind", "transformer")} | own
                if own["kind"] == "recurrent":
                    filled.setdefault(f"{side}_layers", RECURRENT_LAYERS)
        decoder = filled["decoder"]
        kind = decoder["kind"] if isinstance(decoder, dict) else getattr(decoder, "kind", None)
        filled = DEFAULTS.get(str(kind), {}) | filled
        if kind in ("recurrent", "convolutional"):
            filled["cross_attention"] = _unprojected(filled.get("cross_attention", {}))
        return filled

    @model_validator(mode="after")
    def _check_heads(self) -> ModelConfig:
        uses = "transformer" in (self.encoder.kind, self.decoder.kind) or self.cross_attention.heads is None
        if uses and self.width % self.heads and (self.key_width is None or self.value_width is None):
            raise ValueError(f"heads = {self.heads} does not divide width = {self.width}")
        if self.heads % (self.key_heads or self.heads):
            raise ValueError(f"key_heads = {self.key_heads} does not divide heads = {self.heads}")
        positioned = (self.encoder.kind, self.decoder.kind) != ("recurrent", "recurrent")
        if positioned and self.position.kind == "sinusoidal" and (self.embedding or self.width) % 2:
            raise ValueError(f"sinusoidal positions need an even width, not {self.embedding or self.width}")
        return self

    @model_validator(mode="after")
    def _check_attention(self) -> ModelConfig:
        encoder, decoder = self.encoder, self.decoder
        within = encoder.kind == "transformer" or (decoder.kind == "transformer" and decoder.mixer is None)
        if self.position.kind in RELATIVE and not within:
            raise ValueError(f"{self.position.kind} positions are for self-attention, and there is none")
        if self.cross_attention.neighbourhood is not None:
            raise ValueError(
                "neighbourhood is an option of self-attention; for cross_attention near a position use kind local-m"
            )
        if decoder.kind == "recurrent" and decoder.order == "none":
            defaults = [{}, PRESETS.get(str(self.preset), {}).get("cross_attention", {})]
            if self.cross_attention not in [MechanismConfig(**_unprojected(each)) for each in defaults]:
                raise Misfit(
                    "model.decoder.order",
                    "model.cross_attention",
                    why="a decoder of order none does not read the source, so it has no attention",
                    help="--set model.cross_attention=, or another model.decoder.order",
                )
        return self

    @model_validator(mode="after")
    def _check_initialisation(self) -> ModelConfig:
        if self.init_uniform is not None and "transformer" in (self.encoder.kind, self.decoder.kind):
            raise ValueError(
                "init_uniform would start the gains of a Transformer's norms near 0; model.init_std is for its matrices"
            )
        return self

    @model_validator(mode="after")
    def _check_embeddings(self) -> ModelConfig:
        width = self.embedding or self.width
        if "transformer" in (self.encoder.kind, self.decoder.kind) and width != self.width:
            raise ValueError(f"a Transformer's embeddings are as wide as it is: {self.width}, not {width}")
        if self.share != "none" and self.features != width:
            raise ValueError(
                f"the decoder ends in {self.features} features and embeddings have {width}: one matrix cannot serve "
                'both; set model.share = "none"'
            )
        return self

    @model_validator(mode="after")
    def _check_cells(self) -> ModelConfig:
        encoder, decoder = self.encoder, self.decoder
        if encoder.kind == "recurrent" and encoder.bidirectional and encoder.width is None and self.width % 2:
            raise ValueError(f"two directions cannot share a width of {self.width}: give model.encoder.width")
        if decoder.kind != "recurrent" or decoder.start == "learned":
            return self
        if encoder.kind != "recurrent" or encoder.bidirectional:
            raise ValueError('a decoder with start = "copied" needs a recurrent encoder of one direction')
        theirs = encoder.cell.kind, encoder.width or self.width, self.encoder_layers
        ours = decoder.cell.kind, self.width, self.decoder_layers
        if theirs != ours:
            spelled = ["{2} layers of {0} cells, {1} wide".format(*cells) for cells in (theirs, ours)]
            raise ValueError(
                f"the decoder's cells cannot start as copies: the encoder has {spelled[0]}, the decoder {spelled[1]}"
            )
        return self

    @property
    def features(self) -> int:
        """Width of the decoder's features, the input of the output projection."""
        if self.decoder.kind == "recurrent" and self.decoder.order == "bahdanau":
            return self.decoder.readout or self.width
        if self.decoder.kind == "convolutional":
            return self.embedding or self.width
        return self.width


def _of_preset(given: dict[str, Any]) -> dict[str, Any]:
    """Values of the preset, with the kind of each side; a side of another kind in the config replaces that side."""
    sizes = PRESETS.get(str(given.get("preset")), {})
    filled: dict[str, Any] = {}
    merge_into(filled, sizes)
    kind = sizes.get("kind")
    if kind is None:
        return filled
    if given.get("kind", kind) != kind:
        raise Misfit(
            "model.kind",
            "model.preset",
            why=f"the preset {given['preset']} is {kind}",
            help="another model.preset, or none; or a kind for one side alone: --set model.encoder=transformer",
        )
    return filled | {side: {"kind": kind} | filled.get(side, {}) for side in SIDES}


def _unprojected(attention: Any) -> Any:
    """Attention config, with one head and no projections, as in these decoders' papers, unless it sets either."""
    if isinstance(attention, MechanismConfig):
        attention = attention.model_dump(exclude_unset=True)
    table = {"kind": attention} if isinstance(attention, str) else attention
    laid_out = not isinstance(table, dict) or not table.keys().isdisjoint({"heads", "project"})
    return table if laid_out else table | {"heads": 1, "project": []}
