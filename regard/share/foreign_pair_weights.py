"""Weights of a Transformer of another translation toolkit, checked and copied into a model of Regard.

Regard multiplies embeddings by √width. A table with another factor is stored divided by it; if it is also the output
matrix, the last norm of the decoder is multiplied instead.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.data.tokenizers.tokenizer import BEGIN
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.runs.run_folder import RunFolder
from regard.runs.size_check import sketch
from regard.share.foreign_pair import (
    ForeignPair,
    ForeignSide,
    Module,
    config_of,
    require_none,
    tokenizers_of,
    write_pair,
)
from regard.share.foreign_tensors import ForeignTensors
from regard.share.marian_weights import SUPPRESSED

SHOWN = 8  # names of tensors in a message


def import_pair(pair: ForeignPair, tensors: ForeignTensors, path: Path) -> RunFolder:
    """Import a model as a run at ``path``, and return the run. ModelError if a tensor does not fit."""
    _require_known(pair, tensors)
    # A row may have several ids: the number of rows is not the number of pieces.
    tensors.require({name: (1 + max(side.vocabulary.rows), pair.width) for side, name in _tables(pair)})
    share = _share(pair, tensors)
    tokenizers = tokenizers_of(pair)
    rows = pair.decoder.vocabulary.rows
    repeated = rows.count(rows[BEGIN]) > 1  # the begin symbol is also another piece, which is predicted instead
    output_bias = repeated or pair.head.bias in tensors.names
    attention_bias = any(
        module.bias in tensors.names
        for side in (pair.encoder, pair.decoder)
        for name, module in side.modules.items()
        if ".attention." in name
    )
    config = config_of(pair, tokenizers, path.name, share=share, biases=(attention_bias, output_bias))
    types = {"source_types": len(tokenizers[0]), "target_types": len(tokenizers[1])}
    _require_shapes(pair, tensors, config.model, types)
    model = build(config.model, **types)
    with torch.no_grad():
        _fill_tables(model, pair, tensors, share)
        for side in ("encoder", "decoder"):
            _fill_side(model.get_submodule(side), getattr(pair, side), tensors)
        if share != "none":  # logits h · E from a table that is E · scale / √width
            last = _last_norm(pair.decoder)
            for kind in ("weight", "bias"):
                model.get_parameter(f"decoder.{last}.{kind}").mul_(math.sqrt(pair.width) / pair.decoder.scale)
        if output_bias:
            bias = model.get_parameter("head.bias")
            bias.copy_(tensors[pair.head.bias][rows] if pair.head.bias in tensors.names else torch.zeros(len(rows)))
            if repeated:
                bias[BEGIN] = SUPPRESSED
    return write_pair(pair, config, tokenizers, model, path)


def _tables(pair: ForeignPair) -> list[tuple[ForeignSide, str]]:
    """Return the tables of pieces, with the side whose pieces they have."""
    encoder, decoder = pair.encoder, pair.decoder
    return [(encoder, encoder.embedding), (decoder, decoder.embedding), (decoder, pair.head.weight)]


def _require_known(pair: ForeignPair, tensors: ForeignTensors) -> None:
    """Raise ModelError if a tensor is missing, or the file has some that the model would not use."""
    modules = [*pair.encoder.modules.values(), *pair.decoder.modules.values(), pair.head]
    needed = {module.weight for module in modules} | {name for _, name in _tables(pair)}
    known = needed | {module.bias for module in modules}
    missing = sorted(needed - tensors.names)
    unknown = sorted(name for name in tensors.names - known if not pair.ignored.search(name))
    obstacles = [
        f"{text}: {', '.join(names[:SHOWN])}{' …' if len(names) > SHOWN else ''}"
        for text, names in (("missing tensors", missing), ("tensors that Regard has no part for", unknown))
        if names
    ]
    require_none(obstacles, pair.toolkit, tensors.path)


def _require_shapes(pair: ForeignPair, tensors: ForeignTensors, config: ModelConfig, types: dict[str, int]) -> None:
    """Raise ModelError if a tensor has another shape than the settings imply; the model is not built."""
    shapes = {}
    for name, parameter in sketch(partial(build, config, **types)).named_parameters():
        side, _, rest = name.partition(".")
        local, _, kind = rest.rpartition(".")
        if side in ("encoder", "decoder") and not local.startswith("embedding"):
            module = getattr(pair, side).modules[local]
            stored = getattr(module, kind)
            if kind == "weight" or stored in tensors.names:
                shapes[stored] = (parameter.shape[0] * module.parts, *parameter.shape[1:])
    if pair.head.bias in tensors.names:
        shapes[pair.head.bias] = (1 + max(pair.decoder.vocabulary.rows),)
    tensors.require(shapes)


def _share(pair: ForeignPair, tensors: ForeignTensors) -> str:
    """Return which matrices are equal, as ``model.share`` names them."""
    encoder, decoder, head = pair.encoder.embedding, pair.decoder.embedding, pair.head.weight
    if head != decoder and not torch.equal(tensors[head], tensors[decoder]):
        return "none"
    if pair.encoder.vocabulary != pair.decoder.vocabulary:
        return "target"
    same = encoder == decoder or torch.equal(tensors[encoder], tensors[decoder])
    return "all" if same else "target"


def _fill_tables(model: nn.Module, pair: ForeignPair, tensors: ForeignTensors, share: str) -> None:
    """Fill the tables of pieces and positions."""
    root = math.sqrt(pair.width)
    for key, side in (("encoder", pair.encoder), ("decoder", pair.decoder)):
        if key == "decoder" or share != "all":
            table = tensors[side.embedding][side.vocabulary.rows] * (side.scale / root)
            model.get_parameter(f"{key}.embedding.weight").copy_(table)
        if isinstance(side.positions, Tensor):
            model.get_parameter(f"{key}.embedding.position.table").copy_(side.positions)
    if share == "none":
        model.get_parameter("head.weight").copy_(tensors[pair.head.weight][pair.decoder.vocabulary.rows])


def _last_norm(side: ForeignSide) -> str:
    """Return the name of the norm of the states that the output layer reads."""
    return "norm" if side.norm == "pre" else f"layers.{side.sizes['layers'] - 1}.around_feed_forward.norm"


def _fill_side(model: nn.Module, side: ForeignSide, tensors: ForeignTensors) -> None:
    """Fill the layers of a side."""
    for name, parameter in model.named_parameters():
        if name.startswith("embedding"):
            continue
        local, _, kind = name.rpartition(".")
        module: Module = side.modules[local]
        stored = getattr(module, kind)
        parameter.copy_(module.part(tensors[stored]) if stored in tensors.names else torch.zeros_like(parameter))
