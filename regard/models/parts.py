"""Parts that models of every kind are built from: embeddings with positions, and attention."""

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
    """Embeddings, times ``scale`` (None: √width), with the absolute positions of the config."""
    width = weight.shape[1]
    positions: dict[str, Callable[[], Position]] = {
        "sinusoidal": lambda: SinusoidalPosition(width),
        "learned": lambda: LearnedPosition(width, longest=config.longest),
    }
    position = positions.get(config.position.kind, NoPosition)()
    return Embedding(weight, position, dropout=config.dropout, scale=scale)


def multi_head(
    config: ModelConfig,
    attention: MechanismConfig,
    *,
    where: str,
    width: int,
    memory_width: int,
    output_width: int | None = None,
    parts: Mapping[str, nn.Module] | None = None,
) -> MultiHead:
    """Multi-head attention with the mechanism of ``attention``; ConfigError where it cannot be built.

    ``attention``: kind, heads, projections and options.
    ``where``: the config key of ``attention``, for errors.
    ``width``, ``memory_width``: features of the side of queries, and of the side of keys and values.
    ``output_width``: features of the output; None: see ``MultiHead``.
    ``parts``: modules for the constructor of the mechanism, beside the options.
    """
    heads = attention.heads or config.heads
    key_heads = config.key_heads if attention.heads is None else None
    project = PROJECTIONS if attention.project is None else attention.project
    bias = attention.bias if attention.bias is not None else (PROJECTIONS if config.attention_bias else ())
    sizes = (config.key_width, config.value_width)
    try:
        widths = HeadWidths.of(width, memory_width, heads, key_heads, *sizes, project)
        mechanism = build_mechanism(
            attention.kind,
            attention.options,
            where=where,
            parts=parts,
            sizes=dict(heads=heads, query_width=widths.query, key_width=widths.key, value_width=widths.value),
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
        raise ConfigError("heads of these sizes cannot be built", where=where, why=str(problem)) from problem


def self_attention(config: ModelConfig, site: AttentionSite, *, mask: Mask) -> SelfAttention:
    """Self-attention of one layer; ``site`` is that of the stack."""
    chosen, where = site.config, site.where
    parts = {} if site.bias is None else {"bias": site.bias}
    attention = multi_head(config, chosen, where=where, width=config.width, memory_width=config.width, parts=parts)
    if chosen.neighbourhood is not None:
        mask = mask & Window(chosen.neighbourhood)
    try:
        return SelfAttention(attention, mask=mask, rotary=site.rotary)
    except ValueError as problem:
        what = (
            f"{chosen.kind!r} attention cannot serve in {'a decoder' if Causal() in mask.conjuncts() else 'an encoder'}"
        )
        raise ConfigError(what, where=f"{where}.kind", why=str(problem)) from problem


def reader(config: ModelConfig, *, width: int, memory_width: int, output_width: int | None = None) -> AttentionReader:
    """Encoder-decoder attention for queries of ``width`` over states of ``memory_width``."""
    options: dict[str, Any] = {"width": width, "memory_width": memory_width, "output_width": output_width}
    return AttentionReader(multi_head(config, config.cross_attention, where="model.cross_attention", **options))
