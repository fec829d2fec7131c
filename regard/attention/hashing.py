"""Attention of columns whose vectors hash to one bucket, in chunks of the sorted columns (Kitaev et al. 2020, §2)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped, UInt8
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

SELF_ENERGY = -1e5  # of a column to itself, whose own product would be the greatest: it counts where nothing else does
UNSEEN = -(1 << 28)  # number of a key that nobody may look at
CACHED = 1 << 17  # energies that are worked on together
BLIND = UNSEEN >> 1  # of a place that holds no column: below every key's but those


def draw_rotations(
    heads: int, width: int, rounds: int, factors: tuple[int, ...], generator: torch.Generator | None, device: Any = None
) -> Float[Tensor, "heads width rounds halves"]:
    """Gaussian R of each head and round, with half a column for each bucket of each factor."""
    halves = sum(factor // 2 for factor in factors)
    return torch.randn(heads, width, rounds, halves, generator=generator, device=device)


@lru_cache(maxsize=64)
def fixed_rotations(
    heads: int, width: int, rounds: int, factors: tuple[int, ...], seed: int
) -> Float[Tensor, "heads width rounds halves"]:
    """Rotations that a seed alone decides, for evaluation."""
    return draw_rotations(heads, width, rounds, factors, torch.Generator().manual_seed(seed))


@torch.no_grad()
def hash_columns(
    x: Float[Tensor, "batch heads length width"],
    rotations: Float[Tensor, "heads width rounds halves"],
    factors: tuple[int, ...],
) -> Int[Tensor, "batch heads rounds length"]:
    """h(x) = argmax([x R; −x R]) (§2, "LSH attention"; Andoni et al. 2015), a bucket a round.

    Of several ``factors`` each is hashed to by its own part of R, and the bucket is their number in mixed radix: b
    buckets then cost the sum of the factors, not b. Factor 1 puts all columns into one bucket.
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    rotated = torch.einsum("bhld,hdrk->bhrlk", x.to(wide), rotations.to(x.device, wide))
    bucket = rotated.new_zeros(rotated.shape[:-1], dtype=torch.int64)
    for factor, part in zip(factors, rotated.split([factor // 2 for factor in factors], -1), strict=True):
        if factor > 1:
            bucket = bucket * factor + torch.cat([part, -part], -1).argmax(-1)
    return bucket


class SortedChunks(NamedTuple):
    """Columns sorted by bucket in each round, cut into chunks, and which pair of them counts in which round.

    ``order``: column at each place of a round, places beyond the columns filled up; ``place``: its inverse.
    ``hidden``: whether the query at a place does not look at a key of its own chunk or of those ``back`` before it, or
    has in an earlier round; a batch's heads are ``groups``.
    """

    order: Int[Tensor, "groups rounds places"]
    place: Int[Tensor, "groups rounds length"]
    hidden: Bool[Tensor, "rounds groups chunks chunk keys"]

    @property
    def back(self) -> int:
        """Number of chunks before its own that a query's chunk looks at."""
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
        """Sort by (bucket, column), padding last, and let each column look

        ``nearest``: at itself and the ``chunk`` columns of its bucket before it, so that what it sees is decided by
        what it has met; else at its bucket, ``across`` at every bucket, in its own and the previous chunk (Eq. 5, 15).
        A pair that several rounds have in common counts in the first of them: log N of Eq. 16 takes it from each
        of N rounds for an N-th, which sums to the same.
        """
        length = bucket.shape[-1]
        # In halves of a chunk, of which a column needs two before its own, a quarter fewer pairs lie beyond its reach.
        size = min(-(-chunk // 2) if nearest else chunk, length)
        chunks = -(-length // size)
        back = min(-(-chunk // size) if nearest else 1, chunks - 1)
        most = chunk if nearest else 1
        bucket = bucket.masked_fill(~valid[:, None], torch.iinfo(torch.int64).max)
        sorted_bucket, order = bucket.sort(dim=-1, stable=True)
        place = torch.empty_like(order).scatter_(-1, order, torch.arange(length, device=order.device).expand_as(order))
        code = _codes(sorted_bucket, size, most=most, by_chunk=not nearest, across=across)
        code = code.gather(-1, place)
        order = pad(order, (0, chunks * size - length), value=length - 1)
        hidden = [
            _hidden(code, valid, order[:, number], number, (size, back), most=most, causal=causal and not nearest)
            for number in range(order.shape[1])
        ]
        return cls(order, place, torch.stack(hidden))


def _codes(
    sorted_bucket: Int[Tensor, "groups rounds length"], size: int, *, most: int, by_chunk: bool, across: bool
) -> Int[Tensor, "groups rounds length"]:
    """Number of each place, such that one looks at another where theirs minus its own is 0 to ``most``."""
    places = torch.arange(sorted_bucket.shape[-1], device=sorted_bucket.device)
    begins = pad(sorted_bucket.diff(dim=-1) != 0, (1, 0))
    if across:
        begins = torch.zeros_like(begins)
    return ((places // size if by_chunk else places) + (most + 1) * begins.cumsum(-1)).int()


def _hidden(
    code: Int[Tensor, "groups rounds length"],
    valid: Bool[Tensor, "groups length"],
    order: Int[Tensor, "groups places"],
    number: int,
    cut: tuple[int, int],
    *,
    most: int,
    causal: bool,
) -> Bool[Tensor, "groups chunks chunk keys"]:
    """Pairs of round ``number`` that do not count there; ``cut``: size of a chunk, and how many precede its own.

    ``causal``: compare columns, where the numbers ``code`` go by chunk.
    """
    size, back = cut
    chunks, length = order.shape[1] // size, code.shape[-1]
    unseen = ~valid.gather(-1, order)
    unseen[:, length:] = True
    filled = torch.arange(order.shape[1], device=order.device) >= length
    doubled = []  # 0 ≤ apart ≤ most, by one comparison: |2 apart − most| ≤ most
    for other in range(number, -1, -1):
        own = code[:, other].gather(-1, order)
        keys = _with_previous(own.masked_fill(unseen, UNSEEN).view(-1, chunks, size), back, UNSEEN)
        asking = (2 * own.masked_fill(filled, BLIND) - most).view(-1, size, 1)
        doubled.append((asking, 2 * keys.flatten(0, 1)[:, None]))
    columns = order.view(-1, chunks, size)
    asked = _with_previous(columns, back).flatten(0, 1)[:, None]
    found = torch.empty(len(asked), size, asked.shape[-1], dtype=torch.bool, device=order.device)
    for part in _parts(found):
        (asking, keys), *earlier = doubled
        hidden = (asking[part] - keys[part]).abs_() > most
        for asking, keys in earlier:
            hidden |= (asking[part] - keys[part]).abs_() <= most
        if causal:
            hidden |= columns.flatten(0, 1)[part][..., None] < asked[part]
        found[part] = hidden
    return found.view(len(order), chunks, size, -1)


def _parts(pairs: Bool[Tensor, "chunks chunk keys"]) -> list[slice]:
    """Chunks that are worked on together: as many as leave their energies in a processor's cache."""
    step = max(1, CACHED // pairs[0].numel())
    return [slice(begin, begin + step) for begin in range(0, len(pairs), step)]


def _with_previous(
    x: Shaped[Tensor, "groups chunks chunk *rest"], back: int, filling: int = 0
) -> Shaped[Tensor, "groups chunks keys *rest"]:
    """Each chunk behind the ``back`` chunks before it."""
    if back == 0:
        return x
    longer = torch.cat([torch.full_like(x[:, :back], filling), x], 1)
    return torch.cat([longer[:, begin : begin + x.shape[1]] for begin in range(back + 1)], 2)


class Drops(NamedTuple):
    """Dropout of weights: a random byte a pair; those below ``threshold`` are dropped."""

    draws: UInt8[Tensor, "rounds groups chunks chunk keys"]
    threshold: int

    def factors(self, number: int, part: slice, dtype: torch.dtype) -> Float[Tensor, "chunks chunk keys"]:
        """0 or 1 / P(keep) for each pair of some chunks of a round."""
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
    """softmax over all that a column sees in any round, of scale · q·k, times the values (Eq. 11 to 13).

    Rounds are combined by their logsumexp: o = Σ_r exp(z_r − z) o^r. Cost: rounds · length · 2 chunk products; kept
    for the backward pass is a byte for each of them, and the energies are computed again.
    """
    attended: Tensor = _AttendChunks.apply(query, key, value, chunks, scale, drops)
    return attended


class _AttendChunks(torch.autograd.Function):
    """With p_ij = exp(e_ij) / Σ exp(e) over all rounds: ∂v_j = Σ p_ij ∂o_i, ∂e_ij = p_ij (∂o_i · v_j − ∂o_i · o_i)."""

    @staticmethod
    def forward(
        context: Any, query: Tensor, key: Tensor, value: Tensor, chunks: SortedChunks, scale: float, drops: Drops | None
    ) -> Tensor:
        most, total, summed = list[Tensor](), list[Tensor](), list[Tensor]()
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
            for found, each in zip((most, total, summed), (peak, sums, mixed), strict=True):
                found.append(_unsorted(each, chunks, number))
        peaks = torch.stack(most)
        highest = peaks.amax(0)
        share = (peaks - highest).exp_()
        normalizer = (share * torch.stack(total)).sum(0)
        output = (share * torch.stack(summed)).sum(0) / normalizer
        context.save_for_backward(query, key, value, output, highest, normalizer, *chunks)
        context.scale, context.drops = scale, drops
        return output

    @staticmethod
    @once_differentiable
    def backward(context: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, output, highest, normalizer, *rest = context.saved_tensors
        chunks, drops, scale = SortedChunks(*rest), context.drops, context.scale
        slope = slope / normalizer  # instead of each weight
        along = (slope * output).sum(-1, keepdim=True)
        found = [torch.zeros_like(x) for x in (query, key, value)]
        for number in range(chunks.order.shape[1]):
            cut = _cut(query, key, value, chunks, number)
            slopes, peak, own = (_sorted(x, chunks, number).flatten(0, 1) for x in (slope, highest, along))
            turned = [torch.empty_like(x) for x in (cut.queries, cut.keys, cut.values)]
            for part in _parts(cut.hidden):
                weight = cut.energy(part, scale).sub_(peak[part]).exp_()
                toward = slopes[part] @ cut.values[part].transpose(-1, -2)
                dropped = weight
                if drops is not None:
                    factors = drops.factors(number, part, weight.dtype)
                    toward.mul_(factors)
                    dropped = weight * factors
                torch.bmm(dropped.transpose(-1, -2), slopes[part], out=turned[2][part])
                steep = toward.sub_(own[part]).mul_(weight)
                _diagonal(steep).zero_()
                torch.bmm(steep, cut.keys[part], out=turned[0][part])
                torch.bmm(steep.transpose(-1, -2), cut.queries[part], out=turned[1][part])
            whole = [x.view(len(query), -1, *x.shape[1:]) for x in turned]
            parts = (whole[0], *(_folded(x, chunks.back) for x in whole[1:]))
            for sums, each in zip(found, parts, strict=True):
                sums += _unsorted(each, chunks, number)
        return found[0].mul_(scale), found[1].mul_(scale), found[2], None, None, None


class _Cut(NamedTuple):
    """A round: queries of each chunk, keys and values with those of the chunks before it, of all groups in a row."""

    queries: Float[Tensor, "chunks chunk width"]
    keys: Float[Tensor, "chunks keys width"]
    values: Float[Tensor, "chunks keys value"]
    hidden: Bool[Tensor, "chunks chunk keys"]

    def energy(self, part: slice, scale: float) -> Float[Tensor, "part chunk keys"]:
        """Energies of some chunks, −∞ where a pair does not count; padding and places of no column see themselves."""
        energy = (self.queries[part] * scale) @ self.keys[part].transpose(-1, -2)
        energy.masked_fill_(self.hidden[part], -math.inf)
        _diagonal(energy).fill_(SELF_ENERGY)
        return energy


def _cut(query: Tensor, key: Tensor, value: Tensor, chunks: SortedChunks, number: int) -> _Cut:
    keys, values = (_with_previous(_sorted(x, chunks, number), chunks.back) for x in (key, value))
    queries, hidden = _sorted(query, chunks, number), chunks.hidden[number]
    return _Cut(*(x.flatten(0, 1) for x in (queries, keys, values, hidden)))


def _diagonal(x: Float[Tensor, "chunks chunk keys"]) -> Float[Tensor, "chunks chunk"]:
    """Pairs of each column with itself."""
    return x.diagonal(x.shape[-1] - x.shape[-2], -2, -1)


def _sorted(
    x: Float[Tensor, "groups length width"], chunks: SortedChunks, number: int
) -> Float[Tensor, "groups chunks chunk width"]:
    found = _take(x, chunks.order[:, number])
    return found.view(len(x), *chunks.hidden.shape[2:4], x.shape[-1])


def _unsorted(
    x: Float[Tensor, "*chunks chunk width"], chunks: SortedChunks, number: int
) -> Float[Tensor, "groups length width"]:
    return _take(x.reshape(len(chunks.place), -1, x.shape[-1]), chunks.place[:, number])


def _take(
    x: Float[Tensor, "groups places width"], index: Int[Tensor, "groups taken"]
) -> Float[Tensor, "groups taken width"]:
    """Rows of each group; a plain selection of whole rows is several times faster than ``gather``."""
    groups = torch.arange(len(x), device=x.device)[:, None] * x.shape[1]
    return x.reshape(-1, x.shape[-1]).index_select(0, (index + groups).flatten()).view(*index.shape, x.shape[-1])


def _folded(x: Float[Tensor, "groups chunks keys width"], back: int) -> Float[Tensor, "groups chunks chunk width"]:
    """Sums for each chunk's columns over their own chunk and the next ones: what ``_with_previous`` does, backward."""
    *before, own = x.chunk(back + 1, 2)
    if before:
        own = own.clone()
    for nearer, part in enumerate(before):
        own[:, : x.shape[1] - back + nearer] += part[:, back - nearer :]
    return own
