"""Import of a Transformer of OpenNMT-py from its checkpoint, which has the pieces and the options.

Sources have no end symbol (``model.encoder.reads_end = false``), and all norms precede the sub-layers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from torch import Tensor

from regard.data.opcodes import PickledObject
from regard.errors import ModelError
from regard.runs.run_folder import RunFolder
from regard.share.foreign_pair import (
    ForeignPair,
    ForeignSide,
    Module,
    linear,
    positions_of,
    require_none,
    true_reasons,
    vocabulary_of,
)
from regard.share.foreign_pair_weights import import_pair
from regard.share.foreign_tensors import ForeignTensors
from regard.share.marian_folder import FolderSettings, Layers, Size, invalid_folder
from regard.share.marian_vocabulary import MarianVocabulary
from regard.share.toolkit_settings import settings_of
from regard.share.torch_file import StoredTensor, TensorTable, mapping_of, open_torch

TOOLKIT = "OpenNMT-py"
PADDING, UNKNOWN, BEGIN, END = "<blank>", "<unk>", "<s>", "</s>"
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "swiglu", "gated-gelu": "geglu"}
IGNORED = re.compile(r"\.pe\.pe$")
TABLE = "embeddings.make_embedding.emb_luts.0.weight"
DEEP = 6  # levels of the object of pieces in early versions


class OpenNMTModel(FolderSettings):
    """Options that determine the model; defaults as in OpenNMT-py."""

    encoder_type: str = "transformer"
    decoder_type: str = "transformer"
    enc_layers: Layers = 2
    dec_layers: Layers = 2
    heads: Size = 8
    transformer_ff: Size = 2048
    enc_hid_size: Size | None = None
    enc_rnn_size: Size | None = None
    rnn_size: Any = None
    hidden_size: Any = None
    dropout: Any = 0.1
    model_task: str = "seq2seq"
    model_type: str = "text"
    self_attn_type: str = "scaled-dot"
    position_encoding: bool = False
    max_relative_positions: int = 0
    copy_attn: bool = False
    pos_ffn_activation_fn: str = "relu"
    layer_norm: str = "standard"
    norm_eps: float = Field(1e-6, gt=0, le=1)
    num_kv: int = 0
    sliding_window: int = 0
    parallel_residual: bool = False
    num_experts: int = 0
    quant_type: str = ""
    lora_layers: Any = ()
    generator_function: str = "softmax"

    def obstacles(self) -> list[str]:
        """Return all reasons why this model cannot be imported."""
        sides = {"encoder": self.encoder_type, "decoder": self.decoder_type}
        return [f"its {name} is {kind}" for name, kind in sides.items() if kind != "transformer"] + true_reasons({
            f"its task is {self.model_task}": self.model_task != "seq2seq",
            f"its input is {self.model_type}": self.model_type != "text",
            f"its self-attention is {self.self_attn_type}": not self.self_attn_type.startswith("scaled-dot"),
            f"its positions are relative, rotary or ALiBi (`max_relative_positions` {self.max_relative_positions})":
                self.max_relative_positions != 0,
            "its outputs copy from the source": self.copy_attn,
            f"its activation is {self.pos_ffn_activation_fn}": self.pos_ffn_activation_fn not in ACTIVATIONS,
            f"its norms are {self.layer_norm}": self.layer_norm != "standard",
            "its heads share keys": self.num_kv not in (0, self.heads),
            "its attention has a sliding window": self.sliding_window > 0,
            "attention and feed-forward are parallel": self.parallel_residual,
            "its feed-forwards are mixtures of experts": self.num_experts > 0,
            f"its weights are quantized ({self.quant_type})": self.quant_type != "",
            "its adapters are not merged": bool(self.lora_layers),
            f"its output is {self.generator_function}": self.generator_function != "softmax",
        })  # fmt: skip


def import_opennmt(folder: Path, path: Path, weights: Path) -> RunFolder:
    """Import a model as a run at ``path``, and return the run.

    Args:
        folder: the folder of the checkpoint, which may have a SentencePiece model.
        path: the new run.
        weights: the checkpoint.

    Raises:
        ModelError: the model cannot be imported.
    """
    with open_torch(weights) as file:
        content = mapping_of(file.value)
        options = mapping_of(content.get("opt"))
        if not options or "vocab" not in content:
            why = "it has no options or no pieces"
            raise ModelError("this is not a checkpoint of OpenNMT-py", where=str(weights), why=why)
        settings = settings_of(OpenNMTModel, _with_layers(options), weights)
        external = ["its weights are in another file (`model` is missing)"] if "model" not in content else []
        require_none([*settings.obstacles(), *external], TOOLKIT, weights)
        head = file.tensors(content.get("generator"))
        stored = {**file.tensors(content["model"]), **{f"generator.{name}": tensor for name, tensor in head.items()}}
        tensors = ForeignTensors(weights, TensorTable(file, stored))
        source, target = _vocabularies(content["vocab"], weights)
        pair = ForeignPair(
            toolkit=TOOLKIT,
            where=folder / weights.name,
            width=_width(stored, weights),
            activation=ACTIVATIONS[settings.pos_ffn_activation_fn],
            epsilon=settings.norm_eps,
            encoder=_side("encoder", settings, source, tensors),
            decoder=_side("decoder", settings, target, tensors),
            head=linear("generator.0" if "generator.0.weight" in tensors.names else "generator"),
            ignored=IGNORED,
            source_end=False,
        )
        return import_pair(pair, tensors, path)


def _with_layers(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with ``layers``, if it is set, as the number of layers of both sides."""
    layers = options.get("layers")
    both = {"enc_layers": layers, "dec_layers": layers} if type(layers) is int and layers > 0 else {}
    return {**options, **both}


def _width(stored: Mapping[str, StoredTensor], where: Path) -> int:
    """Return the features of the residual stream; several options set it, by version."""
    table = stored.get(f"encoder.{TABLE}")
    if table is None or len(table.shape) != 2:
        raise invalid_folder(where, f"the tensor encoder.{TABLE} is missing")
    return table.shape[1]


def _vocabularies(vocab: Any, where: Path) -> tuple[MarianVocabulary, MarianVocabulary]:
    """Return the pieces of source and target."""
    pairs = [pair for pair in vocab if isinstance(pair, tuple) and len(pair) == 2] if isinstance(vocab, list) else []
    by_side = {name: value for name, value in pairs if isinstance(name, str)} or mapping_of(vocab)
    start = by_side.get("decoder_start_token", BEGIN)
    sides = []
    for name in ("src", "tgt"):
        tokens = _tokens(by_side.get(name), DEEP)
        if tokens is None or not all(isinstance(token, str) for token in tokens):
            raise invalid_folder(where, f"the pieces of {name} are missing")
        ids = {token: id for id, token in enumerate(tokens)}
        pad = ids.get(PADDING, ids.get("<pad>", -1))
        end = ids.get(END, pad if name == "src" else -1)  # sources have no end symbol
        begin = ids.get(start, end if name == "src" else -1) if isinstance(start, str) else -1
        sides.append(vocabulary_of(tokens, (pad, ids.get(UNKNOWN, -1), begin, end), where))
    return sides[0], sides[1]


def _tokens(value: Any, deep: int) -> list[Any] | None:
    """Return the list of pieces: itself, or ``itos`` of the vocabulary object that early versions pickle."""
    if isinstance(value, list) and all(isinstance(token, str) for token in value):
        return value
    if deep == 0:
        return None
    parts: Any = ()
    if isinstance(value, PickledObject):
        state = mapping_of(value)
        if isinstance(state.get("itos"), list):
            return list(state["itos"])
        parts = state.get("fields"), state.get("vocab"), state.get("base_field")
    elif isinstance(value, (list, tuple)):
        parts = value[:2]
    return next((tokens for part in parts if (tokens := _tokens(part, deep - 1))), None)


def _side(name: str, settings: OpenNMTModel, vocabulary: MarianVocabulary, tensors: ForeignTensors) -> ForeignSide:
    layers = settings.enc_layers if name == "encoder" else settings.dec_layers
    gated = settings.pos_ffn_activation_fn in ("silu", "gated-gelu")
    modules = dict(_modules(name, layers, gated))
    modules["norm"] = linear(f"{name}.layer_norm")
    positions = _positions(name, settings, tensors)
    width = tensors.shape(f"{name}.{TABLE}")[-1] if f"{name}.{TABLE}" in tensors.names else 1
    dropout = settings.dropout[0] if isinstance(settings.dropout, list) and settings.dropout else settings.dropout
    return ForeignSide(
        sizes={
            "layers": layers, "heads": settings.heads, "feed_forward": settings.transformer_ff,
            "dropout": dropout if isinstance(dropout, (int, float)) else 0.1,
        },
        norm="pre",
        vocabulary=vocabulary,
        embedding=f"{name}.{TABLE}",
        scale=1.0 if positions == "none" else math.sqrt(width),  # by the module of positions
        positions=positions,
        modules=modules,
    )  # fmt: skip


def _modules(name: str, layers: int, gated: bool) -> Iterator[tuple[str, Module]]:
    decoder = name == "decoder"
    stack = f"{name}.transformer_layers" if decoder else f"{name}.transformer"
    attentions = {"mixer": "self_attn"} | ({"reader": "context_attn"} if decoder else {})
    norms = {"mixer": "layer_norm_1", "reader": "layer_norm_2"} if decoder else {"mixer": "layer_norm"}
    inner = {"gate": "w_1", "up": "w_3", "down": "w_2"} if gated else {"up": "w_1", "down": "w_2"}
    for number in range(layers):
        own, layer = f"layers.{number}", f"{stack}.{number}"
        for branch, foreign in attentions.items():
            for part, matrix in (("query", "query"), ("key", "keys"), ("value", "values")):
                yield f"{own}.{branch}.attention.{part}", linear(f"{layer}.{foreign}.linear_{matrix}")
            yield f"{own}.{branch}.attention.output", linear(f"{layer}.{foreign}.final_linear")
            yield f"{own}.around_{branch}.norm", linear(f"{layer}.{norms[branch]}")
        for part, matrix in inner.items():
            yield f"{own}.feed_forward.{part}", linear(f"{layer}.feed_forward.{matrix}")
        yield f"{own}.around_feed_forward.norm", linear(f"{layer}.feed_forward.layer_norm")


def _positions(name: str, settings: OpenNMTModel, tensors: ForeignTensors) -> Tensor | Literal["sinusoidal", "none"]:
    table = f"{name}.embeddings.make_embedding.pe.pe"
    if table not in tensors.names:
        return "sinusoidal" if settings.position_encoding else "none"
    shape = tensors.shape(table)
    rows, width = (shape[0], shape[2]) if len(shape) == 3 else (1, 1)
    tensors.require({table: (rows, 1, width)})
    return positions_of(tensors[table][:, 0])
