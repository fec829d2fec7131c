"""Export of a Transformer as a Marian model of ``transformers``, in plain JSON and safetensors.

Only the order of features and pieces differs, so the outputs are the same. Marian's positions have all sines before all
cosines, ours alternate: so the features of the residual stream are permuted in every matrix that reads or writes it.
Marian's decoder begins with the padding symbol: the row of our begin symbol becomes the row of padding.
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
from regard.models.transformer.config import TransformerDecoderConfig, TransformerStackConfig
from regard.share import ctranslate2
from regard.share.export_format import Decode
from regard.share.pair_export import PairExport, pair_format

POSITIONS = 1024  # sources and outputs are at most so long in transformers
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish"}
KEPT = [PAD, UNKNOWN, END]  # special pieces that Marian has too; ordinary pieces follow in our order
MARIAN_PAD, MARIAN_UNKNOWN, MARIAN_END = range(len(KEPT))

# Marian's names of tables: both embeddings where they are shared, either embedding, and an output of its own.
SHARED, SOURCE, TARGET = (f"model.{name}.weight" for name in ("shared", "encoder.embed_tokens", "decoder.embed_tokens"))
OUTPUT, BIAS = "lm_head.weight", "final_logits_bias"


class TensorName(NamedTuple):
    """A tensor of a layer under both names; ``along``: the dimension that holds features of the residual stream."""

    ours: str
    marian: str
    along: int | None


def obstacle(config: ModelConfig, source: Tokenizer, target: Tokenizer) -> str | None:
    """The reason why this model cannot be exported to Marian; None if it can."""
    if (reason := ctranslate2.obstacle(config)) is not None:
        return reason
    encoder, decoder = _sides(config)
    reasons = {
        "it normalizes before its sub-layers": encoder.norm != "post",
        f"its normalization is {encoder.normalization}": encoder.normalization != "layer",
        "its norms have an epsilon of their own": encoder.normalization_epsilon not in (None, 1e-5),
        f"its positions are {encoder.position.kind}": encoder.position.kind != "sinusoidal",
        f"its activation is {encoder.activation}": encoder.activation not in ACTIVATIONS,
        "its encoder and decoder differ in dropout": encoder.dropout != decoder.dropout,
    }
    for side, tokenizer in (("source", source), ("target", target)):
        reasons |= {
            f"its {side} tokenizer is not SentencePiece's": not isinstance(tokenizer, SentencePieceTokenizer),
            f"its {side} tokenizer lowers the case of text": tokenizer.config.lowercase,
            f"its {side} tokenizer has pieces that are spelled alike": len(_vocabulary(tokenizer)) < len(tokenizer) - 1,
        }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _sides(config: ModelConfig) -> tuple[TransformerStackConfig, TransformerDecoderConfig]:
    sides = ctranslate2.transformer_sides(config)
    assert sides is not None
    return sides


def write(model: EncoderDecoder, config: Any, source: Tokenizer, target: Tokenizer, folder: Path) -> None:
    """Write the model into a new folder, in float32. ``obstacle`` must be None."""
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
    """Interleaved features in Marian's order: all even ones, then all odd ones."""
    return x if along is None else x.index_select(along, _order(x.shape[along]))


def interleaved(x: Tensor, along: int | None) -> Tensor:
    """The inverse of ``sines_first``."""
    return x if along is None else x.index_select(along, _order(x.shape[along]).argsort())


def _order(width: int) -> Tensor:
    return torch.arange(width).view(-1, 2).T.flatten()


def tensor_names(config: ModelConfig) -> Iterator[TensorName]:
    """Names of all tensors of the layers; a file may share some of them."""
    for number in range(config.encoder.layers):
        ours, marian = f"encoder.layers.{number}", f"model.encoder.layers.{number}"
        yield from _attention(f"{ours}.mixer.attention", f"{marian}.self_attn")
        yield from _norm(f"{ours}.around_mixer", f"{marian}.self_attn_layer_norm")
        yield from _feed_forward(ours, marian)
    for number in range(config.decoder.layers):
        ours, marian = f"decoder.layers.{number}", f"model.decoder.layers.{number}"
        yield from _attention(f"{ours}.mixer.attention", f"{marian}.self_attn")
        yield from _norm(f"{ours}.around_mixer", f"{marian}.self_attn_layer_norm")
        yield from _attention(f"{ours}.reader.attention", f"{marian}.encoder_attn")
        yield from _norm(f"{ours}.around_reader", f"{marian}.encoder_attn_layer_norm")
        yield from _feed_forward(ours, marian)


def _attention(ours: str, marian: str) -> Iterator[TensorName]:
    for own, other in (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj")):
        yield from _entering(f"{ours}.{own}", f"{marian}.{other}")
    yield from _leaving(f"{ours}.output", f"{marian}.out_proj")


def _feed_forward(ours: str, marian: str) -> Iterator[TensorName]:
    yield from _entering(f"{ours}.feed_forward.up", f"{marian}.fc1")
    yield from _leaving(f"{ours}.feed_forward.down", f"{marian}.fc2")
    yield from _norm(f"{ours}.around_feed_forward", f"{marian}.final_layer_norm")


def _entering(ours: str, marian: str) -> Iterator[TensorName]:
    yield TensorName(f"{ours}.weight", f"{marian}.weight", 1)
    yield TensorName(f"{ours}.bias", f"{marian}.bias", None)


def _leaving(ours: str, marian: str) -> Iterator[TensorName]:
    yield TensorName(f"{ours}.weight", f"{marian}.weight", 0)
    yield TensorName(f"{ours}.bias", f"{marian}.bias", 0)


def _norm(ours: str, marian: str) -> Iterator[TensorName]:
    for name in ("weight", "bias"):
        yield TensorName(f"{ours}.norm.{name}", f"{marian}.{name}", 0)


def _tensors(model: EncoderDecoder, config: ModelConfig) -> dict[str, Tensor]:
    own = {name: parameter.detach().float().cpu() for name, parameter in model.named_parameters(remove_duplicate=False)}
    tensors = {  # where attention has no bias, Marian's bias is 0
        name.marian: sines_first(own[name.ours], name.along) if name.ours in own else torch.zeros(config.encoder.width)
        for name in tensor_names(config)
    }
    tables = {SHARED: "encoder.embedding.weight"}
    if config.share != "all":
        tables = {SOURCE: "encoder.embedding.weight", TARGET: "decoder.embedding.weight"}
    if config.share == "none":
        tables[OUTPUT] = "head.weight"
    for marian, ours in tables.items():
        tensors[marian] = sines_first(_rows(own[ours], pad=BEGIN), 1)
    bias = own.get("head.bias", torch.zeros(len(own["head.weight"])))
    tensors[BIAS] = _rows(bias, pad=PAD)[None]
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def _rows(table: Tensor, *, pad: int) -> Tensor:
    """The rows of a table in Marian's order of pieces; padding gets our row ``pad``."""
    return torch.cat([table[[pad, UNKNOWN, END]], table[len(SPECIALS) :]])


def _vocabulary(tokenizer: Tokenizer) -> dict[str, int]:
    pieces = tokenizer.pieces([*KEPT, *range(len(SPECIALS), len(tokenizer))])
    return {piece: number for number, piece in enumerate(pieces)}


def _config(config: ModelConfig, source_types: int, target_types: int) -> dict[str, Any]:
    encoder, decoder = _sides(config)
    both = {name: {"layers": side.layers, "ffn_dim": side.feed_forward, "attention_heads": side.heads}
            for name, side in (("encoder", encoder), ("decoder", decoder))}  # fmt: skip
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": source_types,
        "decoder_vocab_size": target_types,
        "d_model": encoder.width,
        **{f"{side}_{name}": value for side, sizes in both.items() for name, value in sizes.items()},
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
    """Settings of generation; padding begins the decoder and is suppressed in outputs."""
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
    """A greedy decoder over an export, in float32, by transformers."""
    transformers: Any = importlib.import_module("transformers")
    model = transformers.MarianMTModel.from_pretrained(folder).eval()

    @torch.no_grad()
    def decode(sources: Sequence[Sequence[int]], max_length: int) -> list[list[int]]:
        found = []
        for first in range(0, len(sources), 64):
            ids, valid = pad_sources(sources[first : first + 64])
            rows = (ids - 1).clamp_min(0).masked_fill(ids == UNKNOWN, MARIAN_UNKNOWN)
            outputs = model.generate(
                input_ids=rows, attention_mask=valid.long(), num_beams=1, do_sample=False, max_length=max_length + 1
            )
            found += [_our_ids(output)[: max_length - 1] for output in outputs[:, 1:].tolist()]
        return found

    return decode


def _our_ids(output: Sequence[int]) -> list[int]:
    """The pieces of an output before its end, by our ids."""
    ends = next((at for at, piece in enumerate(output) if piece in (MARIAN_END, MARIAN_PAD)), len(output))
    return [UNKNOWN if piece == MARIAN_UNKNOWN else piece + 1 for piece in output[:ends]]


def _export(export: PairExport, folder: Path) -> None:
    write(export.model.model, export.config, export.model.source, export.model.target, folder)


FORMAT = pair_format(
    _export,
    lambda model, folder: decoder(folder),
    obstacle=lambda run: obstacle(run.config.model, *run.task.open(run).codecs),
    compared_by="transformers",
    max_positions=lambda: POSITIONS,
)
