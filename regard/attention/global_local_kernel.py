"""Attention of columns to their neighbors, to global columns and to random blocks, in time and memory n · (r + g)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.attention.cpu_softmax import attend_short
from regard.attention.kernel import masked_softmax, read

FEWEST, MOST = 32, 128  # queries in a block
ATONCE = 1 << 21  # weights
MIX = ((15, 0x2C1B3C6D), (12, 0x297A2D39), (15, 1))  # shifts and factors that scatter the bits of a number


class Neighborhood(NamedTuple):
    """Columns that one sees which is not global, besides the global ones.

    Those at most ``radius`` steps of ``dilation`` columns away, and ``random`` blocks of columns for each block of
    queries, drawn by ``seed`` from the blocks of the row that hold something.
    """

    radius: int
    dilation: int = 1
    random: int = 0
    seed: int = 0

    @property
    def size(self) -> int:
        """Columns of a block."""
        return min(max(self.radius, FEWEST), MOST)

    def drawn(self, length: Int[Tensor, "batch"], blocks: int) -> Int[Tensor, "batch {blocks} drawn"]:
        """Random blocks of each block of queries, for rows of so many valid columns, which alone count."""
        draws = torch.arange(blocks * self.random, device=length.device) + 104_729 * self.seed + 1
        for shift, factor in MIX:
            draws = ((draws ^ (draws >> shift)) * factor) & 0xFFFF_FFFF
        held = (length + self.size - 1) // self.size
        return ((draws.view(1, blocks, self.random) * held[:, None, None]) >> 32).clamp(0, blocks - 1)


class GlobalColumns(NamedTuple):
    """Global columns of each row side by side: where they stand; ``there`` is False where a row has fewer."""

    column: Int[Tensor, "batch globals"]
    there: Bool[Tensor, "batch globals"]

    @classmethod
    def of(cls, is_global: Bool[Tensor, "batch length"]) -> GlobalColumns:
        count = is_global.sum(1)
        most = int(count.max()) if len(count) else 0
        column = is_global.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :most]
        return cls(column, torch.arange(most, device=column.device) < count[:, None])

    def take(self, x: Float[Tensor, "batch heads length width"]) -> Float[Tensor, "batch heads globals width"]:
        """Features of the global columns."""
        return x.gather(2, self.column[:, None, :, None].expand(-1, x.shape[1], -1, x.shape[3]))


def visible(
    around: Neighborhood, valid: Bool[Tensor, "batch length"], is_global: Bool[Tensor, "batch length"]
) -> Bool[Tensor, "batch length length"]:
    """Table of what each column sees that is not global itself; for tests, and where the textbook is asked for."""
    columns = torch.arange(valid.shape[1], device=valid.device)
    apart = columns - columns[:, None]
    seen = (apart.abs() <= around.radius * around.dilation) & (apart % around.dilation == 0)
    seen = seen | is_global[:, None]
    if around.random and len(columns):
        block = columns // around.size
        drawn = around.drawn(valid.sum(1), int(block[-1]) + 1)
        seen = seen | (block == drawn[:, block][..., None]).any(2)
    return seen & valid[:, None]


def attend_neighbors_reference(
    query: Float[Tensor, "batch heads length width"],
    key: Float[Tensor, "batch heads length width"],
    value: Float[Tensor, "batch heads length value"],
    valid: Bool[Tensor, "batch length"],
    is_global: Bool[Tensor, "batch length"],
    around: Neighborhood,
    *,
    scale: float,
    labels: Float[Tensor, "heads labels width"] | None = None,
    dropping: nn.Module | None = None,
) -> Float[Tensor, "batch heads length value"]:
    """``attend_neighbors`` by its table: batch · heads · length² numbers."""
    energy = scale * query @ key.transpose(2, 3)
    if labels is not None:
        columns = torch.arange(valid.shape[1], device=valid.device)
        number = _label(columns - columns[:, None], labels).expand(len(valid), -1, -1)
        number = torch.where(is_global[:, None], labels.shape[1] - 1, number)[:, None]
        energy = energy + scale * (query @ labels.transpose(1, 2)).gather(3, number.expand_as(energy))
    return read(masked_softmax(energy, visible(around, valid, is_global)[:, None]), value, dropping)


def attend_neighbors(
    query: Float[Tensor, "batch heads length width"],
    key: Float[Tensor, "batch heads length width"],
    value: Float[Tensor, "batch heads length value"],
    valid: Bool[Tensor, "batch length"],
    is_global: Bool[Tensor, "batch length"],
    around: Neighborhood,
    *,
    scale: float,
    labels: Float[Tensor, "heads labels width"] | None = None,
    dropping: nn.Module | None = None,
) -> Float[Tensor, "batch heads length value"]:
    """softmax(scale · q_i·(k_j + a_l(i,j))) over the columns j that i sees, times v_j (Ainslie et al. 2020, Eq. 2).

    ``labels``: a_l, of distances clipped at ±k and, the last, of global columns; None: 0. ``is_global``: valid columns
    that all see; what they see themselves is not computed here. Queries are cut into blocks of c columns, each of which
    attends, as if it were a short sequence, to the global columns, its random blocks and the blocks around it; columns
    that are in several of these count once. A dilated window is a window in every d-th column. Cost: batch · heads ·
    length · (2r + 2c + g + random · c) · 2 · width multiply-adds, and as many weights, forward and backward.
    """
    batch, heads, length, _ = query.shape
    if not length:
        return value
    step = min(around.dilation, length)  # beyond the row a column sees itself alone, as it does with this step
    places = GlobalColumns.of(is_global)
    far_key, far_value = (places.take(x).repeat_interleave(step, 0) for x in (key, value))
    there = places.there.repeat_interleave(step, 0)
    asked, near_key, near_value = (_strided(x, step) for x in (query, key, value))
    held, whole = (_strided(x[:, None, :, None], step)[:, 0, :, 0] for x in (valid, is_global))
    blocks = _Blocks.cut(asked, near_key, near_value, held, whole, around)
    seen = torch.cat([there[:, None, None].expand(-1, blocks.number, around.size, -1), blocks.seen], 3)
    keys, values = (
        torch.cat([far[:, None].expand(-1, blocks.number, -1, -1, -1).flatten(0, 1), near], 2)
        for far, near in ((far_key, blocks.key), (far_value, blocks.value))
    )
    hidden = ~seen.flatten(0, 1)
    added = torch.zeros(hidden.shape, dtype=query.dtype, device=query.device)
    added = added.masked_fill_(hidden, torch.finfo(query.dtype).min)[:, None]
    empty = hidden.all(2)
    apart = (blocks.apart * step).expand(*seen.shape[:3], -1).flatten(0, 1) if labels is not None else added[:, 0]
    rows = max(ATONCE // (heads * hidden.shape[1] * hidden.shape[2]), 1)
    found = []
    for q, k, v, mask, unseen, far in zip(
        *(x.split(rows) for x in (blocks.query, keys, values, added, empty, apart)), strict=True
    ):
        if labels is not None:
            mask = mask + scale * _labeled(q, far, labels, places.column.shape[1])
        nothing = unseen if bool(unseen.any()) else None
        found.append(attend_short(q, k, v, mask, nothing, scale=scale, dropping=dropping))
    return _in_order(torch.cat(found), batch, step)[:, :, :length]


class _Blocks(NamedTuple):
    """Blocks of queries, and for each the columns around it and its random blocks, side by side.

    ``seen``: which of them a query sees; global columns are hidden among them. ``apart``: their distances.
    """

    query: Float[Tensor, "rows*blocks heads size width"]
    key: Float[Tensor, "rows*blocks heads near width"]
    value: Float[Tensor, "rows*blocks heads near value"]
    seen: Bool[Tensor, "rows blocks size near"]
    apart: Int[Tensor, "#rows #blocks size near"]
    number: int

    @classmethod
    def cut(
        cls, query: Tensor, key: Tensor, value: Tensor, valid: Tensor, is_global: Tensor, around: Neighborhood
    ) -> _Blocks:
        size, length = around.size, query.shape[2]
        blocks, beside = -(-length // size), -(-around.radius // size)
        beside = min(beside, blocks)
        within = torch.arange(size, device=query.device)
        near = torch.arange(-beside * size, (beside + 1) * size, device=query.device)
        apart = (near - within[:, None])[None, None]
        q = pad(query, (0, 0, 0, blocks * size - length)).unflatten(2, (blocks, size)).transpose(1, 2).flatten(0, 1)
        ends = (beside * size, (blocks + beside) * size - length)
        k, v = (_windows(pad(x, (0, 0, *ends)), size, 2 * beside + 1) for x in (key, value))
        free = valid & ~is_global
        seen = _windows(pad(free, ends)[:, None, :, None], size, 2 * beside + 1)[:, :, :, 0]
        seen = seen.unflatten(0, (-1, blocks)) & (apart.abs() <= around.radius)
        if not around.random:
            return cls(q, k, v, seen, apart, blocks)
        drawn = around.drawn(valid.sum(1), blocks)
        more_k, more_v, more = (
            _picked(pad(x, (0, 0, 0, blocks * size - length)).unflatten(2, (blocks, size)), drawn)
            for x in (key, value, free[:, None, :, None])
        )
        begin = (drawn - torch.arange(blocks, device=drawn.device)[:, None])[..., None] * size
        far = (begin + within).flatten(2)[:, :, None] - within[:, None]
        again = (drawn[..., None] == drawn[..., None, :]).tril(-1).any(3).repeat_interleave(size, 2)
        found = more[:, 0, :, 0].unflatten(0, (-1, blocks))
        return cls(
            q,
            torch.cat([k, more_k], 2),
            torch.cat([v, more_v], 2),
            torch.cat([seen, (found & ~again)[:, :, None] & (far.abs() > around.radius)], 3),
            torch.cat([apart.expand(*far.shape[:3], -1), far], 3),
            blocks,
        )


def _strided(x: Tensor, step: int) -> Tensor:
    """Every ``step``-th column as a row of its own: (batch · step, heads, ⌈length / step⌉, width)."""
    if step == 1:
        return x
    x = pad(x, (0, 0, 0, -x.shape[2] % step)).unflatten(2, (-1, step))
    return x.permute(0, 3, 1, 2, 4).flatten(0, 1)


def _in_order(x: Tensor, batch: int, step: int) -> Tensor:
    """Blocks of strided rows back to (batch, heads, length, width)."""
    x = x.unflatten(0, (batch * step, -1)).transpose(1, 2).flatten(2, 3)
    return x.unflatten(0, (batch, step)).permute(0, 2, 3, 1, 4).flatten(2, 3)


def _windows(x: Tensor, size: int, touched: int) -> Tensor:
    """For each block the columns of so many blocks from it on: (batch · blocks, heads, touched · size, width)."""
    pieces = x.unflatten(2, (-1, size))
    blocks = pieces.shape[2] - touched + 1
    around = torch.cat([pieces[:, :, n : n + blocks] for n in range(touched)], 3)
    return around.transpose(1, 2).flatten(0, 1)


def _picked(pieces: Tensor, drawn: Tensor) -> Tensor:
    """For each block of queries the columns of its random blocks, side by side, as by ``_windows``."""
    rows = torch.arange(len(pieces), device=drawn.device)[:, None, None]
    return pieces.transpose(1, 2)[rows, drawn].transpose(2, 3).flatten(3, 4).flatten(0, 1)


def _label(apart: Tensor, labels: Tensor) -> Tensor:
    most = labels.shape[1] // 2 - 1  # 2k + 1 distances and the global columns
    return apart.clamp(-most, most) + most


def _labeled(
    query: Float[Tensor, "blocks heads size width"],
    apart: Int[Tensor, "blocks size near"],
    labels: Float[Tensor, "heads labels width"],
    globals_: int,
) -> Float[Tensor, "blocks heads size seen"]:
    """q_i·a_l(i,j) of the columns that a block reads: global ones, then those at these distances."""
    every = query @ labels.transpose(1, 2)
    number = _label(apart, labels)[:, None].expand(-1, query.shape[1], -1, -1)
    return torch.cat([every[..., -1:].expand(-1, -1, -1, globals_), every.gather(3, number)], 3)
