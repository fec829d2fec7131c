"""Import of a Transformer of Joey NMT: ``best.ckpt``, ``config.yaml`` and the lists of pieces."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from torch import Tensor

from regard.runs.run_folder import RunFolder
from regard.share.foreign_pair import (
    ForeignPair,
    ForeignSide,
    linear,
    positions_of,
    require_none,
    true_reasons,
    vocabulary_of,
)
from regard.share.foreign_pair_weights import import_pair
from regard.share.foreign_tensors import ForeignTensors
from regard.share.marian_folder import LARGE, FolderSettings, Layers, Size, bytes_of
from regard.share.marian_vocabulary import MarianVocabulary
from regard.share.toolkit_settings import read_yaml, settings_of
from regard.share.torch_file import TensorTable, mapping_of, open_torch

TOOLKIT = "Joey NMT"
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish"}
IGNORED = re.compile(r"^(encoder|decoder)\.pe\.pe$|^loss_function\.")
ENCODER = {
    "mixer.attention.query": "src_src_att.q_layer", "mixer.attention.key": "src_src_att.k_layer",
    "mixer.attention.value": "src_src_att.v_layer", "mixer.attention.output": "src_src_att.output_layer",
    "around_mixer.norm": "layer_norm",
}  # fmt: skip
DECODER = {
    "mixer.attention.query": "trg_trg_att.q_layer", "mixer.attention.key": "trg_trg_att.k_layer",
    "mixer.attention.value": "trg_trg_att.v_layer", "mixer.attention.output": "trg_trg_att.output_layer",
    "reader.attention.query": "src_trg_att.q_layer", "reader.attention.key": "src_trg_att.k_layer",
    "reader.attention.value": "src_trg_att.v_layer", "reader.attention.output": "src_trg_att.output_layer",
    "around_mixer.norm": "x_layer_norm", "around_reader.norm": "dec_layer_norm",
}  # fmt: skip
FEED_FORWARD = {
    "feed_forward.up": "feed_forward.pwff_layer.0", "feed_forward.down": "feed_forward.pwff_layer.3",
    "around_feed_forward.norm": "feed_forward.layer_norm",
}  # fmt: skip


class JoeyEmbeddings(FolderSettings):
    """Section ``embeddings`` of a side."""

    embedding_dim: Size = 64
    scale: bool = False


class JoeySide(FolderSettings):
    """Section ``encoder`` or ``decoder`` of ``config.yaml``."""

    type: str = "recurrent"
    num_layers: Layers
    num_heads: Size
    hidden_size: Size
    ff_size: Size
    dropout: float = Field(0.0, ge=0, lt=1)
    embeddings: JoeyEmbeddings = JoeyEmbeddings()
    layer_norm: Literal["pre", "post"] | None = None
    activation: str = "relu"
    alpha: float = 1.0


class JoeySymbols(FolderSettings):
    """Special pieces and their ids."""

    unk_token: str = "<unk>"
    pad_token: str = "<pad>"
    bos_token: str = "<s>"
    eos_token: str = "</s>"
    sep_token: str | None = None
    lang_tags: tuple[str, ...] = ()


def import_joeynmt(folder: Path, path: Path, weights: Path) -> RunFolder:
    """Import a model as a run at ``path``, and return the run.

    Args:
        folder: the model's folder.
        path: the new run.
        weights: the checkpoint.

    Raises:
        ModelError: the model cannot be imported.
    """
    where = folder / "config.yaml"
    document = read_yaml(where)
    model, data = (mapping_of(document.get(name)) for name in ("model", "data"))
    sides = {name: settings_of(JoeySide, mapping_of(model.get(name)), where) for name in ("encoder", "decoder")}
    require_none(_obstacles(sides), TOOLKIT, where)
    symbols = settings_of(JoeySymbols, mapping_of(data.get("special_symbols")), where)
    with open_torch(weights) as file:
        table = TensorTable(file, file.tensors(mapping_of(file.value).get("model_state")))
        tensors = ForeignTensors(weights, table)
        pair = _pair(folder, sides, symbols, data, tensors)
        return import_pair(pair, tensors, path)


def _obstacles(sides: Mapping[str, JoeySide]) -> list[str]:
    encoder, decoder = sides["encoder"], sides["decoder"]
    reasons = {
        "encoder and decoder have different widths": encoder.hidden_size != decoder.hidden_size,
        "encoder and decoder have different activations": encoder.activation != decoder.activation,
    }
    for name, side in sides.items():
        reasons |= {
            f"its {name} is {side.type}": side.type != "transformer",
            f"the activation of its {name} is {side.activation}": side.activation not in ACTIVATIONS,
            f"the residual connections of its {name} have the factor {side.alpha:g}": side.alpha != 1,
            f"the embeddings of its {name} have another width": side.embeddings.embedding_dim != side.hidden_size,
        }
    return true_reasons(reasons)


def _pair(
    folder: Path, sides: Mapping[str, JoeySide], symbols: JoeySymbols, data: Mapping[str, Any], tensors: ForeignTensors
) -> ForeignPair:
    source, target = (mapping_of(data.get(name)) for name in ("src", "trg"))
    first = _vocabulary(folder / "src_vocab.txt", symbols)
    second = _vocabulary(folder / "trg_vocab.txt", symbols)
    return ForeignPair(
        toolkit=TOOLKIT,
        where=folder / "config.yaml",
        width=sides["encoder"].hidden_size,
        activation=ACTIVATIONS[sides["encoder"].activation],
        epsilon=1e-6,
        encoder=_side("encoder", sides["encoder"], first, "src_embed.lut.weight", ENCODER, tensors),
        decoder=_side("decoder", sides["decoder"], second, "trg_embed.lut.weight", DECODER, tensors),
        head=linear("decoder.output_layer"),
        ignored=IGNORED,
        languages=(_text(source, "lang") or _text(data, "src"), _text(target, "lang") or _text(data, "trg")),
        segmentation=(_model_file(source), _model_file(target)),
    )


def _side(
    name: str, settings: JoeySide, vocabulary: MarianVocabulary, embedding: str, names: dict[str, str],
    tensors: ForeignTensors,
) -> ForeignSide:  # fmt: skip
    last = f"{name}.layer_norm"
    pre = f"{last}.weight" in tensors.names
    obstacle = "its norms precede the sub-layers, but the last norm is missing"
    require_none([f"{obstacle} ({name})"] if not pre and settings.layer_norm != "post" else [], TOOLKIT, tensors.path)
    modules = {
        f"layers.{number}.{own}": linear(f"{name}.layers.{number}.{foreign}")
        for number in range(settings.num_layers)
        for own, foreign in (names | FEED_FORWARD).items()
    }
    if pre:
        modules["norm"] = linear(last)
    return ForeignSide(
        sizes={
            "layers": settings.num_layers, "heads": settings.num_heads, "feed_forward": settings.ff_size,
            "dropout": settings.dropout,
        },
        norm="pre" if pre else "post",
        vocabulary=vocabulary,
        embedding=embedding,
        scale=math.sqrt(settings.hidden_size) if settings.embeddings.scale else 1.0,
        positions=_positions(f"{name}.pe.pe", settings.hidden_size, tensors),
        modules=modules,
    )  # fmt: skip


def _positions(name: str, width: int, tensors: ForeignTensors) -> Tensor | Literal["sinusoidal"]:
    if name not in tensors.names:
        return "sinusoidal"
    rows = (*tensors.shape(name), 1, 1)[1]
    tensors.require({name: (1, rows, width)})
    return positions_of(tensors[name][0])


def _vocabulary(path: Path, symbols: JoeySymbols) -> MarianVocabulary:
    """Return the pieces of a file with one on each line; special ones that it lacks come first."""
    specials = [symbols.unk_token, symbols.pad_token, symbols.bos_token, symbols.eos_token]
    listed = bytes_of(path, LARGE).decode("utf-8", "replace").splitlines()
    tags = [symbols.sep_token] if symbols.sep_token else []
    tokens = list(dict.fromkeys([*specials, *tags, *symbols.lang_tags, *(line for line in listed if line)]))
    ids = {token: id for id, token in enumerate(tokens)}
    unknown, pad, begin, end = (ids[token] for token in specials)
    return vocabulary_of(tokens, (pad, unknown, begin, end), path)


def _text(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key)
    return value if isinstance(value, str) else ""


def _model_file(side: Mapping[str, Any]) -> str:
    """Return the SentencePiece model that the settings name."""
    settings = mapping_of(side.get("tokenizer_cfg"))
    return _text(settings, "model_file") if _text(side, "tokenizer_type") == "sentencepiece" else ""
