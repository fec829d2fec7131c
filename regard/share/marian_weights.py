"""Weights of a Marian model: tensors of its safetensors file, checked and copied into a model of Regard.

Shapes are compared with the file before memory is allocated, so a config that states a huge size cannot exhaust memory.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import safetensors
import torch
from torch import nn

from regard.attention.positions.absolute import sinusoids
from regard.data.tokenizers.tokenizer import BEGIN
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.runs.size_check import sketch
from regard.share.foreign_tensors import ForeignTensors
from regard.share.marian import BIAS, OUTPUT, SHARED, SOURCE, TARGET, interleaved, sines_first, tensor_names
from regard.share.marian_folder import MarianModel, invalid_folder
from regard.share.marian_vocabulary import MarianVocabulary, target_types

SUPPRESSED = -1e4  # bias of a token that is never predicted: its probability is 0, and a smoothed loss is finite
TOLERANCE = 4e-3  # maximum difference between a stored table of positions and sinusoids; covers bfloat16 rounding
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")


def load_marian_weights(
    file: Path, config: ModelConfig, settings: MarianModel, source: MarianVocabulary, target: MarianVocabulary
) -> nn.Module:
    """Return the model of ``config`` with the weights of a safetensors file.

    Args:
        file: the safetensors file.
        config: the config of the model to build.
        settings: the settings of config.json.
        source: the vocabulary of the source.
        target: the vocabulary of the target.
    """
    types = {"source_types": len(source.rows), "target_types": len(target.rows)}
    parameters = sketch(partial(build, config, **types)).named_parameters(remove_duplicate=False)
    shapes = {name: tuple(parameter.shape) for name, parameter in parameters}
    try:
        with safetensors.safe_open(file, framework="pt") as opened:
            tensors = ForeignTensors(file, opened)
            layers = {name.marian: shapes[name.parameter] for name in tensor_names(config)}
            tables = _tables(tensors, settings)
            tensors.require(layers | {name: (rows, settings.d_model) for name, rows in tables.values()})
            _require_sinusoids(tensors, settings.d_model)
            tensors.refuse_unknown({*layers, *POSITIONS, SHARED, SOURCE, TARGET, OUTPUT, BIAS})
            model = build(config, **types)
            _fill(model, config, tensors, {parameter: name for parameter, (name, _) in tables.items()}, source, target)
    except safetensors.SafetensorError as error:
        raise invalid_folder(file, str(error)) from error
    return model


def _tables(tensors: ForeignTensors, settings: MarianModel) -> dict[str, tuple[str, int]]:
    """Return, by parameter, the name in the file and the number of rows of each table of pieces."""
    sources, targets = settings.vocab_size, target_types(settings)
    tied = settings.tie_word_embeddings
    if tied and settings.share_encoder_decoder_embeddings:
        shared = tensors.first([SHARED, SOURCE, TARGET, OUTPUT])
        return dict.fromkeys(("encoder.embedding.weight", "decoder.embedding.weight", "head.weight"), (shared, sources))
    target = tensors.first([TARGET, OUTPUT]) if tied else TARGET
    return {  # without tying, transformers reads separate tables even if config.json declares them shared
        "encoder.embedding.weight": (SOURCE, sources),
        "decoder.embedding.weight": (target, targets),
        "head.weight": (target if tied else OUTPUT, targets),
    }


@torch.no_grad()
def _fill(
    model: nn.Module, config: ModelConfig, tensors: ForeignTensors, tables: dict[str, str], source: MarianVocabulary,
    target: MarianVocabulary,
) -> None:  # fmt: skip
    for name in tensor_names(config):
        model.get_parameter(name.parameter).copy_(interleaved(tensors[name.marian], name.along))
    for parameter, marian in tables.items():
        rows = (source if parameter.startswith("encoder") else target).rows
        model.get_parameter(parameter).copy_(interleaved(tensors[marian][rows], 1))
    bias = model.get_parameter("head.bias")
    if BIAS in tensors.names:
        tensors.require({BIAS: (1, max(target.rows) + 1)})
        bias.copy_(tensors[BIAS][0][target.rows])
    if (
        target.rows[BEGIN] in target.rows[:BEGIN] + target.rows[BEGIN + 1 :]
    ):  # two ids have the same row: predict the other one
        bias[BEGIN] = SUPPRESSED


def _require_sinusoids(tensors: ForeignTensors, width: int) -> None:
    """Raise ModelError if the file has tables of positions that are not sinusoids, sines first."""
    for name in tensors.names.intersection(POSITIONS):
        shape = tensors.shape(name)
        if len(shape) != 2:
            raise invalid_folder(tensors.path, f"{name} has the shape {list(shape)}; expected 2 dimensions")
        tensors.require({name: (shape[0], width)})
        expected = sines_first(sinusoids(torch.arange(shape[0]), width), 1)
        if not torch.allclose(tensors[name], expected, rtol=0.0, atol=TOLERANCE):
            raise invalid_folder(tensors.path, f"{name} is not a table of sinusoidal positions")
