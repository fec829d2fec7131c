"""Attention within a band of columns: time and memory grow with queries · band, not with queries · keys."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.attention.cpu_softmax import attend_short
from regard.attention.mask import Bound
from regard.attention.structure import BandStructure

# Queries in a block: as many as a side of the band, so that few of the columns read in vain, within these limits.
FEWEST, MOST = 32, 128
ATONCE = 1 << 21  # weights


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
    """softmax(scale · Q Kᵀ) V over the keys that ``bound`` allows, all of which lie within ``band``.

    Queries are cut into blocks of c columns, and each block attends to those blocks of keys that the band touches, and
    to the band's first columns, as if it were a short sequence; the mask itself is asked for these columns alone.
    Padded queries see what the mask lets them see. Cost: batch·heads·query·(band + 2c)·(d_k + d_v) multiply-adds, and
    as many weights.
    """
    batch, queries = len(query), query.shape[2]
    size = min(max(band.left, band.right, FEWEST), MOST)
    blocks = -(-queries // size)
    first, last = -(-band.left // size), -(-band.right // size)  # blocks of keys before and after a block's own
    before, after = first * size, (blocks + last) * size - key.shape[2]
    asked = pad(query, (0, 0, 0, blocks * size - queries)).unflatten(2, (blocks, size))
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
    # Not all blocks at once: what goes through memory stays small, and the allocator gives the same pages again.
    rows = max(ATONCE // (query.shape[1] * allowed.shape[1] * allowed.shape[2]), 1)
    given = (asked.transpose(1, 2).flatten(0, 1), keys, values, added[:, None], empty)
    context = torch.cat(
        [
            attend_short(q, k, v, hidden, unseen if bool(unseen.any()) else None, scale=scale, dropping=dropping)
            for q, k, v, hidden, unseen in zip(*(x.split(rows) for x in given), strict=True)
        ]
    )
    return context.unflatten(0, (batch, blocks)).transpose(1, 2).flatten(2, 3)[:, :, :queries]


def _around(
    x: Float[Tensor, "batch heads padded width"], size: int, blocks: int
) -> Float[Tensor, "batch*{blocks} heads span width"]:
    """For each block of queries the columns of those blocks of keys that it may look at, side by side."""
    pieces = x.unflatten(2, (-1, size))
    touched = pieces.shape[2] - blocks + 1
    around = torch.cat([pieces[:, :, n : n + blocks] for n in range(touched)], 3)
    return around.transpose(1, 2).flatten(0, 1)


def _allowed(
    bound: Bound, size: int, blocks: int, first: int, span: int, sinks: int
) -> Bool[Tensor, "#batch {blocks} {size} {span}+{sinks}"]:
    """The mask for each block of queries over the columns it reads; columns outside of the sequence are hidden.

    The ``sinks`` first columns stand before the others, and are hidden among them.
    """
    device, keys, queries = bound.key.valid.device, bound.key.valid.shape[1], bound.query.valid.shape[1]
    row = torch.arange(len(bound.key.valid), device=device)[:, None, None, None]
    begin = torch.arange(blocks, device=device)[:, None, None] * size
    within = torch.arange(size, device=device)[:, None]
    beside = torch.arange(span, device=device) - first * size
    column = begin + beside
    allowed = ((column >= sinks) & (column < keys))[None]
    if sinks:
        column = torch.cat([torch.arange(sinks, device=device).expand(blocks, 1, -1), column], 2)
        allowed = pad(allowed, (sinks, 0), value=True)
    i, j = (begin + within).clamp(max=queries - 1), column.clamp(0, keys - 1)
    for part in bound.parts:
        # A band of columns is the same beside every block: its first stands for all.
        asked = (row, within, beside) if part.reach is not None and not bound.placed and not sinks else (row, i, j)
        allowed = allowed & part.at(bound.query, bound.key, *asked)
    return allowed.expand(-1, blocks, size, span + sinks)
