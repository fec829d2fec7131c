"""One layer of a Transformer decoder over one new column: few operations, over tables that are written in place.

A step of one sentence is bound by the number of torch's operations rather than by what they compute, so what does not
change from step to step (views, scales, masks of all layers) is made once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.heads import AttentionReader, MultiHead, SelfAttention
from regard.attention.mechanisms.dot import Dot
from regard.engine.cache import FastSession, Remembered
from regard.engine.packed import Format, PackedMatrix, pack
from regard.models.transformer.feed_forward import FeedForward, GatedFeedForward
from regard.models.transformer.norms import PostNorm, Residual
from regard.models.transformer.transformer import DecoderLayer

__all__ = ["FastLayer", "Now", "norm"]

Rows = Float[Tensor, "rows width"]


class Now:
    """Where the rows of one step stand in the tables, the same for every layer; ``padded`` of them are computed."""

    def __init__(self, session: FastSession, padded: int) -> None:
        device = session.absent.device
        self.sentences, self.width, self.dense = len(session.slots), session.width, session.dense
        self.rows, self.padded = session.rows, padded
        self.slots = torch.tensor(session.slots, dtype=torch.int64, device=device)
        self.time = torch.tensor(session.time, dtype=torch.int64, device=device)
        # The time of all, where they fill all slots and stand at one: a plain copy writes their cells.
        whole = self.dense and self.width == session.unseen.shape[1] and len(set(session.time)) == 1
        self.common = session.time[0] if whole else None
        self._see_what_is_written(session)
        self._unseen = session.unseen[:, : self.width].flatten(2)
        self._absent = session.absent[:, None].expand(-1, self.width, -1)
        self._spread: dict[tuple[str, int, int], Tensor] = {}

    def _see_what_is_written(self, session: FastSession) -> None:
        """Each hypothesis sees the cell that it is about to write."""
        if self.common is not None:
            session.unseen[:, :, self.common].diagonal(0, 1, 2).zero_()
            return
        place = torch.arange(self.width, device=self.slots.device)
        session.unseen[self.slots[:, None], place, self.time[:, None], place] = 0.0

    def position(self) -> Int[Tensor, "padded"]:
        """The column of each row, 0 for those of padding."""
        position = self.time.repeat_interleave(self.width) if self.width > 1 else self.time
        return _padded(position, self.padded)

    def unseen(self, heads: Heads) -> Float[Tensor, "asked asking cells"]:
        """What is added to energies over the cells."""
        return self._for_heads("unseen", self._unseen, heads)

    def absent(self, heads: Heads) -> Float[Tensor, "asked asking length"]:
        """What is added to energies over the source."""
        return self._for_heads("absent", self._absent, heads)

    def _for_heads(
        self, name: str, mask: Float[Tensor, "slots width columns"], heads: Heads
    ) -> Float[Tensor, "asked asking columns"]:
        """One a key head, for all of the heads and hypotheses that ask it; made once for the layers of a step."""
        key_heads, group = heads.key_heads, heads.group
        if (name, key_heads, group) not in self._spread:
            spread = mask[:, None, None].expand(-1, key_heads, group, -1, -1)
            shape = len(mask) * key_heads, group * mask.shape[1], mask.shape[2]
            self._spread[name, key_heads, group] = spread.reshape(shape)
        return self._spread[name, key_heads, group]

    def in_slots(self, x: Float[Tensor, "sentences *shape"], slots: int) -> Float[Tensor, "slots *shape"]:
        """What belongs to the sentences, at their slots, and 0 in those that are empty."""
        return x if self.dense else x.new_zeros(slots, *x.shape[1:]).index_copy_(0, self.slots, x)

    def of_slots(self, x: Float[Tensor, "slots *shape"]) -> Float[Tensor, "sentences *shape"]:
        return x if self.dense else x.index_select(0, self.slots)


class FastLayer:
    """One decoder layer, its projections fused, packed for ``format``, its keys and values kept in ``memory``."""

    def __init__(self, layer: DecoderLayer, format: Format, memory: torch.dtype) -> None:
        mixer, reader = cast(SelfAttention, layer.mixer), cast(AttentionReader, layer.reader)
        own, other = mixer.attention, reader.attention
        self.own, self.other, self.memory = Heads.of(own), Heads.of(other), memory
        self.ask_own = pack(_stacked(_query(own), _matrix(own.key), _matrix(own.value)), format, alone=True)
        self.ask_other = pack(_query(other), format, alone=True)
        self.read_other = pack(_stacked(_matrix(other.key), _matrix(other.value)), format)
        self.leave_own, self.leave_other = (pack(_matrix(x.output), format, alone=True) for x in (own, other))
        self.feed_forward = _feed_forward(layer.feed_forward, format)
        self.frames = [_Frame(x) for x in (layer.around_mixer, layer.around_reader, layer.around_feed_forward)]

    def read(
        self, states: Float[Tensor, "sentences length width"], valid: Bool[Tensor, "sentences length"]
    ) -> Remembered:
        """Keys and values of the source, once a sentence; values of padding are 0, all that who sees nothing gets."""
        key, value = self.read_other(states.flatten(0, 1)).split([self.other.keys, self.other.values], 1)
        shape = (*states.shape[:2], self.other.key_heads, -1)
        key, value = (x.reshape(shape).transpose(1, 2).to(self.memory).contiguous() for x in (key, value))
        return Remembered(key, value.masked_fill_(~valid[:, None, :, None], 0.0))

    def empty(self, like: Float[Tensor, "sentences length width"], times: int) -> Remembered:
        own = self.own
        return Remembered(*(
            like.new_zeros(len(like), own.key_heads, times, 1, width // own.key_heads, dtype=self.memory)
            for width in (own.keys, own.values)
        ))  # fmt: skip

    def __call__(self, x: Rows, cells: Remembered, source: Remembered, now: Now) -> Rows:
        mix, read, feed = self.frames
        x = mix.leave(self.leave_own.onto(x, self._mix(mix.enter(x), cells, now)))
        x = read.leave(self.leave_other.onto(x, self._read(read.enter(x), source, now)))
        return feed.leave(self.feed_forward(feed.enter(x), x))

    def _mix(self, x: Rows, cells: Remembered, now: Now) -> Rows:
        own = self.own
        query, key, value = self.ask_own(x).split_with_sizes([own.queries, own.keys, own.values], 1)
        _write(cells.key, key, now)
        _write(cells.value, value, now)
        return _asked(query, own, cells, now.unseen(own), now)

    def _read(self, x: Rows, source: Remembered, now: Now) -> Rows:
        return _asked(self.ask_other(x), self.other, source, now.absent(self.other), now)


def _asked(
    query: Float[Tensor, "padded queries"],
    heads: Heads,
    table: Remembered,
    added: Float[Tensor, "asked asking columns"],
    now: Now,
) -> Float[Tensor, "padded values"]:
    """softmax(q·k) v of every hypothesis over all columns of its slot; the scale is in the weights of q."""
    slots, width = len(table.key), table.asked.shape[1]
    asking = now.in_slots(_by_head(query, heads, now, table.asked.dtype), slots)
    folded = asking.reshape(slots * heads.key_heads, heads.group * now.width, width)
    weights = torch.softmax(torch.baddbmm(added, folded, table.asked), -1)
    context = torch.bmm(weights, table.given).view(*asking.shape[:4], table.given.shape[2])
    return _by_row(now.of_slots(context), now).to(query.dtype)


def _by_head(
    query: Float[Tensor, "padded queries"], heads: Heads, now: Now, dtype: torch.dtype
) -> Float[Tensor, "sentences key_heads group width key_width"]:
    """The rows that are none of padding, by the keys that they ask."""
    asking = (query[: now.rows] if now.padded > now.rows else query).to(dtype)
    width = query.shape[1] // heads.heads
    if now.width == 1:  # a permutation that moves nothing, and has its price
        return asking.view(now.sentences, heads.key_heads, heads.group, 1, width)
    return asking.view(now.sentences, now.width, heads.key_heads, heads.group, width).permute(0, 2, 3, 1, 4)


def _by_row(
    context: Float[Tensor, "sentences key_heads group width value_width"], now: Now
) -> Float[Tensor, "padded values"]:
    """The heads of a row side by side, and rows of padding after them."""
    context = context if now.width == 1 else context.permute(0, 3, 1, 2, 4)
    return _padded(context.reshape(now.rows, math.prod(context.shape[1:]) // now.width), now.padded)


def _padded(x: Float[Tensor, "rows *width"], rows: int) -> Float[Tensor, "{rows} *width"]:
    missing = rows - len(x)
    return nn.functional.pad(x, (0, 0) * (x.dim() - 1) + (0, missing)) if missing else x


def _write(
    table: Float[Tensor, "slots key_heads times places features"],
    new: Float[Tensor, "padded all_features"],
    now: Now,
) -> None:
    """Into the cells of each sentence's time."""
    new = new[: now.rows] if now.padded > now.rows else new
    dealt = new.view(now.sentences, now.width, table.shape[1], table.shape[4]).transpose(1, 2)
    if now.common is not None:
        table.select(2, now.common).copy_(dealt)
        return
    head = torch.arange(table.shape[1], device=table.device)
    table[:, :, :, : now.width][now.slots[:, None], head, now.time[:, None]] = dealt.to(table.dtype)


class Heads(NamedTuple):
    """How many ask, how many are asked, and how wide their projections are together."""

    heads: int
    key_heads: int
    queries: int
    keys: int
    values: int

    @property
    def group(self) -> int:
        """So many heads ask the same keys."""
        return self.heads // self.key_heads

    @classmethod
    def of(cls, attention: MultiHead) -> Heads:
        heads, key_heads = attention.heads, attention.key_heads
        widths = heads * attention.query_width, key_heads * attention.key_width, key_heads * attention.value_width
        return cls(heads, key_heads, *widths)


def _query(attention: MultiHead) -> PackedMatrix:
    """The projection of the query with the scale of the energies in it."""
    scale = cast(Dot, attention.mechanism).scale
    scale = 1 / math.sqrt(attention.key_width) if scale is None else scale
    weight, bias = _matrix(attention.query)
    return PackedMatrix(weight * scale, None if bias is None else bias * scale)


def _matrix(layer: nn.Module) -> PackedMatrix:
    return PackedMatrix.of(cast(nn.Linear, layer))


def _stacked(*matrices: PackedMatrix) -> PackedMatrix:
    """One product in the place of several over the same features."""
    weight = torch.cat([each.weight for each in matrices])
    if all(each.bias is None for each in matrices):
        return PackedMatrix(weight)
    return PackedMatrix(weight, torch.cat([w.new_zeros(len(w)) if b is None else b for w, b in matrices]))


def norm(layer: nn.Module) -> Callable[[Tensor], Tensor]:
    """What a layer computes, without what calling a module costs."""
    if type(layer) is nn.LayerNorm:
        weight, bias = layer.weight.detach(), layer.bias.detach()
        return lambda x: torch.layer_norm(x, layer.normalized_shape, weight, bias, layer.eps)
    if type(layer) is nn.RMSNorm:
        scales = {dtype: layer.weight.detach().to(dtype) for dtype in (layer.weight.dtype, torch.bfloat16)}
        return lambda x: torch.rms_norm(x, layer.normalized_shape, scales[x.dtype], layer.eps)
    return _same if type(layer) is nn.Identity else layer


def _same(x: Tensor) -> Tensor:
    return x


class _Frame:
    """What a residual frame computes when nothing is dropped: a norm before or after."""

    def __init__(self, frame: Residual) -> None:
        post, normed = isinstance(frame, PostNorm), norm(frame.norm)
        self.enter: Callable[[Rows], Rows] = _same if post else normed
        self.leave: Callable[[Rows], Rows] = normed if post else _same


class _FeedForward:
    def __init__(self, layer: FeedForward, format: Format) -> None:
        self.enter, self.leave = (pack(PackedMatrix.of(x), format, alone=True) for x in (layer.up, layer.down))
        self.activation = layer.activation

    def __call__(self, x: Rows, residual: Rows) -> Rows:
        rectifies = self.activation is torch.relu
        inner = self.enter.rectified(x) if rectifies else self.activation(self.enter(x))
        return self.leave.onto(residual, inner)


class _GatedFeedForward:
    def __init__(self, layer: GatedFeedForward, format: Format) -> None:
        self.enter = pack(_stacked(PackedMatrix.of(layer.gate), PackedMatrix.of(layer.up)), format, alone=True)
        self.leave, self.activation = pack(PackedMatrix.of(layer.down), format, alone=True), layer.activation

    def __call__(self, x: Rows, residual: Rows) -> Rows:
        gate, entered = self.enter(x).chunk(2, 1)
        return self.leave.onto(residual, self.activation(gate) * entered)


def _feed_forward(layer: FeedForward | GatedFeedForward, format: Format) -> _FeedForward | _GatedFeedForward:
    return _FeedForward(layer, format) if isinstance(layer, FeedForward) else _GatedFeedForward(layer, format)
