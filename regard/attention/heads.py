"""Multi-head attention over any mechanism: self-attention and encoder-decoder attention."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear

from regard.attention.contract import (
    Abilities,
    Attended,
    Encoded,
    Mechanism,
    Mixed,
    Mixer,
    Reader,
    RowMap,
    SourceKeys,
)  # fmt: skip
from regard.attention.key_value import KeyValue
from regard.attention.mask import Bound, Causal, Mask, Padding, Segments, Window, limited
from regard.attention.norm import RootMeanSquareNorm
from regard.attention.positions.forgetting import ForgetGate
from regard.attention.positions.rotary import Rotary
from regard.attention.sink_cache import SinkCache
from regard.attention.span import Span
from regard.core.state import State, select

PROJECTIONS = ("query", "key", "value", "output")


def _projection(name: str, in_width: int, out_width: int, *, bias: bool, linear: bool) -> nn.Module:
    if linear:
        return nn.Linear(in_width, out_width, bias=bias)
    if in_width != out_width:
        raise ValueError(f"a {name} projection is required: {in_width} features cannot become {out_width}")
    return nn.Identity()


class HeadWidths(NamedTuple):
    """Features of one head.

    Attributes:
        query: d_q, of a query.
        key: d_k, of a key.
        value: d_v, of a value.
    """

    query: int
    key: int
    value: int

    @classmethod
    def of(
        cls,
        width: int,
        memory_width: int,
        heads: int,
        key_heads: int | None = None,
        key_width: int | None = None,
        value_width: int | None = None,
        project: Collection[str] = PROJECTIONS,
    ) -> HeadWidths:
        """Return the given widths, by default width / heads; without a projection, the input's features per head."""
        equal = width // heads
        unprojected = memory_width // (key_heads or heads)
        if width % heads and (key_width is None or value_width is None):
            raise ValueError(f"{heads} heads do not divide the width {width}: set key_width and value_width")
        return cls(
            key_width or equal,
            key_width or (equal if "key" in project else unprojected),
            value_width or (equal if "value" in project else unprojected),
        )


class MultiHead(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1 … head_h) W^O, head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V) (Vaswani §3.2.2).

    Args:
        width: features of the queries' side.
        heads: h.
        mechanism: attention of each head.
        key_width: d_k, features of a key per head; None: width / heads.
        value_width: d_v, features of a value per head; None: width / heads.
        key_heads: with fewer than ``heads``, groups of heads share keys and values. 1 is multi-query (Shazeer 2019), a
            divisor of ``heads`` is grouped-query attention (Ainslie et al. 2023); None: ``heads``.
        memory_width: features of the side of keys and values; None: ``width``.
        output_width: features of the output; None: ``memory_width``, or heads · d_v without an output projection.
        bias: projections that have a bias: none in the paper, all four in torch.
        project: projections that are linear; the others are the identity, as where one head reads the states themselves
            (Luong et al. 2015).
        normalize: each head's queries and keys are x / √(mean of x² + 1e-6) · g, g learned and shared by the heads.
            Energies then stay bounded as matrices grow (Henry et al. 2020; Dehghani et al. 2023, with LayerNorm).
            Rotary positions follow it.
        normalize_context: normalizes each head's context likewise before W^O, for differential attention (Ye et al.
            2025, Eq. 3).
        gated: the context of each head is multiplied by σ(W_g x), x the input of the queries, before W^O (Qiu et al.
            2025, 2505.06708, G1, elementwise). A head can then output 0. It adds heads · d_v · width parameters.
    """

    def __init__(
        self,
        width: int,
        *,
        heads: int,
        mechanism: Mechanism,
        key_width: int | None = None,
        value_width: int | None = None,
        key_heads: int | None = None,
        memory_width: int | None = None,
        output_width: int | None = None,
        bias: Collection[str] = (),
        project: Collection[str] = PROJECTIONS,
        normalize: bool = False,
        normalize_context: bool = False,
        gated: bool = False,
    ) -> None:
        super().__init__()
        memory_width = memory_width or width
        self.heads, self.key_heads = heads, heads if key_heads is None else key_heads
        if heads % self.key_heads:
            raise ValueError(f"{key_heads} key heads do not divide {heads} heads")
        layout = HeadWidths.of(width, memory_width, heads, key_heads, key_width, value_width, project)
        self.query_width, self.key_width, self.value_width = layout
        if mechanism.can().same_width and self.query_width != self.key_width:
            raise ValueError(
                f"{type(mechanism).__name__} cannot compare queries of width {self.query_width} with keys of width "
                f"{self.key_width}: project them to one width, or use a score with a matrix (general)"
            )
        self.output_width = output_width or (memory_width if "output" in project else heads * self.value_width)
        sizes = {
            "query": (width, heads * self.query_width),
            "key": (memory_width, self.key_heads * self.key_width),
            "value": (memory_width, self.key_heads * self.value_width),
            "output": (heads * self.value_width, self.output_width),
        }
        self.query, self.key, self.value, self.output = (
            _projection(name, *sizes[name], bias=name in bias, linear=name in project) for name in PROJECTIONS
        )
        self.mechanism = mechanism
        self.query_norm = RootMeanSquareNorm(self.query_width, eps=1e-6) if normalize else None
        self.key_norm = RootMeanSquareNorm(self.key_width, eps=1e-6) if normalize else None
        self.context_norm = RootMeanSquareNorm(self.value_width, eps=1e-6) if normalize_context else None
        self.gate = nn.Linear(width, heads * self.value_width, bias=False) if gated else None

    def queries(self, x: Float[Tensor, "batch query width"]) -> Float[Tensor, "batch heads query query_width"]:
        """Return the projected queries of each head."""
        return self._query_heads(self.query(x))

    def _query_heads(self, projected: Tensor) -> Tensor:
        query = projected.unflatten(-1, (self.heads, self.query_width)).transpose(1, 2)
        return query if self.query_norm is None else self.query_norm(query)

    def gates(self, x: Float[Tensor, "batch query width"]) -> Float[Tensor, "batch query gated"] | None:
        """Return the factors of the context, from the input of the queries; None without a gate."""
        return None if self.gate is None else torch.sigmoid(self.gate(x))

    def keys_values(
        self, x: Float[Tensor, "batch key width"]
    ) -> tuple[Float[Tensor, "batch key_heads key key_width"], Float[Tensor, "batch key_heads key value"]]:
        """Return the projected keys and values of each key head."""
        return self._key_value_heads(self.key(x), self.value(x))

    def _key_value_heads(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        key = key.unflatten(-1, (self.key_heads, self.key_width)).transpose(1, 2)
        return (
            key if self.key_norm is None else self.key_norm(key),
            value.unflatten(-1, (self.key_heads, self.value_width)).transpose(1, 2),
        )

    def queries_keys_values(self, x: Float[Tensor, "batch length width"]) -> tuple[Tensor, Tensor, Tensor]:
        """Return ``queries`` and ``keys_values`` of one sequence, by one product if all three projections are linear.

        One product of three widths takes less time than three, forward and backward. The order of sums differs.
        """
        projections = [projection for projection in (self.query, self.key, self.value) if type(projection) is nn.Linear]
        biases: list[Tensor] = [projection.bias for projection in projections if projection.bias is not None]
        if len(projections) < 3 or len(biases) not in (0, 3):
            return self.queries(x), *self.keys_values(x)
        weights: list[Tensor] = [projection.weight for projection in projections]
        projected = linear(x, torch.cat(weights), torch.cat(biases) if biases else None)
        query, key, value = projected.split([len(weight) for weight in weights], -1)
        return self._query_heads(query), *self._key_value_heads(key, value)

    def forward(
        self,
        query: Float[Tensor, "batch heads query query_width"],
        key: Float[Tensor, "batch prepared_heads key prepared"],
        value: Float[Tensor, "batch key_heads key value"],
        bound: Bound,
        state: State = (),
        gates: Float[Tensor, "batch query gated"] | None = None,
    ) -> Mixed:
        """Return the output (batch, query, width) of all heads, from projected queries, prepared keys and values."""
        attended: Attended = self.mechanism(query, key, value, bound, state)
        context = attended.context if self.context_norm is None else self.context_norm(attended.context)
        context = context.transpose(1, 2).flatten(2)
        return Mixed(self.output(context if gates is None else context * gates), attended.state, attended.weights)


class SelfAttention(Mixer):
    """Attention of a sequence to itself; with a causal mask it caches keys and values.

    If the span has segments, queries see their own segment only. If it has ``visible_until``, they see no position from
    there on. Both hold with any mask.

    Args:
        attention: the heads and their mechanism.
        mask: positions that a query may see.
        rotary: rotates queries and keys, not values, by their absolute positions; cached keys are rotated already.
        forget: adds the sums to the span that a ``ForgettingBias`` of the mechanism reads.
        adds_values: values are λ v + μ e, with e passed to ``forward``, λ and μ learned from 1/2 (Jordan et al. 2024,
            modded-nanogpt; after the value residual of Zhou et al. 2024).
        together: in training, queries, keys and values are projected by one product.
    """

    like: Float[Tensor, "0"]

    def __init__(
        self,
        attention: MultiHead,
        *,
        mask: Mask,
        rotary: Rotary | None = None,
        forget: ForgetGate | None = None,
        adds_values: bool = False,
        together: bool = False,
    ) -> None:
        super().__init__()
        self.value_mix = nn.Parameter(torch.tensor([0.5, 0.5])) if adds_values else None
        self.attention, self.mask, self.rotary, self.forget = attention, mask, rotary, forget
        self.together = together
        self.causal = Causal() in mask.conjuncts()
        # A query attends to this many previous keys and to the sinks; a cache keeps no others. None: no limit.
        windows = [part for part in mask.conjuncts() if isinstance(part, Window)]
        self.back = min((part.radius for part in windows), default=None)
        self.sinks = max((part.sinks for part in windows), default=0)
        # Empty slots of a cache are padding, regardless of their stale positions.
        self.cached = mask if Padding() in mask.conjuncts() else mask & Padding()
        if self.causal and not attention.mechanism.can().causal:
            raise ValueError(f"{type(attention.mechanism).__name__} attention cannot be causal")
        if forget is not None and not self.causal:
            raise ValueError("forget gates require a causal mask: they apply between a key and a later query")
        if rotary is not None and {attention.query_width, attention.key_width} != {rotary.width}:
            raise ValueError(
                f"rotary positions of width {rotary.width} cannot rotate queries of width "
                f"{attention.query_width} and keys of width {attention.key_width}"
            )
        self.register_buffer("like", torch.empty(0), persistent=False)  # dtype and device of the cache

    @property
    def packs(self) -> bool:
        return not any(isinstance(part, Mechanism) and part.by_key_index for part in self.modules())

    @property
    def obeys_limit(self) -> bool:
        return True

    def can(self) -> Abilities:
        inner = self.attention.mechanism.can()
        causal = inner.causal and self.causal
        stream = inner.stream if self.causal else "none"
        return replace(inner, causal=causal, cross=False, stream=stream, order_free=False)

    def start(self, rows: int) -> State:
        if not self.causal:
            return ()
        inner, like = self.attention, self.like
        cache = KeyValue(
            inner.mechanism.prepare(like.new_empty(rows, inner.key_heads, 0, inner.key_width)),
            like.new_empty(rows, inner.key_heads, 0, inner.value_width),
            Span.of(torch.ones(rows, 0, dtype=torch.bool, device=like.device)),
            () if self.back is None else torch.zeros(rows, dtype=torch.int64, device=like.device),
        )
        return SinkCache.around(cache) if self.sinks else cache

    def forward(
        self,
        x: Float[Tensor, "batch length width"],
        span: Span,
        state: State,
        values: Float[Tensor, "batch length values"] | None = None,
    ) -> Mixed:
        """Return the mixed positions; ``values``: added to their values, for all key heads concatenated."""
        if self.together and torch.is_grad_enabled():
            query, key, value = self.attention.queries_keys_values(x)
        else:
            query, (key, value) = self.attention.queries(x), self.attention.keys_values(x)
        if self.value_mix is not None:
            value = self._add_values(value, values)
        if self.rotary is not None:
            query, key = self.rotary(query, span.position), self.rotary(key, span.position)
        if self.forget is not None:
            span = self.forget(x, span, state.span)
        key, keys = self.attention.mechanism.prepare(key), span
        if self.causal:
            if self.back is not None and isinstance(state, KeyValue):
                state = state.recent(self.back)
            elif self.back is not None and isinstance(state, SinkCache):
                state = state.recent(self.back, self.sinks)
            state = state.append(key, value, span)
            key, value, keys = state.key, state.value, state.span
        mask = self.mask if keys is span else self.cached
        if isinstance(span.segment, Tensor) and Segments() not in mask.conjuncts():
            mask = mask & Segments()
        bound = limited(mask, span).bind(span, keys)
        before = self.attention.mechanism.start(key, bound)
        mixed: Mixed = self.attention(query, key, value, bound, before, self.attention.gates(x))
        return mixed._replace(state=state)

    def _add_values(
        self, value: Float[Tensor, "batch key_heads length value"], added: Float[Tensor, "batch length values"] | None
    ) -> Float[Tensor, "batch key_heads length value"]:
        if added is None or self.value_mix is None:
            raise ValueError(
                "value embeddings are missing: this self-attention adds them, and only an input of tokens has them"
            )
        heads = added.unflatten(-1, (self.attention.key_heads, self.attention.value_width)).transpose(1, 2)
        own, other = self.value_mix
        return (own * value + other * heads).to(value.dtype)


class AttentionReader(Reader):
    """Encoder-decoder attention.

    If the span of the queries has ``visible_until``, they see no source position from there on, with any mask. Rows
    that read one sentence are folded into one row of queries, so keys are not copied per hypothesis. If a query depends
    on its position or on earlier queries, each row has its own copy of the keys instead.

    Args:
        attention: the heads and their mechanism.
        mask: source positions that a query may see; None: all.
    """

    def __init__(self, attention: MultiHead, *, mask: Mask | None = None) -> None:
        super().__init__()
        self.attention, self.mask = attention, mask or Padding()
        self.width = attention.output_width

    def prepare(self, encoded: Encoded) -> SourceKeys:
        key, value = self.attention.keys_values(encoded.states)
        return SourceKeys(self.attention.mechanism.prepare(key), value, encoded.span)

    def start(self, memory: SourceKeys, rows: RowMap) -> State:
        state = self.attention.mechanism.start(memory.key, Padding().bind(memory.span, memory.span))
        return state if rows.slot is None else select(state, rows.sentence)

    def forward(
        self, query: Float[Tensor, "rows length width"], span: Span, memory: SourceKeys, rows: RowMap, state: State
    ) -> Mixed:
        projected, gates = self.attention.queries(query), self.attention.gates(query)
        if rows.slot is None:
            return self._attend(projected, span, memory, state, gates)
        if not self.attention.mechanism.can().order_free:
            return self._attend(projected, span, select(memory, rows.sentence), state, gates)
        folded = rows.scatter(projected).transpose(1, 2).flatten(2, 3)  # (sentences, heads, width·n, d_k)
        gates = None if gates is None else rows.scatter(gates).flatten(1, 2)
        mixed = self._attend(folded, self._fold(span, rows), memory, state, gates)
        return mixed._replace(output=rows.gather(mixed.output.unflatten(1, (rows.width, query.shape[1]))))

    def _fold(self, span: Span, rows: RowMap) -> Span:
        """Return the span of the folded queries. A padding mask depends on keys alone, so only the number matters."""
        if limited(self.mask, span) == Padding():
            return Span.of(span.valid.new_ones(rows.sentences, rows.width * span.valid.shape[1]))
        return rows.fold(span)

    def _attend(
        self,
        query: Float[Tensor, "batch heads query query_width"],
        span: Span,
        memory: SourceKeys,
        state: State,
        gates: Float[Tensor, "batch query gated"] | None,
    ) -> Mixed:
        bound = limited(self.mask, span).bind(span, memory.span)
        mixed: Mixed = self.attention(query, memory.key, memory.value, bound, state, gates)
        return mixed
