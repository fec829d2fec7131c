"""A Transformer as the Marian models of ``transformers`` are laid out, written as plain JSON and safetensors.

What differs from ours is the order of features and of pieces, so that outputs are the same. Sines stand there before
all cosines and are interleaved here: the features of the residual stream change places wherever they enter or leave.
And a decoder begins with the symbol of padding there: the row of our begin symbol becomes that of padding.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
import torch
from torch import Tensor

from regard.config.settings import SearchConfig
from regard.core import atomic_files
from regard.data.pairs import pad_sources
from regard.data.tokenizers.catalogue import BEGIN, END, PAD, SPECIALS, UNKNOWN, Tokenizer
from regard.data.tokenizers.subword import SentencePieceTokenizer
from regard.models.configuration import ModelConfig
from regard.models.encoder_decoder import EncoderDecoder
from regard.share import ctranslate2
from regard.share.parity import Decode
from regard.tasks.translation.config import TranslationConfig

__all__ = [
    "ACTIVATIONS", "BIAS", "OUTPUT", "SHARED", "SOURCE", "TARGET", "TensorName", "absent_library", "decoder",
    "interleaved", "obstacle", "places", "sines_first", "write",
]  # fmt: skip

POSITIONS = 1024  # no source or output may be longer there
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish"}
KEPT = [PAD, UNKNOWN, END]  # of our special pieces; the others follow in our order
THEIR_PAD, THEIR_UNKNOWN, THEIR_END = range(len(KEPT))

# Their names of tables: of both embeddings, where they are one; of each; of the output, where it is another.
SHARED, SOURCE, TARGET = (f"model.{name}.weight" for name in ("shared", "encoder.embed_tokens", "decoder.embed_tokens"))
OUTPUT, BIAS = "lm_head.weight", "final_logits_bias"


class TensorName(NamedTuple):
    """A tensor of a layer under both names; ``along``: its dimension that holds features of the residual stream."""

    ours: str
    theirs: str
    along: int | None


def obstacle(config: ModelConfig, source: Tokenizer, target: Tokenizer) -> str | None:
    """Why a Marian model cannot be this one; None if it can."""
    if (reason := ctranslate2.obstacle(config)) is not None:
        return reason
    reasons = {
        "it normalises before its sub-layers": config.norm != "post",
        f"its normalisation is {config.normalisation}": config.normalisation != "layer",
        f"its positions are {config.position.kind}": config.position.kind != "sinusoidal",
        f"its activation is {config.activation}": config.activation not in ACTIVATIONS,
    }
    for side, tokenizer in (("source", source), ("target", target)):
        reasons |= {
            f"its {side} tokenizer is not SentencePiece's": not isinstance(tokenizer, SentencePieceTokenizer),
            f"its {side} tokenizer lowers the case of text": tokenizer.config.lowercase,
            f"its {side} tokenizer has pieces that are spelled alike": len(_vocabulary(tokenizer)) < len(tokenizer) - 1,
        }
    return next((reason for reason, stands in reasons.items() if stands), None)


def write(model: EncoderDecoder, config: TranslationConfig, source: Tokenizer, target: Tokenizer, folder: Path) -> None:
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
    """Interleaved features of a stream in their order: all even ones, then all odd ones."""
    return x if along is None else x.index_select(along, _order(x.shape[along]))


def interleaved(x: Tensor, along: int | None) -> Tensor:
    """The inverse of ``sines_first``."""
    return x if along is None else x.index_select(along, _order(x.shape[along]).argsort())


def _order(width: int) -> Tensor:
    return torch.arange(width).view(-1, 2).T.flatten()


def places(config: ModelConfig) -> Iterator[TensorName]:
    """All tensors of the layers, one by one: those that a name stands for in a file may be fewer."""
    for number in range(config.encoder_layers):
        ours, theirs = f"encoder.layers.{number}", f"model.encoder.layers.{number}"
        yield from _attention(f"{ours}.mixer.attention", f"{theirs}.self_attn")
        yield from _norm(f"{ours}.around_mixer", f"{theirs}.self_attn_layer_norm")
        yield from _feed_forward(ours, theirs)
    for number in range(config.decoder_layers):
        ours, theirs = f"decoder.layers.{number}", f"model.decoder.layers.{number}"
        yield from _attention(f"{ours}.mixer.attention", f"{theirs}.self_attn")
        yield from _norm(f"{ours}.around_mixer", f"{theirs}.self_attn_layer_norm")
        yield from _attention(f"{ours}.reader.attention", f"{theirs}.encoder_attn")
        yield from _norm(f"{ours}.around_reader", f"{theirs}.encoder_attn_layer_norm")
        yield from _feed_forward(ours, theirs)


def _attention(ours: str, theirs: str) -> Iterator[TensorName]:
    for own, other in (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj")):
        yield from _entering(f"{ours}.{own}", f"{theirs}.{other}")
    yield from _leaving(f"{ours}.output", f"{theirs}.out_proj")


def _feed_forward(ours: str, theirs: str) -> Iterator[TensorName]:
    yield from _entering(f"{ours}.feed_forward.up", f"{theirs}.fc1")
    yield from _leaving(f"{ours}.feed_forward.down", f"{theirs}.fc2")
    yield from _norm(f"{ours}.around_feed_forward", f"{theirs}.final_layer_norm")


def _entering(ours: str, theirs: str) -> Iterator[TensorName]:
    yield TensorName(f"{ours}.weight", f"{theirs}.weight", 1)
    yield TensorName(f"{ours}.bias", f"{theirs}.bias", None)


def _leaving(ours: str, theirs: str) -> Iterator[TensorName]:
    yield TensorName(f"{ours}.weight", f"{theirs}.weight", 0)
    yield TensorName(f"{ours}.bias", f"{theirs}.bias", 0)


def _norm(ours: str, theirs: str) -> Iterator[TensorName]:
    for name in ("weight", "bias"):
        yield TensorName(f"{ours}.norm.{name}", f"{theirs}.{name}", 0)


def _tensors(model: EncoderDecoder, config: ModelConfig) -> dict[str, Tensor]:
    own = {name: parameter.detach().float().cpu() for name, parameter in model.named_parameters(remove_duplicate=False)}
    tensors = {  # a bias that our projections of attention lack is 0
        place.theirs: sines_first(own[place.ours], place.along) if place.ours in own else torch.zeros(config.width)
        for place in places(config)
    }
    tables = {SHARED: "encoder.embedding.weight"}
    if config.share != "all":
        tables = {SOURCE: "encoder.embedding.weight", TARGET: "decoder.embedding.weight"}
    if config.share == "none":
        tables[OUTPUT] = "projection"
    for theirs, ours in tables.items():
        tensors[theirs] = sines_first(_rows(own[ours], pad=BEGIN), 1)
    bias = own.get("output_bias", torch.zeros(len(own["projection"])))
    tensors[BIAS] = _rows(bias, pad=PAD)[None]
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def _rows(table: Tensor, *, pad: int) -> Tensor:
    """One a piece in their order; that of padding is our row ``pad``."""
    return torch.cat([table[[pad, UNKNOWN, END]], table[len(SPECIALS) :]])


def _vocabulary(tokenizer: Tokenizer) -> dict[str, int]:
    pieces = tokenizer.pieces([*KEPT, *range(len(SPECIALS), len(tokenizer))])
    return {piece: number for number, piece in enumerate(pieces)}


def _config(config: ModelConfig, source_types: int, target_types: int) -> dict[str, Any]:
    both = {side: {"layers": layers, "ffn_dim": config.feed_forward, "attention_heads": config.heads}
            for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers))}  # fmt: skip
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": source_types,
        "decoder_vocab_size": target_types,
        "d_model": config.width,
        **{f"{side}_{name}": value for side, sizes in both.items() for name, value in sizes.items()},
        "activation_function": ACTIVATIONS[config.activation],
        "dropout": config.dropout,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "scale_embedding": True,
        "normalize_before": False,
        "static_position_embeddings": True,
        "max_position_embeddings": POSITIONS,
        "share_encoder_decoder_embeddings": config.share == "all",
        "tie_word_embeddings": config.share != "none",
        "pad_token_id": THEIR_PAD,
        "eos_token_id": THEIR_END,
        "forced_eos_token_id": THEIR_END,
        "decoder_start_token_id": THEIR_PAD,
        "torch_dtype": "float32",
    }


def _generation(search: SearchConfig, longest_source: int) -> dict[str, Any]:
    """Padding is only what a decoder begins with: never said."""
    longest = min(longest_source + search.max_extra, search.max_length or POSITIONS, POSITIONS)
    return {
        "bad_words_ids": [[THEIR_PAD]],
        "pad_token_id": THEIR_PAD,
        "eos_token_id": THEIR_END,
        "forced_eos_token_id": THEIR_END,
        "decoder_start_token_id": THEIR_PAD,
        "num_beams": search.beam,
        "length_penalty": search.length_penalty,
        "max_length": longest,
    }


def _tokenizer_config(config: TranslationConfig, *, separate: bool) -> dict[str, Any]:
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


def absent_library() -> str | None:
    """Why what was written cannot be compared here; None if it can."""
    return None if importlib.util.find_spec("transformers") else "transformers is not installed"


def decoder(folder: Path) -> Decode:
    """What an export says, greedily and in float32, of and as our piece numbers. Needs transformers."""
    transformers: Any = importlib.import_module("transformers")
    theirs = transformers.MarianMTModel.from_pretrained(folder).eval()

    @torch.no_grad()
    def decode(sources: Sequence[Sequence[int]], longest: int) -> list[list[int]]:
        found = []
        for first in range(0, len(sources), 64):
            numbers, valid = pad_sources(sources[first : first + 64])
            rows = (numbers - 1).clamp_min(0).masked_fill(numbers == UNKNOWN, THEIR_UNKNOWN)
            outputs = theirs.generate(
                input_ids=rows, attention_mask=valid.long(), num_beams=1, do_sample=False, max_length=longest + 1
            )
            found += [_said(output)[: longest - 1] for output in outputs[:, 1:].tolist()]
        return found

    return decode


def _said(output: Sequence[int]) -> list[int]:
    """Our numbers of an output up to its end."""
    ends = next((at for at, piece in enumerate(output) if piece in (THEIR_END, THEIR_PAD)), len(output))
    return [UNKNOWN if piece == THEIR_UNKNOWN else piece + 1 for piece in output[:ends]]
