"""A Transformer in CTranslate2's format, for whoever wants its engine: small, without torch, quick without AMX.

The weights are laid out anew and nothing is computed: in float32 the outputs are ours. Pieces of the run's tokenizers,
which stand beside the model, are what CTranslate2 takes and gives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.heads import AttentionReader, SelfAttention
from regard.attention.positions.absolute import LearnedPosition, sinusoids
from regard.data.tokenizers.catalogue import BEGIN, END, PAD, SPECIALS, UNKNOWN, Tokenizer
from regard.models.attention_config import MechanismConfig
from regard.models.configuration import ModelConfig
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.transformer.feed_forward import GatedFeedForward
from regard.models.transformer.norms import Residual
from regard.models.transformer.transformer import DecoderLayer, EncoderLayer, TransformerDecoder, TransformerEncoder
from regard.share.parity import Decode

__all__ = ["decoder", "obstacle", "write"]

POSITIONS = 2048  # rows of the table of sinusoids: no source or output may be longer
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "swish": "SWISH", "glu": "Sigmoid", "geglu": "GELU", "swiglu": "SWISH"}
EPSILON = {"layer": 1e-5, "rms": 1e-6}


def obstacle(config: ModelConfig) -> str | None:
    """Why this model cannot be said in CTranslate2's format; None if it can."""
    encoder, decoder = config.encoder, config.decoder
    plain = MechanismConfig()
    places = [config.cross_attention, *_self_attention(config)]
    reasons = {
        "its encoder and decoder are not both a Transformer's": {encoder.kind, decoder.kind} != {"transformer"},
        "its decoder mixes by something else than self-attention": getattr(decoder, "mixer", None) is not None,
        "its attention is not the scaled product": any(place != plain for place in places),
        "its positions are neither sinusoids nor learned": config.position.kind not in ("sinusoidal", "learned"),
        "its heads share keys": config.key_heads not in (None, config.heads),
        "its heads are not as wide as the model divided by their number": any(
            width not in (None, config.width // config.heads) for width in (config.key_width, config.value_width)
        ),
        f"its normalisation is {config.normalisation}": config.normalisation not in EPSILON,
    }
    return next((reason for reason, stands in reasons.items() if stands), None)


def _self_attention(config: ModelConfig) -> list[MechanismConfig]:
    sides = (config.encoder, config.decoder)
    return [getattr(side, "self_attention", None) or config.self_attention for side in sides]


def write(model: EncoderDecoder, config: ModelConfig, source: Tokenizer, target: Tokenizer, folder: Path) -> None:
    """Write the model into a new folder, in float32. ``obstacle`` must be None."""
    from ctranslate2.specs import common_spec, transformer_spec

    activation = common_spec.Activation[ACTIVATIONS[config.activation]]
    spec = transformer_spec.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.heads,
        pre_norm=config.norm == "pre",
        activation=activation,
        ffn_glu=config.activation in ("glu", "geglu", "swiglu"),
        rms_norm=config.normalisation == "rms",
    )
    _fill(spec, model)
    for register, tokenizer in (
        (spec.register_source_vocabulary, source),
        (spec.register_target_vocabulary, target),
    ):
        register(tokenizer.pieces(range(len(tokenizer))))
    begin, end, unknown = (SPECIALS[number] for number in (BEGIN, END, UNKNOWN))
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = begin, end, unknown
    spec.config.decoder_start_token, spec.config.add_source_eos = begin, True
    spec.config.layer_norm_epsilon = EPSILON[config.normalisation]
    spec.validate()
    spec.optimize(quantization=None)
    folder.mkdir(parents=True)
    spec.save(str(folder))


def _fill(spec: Any, model: EncoderDecoder) -> None:
    encoder, decoder = cast(TransformerEncoder, model.encoder), cast(TransformerDecoder, model.decoder)
    for side, its in ((encoder, spec.encoder), (decoder, spec.decoder)):
        embedding = its.embeddings[0] if side is encoder else its.embeddings
        embedding.weight = _numbers(side.embedding.weight)
        position = side.embedding.position
        learned = isinstance(position, LearnedPosition)
        table = cast(Tensor, position.table) if learned else sinusoids(torch.arange(POSITIONS), side.width)
        its.position_encodings.encodings = _numbers(table)
        its.scale_embeddings = side.embedding.scale == math.sqrt(side.width)
        if not isinstance(side.norm, nn.Identity):
            _norm(side.norm, its.layer_norm)
    spec.decoder.projection.weight = _numbers(model.projection)
    if model.output_bias is not None:
        spec.decoder.projection.bias = _numbers(model.output_bias)
    for own, its in zip(cast(list[EncoderLayer], encoder.layers), spec.encoder.layer, strict=True):
        _attention(cast(SelfAttention, own.mixer), own.around_mixer, its.self_attention)
        _feed_forward(own, its.ffn)
    for layer, its in zip(decoder.stack, spec.decoder.layer, strict=True):
        _attention(cast(SelfAttention, layer.mixer), layer.around_mixer, its.self_attention)
        _attention(cast(AttentionReader, layer.reader), layer.around_reader, its.attention)
        _feed_forward(layer, its.ffn)


def _attention(of: SelfAttention | AttentionReader, around: Residual, its: Any) -> None:
    """Query, key and value are one matrix where they read the same."""
    attention: Any = of.attention
    query, key, value, output = attention.query, attention.key, attention.value, attention.output
    within = isinstance(of, SelfAttention)
    groups = [[query, key, value], [output]] if within else [[query], [key, value], [output]]
    for group, linear in zip(groups, its.linear, strict=True):
        _linear(group, linear)
    _norm(around.norm, its.layer_norm)


def _feed_forward(layer: EncoderLayer | DecoderLayer, its: Any) -> None:
    inner = layer.feed_forward
    if isinstance(inner, GatedFeedForward):
        _linear([inner.gate], its.linear_0)
        _linear([inner.up], its.linear_0_noact)
    else:
        _linear([inner.up], its.linear_0)
    _linear([inner.down], its.linear_1)
    _norm(layer.around_feed_forward.norm, its.layer_norm)


def _linear(layers: list[nn.Linear], its: Any) -> None:
    its.weight = np.concatenate([_numbers(layer.weight) for layer in layers])
    if layers[0].bias is not None:
        its.bias = np.concatenate([_numbers(layer.bias) for layer in layers])


def _norm(norm: nn.Module, its: Any) -> None:
    its.gamma = _numbers(cast(Tensor, norm.weight))
    if isinstance(norm, nn.LayerNorm):
        its.beta = _numbers(norm.bias)


def _numbers(x: Tensor) -> np.ndarray[Any, Any]:
    return x.detach().float().cpu().numpy()


def decoder(folder: Path, source: Tokenizer, target: Tokenizer) -> Decode:
    """What an export says, greedily and in float32, of and as piece numbers."""
    import ctranslate2

    theirs = ctranslate2.Translator(str(folder), device="cpu", compute_type="float32")
    number = {piece: index for index, piece in enumerate(target.pieces(range(len(target))))}

    def decode(sources: Sequence[Sequence[int]], longest: int) -> list[list[int]]:
        never = [[SPECIALS[PAD]], [SPECIALS[BEGIN]]]  # which ours never says either; a trained model has no wish to
        found = theirs.translate_batch(
            [source.pieces(each) for each in sources],
            beam_size=1, max_batch_size=64, max_input_length=0, min_decoding_length=0, max_decoding_length=longest,
            suppress_sequences=never,
        )  # fmt: skip
        return [[number[piece] for piece in each.hypotheses[0]][: longest - 1] for each in found]

    return decode
