"""What models of every kind are put together from: embeddings with positions, and the places where attention stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from regard.attention.catalogue import build_mechanism
from regard.attention.heads import PROJECTIONS, AttentionReader, HeadWidths, MultiHead, SelfAttention
from regard.attention.mask import Causal, Mask, Window
from regard.attention.positions.absolute import LearnedPosition, NoPosition, Position, SinusoidalPosition
from regard.errors import ConfigError
from regard.models.attention_config import MechanismConfig
from regard.models.configuration import ModelConfig
from regard.models.dropout import Dropout
from regard.models.transformer.build_positions import AttentionSite
from regard.models.transformer.transformer import Embedding

__all__ = ["embed", "multi_head", "reader", "self_attention"]


def embed(config: ModelConfig, weight: nn.Parameter, *, scale: float | None = None) -> Embedding:
    """Embeddings, times ``scale``, with what the config adds to them to say where a token stands."""
    width = weight.shape[1]
    positions: dict[str, Callable[[], Position]] = {
        "sinusoidal": lambda: SinusoidalPosition(width),
        "learned": lambda: LearnedPosition(width, longest=config.longest),
    }
    position = positions.get(config.position.kind, NoPosition)()
    return Embedding(weight, position, dropout=config.dropout, scale=scale)


def multi_head(
    config: ModelConfig,
    place: MechanismConfig,
    *,
    where: str,
    width: int,
    memory_width: int,
    output_width: int | None = None,
    parts: Mapping[str, nn.Module] | None = None,
) -> MultiHead:
    """Heads over the mechanism that ``place`` names; ``where`` is the key of the config it came from.

    ``parts`` are modules that the mechanism is made with, beside the options of the config.
    """
    heads = place.heads or config.heads
    key_heads = config.key_heads if place.heads is None else None
    project = PROJECTIONS if place.project is None else place.project
    bias = place.bias if place.bias is not None else (PROJECTIONS if config.attention_bias else ())
    sizes = (config.key_width, config.value_width)
    try:
        widths = HeadWidths.of(width, memory_width, heads, key_heads, *sizes, project)
        mechanism = build_mechanism(
            place.kind,
            place.options,
            where=where,
            parts=parts,
            sizes={
                "heads": heads,
                "query_width": widths.query,
                "key_width": widths.key,
                "value_width": widths.value,
            },
        )
        if config.attention_dropout:
            mechanism.drop_weights(Dropout(config.attention_dropout))
        return MultiHead(
            width,
            heads=heads,
            mechanism=mechanism,
            key_width=config.key_width,
            value_width=config.value_width,
            key_heads=key_heads,
            memory_width=memory_width,
            output_width=output_width,
            bias=bias,
            project=project,
        )
    except ValueError as problem:
        raise ConfigError("these heads cannot be laid out so", where=where, why=str(problem)) from problem


def self_attention(config: ModelConfig, place: AttentionSite, *, mask: Mask) -> SelfAttention:
    """Attention within a sequence, at one layer of the stack that ``place`` is of."""
    own, where = place.config, place.where
    parts = {} if place.bias is None else {"bias": place.bias}
    attention = multi_head(config, own, where=where, width=config.width, memory_width=config.width, parts=parts)
    if own.neighbourhood is not None:
        mask = mask & Window(own.neighbourhood)
    try:
        return SelfAttention(attention, mask=mask, rotary=place.rotary)
    except ValueError as problem:
        what = f"{own.kind!r} attention cannot serve in {'a decoder' if Causal() in mask.conjuncts() else 'an encoder'}"
        raise ConfigError(what, where=f"{where}.kind", why=str(problem)) from problem


def reader(config: ModelConfig, *, width: int, memory_width: int, output_width: int | None = None) -> AttentionReader:
    """Encoder-decoder attention, asked by states of ``width``; brings back ``output_width``, unless None as it may."""
    options: dict[str, Any] = {"width": width, "memory_width": memory_width, "output_width": output_width}
    return AttentionReader(multi_head(config, config.cross_attention, where="model.cross_attention", **options))
