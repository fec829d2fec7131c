"""Hashed attention of the Reformer: positions attend to those whose queries hash to the same bucket."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import normalize, pad

from regard.attention.contract import Abilities, Mixed, Mixer
from regard.attention.hashing import (
    SELF_ENERGY,
    Drops,
    SortedChunks,
    attend_chunks,
    draw_rotations,
    fixed_rotations,
    hash_positions,
)
from regard.attention.key_value import KeyValue
from regard.attention.positions.rotary import Rotary
from regard.attention.span import Span
from regard.core.randomness import generator
from regard.core.state import State, truncate
from regard.models.dropout import Dropout

MAX_BUCKETS = 1 << 20


class HashedState(NamedTuple):
    """Keys and values of all positions so far, and the bucket of each, or () if decoding attends to all keys."""

    cache: KeyValue
    bucket: Int[Tensor, "rows heads slots rounds"] | tuple[()]

    def append(self, key: Tensor, value: Tensor, bucket: Int[Tensor, "rows heads length rounds"], span: Span) -> State:
        """Return the state with more positions."""
        cache = self.cache.append(key, value, span)
        if not isinstance(self.bucket, Tensor) or self.bucket.shape[2] == 0:
            return HashedState(cache, bucket if isinstance(self.bucket, Tensor) else ())
        slots = self.cache.length[:, None] + torch.arange(bucket.shape[2], device=bucket.device)
        grown = pad(self.bucket, (0, 0, 0, cache.key.shape[2] - self.bucket.shape[2]))
        return HashedState(cache, grown.scatter(2, slots[:, None, :, None].expand_as(bucket), bucket))

    def truncate(self, length: Int[Tensor, "rows"]) -> HashedState:
        return self._replace(cache=truncate(self.cache, length))

    def join(self, states: Sequence[HashedState]) -> HashedState:
        cache = self.cache.join([state.cache for state in states])
        buckets = [state.bucket for state in states if isinstance(state.bucket, Tensor)]
        padded = [pad(bucket, (0, 0, 0, cache.key.shape[2] - bucket.shape[2])) for bucket in buckets]
        return HashedState(cache, torch.cat(padded) if padded else ())


class HashedAttention(Mixer):
    """o_i = Σ_{j ∈ P_i} softmax_j(q_i · k_j) v_j, k_j = q_j / ‖q_j‖, P_i = ∪_r {j: h_r(q_j) = h_r(q_i)}

    with h(x) = argmax [x R; −x R] (Kitaev et al. 2020): j shares a bucket with i in some round r.

    A position sees itself if it sees no other. Documents of a row are sorted separately. State: keys, values and
    buckets. Decoding with ``nearest`` equals one pass, at the cost of one product with each key; otherwise it attends
    to all keys, like evaluation with one bucket. Cost: 3 · width² per position, and 4 · m · width · rounds for
    attention, with ``buckets`` / 2 · width · rounds (the sum of factors) for hashing.

    Args:
        width: features of a position.
        heads: number of heads.
        causal: whether a position sees no later one.
        dropout: dropout probability of the weights.
        rotary: positions, which rotate queries before they are hashed.
        buckets: of a round: an even number, 1 for none, or a list of factors; the paper uses about 2 · length / chunk.
            Random rotations hash: new ones at each pass in training, those of ``seed`` in evaluation.
        chunk: m, the number of positions of a chunk.
        rounds: the number of rounds of hashing.
        evaluation_rounds: the number in evaluation; None: ``rounds``.
        nearest: a causal position attends to the m previous positions of its bucket, so no later position changes its
            result; otherwise to its own and the previous chunk. None: True if causal.
        across: attend to every bucket of those two chunks.
        scale: of energies. Keys have norm 1, so 1 corresponds to 1/√d of other attention.
        seed: of the rotations in evaluation.
    """

    like: Float[Tensor, "0"]

    def __init__(
        self,
        width: int,
        *,
        heads: int = 1,
        causal: bool = True,
        dropout: float = 0.0,
        rotary: Rotary | None = None,
        buckets: int | tuple[int, ...] = 64,
        chunk: int = 64,
        rounds: int = 4,
        evaluation_rounds: int | None = None,
        nearest: bool | None = None,
        across: bool = False,
        scale: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.factors = (buckets,) if isinstance(buckets, int) else tuple(buckets)
        self.nearest = (causal and not across) if nearest is None else nearest
        _check(width, heads, self.factors, min(chunk, rounds, 1 if evaluation_rounds is None else evaluation_rounds))
        if self.nearest and not causal:
            raise ValueError("nearest = true requires causal attention: an encoder attends by chunk")
        if self.nearest and across:
            raise ValueError("across = true requires nearest = false")
        self.heads, self.causal, self.across = heads, causal, across
        self.chunk, self.rounds, self.evaluation_rounds = chunk, rounds, evaluation_rounds or rounds
        self.scale, self.seed, self.rotary = scale, seed, rotary
        self.query, self.value, self.output = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.weight_dropout = Dropout(dropout)
        self.register_buffer("like", torch.empty(0), persistent=False)  # dtype and device of the cache

    @property
    def packs(self) -> bool:
        return self.nearest  # chunks do not follow document boundaries

    def can(self) -> Abilities:
        return Abilities(
            causal=self.causal,
            cross=False,
            stream="exact" if self.nearest else "none",
            weights=False,
            order_free=False,
            normalized=True,
            fused=True,
            excludes_self=True,
        )

    @property
    def position_work(self) -> int:
        return max(self.rounds, self.evaluation_rounds) * self.value.in_features * (4 + sum(self.factors) // 2)

    def use_single_bucket(self) -> None:
        """Put all positions into one bucket and one chunk: full attention, for comparison; time grows with length²."""
        self.factors, self.chunk, self.rounds, self.evaluation_rounds = (1,), 1 << 30, 1, 1

    def start(self, rows: int) -> State:
        if not self.causal:
            return ()
        empty = self.like.new_empty(rows, self.heads, 0, self.value.in_features // self.heads)
        span = Span.of(torch.ones(rows, 0, dtype=torch.bool, device=self.like.device))
        bucket = empty.new_empty(rows, self.heads, 0, self.evaluation_rounds, dtype=torch.int64)
        return HashedState(KeyValue(empty, empty, span), bucket if self.nearest else ())

    def forward(self, x: Float[Tensor, "batch length width"], span: Span, state: State) -> Mixed:
        query, value = (part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.value))
        if self.rotary is not None:
            query = self.rotary(query, span.position)
        key, bucket = normalize(query, dim=-1), self._hash(query)
        if not isinstance(state, HashedState):
            return Mixed(self._output(self._in_chunks(query, key, value, bucket, span)), ())
        after = state.append(key, value, bucket.transpose(2, 3), span)
        if state.cache.key.shape[2] == 0:
            return Mixed(self._output(self._in_chunks(query, key, value, bucket, span)), after)
        if self.training:
            raise ValueError("hashed attention cannot continue a sequence in training: each pass draws new hashes")
        own = state.cache.length[:, None] + torch.arange(x.shape[1], device=x.device)
        return Mixed(self._output(self._over_cache(query, bucket, span, own, after)), after)

    def _output(self, context: Float[Tensor, "batch heads length value"]) -> Float[Tensor, "batch length width"]:
        projected: Tensor = self.output(context.transpose(1, 2).flatten(2))
        return projected

    def _hash(self, query: Float[Tensor, "batch heads length width"]) -> Int[Tensor, "batch heads rounds length"]:
        width = query.shape[-1]
        if self.training:
            drawn = draw_rotations(self.heads, width, self.rounds, self.factors, generator(), query.device)
        else:
            drawn = fixed_rotations(self.heads, width, self.evaluation_rounds, self.factors, self.seed)
        return hash_positions(query, drawn, self.factors)

    def _in_chunks(
        self,
        query: Float[Tensor, "batch heads length width"],
        key: Float[Tensor, "batch heads length width"],
        value: Float[Tensor, "batch heads length width"],
        bucket: Int[Tensor, "batch heads rounds length"],
        span: Span,
    ) -> Float[Tensor, "batch heads length width"]:
        """Return the context of a whole sequence, computed in float32 if the model is narrower."""
        if not query.numel():
            return value
        if isinstance(span.segment, Tensor):
            bucket = bucket + span.segment[:, None, None] * prod(self.factors)
        valid = span.valid[:, None].expand(-1, self.heads, -1).flatten(0, 1)
        options = {"causal": self.causal, "nearest": self.nearest, "across": self.across}
        chunks = SortedChunks.of(bucket.flatten(0, 1), valid, chunk=self.chunk, **options)
        drops = None
        if self.training and self.weight_dropout.threshold:
            draws = self.weight_dropout.draws(chunks.hidden.shape, query.device)
            drops = Drops(draws, self.weight_dropout.threshold)
        wide = torch.promote_types(query.dtype, torch.float32)
        parts = [part.flatten(0, 1).to(wide) for part in (query, key, value)]
        context = attend_chunks(parts[0], parts[1], parts[2], chunks, scale=self.scale, drops=drops)
        return context.view_as(value).to(value.dtype)

    def _over_cache(
        self,
        query: Float[Tensor, "batch heads length width"],
        bucket: Int[Tensor, "batch heads rounds length"],
        span: Span,
        own: Int[Tensor, "batch length"],
        state: HashedState,
    ) -> Float[Tensor, "batch heads length width"]:
        """Return the context of queries in the slots ``own`` of a cache, from a table of energies to all keys."""
        keys = state.cache.span
        slots = torch.arange(keys.valid.shape[1], device=query.device)
        allowed = keys.valid[:, None] & (slots <= own[..., None])
        if isinstance(span.segment, Tensor):
            allowed = allowed & (span.segment[..., None] == keys.read("segment")[:, None])
        allowed = allowed[:, None]
        if isinstance(state.bucket, Tensor):
            allowed = self._in_buckets(bucket, state.bucket, allowed)
        energy = (query @ state.cache.key.transpose(-1, -2)) * self.scale
        itself = (slots == own[..., None])[:, None]
        energy = energy.float() if energy.dtype.itemsize < 4 else energy
        energy = energy.masked_fill(~allowed, float("-inf")).masked_fill(itself, SELF_ENERGY)
        return energy.softmax(-1).to(query.dtype) @ state.cache.value

    def _in_buckets(
        self,
        bucket: Int[Tensor, "batch heads rounds length"],
        key_buckets: Int[Tensor, "batch heads slots rounds"],
        allowed: Bool[Tensor, "batch 1 length slots"],
    ) -> Bool[Tensor, "batch heads length slots"]:
        """Return the keys that share a bucket in some round, at most the nearest ``chunk`` of them."""
        same = (bucket[..., None] == key_buckets.transpose(2, 3)[:, :, :, None]) & allowed[:, :, None]
        count = same.cumsum(-1)
        return (same & (count[..., -1:] - count <= self.chunk)).any(2)


def _check(width: int, heads: int, factors: tuple[int, ...], smallest: int) -> None:
    """Raise ValueError if the sizes are not supported."""
    if width % heads:
        raise ValueError(f"heads must divide width = {width}, got {heads}")
    if smallest < 1:
        raise ValueError("chunk, rounds and evaluation_rounds must be 1 or more")
    if not factors or any(factor < 1 or (factor % 2 and factor > 1) for factor in factors):
        raise ValueError(
            f"buckets must be even numbers, or 1 for none, got {', '.join(map(str, factors)) or 'none'}: "
            "a hash is the argmax of [x R; −x R]"
        )
    if prod(factors) > MAX_BUCKETS:
        raise ValueError(f"the product of buckets must be at most {MAX_BUCKETS:,}, got {prod(factors):,}")
