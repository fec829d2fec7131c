"""Attention within a band of keys: time and memory grow with queries · band, not with queries · keys."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.attention.cpu_softmax import attend_short
from regard.attention.mask import Bound
from regard.attention.structure import BandStructure

# A block has as many queries as one side of the band, within these limits: then few hidden keys are read.
MIN_BLOCK, MAX_BLOCK = 32, 128
MAX_WEIGHTS = 1 << 21  # computed at a time


def attend_window(
    query: Float[Tensor, "batch heads query width"],
    key: Float[Tensor, "batch heads key width"],
    value: Float[Tensor, "batch heads key value"],
    bound: Bound,
    band: BandStructure,
    *,
    scale: float,
    dropping: nn.Module | None = None,
) -> Float[Tensor, "batch heads query value"]:
    """softmax(scale · Q Kᵀ) V over the keys that ``bound`` allows, all of which are within ``band``.

    Queries are split into blocks of c positions. Each block attends, like a short sequence, to the blocks of keys that
    the band touches and to the band's first keys. The mask is evaluated for these keys only. Padded queries see the
    keys that the mask allows. Cost: batch·heads·query·(band + 2c)·(d_k + d_v) multiply-adds, and as many weights.
    """
    batch, queries = len(query), query.shape[2]
    size = min(max(band.left, band.right, MIN_BLOCK), MAX_BLOCK)
    blocks = -(-queries // size)
    first, last = -(-band.left // size), -(-band.right // size)  # blocks of keys before and after a block's own
    before, after = first * size, (blocks + last) * size - key.shape[2]
    query_blocks = pad(query, (0, 0, 0, blocks * size - queries)).unflatten(2, (blocks, size))
    keys, values = (_around(pad(x, (0, 0, before, after)), size, blocks) for x in (key, value))
    if band.first:
        keys, values = (
            torch.cat([x[:, :, : band.first].repeat_interleave(blocks, 0), near], 2)
            for x, near in ((key, keys), (value, values))
        )
    allowed = _allowed(bound, size, blocks, first, (first + last + 1) * size, band.first)
    allowed = allowed.expand(batch, *allowed.shape[1:]).flatten(0, 1)
    empty = ~allowed.any(2)
    added = torch.zeros(allowed.shape, dtype=query.dtype, device=query.device)
    added.masked_fill_(~allowed, torch.finfo(query.dtype).min)
    # Process a limited number of blocks at a time: memory stays small, and the allocator reuses the same pages.
    rows = max(MAX_WEIGHTS // (query.shape[1] * allowed.shape[1] * allowed.shape[2]), 1)
    inputs = (query_blocks.transpose(1, 2).flatten(0, 1), keys, values, added[:, None], empty)
    context = torch.cat(
        [
            attend_short(q, k, v, mask, empty_rows if bool(empty_rows.any()) else None, scale=scale, dropping=dropping)
            for q, k, v, mask, empty_rows in zip(*(x.split(rows) for x in inputs), strict=True)
        ]
    )
    return context.unflatten(0, (batch, blocks)).transpose(1, 2).flatten(2, 3)[:, :, :queries]


def _around(
    x: Float[Tensor, "batch heads padded width"], size: int, blocks: int
) -> Float[Tensor, "batch*{blocks} heads span width"]:
    """Return, for each block of queries, the concatenated blocks of keys that it may attend to."""
    pieces = x.unflatten(2, (-1, size))
    touched = pieces.shape[2] - blocks + 1
    around = torch.cat([pieces[:, :, n : n + blocks] for n in range(touched)], 3)
    return around.transpose(1, 2).flatten(0, 1)


def _allowed(
    bound: Bound, size: int, blocks: int, first: int, span: int, sinks: int
) -> Bool[Tensor, "#batch {blocks} {size} {span}+{sinks}"]:
    """Return the mask of each block of queries over the keys that it reads; keys outside the sequence are hidden.

    The first ``sinks`` keys precede the others, and are hidden among them.
    """
    device, keys, queries = bound.key.valid.device, bound.key.valid.shape[1], bound.query.valid.shape[1]
    row = torch.arange(len(bound.key.valid), device=device)[:, None, None, None]
    begin = torch.arange(blocks, device=device)[:, None, None] * size
    within = torch.arange(size, device=device)[:, None]
    near = torch.arange(span, device=device) - first * size
    key_index = begin + near
    allowed = ((key_index >= sinks) & (key_index < keys))[None]
    if sinks:
        key_index = torch.cat([torch.arange(sinks, device=device).expand(blocks, 1, -1), key_index], 2)
        allowed = pad(allowed, (sinks, 0), value=True)
    i, j = (begin + within).clamp(max=queries - 1), key_index.clamp(0, keys - 1)
    for part in bound.parts:
        # A band looks the same from every block, so the indices of the first block serve all.
        indices = (
            (row, within, near)
            if part.reach is not None and not bound.has_given_positions and not sinks
            else (row, i, j)
        )
        allowed = allowed & part.at(bound.query, bound.key, *indices)
    return allowed.expand(-1, blocks, size, span + sinks)
