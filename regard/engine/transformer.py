"""A Transformer decoder for decoding: fused projections, packed matrices, keys and values written in place."""

from __future__ import annotations

import math
from copy import deepcopy
from typing import NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.contract import Decoder, Encoder
from regard.attention.dot import Dot
from regard.attention.heads import PROJECTIONS, AttentionReader, MultiHead, SelfAttention
from regard.attention.mask import Causal, Padding
from regard.engine.cache import BUCKET, Cells, FastSession, Source
from regard.engine.packed import ROUND, Format, Matrix, Packed, pack, pack_layers
from regard.models.feed_forward import FeedForward, GatedFeedForward
from regard.models.norms import PostNorm, PreNorm, Residual
from regard.models.transformer import DecoderLayer, TransformerDecoder
from regard.search import Read

__all__ = ["FastTransducer", "obstacle"]

Rows = Float[Tensor, "rows width"]

# Rows that share one pass over the output projection, and those whose probabilities are computed and read at a time.
PROJECTED, READ = 64, 16


def obstacle(decoder: Decoder) -> str | None:
    """Why there is no fast form of this decoder; None if there is."""
    if type(decoder) is not TransformerDecoder:
        return f"a {type(decoder).__name__} is not the Transformer's decoder"
    return next(filter(None, map(_obstacle, decoder.stack)), None)


def _obstacle(layer: DecoderLayer) -> str | None:
    """A class of another name may do anything, in any order: only what is known is read."""
    mixer, reader = layer.mixer, layer.reader
    if type(layer) is not DecoderLayer or type(mixer) is not SelfAttention or type(reader) is not AttentionReader:
        return "a layer has something else than self-attention and encoder-decoder attention"
    if set(mixer.mask.conjuncts()) != {Causal(), Padding()} or mixer.rotary is not None:
        return "its self-attention is restricted, or turns its keys"
    for attention in (mixer.attention, reader.attention):
        if type(attention.mechanism) is not Dot or attention.mechanism.bias is not None:
            return "its attention is not the plain product"
        projections = (getattr(attention, name) for name in PROJECTIONS)
        if type(attention) is not MultiHead or not all(type(x) is nn.Linear for x in projections):
            return "its attention lacks a projection"
    frames = (layer.around_mixer, layer.around_reader, layer.around_feed_forward)
    if type(layer.feed_forward) not in (FeedForward, GatedFeedForward):
        return f"its feed-forward is a {type(layer.feed_forward).__name__}"
    if not all(type(frame) in (PostNorm, PreNorm) for frame in frames):
        return "its residual frames are neither post-norm nor pre-norm"
    return None


class FastTransducer:
    """``session`` and ``step`` as a Transducer has them, with a FastSession for its state.

    Made of copies of a Transducer's parts, in ``dtype`` where one is given: the parts stay as they are. ``format``
    ``int8`` computes products in 8 bits and the rest in ``dtype``, float32. ValueError where there is an ``obstacle``.
    """

    def __init__(
        self, encoder: Encoder, decoder: Decoder, projection: Float[Tensor, "types width"],
        *, dtype: torch.dtype | None = None, format: Format = "float",
    ) -> None:  # fmt: skip
        if (reason := obstacle(decoder)) is not None:
            raise ValueError(f"there is no fast form of this decoder: {reason}")
        dtype = dtype or projection.dtype
        encoder, decoder = deepcopy((encoder, decoder))  # together: they may share an embedding
        encoder, decoder = encoder.eval().to(dtype), decoder.eval().to(dtype)
        assert isinstance(decoder, TransformerDecoder)
        self.encoder, self.embedding, self.norm = encoder, decoder.embedding, decoder.norm
        self.layers = [_Layer(layer, format) for layer in decoder.stack]
        self.projection: Packed = pack(Matrix(projection.detach().to(dtype, copy=True)), format)
        # One query against a few dozen keys is no work for matrix units: on a CPU float32 takes half the time.
        quicker = dtype == torch.bfloat16 and projection.device.type == "cpu"
        self.memory = torch.float32 if quicker else dtype
        pack_layers(encoder, format)

    @torch.no_grad()
    def session(
        self, source: Int[Tensor, "sentences length"], source_valid: Bool[Tensor, "sentences length"]
    ) -> FastSession:
        """Read the sources once; one row per sentence, before the first target token."""
        states = self.encoder(source, source_valid).states
        absent = torch.zeros_like(source_valid, dtype=self.memory)
        absent = absent.masked_fill(~source_valid, torch.finfo(self.memory).min)
        sources = [layer.read(states, source_valid, self.memory) for layer in self.layers]
        cells = [layer.empty(states, BUCKET, self.memory) for layer in self.layers]
        return FastSession.of(cells, sources, absent, _extent(source_valid))

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "rows length"], session: FastSession
    ) -> tuple[Float[Tensor, "rows length types"], FastSession]:
        """Tokens to log-probabilities in float32 or wider, and the session after them."""
        log_p = []
        for column in tokens.split(1, 1):
            (each,), session = self.reading(column, session, lambda log_p, rows: (log_p,))
            log_p.append(each)
        return torch.stack(log_p, 1), session

    @torch.no_grad()
    def reading(
        self, tokens: Int[Tensor, "rows 1"], session: FastSession, read: Read
    ) -> tuple[tuple[Tensor, ...], FastSession]:
        """``step`` for who reads rows in pieces: probabilities of some fit into the cache, those of all do not."""
        session, count, found = session.fitted(), len(tokens), []
        features = self._features(tokens[:, 0], session)
        for start in range(0, max(count, 1), PROJECTED):
            logits = self.projection(features[start : start + PROJECTED])[: count - start]
            for number, piece in enumerate(logits.split(READ)):
                first = start + number * READ
                log_p = torch.log_softmax(piece if piece.dtype == torch.float64 else piece.float(), -1)
                found.append(read(log_p, slice(first, first + len(piece))))
        session.time = [time + 1 for time in session.time]
        return tuple(map(torch.cat, zip(*found, strict=True))), session

    def _features(self, tokens: Int[Tensor, "rows"], session: FastSession) -> Float[Tensor, "padded width"]:
        now = _Now(session)
        padded = nn.functional.pad(tokens, (0, -len(tokens) % ROUND))
        position = nn.functional.pad(now.time.repeat_interleave(session.width), (0, len(padded) - len(tokens)))
        x = self.embedding(padded[:, None], position[:, None])[:, 0]
        for layer, cells, source in zip(self.layers, session.cells, session.sources, strict=True):
            x = layer(x, cells, source, now)
        features: Tensor = self.norm(x)
        return features


def _extent(valid: Bool[Tensor, "sentences length"]) -> list[int]:
    """How many columns of each row, from the first, hold all that are valid."""
    column = torch.arange(1, valid.shape[1] + 1, device=valid.device)
    extent: list[int] = torch.where(valid, column, 0).amax(1).tolist() if valid.numel() else [0] * len(valid)
    return extent


class _Now:
    """Where the rows of one step stand in the tables, the same for every layer."""

    def __init__(self, session: FastSession) -> None:
        device, width, self.rows = session.absent.device, session.width, session.rows
        self.slots = torch.tensor(session.slots, dtype=torch.int64, device=device)
        self.time = torch.tensor(session.time, dtype=torch.int64, device=device)
        place = torch.arange(width, device=device)
        session.unseen[self.slots[:, None], place, self.time[:, None], place] = 0.0  # also what it is about to write
        self.width, self.dense = width, session.dense
        # The time of all, where they fill all slots and stand at one: a plain copy writes their cells.
        whole = self.dense and width == session.unseen.shape[1] and len(set(session.time)) == 1
        self.common = session.time[0] if whole else None
        self._unseen = session.unseen[:, :width].flatten(2)
        self._absent = session.absent[:, None].expand(-1, width, -1)
        self._spread: dict[tuple[str, int, int], Tensor] = {}

    def unseen(self, heads: _Heads) -> Float[Tensor, "asked asking cells"]:
        """What is added to energies over the cells."""
        return self._for_heads("unseen", self._unseen, heads)

    def absent(self, heads: _Heads) -> Float[Tensor, "asked asking length"]:
        """What is added to energies over the source."""
        return self._for_heads("absent", self._absent, heads)

    def _for_heads(
        self, name: str, mask: Float[Tensor, "slots width columns"], heads: _Heads
    ) -> Float[Tensor, "asked asking columns"]:
        """One a key head, for all of the heads and hypotheses that ask it; made once for the layers of a step."""
        key_heads, group = heads.key_heads, heads.heads // heads.key_heads
        if (name, key_heads, group) not in self._spread:
            spread = mask[:, None, None].expand(-1, key_heads, group, -1, -1)
            shape = len(mask) * key_heads, group * mask.shape[1], mask.shape[2]
            self._spread[name, key_heads, group] = spread.reshape(shape)
        return self._spread[name, key_heads, group]


class _Layer:
    """One decoder layer over one new column."""

    def __init__(self, layer: DecoderLayer, format: Format) -> None:
        mixer, reader = cast(SelfAttention, layer.mixer), cast(AttentionReader, layer.reader)
        own, other = mixer.attention, reader.attention
        self.own, self.other = _Heads.of(own), _Heads.of(other)
        self.ask_own = pack(_stacked(_query(own), _matrix(own.key), _matrix(own.value)), format)
        self.ask_other = pack(_query(other), format)
        self.read_other = pack(_stacked(_matrix(other.key), _matrix(other.value)), format)
        self.leave_own, self.leave_other = (pack(_matrix(x.output), format) for x in (own, other))
        self.feed_forward = _feed_forward(layer.feed_forward, format)
        self.frames = [_Frame(x) for x in (layer.around_mixer, layer.around_reader, layer.around_feed_forward)]

    def read(
        self,
        states: Float[Tensor, "sentences length width"],
        valid: Bool[Tensor, "sentences length"],
        memory: torch.dtype,
    ) -> Source:
        """Keys and values of the source, once a sentence; values of padding are 0, all that who sees nothing gets."""
        key, value = self.read_other(states.flatten(0, 1)).split([self.other.keys, self.other.values], 1)
        shape = (*states.shape[:2], self.other.key_heads, -1)
        key, value = (x.reshape(shape).transpose(1, 2).to(memory).contiguous() for x in (key, value))
        return Source(key, value.masked_fill_(~valid[:, None, :, None], 0.0))

    def empty(self, like: Float[Tensor, "sentences length width"], times: int, memory: torch.dtype) -> Cells:
        own = self.own
        return Cells(*(
            like.new_zeros(len(like), own.key_heads, times, 1, width // own.key_heads, dtype=memory)
            for width in (own.keys, own.values)
        ))  # fmt: skip

    def __call__(self, x: Rows, cells: Cells, source: Source, now: _Now) -> Rows:
        mix, read, feed = self.frames
        x = mix.leave(self.leave_own.onto(x, self._mix(mix.enter(x), cells, now)))
        x = read.leave(self.leave_other.onto(x, self._read(read.enter(x), source, now)))
        return feed.leave(self.feed_forward(feed.enter(x), x))

    def _mix(self, x: Rows, cells: Cells, now: _Now) -> Rows:
        own = self.own
        query, key, value = self.ask_own(x).split([own.queries, own.keys, own.values], 1)
        for table, new in zip(cells, (key, value), strict=True):
            _write(table, _dealt(new, own.key_heads, now), now)
        keys, values = (table.flatten(2, 3) for table in cells)
        return self._ask(query, own, keys, values, now.unseen(own), now)

    def _read(self, x: Rows, source: Source, now: _Now) -> Rows:
        return self._ask(self.ask_other(x), self.other, *source, now.absent(self.other), now)

    def _ask(
        self,
        query: Float[Tensor, "rows queries"],
        heads: _Heads,
        key: Float[Tensor, "slots key_heads columns key_width"],
        value: Float[Tensor, "slots key_heads columns value_width"],
        added: Float[Tensor, "asked asking columns"],
        now: _Now,
    ) -> Float[Tensor, "rows values"]:
        """softmax(q·k) v of every hypothesis over all columns of its slot; the scale is in the weights of q."""
        key_heads, group = heads.key_heads, heads.heads // heads.key_heads
        asking = query[: now.rows].view(len(now.slots), now.width, key_heads, group, key.shape[3])
        asking = asking.permute(0, 2, 3, 1, 4).to(key.dtype)  # (sentences, key heads, group, width, features)
        if not now.dense:
            asking = asking.new_zeros(len(key), *asking.shape[1:]).index_copy_(0, now.slots, asking)
        folded = asking.reshape(len(key) * key_heads, group * now.width, key.shape[3])
        weights = torch.softmax(torch.baddbmm(added, folded, key.flatten(0, 1).transpose(1, 2)), -1)
        context = torch.bmm(weights, value.flatten(0, 1)).view(*asking.shape[:4], value.shape[3]).permute(0, 3, 1, 2, 4)
        context = context if now.dense else context.index_select(0, now.slots)
        given = context.reshape(now.rows, heads.heads * value.shape[3]).to(query.dtype)
        return nn.functional.pad(given, (0, 0, 0, len(query) - now.rows))


def _dealt(
    x: Float[Tensor, "padded features"], heads: int, now: _Now
) -> Float[Tensor, "sentences {heads} width feature"]:
    """The rows that are none of padding, by sentence and head."""
    width = x.shape[1] // heads
    return x[: now.rows].view(len(now.slots), now.width, heads, width).transpose(1, 2)


def _write(
    table: Float[Tensor, "slots key_heads times places features"],
    new: Float[Tensor, "sentences key_heads width features"],
    now: _Now,
) -> None:
    """Into the cells of each sentence's time."""
    if now.common is not None:
        table[:, :, now.common] = new
        return
    head = torch.arange(table.shape[1], device=table.device)
    table[:, :, :, : now.width][now.slots[:, None], head, now.time[:, None]] = new.to(table.dtype)


class _Heads(NamedTuple):
    """How many there are, and how wide their projections are together."""

    heads: int
    key_heads: int
    queries: int
    keys: int
    values: int

    @classmethod
    def of(cls, attention: MultiHead) -> _Heads:
        heads, key_heads = attention.heads, attention.key_heads
        widths = heads * attention.query_width, key_heads * attention.key_width, key_heads * attention.value_width
        return cls(heads, key_heads, *widths)


def _query(attention: MultiHead) -> Matrix:
    """The projection of the query with the scale of the energies in it."""
    scale = cast(Dot, attention.mechanism).scale
    scale = 1 / math.sqrt(attention.key_width) if scale is None else scale
    weight, bias = _matrix(attention.query)
    return Matrix(weight * scale, None if bias is None else bias * scale)


def _matrix(layer: nn.Module) -> Matrix:
    return Matrix.of(cast(nn.Linear, layer))


def _stacked(*matrices: Matrix) -> Matrix:
    """One product in the place of several over the same features."""
    weight = torch.cat([each.weight for each in matrices])
    if all(each.bias is None for each in matrices):
        return Matrix(weight)
    return Matrix(weight, torch.cat([w.new_zeros(len(w)) if b is None else b for w, b in matrices]))


class _Frame:
    """What a residual frame computes when nothing is dropped: a norm before or after."""

    def __init__(self, frame: Residual) -> None:
        post = isinstance(frame, PostNorm)
        self.enter = nn.Identity() if post else frame.norm
        self.leave = frame.norm if post else nn.Identity()


class _FeedForward:
    def __init__(self, layer: FeedForward, format: Format) -> None:
        self.enter, self.leave = (pack(Matrix.of(x), format) for x in (layer.enter, layer.leave))
        self.activation = layer.activation

    def __call__(self, x: Rows, residual: Rows) -> Rows:
        rectifies = self.activation is torch.relu
        inner = self.enter.rectified(x) if rectifies else self.activation(self.enter(x))
        return self.leave.onto(residual, inner)


class _GatedFeedForward:
    def __init__(self, layer: GatedFeedForward, format: Format) -> None:
        self.enter = pack(_stacked(Matrix.of(layer.gate), Matrix.of(layer.enter)), format)
        self.leave, self.activation = pack(Matrix.of(layer.leave), format), layer.activation

    def __call__(self, x: Rows, residual: Rows) -> Rows:
        gate, entered = self.enter(x).chunk(2, 1)
        return self.leave.onto(residual, self.activation(gate) * entered)


def _feed_forward(layer: FeedForward | GatedFeedForward, format: Format) -> _FeedForward | _GatedFeedForward:
    return _FeedForward(layer, format) if isinstance(layer, FeedForward) else _GatedFeedForward(layer, format)
