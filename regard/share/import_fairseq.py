"""Import of a Transformer of fairseq: a checkpoint and the dictionaries ``dict.LANGUAGE.txt``.

The decoder of fairseq starts with the end symbol, so its row is that of Regard's begin symbol.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from regard.errors import ModelError
from regard.runs.run_folder import RunFolder
from regard.share.foreign_pair import (
    ForeignPair,
    ForeignSide,
    Module,
    linear,
    one_of,
    positions_of,
    require_none,
    true_reasons,
    vocabulary_of,
)
from regard.share.foreign_pair_weights import import_pair
from regard.share.foreign_tensors import ForeignTensors
from regard.share.marian_folder import LARGE, FolderSettings, Layers, Size, bytes_of, invalid_folder
from regard.share.marian_vocabulary import MarianVocabulary
from regard.share.toolkit_settings import settings_of
from regard.share.torch_file import TensorTable, mapping_of, open_torch

TOOLKIT = "fairseq"
SPECIALS = ["<s>", "<pad>", "</s>", "<unk>"]
BEGIN, PAD, END, UNKNOWN = range(len(SPECIALS))
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_accurate": "gelu-tanh", "swish": "swish"}
# The last are copies for a fast path of version 0.12, which overwrites them when it loads a checkpoint.
IGNORED = re.compile(
    r"\.version$|\._float_tensor$|\.embed_positions\.weights?$"
    r"|encoder\.layers\.\d+\.(fc[12]|in_proj|out_proj)_(weight|bias)$"
)
COUNT = re.compile(r"^(.*) -?\d+( #fairseq:overwrite)?$")
NORMS = {  # of checkpoints before 0.6
    "encoder": {"self_attn_layer_norm": 0, "final_layer_norm": 1},
    "decoder": {"self_attn_layer_norm": 0, "encoder_attn_layer_norm": 1, "final_layer_norm": 2},
}


class FairseqModel(FolderSettings):
    """Options of a checkpoint that determine the model; defaults as in fairseq."""

    encoder_embed_dim: Size = 512
    decoder_embed_dim: Size = 512
    decoder_output_dim: Size | None = None
    encoder_ffn_embed_dim: Size = 2048
    decoder_ffn_embed_dim: Size = 2048
    encoder_layers: Layers = 6
    decoder_layers: Layers = 6
    encoder_attention_heads: Size = 8
    decoder_attention_heads: Size = 8
    encoder_normalize_before: bool = False
    decoder_normalize_before: bool = False
    no_decoder_final_norm: bool = False
    encoder_learned_pos: bool = False
    decoder_learned_pos: bool = False
    no_token_positional_embeddings: bool = False
    activation_fn: str = "relu"
    dropout: float = Field(0.1, ge=0, lt=1)
    no_scale_embedding: bool = False
    layernorm_embedding: bool = False
    adaptive_input: bool = False
    adaptive_softmax_cutoff: Any = None
    no_cross_attention: bool = False
    cross_self_attention: bool = False
    max_source_positions: int = Field(1024, ge=1, le=1 << 20)
    max_target_positions: int = Field(1024, ge=1, le=1 << 20)

    def obstacles(self) -> list[str]:
        """Return all reasons why this model cannot be imported."""
        widths = {self.encoder_embed_dim, self.decoder_embed_dim, self.decoder_output_dim or self.decoder_embed_dim}
        return true_reasons({
            "encoder, decoder and output have different widths": len(widths) > 1,
            f"its activation is {self.activation_fn}": self.activation_fn not in ACTIVATIONS,
            "its embeddings are normalized (`layernorm_embedding`)": self.layernorm_embedding,
            "its input or output is adaptive": self.adaptive_input or bool(self.adaptive_softmax_cutoff),
            "its decoder does not attend to the encoder in a layer of its own": self.no_cross_attention
            or self.cross_self_attention,
            "its norms precede the sub-layers without a last norm (`no_decoder_final_norm`)":
                self.decoder_normalize_before and self.no_decoder_final_norm,
        })  # fmt: skip


def import_fairseq(folder: Path, path: Path, weights: Path) -> RunFolder:
    """Import a model as a run at ``path``, and return the run.

    Args:
        folder: the folder of the dictionaries.
        path: the new run.
        weights: the checkpoint.

    Raises:
        ModelError: the model cannot be imported.
    """
    with open_torch(weights) as file:
        content = mapping_of(file.value)
        options = _options(content, weights)
        settings = settings_of(FairseqModel, options, weights)
        name = options.get("arch") or options.get("_name")
        name = name if isinstance(name, str) else ""  # the text of a nested value may be endless
        task = "" if "transformer" in name else f"its architecture is {name[:50] or 'not stated'}"
        require_none([*filter(None, [task]), *settings.obstacles()], TOOLKIT, weights)
        tensors = ForeignTensors(weights, TensorTable(file, file.tensors(content.get("model"))))
        source, target = _languages(folder, options)
        first, second = (_vocabulary(folder / _dictionary(language)) for language in (source, target))
        pair = ForeignPair(
            toolkit=TOOLKIT,
            where=folder / weights.name,
            width=settings.encoder_embed_dim,
            activation=ACTIVATIONS[settings.activation_fn],
            epsilon=1e-5,
            encoder=_side("encoder", settings, first, tensors),
            decoder=_side("decoder", settings, second, tensors),
            head=_head(tensors),
            ignored=IGNORED,
            languages=(source, target),
        )
        return import_pair(pair, tensors, path)


def _options(content: Mapping[str, Any], where: Path) -> dict[str, Any]:
    """Return the options of model and task: in one object before version 0.10, and in sections after it."""
    sections = mapping_of(content.get("cfg"))
    options = mapping_of(content.get("args")) | mapping_of(sections.get("task")) | mapping_of(sections.get("model"))
    if not options:
        raise ModelError(
            "this is not a checkpoint of fairseq", where=str(where), why="it has no options: neither `args` nor `cfg`"
        )
    return options


def _languages(folder: Path, options: Mapping[str, Any]) -> tuple[str, str]:
    """Return source and target language; empty for one dictionary ``dict.txt``."""
    names = options.get("source_lang"), options.get("target_lang")
    if all(isinstance(name, str) and re.fullmatch(r"[\w-]{1,32}", name) for name in names):
        return str(names[0]), str(names[1])
    if (folder / "dict.txt").is_file():
        return "", ""
    raise ModelError("the checkpoint does not name its languages, and dict.txt is missing", where=str(folder))


def _dictionary(language: str) -> str:
    return f"dict.{language}.txt" if language else "dict.txt"


def _vocabulary(path: Path) -> MarianVocabulary:
    """Return the pieces of a dictionary: a piece and its count on each line, after the special pieces."""
    tokens = list(SPECIALS)
    for number, line in enumerate(bytes_of(path, LARGE).decode("utf-8", "replace").split("\n"), 1):
        if not line.strip():
            continue
        match = COUNT.match(line.rstrip("\r"))
        if match is None:
            raise invalid_folder(path, f"line {number} is not a piece and its count")
        tokens.append(match[1])
    return vocabulary_of(tokens, (PAD, UNKNOWN, END, END), path)


def _head(tensors: ForeignTensors) -> Module:
    weight = tensors.first(["decoder.output_projection.weight", "decoder.embed_out", "decoder.embed_tokens.weight"])
    weight = weight if weight in tensors.names else "decoder.embed_tokens.weight"
    return Module(weight, "decoder.output_projection.bias")


def _side(name: str, settings: FairseqModel, vocabulary: MarianVocabulary, tensors: ForeignTensors) -> ForeignSide:
    own = {key.removeprefix(f"{name}_"): value for key, value in settings if key.startswith(f"{name}_")}
    pre = own["normalize_before"]
    modules = dict(_modules(name, own["layers"], tensors))
    if pre:
        modules["norm"] = linear(f"{name}.layer_norm")
    width = settings.encoder_embed_dim
    return ForeignSide(
        sizes={
            "layers": own["layers"], "heads": own["attention_heads"], "feed_forward": own["ffn_embed_dim"],
            "dropout": settings.dropout,
        },
        norm="pre" if pre else "post",
        vocabulary=vocabulary,
        embedding=f"{name}.embed_tokens.weight",
        scale=1.0 if settings.no_scale_embedding else math.sqrt(width),
        positions=_positions(name, settings, own["learned_pos"], tensors),
        modules=modules,
    )  # fmt: skip


def _modules(name: str, layers: int, tensors: ForeignTensors) -> Iterator[tuple[str, Module]]:
    attentions = {"mixer": "self_attn"} | ({"reader": "encoder_attn"} if name == "decoder" else {})
    norms = {f"around_{own}.norm": f"{foreign}_layer_norm" for own, foreign in attentions.items()}
    norms["around_feed_forward.norm"] = "final_layer_norm"
    for number in range(layers):
        own, layer = f"layers.{number}", f"{name}.layers.{number}"
        for branch, foreign in attentions.items():
            joint = f"{layer}.{foreign}.in_proj_"
            for index, part in enumerate(("query", "key", "value")):
                together = f"{joint}weight" in tensors.names
                single = linear(f"{layer}.{foreign}.{part[0]}_proj")
                module = one_of(index, 3, f"{joint}weight", f"{joint}bias") if together else single
                yield f"{own}.{branch}.attention.{part}", module
            yield f"{own}.{branch}.attention.output", linear(f"{layer}.{foreign}.out_proj")
        for module_name, foreign in norms.items():
            early = f"{layer}.layer_norms.{NORMS[name][foreign]}"
            yield f"{own}.{module_name}", linear(early if f"{early}.weight" in tensors.names else f"{layer}.{foreign}")
        yield f"{own}.feed_forward.up", linear(f"{layer}.fc1")
        yield f"{own}.feed_forward.down", linear(f"{layer}.fc2")


def _positions(
    name: str, settings: FairseqModel, learned: bool, tensors: ForeignTensors
) -> Tensor | Literal["sinusoidal", "none"]:
    """Return the table of positions: fairseq counts them from the row after that of padding."""
    longest = settings.max_source_positions if name == "encoder" else settings.max_target_positions
    width = settings.encoder_embed_dim
    if settings.no_token_positional_embeddings:
        return "none"
    table = f"{name}.embed_positions.weight"
    if not learned and table not in tensors.names:
        return _sinusoids(longest, width)
    tensors.require({table: (longest + PAD + 1, width)})
    return positions_of(tensors[table][PAD + 1 :])


def _sinusoids(longest: int, width: int) -> Tensor:
    """Return fairseq's table: all sines before all cosines, with exponents over width / 2 − 1."""
    half = width // 2
    rate = torch.exp(torch.arange(half, dtype=torch.float64) * -(math.log(10000) / max(1, half - 1)))
    angle = torch.arange(PAD + 1, longest + PAD + 1, dtype=torch.float64)[:, None] * rate
    table = torch.cat([angle.sin(), angle.cos()], 1)
    return torch.nn.functional.pad(table, (0, width - table.shape[1])).float()
