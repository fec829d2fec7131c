"""Attention of positions whose vectors hash to one bucket, in chunks of sorted positions (Kitaev et al. 2020, §2)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped, UInt8
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

# Energy of a position to itself, whose own product would be the largest: it counts only if nothing else is visible.
SELF_ENERGY = -1e5
UNSEEN = -(1 << 28)  # code of a key that no query may attend to
CACHED = 1 << 17  # energies that are processed together
BLIND = UNSEEN >> 1  # code of a query slot without a position: below the code of every visible key


def draw_rotations(
    heads: int, width: int, rounds: int, factors: tuple[int, ...], generator: torch.Generator | None, device: Any = None
) -> Float[Tensor, "heads width rounds halves"]:
    """Return Gaussian R of each head and round, with half a column for each bucket of each factor."""
    halves = sum(factor // 2 for factor in factors)
    return torch.randn(heads, width, rounds, halves, generator=generator, device=device)


@lru_cache(maxsize=64)
def fixed_rotations(
    heads: int, width: int, rounds: int, factors: tuple[int, ...], seed: int
) -> Float[Tensor, "heads width rounds halves"]:
    """Return rotations that depend on the seed alone, for evaluation."""
    return draw_rotations(heads, width, rounds, factors, torch.Generator().manual_seed(seed))


@torch.no_grad()
def hash_positions(
    x: Float[Tensor, "batch heads length width"],
    rotations: Float[Tensor, "heads width rounds halves"],
    factors: tuple[int, ...],
) -> Int[Tensor, "batch heads rounds length"]:
    """h(x) = argmax([x R; −x R]) (§2, "LSH attention"; Andoni et al. 2015), one bucket per round.

    With several ``factors``, each has its own part of R, and the bucket is their number in mixed radix. b buckets then
    cost the sum of the factors, not b. Factor 1 puts all positions into one bucket.
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    rotated = torch.einsum("bhld,hdrk->bhrlk", x.to(wide), rotations.to(x.device, wide))
    bucket = rotated.new_zeros(rotated.shape[:-1], dtype=torch.int64)
    for factor, part in zip(factors, rotated.split([factor // 2 for factor in factors], -1), strict=True):
        if factor > 1:
            bucket = bucket * factor + torch.cat([part, -part], -1).argmax(-1)
    return bucket


class SortedChunks(NamedTuple):
    """Positions sorted by bucket in each round, split into chunks, and the pairs that count in each round.

    ``order``: position in each slot of a round, extra slots filled up; ``slot``: its inverse.
    ``hidden``: True if the query in a slot does not attend to a key, or did so in an earlier round. Keys are those of
    its own chunk and of the ``back`` chunks before it. The heads of a batch are ``groups``.
    """

    order: Int[Tensor, "groups rounds slots"]
    slot: Int[Tensor, "groups rounds length"]
    hidden: Bool[Tensor, "rounds groups chunks chunk keys"]

    @property
    def back(self) -> int:
        """Number of preceding chunks that a chunk of queries attends to."""
        return self.hidden.shape[-1] // self.hidden.shape[-2] - 1

    @classmethod
    @torch.no_grad()
    def of(
        cls,
        bucket: Int[Tensor, "groups rounds length"],
        valid: Bool[Tensor, "groups length"],
        *,
        chunk: int,
        causal: bool,
        nearest: bool,
        across: bool = False,
    ) -> SortedChunks:
        """Sort by (bucket, position), padding last, and compute the pairs that count in each round.

        ``nearest``: a position attends to itself and the ``chunk`` positions of its bucket before it, so its keys
        depend on earlier positions only. Otherwise it attends to its bucket, or to every bucket with ``across``, in its
        own and the previous chunk (Eq. 5, 15). A pair that several rounds share counts in the first of them. Log N of
        Eq. 16 instead takes it from each of N rounds with weight 1/N, which gives the same sum.
        """
        length = bucket.shape[-1]
        # A position needs two half chunks before its own: a quarter fewer hidden pairs than with whole chunks.
        size = min(-(-chunk // 2) if nearest else chunk, length)
        chunks = -(-length // size)
        back = min(-(-chunk // size) if nearest else 1, chunks - 1)
        reach = chunk if nearest else 1
        bucket = bucket.masked_fill(~valid[:, None], torch.iinfo(torch.int64).max)
        sorted_bucket, order = bucket.sort(dim=-1, stable=True)
        slot = torch.empty_like(order).scatter_(-1, order, torch.arange(length, device=order.device).expand_as(order))
        code = _codes(sorted_bucket, size, reach=reach, by_chunk=not nearest, across=across)
        code = code.gather(-1, slot)
        order = pad(order, (0, chunks * size - length), value=length - 1)
        hidden = [
            _hidden(code, valid, order[:, number], number, (size, back), reach=reach, causal=causal and not nearest)
            for number in range(order.shape[1])
        ]
        return cls(order, slot, torch.stack(hidden))


def _codes(
    sorted_bucket: Int[Tensor, "groups rounds length"], size: int, *, reach: int, by_chunk: bool, across: bool
) -> Int[Tensor, "groups rounds length"]:
    """Return a code per slot: slot i attends to slot j if code i minus code j is between 0 and ``reach``."""
    slots = torch.arange(sorted_bucket.shape[-1], device=sorted_bucket.device)
    begins = pad(sorted_bucket.diff(dim=-1) != 0, (1, 0))
    if across:
        begins = torch.zeros_like(begins)
    return ((slots // size if by_chunk else slots) + (reach + 1) * begins.cumsum(-1)).int()


def _hidden(
    code: Int[Tensor, "groups rounds length"],
    valid: Bool[Tensor, "groups length"],
    order: Int[Tensor, "groups slots"],
    number: int,
    cut: tuple[int, int],
    *,
    reach: int,
    causal: bool,
) -> Bool[Tensor, "groups chunks chunk keys"]:
    """Return the pairs of round ``number`` that do not count there.

    ``cut``: size of a chunk, and number of preceding chunks. ``causal``: compare positions, where codes count chunks.
    """
    size, back = cut
    chunks, length = order.shape[1] // size, code.shape[-1]
    unseen = ~valid.gather(-1, order)
    unseen[:, length:] = True
    filled = torch.arange(order.shape[1], device=order.device) >= length
    doubled = []  # 0 ≤ difference ≤ reach by one comparison: |2 · difference − reach| ≤ reach
    for other in range(number, -1, -1):
        codes = code[:, other].gather(-1, order)
        key_code = _with_previous(codes.masked_fill(unseen, UNSEEN).view(-1, chunks, size), back, UNSEEN)
        query_code = (2 * codes.masked_fill(filled, BLIND) - reach).view(-1, size, 1)
        doubled.append((query_code, 2 * key_code.flatten(0, 1)[:, None]))
    positions = order.view(-1, chunks, size)
    key_positions = _with_previous(positions, back).flatten(0, 1)[:, None]
    hidden_pairs = torch.empty(len(key_positions), size, key_positions.shape[-1], dtype=torch.bool, device=order.device)
    for part in _parts(hidden_pairs):
        (query_code, key_code), *earlier = doubled
        hidden = (query_code[part] - key_code[part]).abs_() > reach
        for query_code, key_code in earlier:
            hidden |= (query_code[part] - key_code[part]).abs_() <= reach
        if causal:
            hidden |= positions.flatten(0, 1)[part][..., None] < key_positions[part]
        hidden_pairs[part] = hidden
    return hidden_pairs.view(len(order), chunks, size, -1)


def _parts(pairs: Bool[Tensor, "chunks chunk keys"]) -> list[slice]:
    """Return slices of chunks that are processed together, sized to keep their energies in the processor's cache."""
    step = max(1, CACHED // pairs[0].numel())
    return [slice(begin, begin + step) for begin in range(0, len(pairs), step)]


def _with_previous(
    x: Shaped[Tensor, "groups chunks chunk *rest"], back: int, filling: int = 0
) -> Shaped[Tensor, "groups chunks keys *rest"]:
    """Return each chunk preceded by the ``back`` chunks before it."""
    if back == 0:
        return x
    longer = torch.cat([torch.full_like(x[:, :back], filling), x], 1)
    return torch.cat([longer[:, begin : begin + x.shape[1]] for begin in range(back + 1)], 2)


class Drops(NamedTuple):
    """Dropout of weights: one random byte per pair; pairs below ``threshold`` are dropped."""

    draws: UInt8[Tensor, "rounds groups chunks chunk keys"]
    threshold: int

    def factors(self, number: int, part: slice, dtype: torch.dtype) -> Float[Tensor, "chunks chunk keys"]:
        """Return 0 or 1 / P(keep) for each pair of some chunks of a round."""
        drawn = self.draws[number].flatten(0, 1)[part]
        return (drawn >= self.threshold).to(dtype).mul_(256 / (256 - self.threshold))


def attend_chunks(
    query: Float[Tensor, "groups length width"],
    key: Float[Tensor, "groups length width"],
    value: Float[Tensor, "groups length value"],
    chunks: SortedChunks,
    *,
    scale: float,
    drops: Drops | None = None,
) -> Float[Tensor, "groups length value"]:
    """softmax over all keys that a position sees in any round, of scale · q·k, times the values (Eq. 11 to 13).

    Rounds are combined by their logsumexp: o = Σ_r exp(z_r − z) o^r. Cost: rounds · length · 2 chunk products. One byte
    per product is stored for the backward pass, which recomputes the energies.
    """
    attended: Tensor = _AttendChunks.apply(query, key, value, chunks, scale, drops)
    return attended


class _AttendChunks(torch.autograd.Function):
    """With p_ij = exp(e_ij) / Σ exp(e) over all rounds: ∂v_j = Σ p_ij ∂o_i, ∂e_ij = p_ij (∂o_i · v_j − ∂o_i · o_i)."""

    @staticmethod
    def forward(
        context: Any, query: Tensor, key: Tensor, value: Tensor, chunks: SortedChunks, scale: float, drops: Drops | None
    ) -> Tensor:
        round_peaks, round_totals, round_outputs = list[Tensor](), list[Tensor](), list[Tensor]()
        for number in range(chunks.order.shape[1]):
            cut = _cut(query, key, value, chunks, number)
            peak, sums = (cut.queries.new_empty(*cut.queries.shape[:2], 1) for _ in range(2))
            mixed = torch.empty_like(cut.values[:, : cut.queries.shape[1]])
            for part in _parts(cut.hidden):
                energy = cut.energy(part, scale)
                torch.amax(energy, -1, keepdim=True, out=peak[part])
                weight = energy.sub_(peak[part]).exp_()
                torch.sum(weight, -1, keepdim=True, out=sums[part])
                if drops is not None:
                    weight.mul_(drops.factors(number, part, weight.dtype))
                torch.bmm(weight, cut.values[part], out=mixed[part])
            for rounds, x in zip((round_peaks, round_totals, round_outputs), (peak, sums, mixed), strict=True):
                rounds.append(_unsorted(x, chunks, number))
        peaks = torch.stack(round_peaks)
        highest = peaks.amax(0)
        share = (peaks - highest).exp_()
        normalizer = (share * torch.stack(round_totals)).sum(0)
        output = (share * torch.stack(round_outputs)).sum(0) / normalizer
        context.save_for_backward(query, key, value, output, highest, normalizer, *chunks)
        context.scale, context.drops = scale, drops
        return output

    @staticmethod
    @once_differentiable
    def backward(context: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, output, highest, normalizer, *rest = context.saved_tensors
        chunks, drops, scale = SortedChunks(*rest), context.drops, context.scale
        slope = slope / normalizer  # cheaper than dividing every weight
        along = (slope * output).sum(-1, keepdim=True)
        gradients = [torch.zeros_like(x) for x in (query, key, value)]
        for number in range(chunks.order.shape[1]):
            cut = _cut(query, key, value, chunks, number)
            slopes, peak, own = (_sorted(x, chunks, number).flatten(0, 1) for x in (slope, highest, along))
            sorted_gradients = [torch.empty_like(x) for x in (cut.queries, cut.keys, cut.values)]
            for part in _parts(cut.hidden):
                weight = cut.energy(part, scale).sub_(peak[part]).exp_()
                to_weight = slopes[part] @ cut.values[part].transpose(-1, -2)
                dropped = weight
                if drops is not None:
                    factors = drops.factors(number, part, weight.dtype)
                    to_weight.mul_(factors)
                    dropped = weight * factors
                torch.bmm(dropped.transpose(-1, -2), slopes[part], out=sorted_gradients[2][part])
                to_energy = to_weight.sub_(own[part]).mul_(weight)
                _diagonal(to_energy).zero_()
                torch.bmm(to_energy, cut.keys[part], out=sorted_gradients[0][part])
                torch.bmm(to_energy.transpose(-1, -2), cut.queries[part], out=sorted_gradients[1][part])
            whole = [x.view(len(query), -1, *x.shape[1:]) for x in sorted_gradients]
            parts = (whole[0], *(_folded(x, chunks.back) for x in whole[1:]))
            for sums, x in zip(gradients, parts, strict=True):
                sums += _unsorted(x, chunks, number)
        return gradients[0].mul_(scale), gradients[1].mul_(scale), gradients[2], None, None, None


class _Cut(NamedTuple):
    """One round: queries of each chunk, keys and values including preceding chunks, all groups concatenated."""

    queries: Float[Tensor, "chunks chunk width"]
    keys: Float[Tensor, "chunks keys width"]
    values: Float[Tensor, "chunks keys value"]
    hidden: Bool[Tensor, "chunks chunk keys"]

    def energy(self, part: slice, scale: float) -> Float[Tensor, "part chunk keys"]:
        """Return the energies of some chunks, −∞ where a pair does not count.

        Padding and slots without a position see themselves.
        """
        energy = (self.queries[part] * scale) @ self.keys[part].transpose(-1, -2)
        energy.masked_fill_(self.hidden[part], -math.inf)
        _diagonal(energy).fill_(SELF_ENERGY)
        return energy


def _cut(query: Tensor, key: Tensor, value: Tensor, chunks: SortedChunks, number: int) -> _Cut:
    keys, values = (_with_previous(_sorted(x, chunks, number), chunks.back) for x in (key, value))
    queries, hidden = _sorted(query, chunks, number), chunks.hidden[number]
    return _Cut(*(x.flatten(0, 1) for x in (queries, keys, values, hidden)))


def _diagonal(x: Float[Tensor, "chunks chunk keys"]) -> Float[Tensor, "chunks chunk"]:
    """Return the pairs of each position with itself."""
    return x.diagonal(x.shape[-1] - x.shape[-2], -2, -1)


def _sorted(
    x: Float[Tensor, "groups length width"], chunks: SortedChunks, number: int
) -> Float[Tensor, "groups chunks chunk width"]:
    taken_rows = _take(x, chunks.order[:, number])
    return taken_rows.view(len(x), *chunks.hidden.shape[2:4], x.shape[-1])


def _unsorted(
    x: Float[Tensor, "*chunks chunk width"], chunks: SortedChunks, number: int
) -> Float[Tensor, "groups length width"]:
    return _take(x.reshape(len(chunks.slot), -1, x.shape[-1]), chunks.slot[:, number])


def _take(
    x: Float[Tensor, "groups slots width"], index: Int[Tensor, "groups taken"]
) -> Float[Tensor, "groups taken width"]:
    """Select rows of each group; ``index_select`` of whole rows is several times faster than ``gather``."""
    groups = torch.arange(len(x), device=x.device)[:, None] * x.shape[1]
    return x.reshape(-1, x.shape[-1]).index_select(0, (index + groups).flatten()).view(*index.shape, x.shape[-1])


def _folded(x: Float[Tensor, "groups chunks keys width"], back: int) -> Float[Tensor, "groups chunks chunk width"]:
    """Return sums over each chunk and the next ones: the backward pass of ``_with_previous``."""
    *before, own = x.chunk(back + 1, 2)
    if before:
        own = own.clone()
    for nearer, part in enumerate(before):
        own[:, : x.shape[1] - back + nearer] += part[:, back - nearer :]
    return own
