"""Import of a Transformer of Sockeye 3: ``params.best``, ``config`` and the vocabularies."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field
from torch import Tensor

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
from regard.share.marian_folder import FolderSettings, Layers, Size, invalid_folder, json_of
from regard.share.marian_vocabulary import MarianVocabulary
from regard.share.toolkit_settings import read_yaml, settings_of
from regard.share.torch_file import TensorTable, open_torch

TOOLKIT = "Sockeye"
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish1": "swish"}
NORMS = {("n", "dr"): "pre", ("", "drn"): "post"}  # preprocessing and postprocessing of a sub-layer
IGNORED = re.compile(r"traced|^length_ratio\.|pos_embedding\.weight$")
MXNET = b"\x12\x01\x00\x00"  # first bytes of MXNet's arrays


class SockeyeSide(FolderSettings):
    """Settings ``config_encoder`` or ``config_decoder``."""

    model_size: Size
    attention_heads: Size
    feed_forward_num_hidden: Size
    act_type: str
    num_layers: Layers
    dropout_prepost: float = Field(0.0, ge=0, lt=1)
    preprocess_sequence: str = "n"
    postprocess_sequence: str = "dr"
    decoder_type: str = "transformer"
    use_lhuc: bool = False
    use_glu: bool = False
    block_prepended_cross_attention: bool = False


class SockeyeModel(FolderSettings):
    """Settings of ``config`` that determine the model."""

    config_encoder: SockeyeSide
    config_decoder: SockeyeSide
    neural_vocab_selection: str | None = None

    def obstacles(self) -> list[str]:
        """Return all reasons why this model cannot be imported."""
        encoder, decoder = self.config_encoder, self.config_decoder
        reasons = {
            "encoder and decoder have different widths": encoder.model_size != decoder.model_size,
            "encoder and decoder have different activations": encoder.act_type != decoder.act_type,
            f"its decoder is {decoder.decoder_type}": decoder.decoder_type != "transformer",
            "it selects a part of the vocabulary (`neural_vocab_selection`)": bool(self.neural_vocab_selection),
            "targets do not attend to prepended source pieces": decoder.block_prepended_cross_attention,
        }
        for name, side in (("encoder", encoder), ("decoder", decoder)):
            order = side.preprocess_sequence, side.postprocess_sequence
            reasons |= {
                f"the activation of its {name} is {side.act_type}": side.act_type not in ACTIVATIONS,
                f"the feed-forwards of its {name} have gates with biases": side.use_glu,
                f"its {name} has hidden unit contributions (LHUC)": side.use_lhuc,
                f"the sub-layers of its {name} have the order {order[0]!r}, {order[1]!r}": order not in NORMS,
            }
        return true_reasons(reasons)


def import_sockeye(folder: Path, path: Path, weights: Path) -> RunFolder:
    """Import a model as a run at ``path``, and return the run.

    Args:
        folder: the model's folder.
        path: the new run.
        weights: the file of the parameters.

    Raises:
        ModelError: the model cannot be imported.
    """
    where = folder / "config"
    settings = settings_of(SockeyeModel, read_yaml(where), where)
    extra = sorted(file.name for file in folder.glob("vocab.*.[1-9].json"))
    factors = [f"it has source or target factors ({', '.join(extra)})"] if extra else []
    require_none([*settings.obstacles(), *factors], TOOLKIT, where)
    _require_torch(weights)
    source, target = (_vocabulary(folder / f"vocab.{side}.0.json") for side in ("src", "trg"))
    with open_torch(weights) as file:
        tensors = ForeignTensors(weights, TensorTable(file, file.tensors(file.value)))
        pair = ForeignPair(
            toolkit=TOOLKIT,
            where=where,
            width=settings.config_encoder.model_size,
            activation=ACTIVATIONS[settings.config_encoder.act_type],
            epsilon=1e-6,
            encoder=_side("encoder", settings.config_encoder, source, tensors),
            decoder=_side("decoder", settings.config_decoder, target, tensors),
            head=linear("output_layer"),
            ignored=IGNORED,
        )
        return import_pair(pair, tensors, path)


def _require_torch(weights: Path) -> None:
    """Raise ModelError for the arrays of MXNet, which Sockeye 2 writes."""
    try:
        with weights.open("rb") as file:
            first = file.read(len(MXNET))
    except OSError as error:
        raise ModelError(f"{weights.name} cannot be read", where=str(weights), why=error.strerror) from error
    if first == MXNET:
        why = "its parameters are arrays of MXNet, as Sockeye 2 writes them"
        help = "convert them with Sockeye 3: python -m sockeye.mx_to_pt"
        raise ModelError(f"{weights.name} cannot be imported", where=str(weights), why=why, help=help)


def _vocabulary(path: Path) -> MarianVocabulary:
    ids = json_of(path)
    if not all(type(id) is int for id in ids.values()) or sorted(ids.values()) != list(range(len(ids))):
        raise invalid_folder(path, "its ids are not all from 0 to its size, each once")
    if missing := [piece for piece in SPECIALS if piece not in ids]:
        raise invalid_folder(path, f"the piece {missing[0]} is missing")
    return vocabulary_of(sorted(ids, key=ids.__getitem__), [ids[piece] for piece in SPECIALS], path)


def _side(name: str, settings: SockeyeSide, vocabulary: MarianVocabulary, tensors: ForeignTensors) -> ForeignSide:
    norm: Any = NORMS[settings.preprocess_sequence, settings.postprocess_sequence]
    modules = dict(_modules(name, settings, norm))
    if norm == "pre":
        modules["norm"] = linear(f"{name}.final_process.layer_norm")
    positions = f"{name}.pos_embedding.weight"
    rows = (*(tensors.shape(positions) if positions in tensors.names else ()), 1)[0]
    tensors.require({positions: (rows, settings.model_size)})
    return ForeignSide(
        sizes={
            "layers": settings.num_layers, "heads": settings.attention_heads, "dropout": settings.dropout_prepost,
            "feed_forward": settings.feed_forward_num_hidden,
        },
        norm=norm,
        vocabulary=vocabulary,
        embedding=f"embedding_{'source' if name == 'encoder' else 'target'}.embedding.weight",
        scale=math.sqrt(settings.model_size),
        positions=positions_of(tensors[positions]),
        modules=modules,
    )  # fmt: skip


def _modules(name: str, settings: SockeyeSide, norm: str) -> Iterator[tuple[str, Module]]:
    branches: Mapping[str, tuple[str, str]] = {"mixer": ("self_attention", "self_attention")}
    if name == "decoder":
        branches = {"mixer": ("autoregr_layer", "autoregr_layer"), "reader": ("enc_attention", "enc_attention")}
    for number in range(settings.num_layers):
        own, layer = f"layers.{number}", f"{name}.layers.{number}"
        for branch, (attention, process) in branches.items():
            prefix = f"{layer}.{attention}"
            yield from _attention(f"{own}.{branch}.attention", prefix, settings.attention_heads, branch == "mixer")
            yield f"{own}.around_{branch}.norm", linear(f"{layer}.{norm}_{process}.layer_norm")
        yield f"{own}.feed_forward.up", linear(f"{layer}.ff.ff1")
        yield f"{own}.feed_forward.down", linear(f"{layer}.ff.ff2")
        yield f"{own}.around_feed_forward.norm", linear(f"{layer}.{norm}_ff.layer_norm")


def _attention(own: str, prefix: str, heads: int, joint: bool) -> Iterator[tuple[str, Module]]:
    """Yield the maps of an attention. Keys and values of a head are stored next to each other."""
    if joint:
        weight, bias = f"{prefix}.ff_in.weight", f"{prefix}.ff_in.bias"
        yield f"{own}.query", Module(weight, bias, lambda tensor: tensor.chunk(3)[0], 3)
    else:
        weight, bias = f"{prefix}.ff_kv.weight", f"{prefix}.ff_kv.bias"
        yield f"{own}.query", linear(f"{prefix}.ff_q")
    for number, part in enumerate(("key", "value")):
        cut = partial(_of_heads, number=number, heads=heads)
        yield f"{own}.{part}", Module(weight, bias, cut, 3 if joint else 2)
    yield f"{own}.output", linear(f"{prefix}.ff_out")


def _of_heads(tensor: Tensor, *, number: int, heads: int) -> Tensor:
    """Return the keys (0) or values (1) from the last rows of a matrix: key and value of each head in turn."""
    width = tensor.shape[1]
    both = tensor[-2 * width :].view(heads, 2, width // heads, width)
    return both[:, number].reshape(width, width)
