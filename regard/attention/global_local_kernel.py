"""Attention to neighbors, to global positions and to random blocks, in time and memory n · (r + g)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.attention.cpu_softmax import attend_short
from regard.attention.kernel import masked_softmax, read

MIN_BLOCK, MAX_BLOCK = 32, 128  # queries in a block
MAX_WEIGHTS = 1 << 21  # computed at a time
MIX = ((15, 0x2C1B3C6D), (12, 0x297A2D39), (15, 1))  # shifts and factors of an integer hash


class Neighborhood(NamedTuple):
    """Keys visible to a position that is not global, in addition to the global keys.

    These are the keys at most ``radius`` steps of ``dilation`` positions away, and ``random`` blocks of keys for each
    block of queries. Random blocks are drawn by ``seed`` from the blocks of the row that are not only padding.
    """

    radius: int
    dilation: int = 1
    random: int = 0
    seed: int = 0

    @property
    def size(self) -> int:
        """Positions of a block."""
        return min(max(self.radius, MIN_BLOCK), MAX_BLOCK)

    def drawn(self, length: Int[Tensor, "batch"], blocks: int) -> Int[Tensor, "batch {blocks} drawn"]:
        """Return the random blocks of each block of queries, for rows of ``length`` valid positions."""
        draws = torch.arange(blocks * self.random, device=length.device) + 104_729 * self.seed + 1
        for shift, factor in MIX:
            draws = ((draws ^ (draws >> shift)) * factor) & 0xFFFF_FFFF
        used_blocks = (length + self.size - 1) // self.size
        return ((draws.view(1, blocks, self.random) * used_blocks[:, None, None]) >> 32).clamp(0, blocks - 1)


class GlobalPositions(NamedTuple):
    """Indices of the global positions of each row; ``valid`` is False where a row has fewer."""

    indices: Int[Tensor, "batch globals"]
    valid: Bool[Tensor, "batch globals"]

    @classmethod
    def of(cls, is_global: Bool[Tensor, "batch length"]) -> GlobalPositions:
        count = is_global.sum(1)
        longest = int(count.max()) if len(count) else 0
        index = is_global.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :longest]
        return cls(index, torch.arange(longest, device=index.device) < count[:, None])

    def take(self, x: Float[Tensor, "batch heads length width"]) -> Float[Tensor, "batch heads globals width"]:
        """Return the features of the global positions."""
        return x.gather(2, self.indices[:, None, :, None].expand(-1, x.shape[1], -1, x.shape[3]))


def visible(
    around: Neighborhood, valid: Bool[Tensor, "batch length"], is_global: Bool[Tensor, "batch length"]
) -> Bool[Tensor, "batch length length"]:
    """Return the table of keys that each position sees that is not global itself; for tests and the reference path."""
    positions = torch.arange(valid.shape[1], device=valid.device)
    distance = positions - positions[:, None]
    seen = (distance.abs() <= around.radius * around.dilation) & (distance % around.dilation == 0)
    seen = seen | is_global[:, None]
    if around.random and len(positions):
        block = positions // around.size
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
    """Compute ``attend_neighbors`` by its table. Memory: batch · heads · length² numbers."""
    energy = scale * query @ key.transpose(2, 3)
    if labels is not None:
        positions = torch.arange(valid.shape[1], device=valid.device)
        label = _label(positions - positions[:, None], labels).expand(len(valid), -1, -1)
        label = torch.where(is_global[:, None], labels.shape[1] - 1, label)[:, None]
        energy = energy + scale * (query @ labels.transpose(1, 2)).gather(3, label.expand_as(energy))
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
    """softmax(scale · q_i·(k_j + a_l(i,j))) over the keys j that i sees, times v_j (Ainslie et al. 2020, Eq. 2).

    ``labels``: a_l, for distances clipped at ±k, and last for global keys; None: 0. ``is_global``: valid positions that
    all others see; their own context is not computed here. Each block of c queries attends, like a short sequence, to
    the global keys, its random blocks and the blocks around it; a key in several of these counts once. A dilated window
    is a window over every d-th position. Cost: batch · heads · length · (2r + 2c + g + random · c) · 2 · width
    multiply-adds, and as many weights, forward and backward.
    """
    batch, heads, length, _ = query.shape
    if not length:
        return value
    step = min(around.dilation, length)  # with a dilation ≥ length a position sees only itself; this step does the same
    globals_ = GlobalPositions.of(is_global)
    far_key, far_value = (globals_.take(x).repeat_interleave(step, 0) for x in (key, value))
    valid_globals = globals_.valid.repeat_interleave(step, 0)
    near_query, near_key, near_value = (_strided(x, step) for x in (query, key, value))
    strided_valid, strided_global = (_strided(x[:, None, :, None], step)[:, 0, :, 0] for x in (valid, is_global))
    blocks = _Blocks.cut(near_query, near_key, near_value, strided_valid, strided_global, around)
    seen = torch.cat([valid_globals[:, None, None].expand(-1, blocks.number, around.size, -1), blocks.seen], 3)
    keys, values = (
        torch.cat([far[:, None].expand(-1, blocks.number, -1, -1, -1).flatten(0, 1), near], 2)
        for far, near in ((far_key, blocks.key), (far_value, blocks.value))
    )
    hidden = ~seen.flatten(0, 1)
    added = torch.zeros(hidden.shape, dtype=query.dtype, device=query.device)
    added = added.masked_fill_(hidden, torch.finfo(query.dtype).min)[:, None]
    empty = hidden.all(2)
    distance = (blocks.distance * step).expand(*seen.shape[:3], -1).flatten(0, 1) if labels is not None else added[:, 0]
    rows = max(MAX_WEIGHTS // (heads * hidden.shape[1] * hidden.shape[2]), 1)
    contexts = []
    for q, k, v, mask, empty_rows, distances in zip(
        *(x.split(rows) for x in (blocks.query, keys, values, added, empty, distance)), strict=True
    ):
        if labels is not None:
            mask = mask + scale * _labeled(q, distances, labels, globals_.indices.shape[1])
        empty_or_none = empty_rows if bool(empty_rows.any()) else None
        contexts.append(attend_short(q, k, v, mask, empty_or_none, scale=scale, dropping=dropping))
    return _in_order(torch.cat(contexts), batch, step)[:, :, :length]


class _Blocks(NamedTuple):
    """Blocks of queries, and for each the concatenated keys around it and of its random blocks.

    ``seen``: which of them a query sees; global keys are hidden among them. ``distance``: distances of the keys.
    ``number``: blocks per row.
    """

    query: Float[Tensor, "rows*blocks heads size width"]
    key: Float[Tensor, "rows*blocks heads near width"]
    value: Float[Tensor, "rows*blocks heads near value"]
    seen: Bool[Tensor, "rows blocks size near"]
    distance: Int[Tensor, "#rows #blocks size near"]
    number: int

    @classmethod
    def cut(
        cls, query: Tensor, key: Tensor, value: Tensor, valid: Tensor, is_global: Tensor, around: Neighborhood
    ) -> _Blocks:
        size, length = around.size, query.shape[2]
        blocks, side_blocks = -(-length // size), -(-around.radius // size)
        side_blocks = min(side_blocks, blocks)
        within = torch.arange(size, device=query.device)
        near = torch.arange(-side_blocks * size, (side_blocks + 1) * size, device=query.device)
        distance = (near - within[:, None])[None, None]
        q = pad(query, (0, 0, 0, blocks * size - length)).unflatten(2, (blocks, size)).transpose(1, 2).flatten(0, 1)
        ends = (side_blocks * size, (blocks + side_blocks) * size - length)
        k, v = (_windows(pad(x, (0, 0, *ends)), size, 2 * side_blocks + 1) for x in (key, value))
        local = valid & ~is_global
        seen = _windows(pad(local, ends)[:, None, :, None], size, 2 * side_blocks + 1)[:, :, :, 0]
        seen = seen.unflatten(0, (-1, blocks)) & (distance.abs() <= around.radius)
        if not around.random:
            return cls(q, k, v, seen, distance, blocks)
        drawn = around.drawn(valid.sum(1), blocks)
        more_k, more_v, drawn_mask = (
            _picked(pad(x, (0, 0, 0, blocks * size - length)).unflatten(2, (blocks, size)), drawn)
            for x in (key, value, local[:, None, :, None])
        )
        begin = (drawn - torch.arange(blocks, device=drawn.device)[:, None])[..., None] * size
        random_distance = (begin + within).flatten(2)[:, :, None] - within[:, None]
        repeated = (drawn[..., None] == drawn[..., None, :]).tril(-1).any(3).repeat_interleave(size, 2)
        drawn_free = drawn_mask[:, 0, :, 0].unflatten(0, (-1, blocks))
        return cls(
            q,
            torch.cat([k, more_k], 2),
            torch.cat([v, more_v], 2),
            torch.cat([seen, (drawn_free & ~repeated)[:, :, None] & (random_distance.abs() > around.radius)], 3),
            torch.cat([distance.expand(*random_distance.shape[:3], -1), random_distance], 3),
            blocks,
        )


def _strided(x: Tensor, step: int) -> Tensor:
    """Return every ``step``-th position as a row of its own: (batch · step, heads, ⌈length / step⌉, width)."""
    if step == 1:
        return x
    x = pad(x, (0, 0, 0, -x.shape[2] % step)).unflatten(2, (-1, step))
    return x.permute(0, 3, 1, 2, 4).flatten(0, 1)


def _in_order(x: Tensor, batch: int, step: int) -> Tensor:
    """Return blocks of strided rows in the shape (batch, heads, length, width)."""
    x = x.unflatten(0, (batch * step, -1)).transpose(1, 2).flatten(2, 3)
    return x.unflatten(0, (batch, step)).permute(0, 2, 3, 1, 4).flatten(2, 3)


def _windows(x: Tensor, size: int, touched: int) -> Tensor:
    """Return, for each block, the keys of ``touched`` blocks from it on.

    Shape: (batch · blocks, heads, touched · size, width).
    """
    pieces = x.unflatten(2, (-1, size))
    blocks = pieces.shape[2] - touched + 1
    around = torch.cat([pieces[:, :, n : n + blocks] for n in range(touched)], 3)
    return around.transpose(1, 2).flatten(0, 1)


def _picked(pieces: Tensor, drawn: Tensor) -> Tensor:
    """Return, for each block of queries, the concatenated keys of its random blocks, as in ``_windows``."""
    rows = torch.arange(len(pieces), device=drawn.device)[:, None, None]
    return pieces.transpose(1, 2)[rows, drawn].transpose(2, 3).flatten(3, 4).flatten(0, 1)


def _label(distance: Tensor, labels: Tensor) -> Tensor:
    limit = labels.shape[1] // 2 - 1  # 2k + 1 distances and the label of global keys
    return distance.clamp(-limit, limit) + limit


def _labeled(
    query: Float[Tensor, "blocks heads size width"],
    distance: Int[Tensor, "blocks size near"],
    labels: Float[Tensor, "heads labels width"],
    globals_: int,
) -> Float[Tensor, "blocks heads size seen"]:
    """Return q_i·a_l(i,j) of the keys that a block reads: first global keys, then keys at these distances."""
    energies = query @ labels.transpose(1, 2)
    label = _label(distance, labels)[:, None].expand(-1, query.shape[1], -1, -1)
    return torch.cat([energies[..., -1:].expand(-1, -1, -1, globals_), energies.gather(3, label)], 3)
