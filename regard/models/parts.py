"""Components shared by all architectures: positions and attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from regard.attention.catalog import build_mechanism
from regard.attention.heads import PROJECTIONS, AttentionReader, HeadWidths, MultiHead
from regard.attention.positions.absolute import LearnedPosition, NoPosition, Position, SinusoidalPosition
from regard.errors import ConfigError
from regard.models.attention_config import AttentionSizes, MechanismConfig
from regard.models.dropout import Dropout
from regard.models.position_config import LearnedConfig, PositionConfig


def absolute_position(position: PositionConfig, width: int) -> Position:
    """Return the absolute positions of that type; ``NoPosition`` for relative ones."""
    if isinstance(position, LearnedConfig):
        return LearnedPosition(width, longest=position.longest)
    return SinusoidalPosition(width) if position.kind == "sinusoidal" else NoPosition()


def multi_head(
    sizes: AttentionSizes,
    attention: MechanismConfig,
    *,
    where: str,
    width: int,
    memory_width: int,
    output_width: int | None = None,
    parts: Mapping[str, nn.Module] | None = None,
) -> MultiHead:
    """Return multi-head attention with the mechanism of ``attention``. Raises ConfigError if it cannot be built.

    ``sizes``: heads of the side, for settings that ``attention`` leaves unset.
    ``attention``: kind, heads, projections and options.
    ``where``: the config key of ``attention``, for errors.
    ``width``, ``memory_width``: features of the side of queries, and of the side of keys and values.
    ``output_width``: features of the output; None: see ``MultiHead``.
    ``parts``: modules for the constructor of the mechanism, in addition to the options.
    """
    heads = attention.heads or sizes.heads
    key_heads = sizes.key_heads if attention.heads is None else None
    project = PROJECTIONS if attention.project is None else attention.project
    bias = attention.bias if attention.bias is not None else (PROJECTIONS if sizes.attention_bias else ())
    try:
        widths = HeadWidths.of(width, memory_width, heads, key_heads, sizes.key_width, sizes.value_width, project)
        mechanism = build_mechanism(
            attention.kind,
            attention.options,
            where=where,
            parts=parts,
            sizes=dict(heads=heads, query_width=widths.query, key_width=widths.key, value_width=widths.value),
        )
        if sizes.attention_dropout:
            mechanism.drop_weights(Dropout(sizes.attention_dropout))
        return MultiHead(
            width,
            heads=heads,
            mechanism=mechanism,
            key_width=sizes.key_width,
            value_width=sizes.value_width,
            key_heads=key_heads,
            memory_width=memory_width,
            output_width=output_width,
            bias=bias,
            project=project,
            **_newer_parts(sizes),
        )
    except ValueError as problem:
        raise ConfigError("attention with these sizes cannot be built", where=where, why=str(problem)) from problem


def _newer_parts(sizes: AttentionSizes) -> dict[str, bool]:
    return {"normalize": sizes.qk_norm, "normalize_context": sizes.context_norm, "gated": sizes.attention_gate}


def reader(
    sizes: AttentionSizes,
    attention: MechanismConfig,
    *,
    width: int,
    memory_width: int,
    output_width: int | None = None,
) -> AttentionReader:
    """Return encoder-decoder attention for queries of ``width`` over states of ``memory_width``."""
    where = "model.decoder.cross_attention"
    options: dict[str, Any] = {"width": width, "memory_width": memory_width, "output_width": output_width}
    return AttentionReader(multi_head(sizes, attention, where=where, **options))
