"""Export of a Transformer to CTranslate2, whose small engine needs no torch and is fast without AMX.

Only the layout of the weights changes, so the outputs in float32 are equal. CTranslate2 reads and returns pieces; the
run's tokenizers are copied into the export.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.heads import AttentionReader, SelfAttention
from regard.attention.positions.absolute import LearnedPosition, sinusoids
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD, SPECIALS, UNKNOWN, Tokenizer
from regard.models.attention_config import MechanismConfig, MixerConfig
from regard.models.configuration import ModelConfig
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.input import TokenInput
from regard.models.transformer.config import TransformerDecoderConfig, TransformerEncoderConfig
from regard.models.transformer.feed_forward import GatedFeedForward
from regard.models.transformer.layer import TransformerLayer
from regard.models.transformer.norms import Residual
from regard.models.transformer.transformer import TransformerDecoder, TransformerEncoder
from regard.share.export_format import Decode
from regard.share.pair_export import PairExport, pair_format

POSITIONS = 2048  # rows of the table of sinusoids: the maximum length of sources and outputs
ACTIVATIONS = {
    "relu": "RELU", "gelu": "GELU", "gelu-tanh": "GELUTanh", "swish": "SWISH",
    "glu": "Sigmoid", "geglu": "GELU", "swiglu": "SWISH",
}  # fmt: skip
QUANTIZATIONS = ("int8", "int8_float16", "int8_bfloat16", "int16", "float16", "bfloat16")
EPSILON = {"layer": 1e-5, "rms": 1e-6}
EQUAL_KEYS = (
    "width", "heads", "key_heads", "key_width", "value_width", "activation", "norm", "normalization",
    "normalization_epsilon", "position",
)  # fmt: skip


def obstacles(config: ModelConfig) -> list[str]:
    """Return all reasons why this model cannot be exported to CTranslate2."""
    sides = transformer_sides(config)
    if sides is None:
        copies = ["its outputs copy from the source"] if config.copying else []
        return ["its encoder and decoder are not both Transformers", *copies]
    encoder, decoder = sides
    different = [key for key in EQUAL_KEYS if getattr(encoder, key) != getattr(decoder, key)]
    reasons = {
        f"its encoder and decoder differ in {', '.join(different)}": bool(different),
        "its mixer is not self-attention": not all(side.mixer.is_attention for side in sides),
        "its attention is not the scaled dot product": decoder.cross_attention != MechanismConfig()
        or any(side.mixer != MixerConfig() for side in sides),
        "its positions are neither sinusoidal nor learned": encoder.position.kind not in ("sinusoidal", "learned"),
        "its heads share keys": encoder.key_heads not in (None, encoder.heads),
        "the width of its heads is not the model width / the number of heads": any(
            width not in (None, encoder.width // encoder.heads) for width in (encoder.key_width, encoder.value_width)
        ),
        f"its normalization is {encoder.normalization}": encoder.normalization not in EPSILON,
        f"its activation is {encoder.activation}": encoder.activation not in ACTIVATIONS,
        "its queries, keys or contexts are normalized": any(side.qk_norm or side.context_norm for side in sides),
        "its attention is gated": any(side.attention_gate for side in sides),
        "its values have separate embeddings (`value_embedding`)": any(side.value_embedding for side in sides),
        "its outputs copy from the source": config.copying,
        "its encoder is causal (`model.encoder.causal`)": encoder.causal,
        "its layers are reversible": any(side.execution == "reversible" for side in sides),
        "its embeddings are normalized, mark segments or have their own `embedding_scale`": encoder.embedding_norm
        or encoder.segments > 0
        or encoder.embedding_scale not in (None, 1.0, math.sqrt(encoder.width)),
        "its layers add the embedding again (`embedding_residual`)": any(side.embedding_residual for side in sides),
    }
    return [reason for reason, holds in reasons.items() if holds]


def transformer_sides(config: ModelConfig) -> tuple[TransformerEncoderConfig, TransformerDecoderConfig] | None:
    """Return the configs of encoder and decoder if both are Transformers; None otherwise."""
    encoder, decoder = config.encoder, config.decoder
    if encoder.kind == "transformer" and decoder.kind == "transformer":
        return encoder, decoder
    return None


def write(
    model: EncoderDecoder, config: ModelConfig, source: Tokenizer, target: Tokenizer, folder: Path, *,
    quantization: str | None = None,
) -> None:  # fmt: skip
    """Write the model into a new folder, in float32 or with a ``quantization``. ``obstacles`` must be empty."""
    from ctranslate2.specs import common_spec, transformer_spec

    sides = transformer_sides(config)
    assert sides is not None
    encoder, decoder = sides
    activation = common_spec.Activation[ACTIVATIONS[encoder.activation]]
    spec = transformer_spec.TransformerSpec.from_config(
        (encoder.layers, decoder.layers),
        encoder.heads,
        pre_norm=encoder.norm == "pre",
        activation=activation,
        ffn_glu=encoder.activation in ("glu", "geglu", "swiglu"),
        rms_norm=encoder.normalization == "rms",
    )
    _fill(spec, model)
    for register, tokenizer in (
        (spec.register_source_vocabulary, source),
        (spec.register_target_vocabulary, target),
    ):
        register(tokenizer.pieces(range(len(tokenizer))))
    begin, end, unknown = (SPECIALS[number] for number in (BEGIN, END, UNKNOWN))
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = begin, end, unknown
    spec.config.decoder_start_token, spec.config.add_source_eos = begin, encoder.reads_end
    spec.config.layer_norm_epsilon = encoder.normalization_epsilon or EPSILON[encoder.normalization]
    spec.validate()
    spec.optimize(quantization=quantization)
    folder.mkdir(parents=True)
    spec.save(str(folder))


def _fill(spec: Any, model: EncoderDecoder) -> None:
    encoder, decoder = cast(TransformerEncoder, model.encoder), cast(TransformerDecoder, model.decoder)
    for side, side_spec in ((encoder, spec.encoder), (decoder, spec.decoder)):
        embedding = side_spec.embeddings[0] if side is encoder else side_spec.embeddings
        words = cast(TokenInput, side.embedding)
        embedding.weight, position = _array(words.weight), words.position
        learned = isinstance(position, LearnedPosition)
        table = cast(Tensor, position.table) if learned else sinusoids(torch.arange(POSITIONS), side.width)
        side_spec.position_encodings.encodings = _array(table)
        side_spec.scale_embeddings = words.scale == math.sqrt(side.width)
        if not isinstance(side.norm, nn.Identity):
            _norm(side.norm, side_spec.layer_norm)
    spec.decoder.projection.weight = _array(model.head.weight)
    if model.head.bias is not None:
        spec.decoder.projection.bias = _array(model.head.bias)
    for own, spec_layer in zip(cast(list[TransformerLayer], encoder.layers), spec.encoder.layer, strict=True):
        _attention(cast(SelfAttention, own.mixer), own.around_mixer, spec_layer.self_attention)
        _feed_forward(own, spec_layer.ffn)
    for layer, spec_layer in zip(decoder.stack, spec.decoder.layer, strict=True):
        _attention(cast(SelfAttention, layer.mixer), layer.around_mixer, spec_layer.self_attention)
        _attention(cast(AttentionReader, layer.reader), layer.around_reader, spec_layer.attention)
        _feed_forward(layer, spec_layer.ffn)


def _attention(module: SelfAttention | AttentionReader, around: Residual, spec: Any) -> None:
    """Fill the matrices of an attention; projections of the same input are stacked into one matrix."""
    attention: Any = module.attention
    query, key, value, output = attention.query, attention.key, attention.value, attention.output
    is_self_attention = isinstance(module, SelfAttention)
    groups = [[query, key, value], [output]] if is_self_attention else [[query], [key, value], [output]]
    for group, linear in zip(groups, spec.linear, strict=True):
        _linear(group, linear)
    _norm(around.norm, spec.layer_norm)


def _feed_forward(layer: TransformerLayer, spec: Any) -> None:
    inner = layer.feed_forward
    if isinstance(inner, GatedFeedForward):
        _linear([inner.gate], spec.linear_0)
        _linear([inner.up], spec.linear_0_noact)
    else:
        _linear([inner.up], spec.linear_0)
    _linear([inner.down], spec.linear_1)
    _norm(layer.around_feed_forward.norm, spec.layer_norm)


def _linear(layers: list[nn.Linear], spec: Any) -> None:
    spec.weight = np.concatenate([_array(layer.weight) for layer in layers])
    if layers[0].bias is not None:
        spec.bias = np.concatenate([_array(layer.bias) for layer in layers])


def _norm(norm: nn.Module, spec: Any) -> None:
    spec.gamma = _array(cast(Tensor, norm.weight))
    if isinstance(norm, nn.LayerNorm):
        spec.beta = _array(norm.bias)


def _array(x: Tensor) -> np.ndarray[Any, Any]:
    return x.detach().float().cpu().numpy()


def decoder(folder: Path, source: Tokenizer, target: Tokenizer) -> Decode:
    """Return a greedy decoder over an export, in the numbers of its weights where this processor has them."""
    import ctranslate2

    engine = ctranslate2.Translator(str(folder), device="cpu", compute_type="default")
    piece_ids = {piece: id for id, piece in enumerate(target.pieces(range(len(target))))}

    def decode(sources: Sequence[Sequence[int]], max_length: int) -> list[list[int]]:
        suppressed = [[SPECIALS[PAD]], [SPECIALS[BEGIN]]]  # as in Regard's search
        outputs = engine.translate_batch(
            [source.pieces(ids) for ids in sources],
            beam_size=1, max_batch_size=64, max_input_length=0, min_decoding_length=0, max_decoding_length=max_length,
            suppress_sequences=suppressed,
        )  # fmt: skip
        return [[piece_ids[piece] for piece in output.hypotheses[0]][: max_length - 1] for output in outputs]

    return decode


def _export(export: PairExport, folder: Path) -> None:
    model = export.model
    write(model.model, export.config.model, model.source, model.target, folder, quantization=export.quantization)
    shutil.copytree(export.run.tokenizers, folder / "tokenizer")


FORMAT = pair_format(
    _export,
    lambda model, folder: decoder(folder, model.source, model.target),
    obstacles=lambda config: obstacles(config.model),
    libraries=("ctranslate2",),
    quantizations=QUANTIZATIONS,
    max_positions=lambda: POSITIONS,
)
