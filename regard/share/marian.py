"""Export of a Transformer as a Marian model of ``transformers``, in plain JSON and safetensors.

Only the order of features and pieces differs, so the outputs are equal. Marian's positions have all sines before all
cosines, and Regard's alternate. The features of the residual stream are therefore permuted in every matrix that reads
or writes the stream. Marian's decoder starts with the padding symbol, so its row is that of Regard's begin symbol.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
import torch
from torch import Tensor

from regard.config.settings import SearchConfig
from regard.core import atomic_files
from regard.data.pairs import pad_sources
from regard.data.tokenizers.subword import SentencePieceTokenizer
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD, SPECIALS, UNKNOWN, Tokenizer
from regard.models.configuration import ModelConfig
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.transformer.config import TransformerDecoderConfig, TransformerEncoderConfig
from regard.share import ctranslate2
from regard.share.export_format import Decode
from regard.share.pair_export import PairExport, pair_format

POSITIONS = 1024  # maximum length of sources and outputs in transformers
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish"}
MARIAN_SPECIALS = [PAD, UNKNOWN, END]  # Marian has no begin symbol; ordinary pieces follow in the same order
MARIAN_PAD, MARIAN_UNKNOWN, MARIAN_END = range(len(MARIAN_SPECIALS))

# Marian's names of tables: shared embeddings, source and target embedding, separate output.
SHARED, SOURCE, TARGET = (f"model.{name}.weight" for name in ("shared", "encoder.embed_tokens", "decoder.embed_tokens"))
OUTPUT, BIAS = "lm_head.weight", "final_logits_bias"


class TensorName(NamedTuple):
    """A tensor of a layer under both names."""

    parameter: str
    marian: str
    along: int | None  # the dimension of the features of the residual stream


def obstacles(config: ModelConfig) -> list[str]:
    """Return all reasons why a model of this config cannot be exported to Marian."""
    general, sides = ctranslate2.obstacles(config), ctranslate2.transformer_sides(config)
    if sides is None:
        return general
    encoder, decoder = sides
    reasons = {
        "its sub-layers are pre-norm (`norm`)": encoder.norm != "post",
        f"its normalization is {encoder.normalization}": encoder.normalization != "layer",
        "its `normalization_epsilon` is not 1e-5": encoder.normalization_epsilon not in (None, 1e-5),
        f"its positions are {encoder.position.kind}": encoder.position.kind != "sinusoidal",
        f"its activation is {encoder.activation}": encoder.activation
        in set(ctranslate2.ACTIVATIONS) - set(ACTIVATIONS),
        "its encoder and decoder differ in dropout": encoder.dropout != decoder.dropout,
        "its encoder does not read the end symbol": not encoder.reads_end,
        "its embeddings are not multiplied by √width (`embedding_scale`)": encoder.embedding_scale == 1.0,
    }
    return [*general, *(reason for reason, holds in reasons.items() if holds)]


def tokenizer_obstacles(source: Tokenizer, target: Tokenizer) -> list[str]:
    """Return all reasons why tokenizers cannot be exported to Marian."""
    reasons: dict[str, bool] = {}
    for side, tokenizer in (("source", source), ("target", target)):
        reasons |= {
            f"its {side} tokenizer is not a SentencePiece model": not isinstance(tokenizer, SentencePieceTokenizer),
            f"its {side} tokenizer lowercases text": tokenizer.config.lowercase,
            f"its {side} tokenizer has pieces with equal spelling": len(_vocabulary(tokenizer)) < len(tokenizer) - 1,
        }
    return [reason for reason, holds in reasons.items() if holds]


def _sides(config: ModelConfig) -> tuple[TransformerEncoderConfig, TransformerDecoderConfig]:
    sides = ctranslate2.transformer_sides(config)
    assert sides is not None
    return sides


def write(model: EncoderDecoder, config: Any, source: Tokenizer, target: Tokenizer, folder: Path) -> None:
    """Write the model into a new folder, in float32. ``obstacles`` must be empty."""
    assert isinstance(source, SentencePieceTokenizer) and isinstance(target, SentencePieceTokenizer)
    folder.mkdir(parents=True)
    weights = safetensors.torch.save(_tensors(model, config.model), metadata={"format": "pt"})
    atomic_files.write_bytes(folder / "model.safetensors", weights)
    vocabularies = {"vocab.json": _vocabulary(source)}
    if _vocabulary(target) != _vocabulary(source):
        vocabularies["target_vocab.json"] = _vocabulary(target)
    files: dict[str, Any] = {
        **vocabularies,
        "config.json": _config(config.model, len(source) - 1, len(target) - 1),
        "generation_config.json": _generation(config.search, config.data.max_length),
        "tokenizer_config.json": _tokenizer_config(config, separate=len(vocabularies) > 1),
    }
    for name, content in files.items():
        atomic_files.write_bytes(folder / name, atomic_files.json_bytes(content))
    for name, tokenizer in (("source.spm", source), ("target.spm", target)):
        atomic_files.write_bytes(folder / name, tokenizer.model)


def sines_first(x: Tensor, along: int | None) -> Tensor:
    """Return interleaved features in Marian's order along one dimension: even features, then odd ones."""
    return x if along is None else x.index_select(along, _order(x.shape[along]))


def interleaved(x: Tensor, along: int | None) -> Tensor:
    """Invert ``sines_first``."""
    return x if along is None else x.index_select(along, _order(x.shape[along]).argsort())


def _order(width: int) -> Tensor:
    return torch.arange(width).view(-1, 2).T.flatten()


def tensor_names(config: ModelConfig) -> Iterator[TensorName]:
    """Yield the names of all tensors of the layers."""
    for number in range(config.encoder.layers):
        module, marian = f"encoder.layers.{number}", f"model.encoder.layers.{number}"
        yield from _attention(f"{module}.mixer.attention", f"{marian}.self_attn")
        yield from _norm(f"{module}.around_mixer", f"{marian}.self_attn_layer_norm")
        yield from _feed_forward(module, marian)
    for number in range(config.decoder.layers):
        module, marian = f"decoder.layers.{number}", f"model.decoder.layers.{number}"
        yield from _attention(f"{module}.mixer.attention", f"{marian}.self_attn")
        yield from _norm(f"{module}.around_mixer", f"{marian}.self_attn_layer_norm")
        yield from _attention(f"{module}.reader.attention", f"{marian}.encoder_attn")
        yield from _norm(f"{module}.around_reader", f"{marian}.encoder_attn_layer_norm")
        yield from _feed_forward(module, marian)


def _attention(module: str, marian: str) -> Iterator[TensorName]:
    for projection, foreign in (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj")):
        yield from _input_layer(f"{module}.{projection}", f"{marian}.{foreign}")
    yield from _output_layer(f"{module}.output", f"{marian}.out_proj")


def _feed_forward(module: str, marian: str) -> Iterator[TensorName]:
    yield from _input_layer(f"{module}.feed_forward.up", f"{marian}.fc1")
    yield from _output_layer(f"{module}.feed_forward.down", f"{marian}.fc2")
    yield from _norm(f"{module}.around_feed_forward", f"{marian}.final_layer_norm")


def _input_layer(module: str, marian: str) -> Iterator[TensorName]:
    yield TensorName(f"{module}.weight", f"{marian}.weight", 1)
    yield TensorName(f"{module}.bias", f"{marian}.bias", None)


def _output_layer(module: str, marian: str) -> Iterator[TensorName]:
    yield TensorName(f"{module}.weight", f"{marian}.weight", 0)
    yield TensorName(f"{module}.bias", f"{marian}.bias", 0)


def _norm(module: str, marian: str) -> Iterator[TensorName]:
    for name in ("weight", "bias"):
        yield TensorName(f"{module}.norm.{name}", f"{marian}.{name}", 0)


def _tensors(model: EncoderDecoder, config: ModelConfig) -> dict[str, Tensor]:
    own = {name: parameter.detach().float().cpu() for name, parameter in model.named_parameters(remove_duplicate=False)}
    tensors = {  # Marian always has biases in attention: 0 for a model without them
        name.marian: sines_first(own[name.parameter], name.along)
        if name.parameter in own
        else torch.zeros(config.encoder.width)
        for name in tensor_names(config)
    }
    tables = {SHARED: "encoder.embedding.weight"}
    if config.share != "all":
        tables = {SOURCE: "encoder.embedding.weight", TARGET: "decoder.embedding.weight"}
    if config.share == "none":
        tables[OUTPUT] = "head.weight"
    for marian, parameter in tables.items():
        tensors[marian] = sines_first(_rows(own[parameter], pad=BEGIN), 1)
    bias = own.get("head.bias", torch.zeros(len(own["head.weight"])))
    tensors[BIAS] = _rows(bias, pad=PAD)[None]
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def _rows(table: Tensor, *, pad: int) -> Tensor:
    """Return the rows of a table in Marian's order of pieces; padding gets the row of the id ``pad``."""
    return torch.cat([table[[pad, UNKNOWN, END]], table[len(SPECIALS) :]])


def _vocabulary(tokenizer: Tokenizer) -> dict[str, int]:
    pieces = tokenizer.pieces([*MARIAN_SPECIALS, *range(len(SPECIALS), len(tokenizer))])
    return {piece: number for number, piece in enumerate(pieces)}


def _config(config: ModelConfig, source_types: int, target_types: int) -> dict[str, Any]:
    encoder, decoder = _sides(config)
    sizes = {name: {"layers": side.layers, "ffn_dim": side.feed_forward, "attention_heads": side.heads}
            for name, side in (("encoder", encoder), ("decoder", decoder))}  # fmt: skip
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": source_types,
        "decoder_vocab_size": target_types,
        "d_model": encoder.width,
        **{f"{side}_{name}": value for side, side_sizes in sizes.items() for name, value in side_sizes.items()},
        "activation_function": ACTIVATIONS[encoder.activation],
        "dropout": encoder.dropout,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "scale_embedding": True,
        "normalize_before": False,
        "static_position_embeddings": True,
        "max_position_embeddings": POSITIONS,
        "share_encoder_decoder_embeddings": config.share == "all",
        "tie_word_embeddings": config.share != "none",
        "pad_token_id": MARIAN_PAD,
        "eos_token_id": MARIAN_END,
        "forced_eos_token_id": MARIAN_END,
        "decoder_start_token_id": MARIAN_PAD,
        "torch_dtype": "float32",
    }


def _generation(search: SearchConfig, longest_source: int) -> dict[str, Any]:
    """Return the generation settings. Padding starts the decoder and is suppressed in outputs."""
    longest = min(longest_source + search.max_extra, search.max_length or POSITIONS, POSITIONS)
    return {
        "bad_words_ids": [[MARIAN_PAD]],
        "pad_token_id": MARIAN_PAD,
        "eos_token_id": MARIAN_END,
        "forced_eos_token_id": MARIAN_END,
        "decoder_start_token_id": MARIAN_PAD,
        "num_beams": search.beam,
        "length_penalty": search.length_penalty,
        "early_stopping": search.early_stopping or "never",
        "max_length": longest,
    }


def _tokenizer_config(config: Any, *, separate: bool) -> dict[str, Any]:
    return {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": config.data.source_language,
        "target_lang": config.data.target_language,
        "separate_vocabs": separate,
        "model_max_length": min(config.data.max_length + 1, POSITIONS),
        "pad_token": SPECIALS[PAD],
        "unk_token": SPECIALS[UNKNOWN],
        "eos_token": SPECIALS[END],
    }


def decoder(folder: Path) -> Decode:
    """Return a greedy decoder over an export, in float32, by transformers."""
    transformers: Any = importlib.import_module("transformers")
    model = transformers.MarianMTModel.from_pretrained(folder).eval()

    @torch.no_grad()
    def decode(sources: Sequence[Sequence[int]], max_length: int) -> list[list[int]]:
        decoded = []
        for first in range(0, len(sources), 64):
            ids, valid = pad_sources(sources[first : first + 64])
            rows = (ids - 1).clamp_min(0).masked_fill(ids == UNKNOWN, MARIAN_UNKNOWN)
            outputs = model.generate(
                input_ids=rows, attention_mask=valid.long(), num_beams=1, do_sample=False, max_length=max_length + 1
            )
            decoded += [_regard_ids(output)[: max_length - 1] for output in outputs[:, 1:].tolist()]
        return decoded

    return decode


def _regard_ids(output: Sequence[int]) -> list[int]:
    """Return Regard's ids of the pieces of an output before its end."""
    ends = next((index for index, piece in enumerate(output) if piece in (MARIAN_END, MARIAN_PAD)), len(output))
    return [UNKNOWN if piece == MARIAN_UNKNOWN else piece + 1 for piece in output[:ends]]


def _export(export: PairExport, folder: Path) -> None:
    write(export.model.model, export.config, export.model.source, export.model.target, folder)


FORMAT = pair_format(
    _export,
    lambda model, folder: decoder(folder),
    obstacles=lambda config: obstacles(config.model),
    codec_obstacles=lambda run: tokenizer_obstacles(*run.task.open(run).codecs),
    compared_by="transformers",
    max_positions=lambda: POSITIONS,
)
