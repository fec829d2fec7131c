"""Baseline of language models: interpolated modified Kneser–Ney n-grams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from regard.core.baseline import Floats, SavedBaseline

Codes = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]
MAX_TOKENS = 3_000_000  # that are counted, from the start of the data
MAX_TRIED = 1_000_000  # tokens by which the order is chosen
FEW_TYPES = 512  # up to this size of the vocabulary, longer contexts are tried
ORDERS = {True: (3, 4, 5, 6, 8), False: (1, 2, 3, 4)}  # tokens of context, for few types and for many
HELD_OUT = 0.05  # share of the tokens by which the order is chosen
FACTOR = np.uint64(0x9E3779B97F4A7C15)
MAX_ORDERS, SIZES = 16, 4  # longest contexts and classes of their counts, for ``NgramBaseline.evidence``
BUCKETS = MAX_ORDERS * SIZES
FORMAT = 2  # of the arrays


class ContextTokens(NamedTuple):
    """Tokens to predict, concatenated over sequences, and their contexts.

    Attributes:
        inputs: the token before each target.
        depth: number of tokens before each input that belong to the same sequence.
        targets: the token that follows each input.
    """

    inputs: Numbers
    depth: Numbers
    targets: Numbers

    def part(self, start: int, end: int) -> ContextTokens:
        """Return some of the targets, with contexts that begin at ``start``."""
        inputs, depth, targets = (array[start:end] for array in self)
        return ContextTokens(inputs, np.minimum(depth, np.arange(len(depth))), targets)


class Evidence(NamedTuple):
    """The log-probability of each target, and what it rests on.

    Attributes:
        log_probabilities: (targets,) natural logarithms.
        buckets: (targets,) length of the longest known context × ``SIZES`` + class of its count, below ``BUCKETS``.
    """

    log_probabilities: Floats
    buckets: Numbers


class ContextCounts(NamedTuple):
    """Counts of one length of context.

    Attributes:
        contexts: codes of the contexts, ascending.
        totals: (contexts,) sum of the counts of the tokens after the context.
        discounted: (contexts,) sum of the discounts of these counts.
        grams: index of a context × number of types + token, ascending.
        counts: (grams,) count of the token after the context, or of the different tokens before both.
        discounts: (4,) discounts of the counts 0, 1, 2 and more.
    """

    contexts: Codes
    totals: npt.NDArray[np.float32]
    discounted: npt.NDArray[np.float32]
    grams: Numbers
    counts: npt.NDArray[np.int32]
    discounts: npt.NDArray[np.float32]

    def discount(self, counts: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return the discounts of counts."""
        return self.discounts[np.clip(counts, 0, 3).astype(np.int64)]


class NgramBaseline:
    """P_k(x | c) = max(n(c, x) − D, 0) / n(c) + γ(c) P_{k−1}(x | shorter c); P_{−1} is uniform.

    Below the longest context, n counts the different tokens before (c, x). D is one of three discounts, by n (Chen and
    Goodman 1999, Eq. 15–17). The length of the longest context is chosen on held-out tokens. Contexts are hashes.
    """

    kind: ClassVar[str] = "n-grams"

    def __init__(self) -> None:
        self.types, self.orders = 1, list[ContextCounts]()

    @property
    def description(self) -> str:
        return f"Kneser–Ney n-grams with {self.longest} tokens of context"

    @property
    def longest(self) -> int:
        """Maximum number of tokens of a context."""
        return max(len(self.orders) - 1, 0)

    def learn(self, tokens: ContextTokens, types: int, *, longest: int | None = None) -> None:
        """Count the first ``MAX_TOKENS``.

        Args:
            tokens: targets with their contexts.
            types: size of the vocabulary.
            longest: maximum number of tokens of a context; None: chosen on held-out tokens.
        """
        self.types = types
        if longest is not None:
            self.orders = _count(tokens.part(0, MAX_TOKENS), longest, types)
            return
        tried = tokens.part(0, MAX_TRIED)
        held_out = max(int(len(tried.targets) * HELD_OUT), 1)
        first, rest = tried.part(held_out, MAX_TRIED), tried.part(0, held_out)
        losses = {}
        for order in ORDERS[types <= FEW_TYPES]:
            self.orders = _count(first, order, types)
            losses[order] = -self.log_probabilities(rest).mean()
        self.orders = _count(tokens.part(0, MAX_TOKENS), min(losses, key=losses.__getitem__), types)

    def log_probabilities(self, tokens: ContextTokens) -> Floats:
        """Return (targets,) the log-probability of each target."""
        return self.evidence(tokens).log_probabilities

    def evidence(self, tokens: ContextTokens) -> Evidence:
        """Return the log-probability of each target, and the evidence for it."""
        rows = len(tokens.targets)
        probability, longest, totals = np.full(rows, 1 / self.types), np.full(rows, -1), np.zeros(rows)
        codes = context_codes(tokens, self.longest)
        for number, (order, context) in enumerate(zip(self.orders, codes, strict=False)):  # no order: uniform
            place, known = _lookup(order.contexts, context)
            gram, counted = _lookup(order.grams, place * self.types + tokens.targets)
            total = order.totals[place].astype(np.float64)
            share = np.where(counted, order.counts[gram] - order.discount(order.counts[gram]), 0) / total
            backed_off = share + order.discounted[place] / total * probability
            probability = np.where(known, backed_off, probability)
            longest, totals = np.where(known, number, longest), np.where(known, total, totals)
        return Evidence(np.log(probability), _buckets(longest, totals))

    def next_probabilities(self, recent: Numbers) -> tuple[Floats, Numbers]:
        """Return the distribution of the next token of texts, and the evidence for it (see ``Evidence``).

        Args:
            recent: (texts, ≥ longest) the last tokens of each text, the last one first; −1: before the text.

        Returns:
            (texts, types) probabilities, and (texts,) buckets.
        """
        texts = len(recent)
        probability, rows = np.full((texts, self.types), 1 / self.types), np.arange(texts)
        longest, totals = np.full(texts, -1), np.zeros(texts)
        symbols = [(recent[:, number] + 1).astype(np.uint64) for number in range(self.longest)]
        for number, (order, context) in enumerate(zip(self.orders, _codes((texts, symbols)), strict=True)):
            place, known = _lookup(order.contexts, context)
            place, row = place[known], rows[known]
            total = order.totals[place].astype(np.float64)
            probability[row] *= (order.discounted[place] / total)[:, None]
            first, last = (np.searchsorted(order.grams, (place + end) * self.types) for end in (0, 1))
            gram = _ranges(first, last)
            text = np.repeat(np.arange(len(row)), last - first)
            share = (order.counts[gram] - order.discount(order.counts[gram])) / total[text]
            probability[row[text], order.grams[gram] % self.types] += share
            longest[row], totals[row] = number, total
        return probability, _buckets(longest, totals)

    def save(self) -> SavedBaseline:
        arrays: dict[str, npt.NDArray[Any]] = {}
        for number, order in enumerate(self.orders):
            arrays |= {f"{number}.{name}": _signed(array) for name, array in order._asdict().items()}
        return SavedBaseline(arrays, {"format": FORMAT, "types": self.types, "orders": len(self.orders)})

    def open(self, saved: SavedBaseline) -> Self:
        self.types, orders = int(saved.settings["types"]), int(saved.settings["orders"])
        if not (1 <= orders <= MAX_ORDERS and 1 <= self.types < 1 << 31):
            raise ValueError("the number of orders or of types is wrong")
        self.orders = [_open_order(saved.arrays, number, self.types) for number in range(orders)]
        return self


def _open_order(arrays: Mapping[str, npt.NDArray[Any]], number: int, types: int) -> ContextCounts:
    """Return a saved order; ValueError if its arrays are wrong."""
    parts = {name: arrays[f"{number}.{name}"] for name in ContextCounts._fields}
    if any(array.ndim != 1 or not len(array) for array in parts.values()):
        raise ValueError("an array of an order is empty, or has several dimensions")
    order = ContextCounts(
        parts["contexts"].view(np.uint64), parts["totals"].astype(np.float32), parts["discounted"].astype(np.float32),
        parts["grams"].astype(np.int64), parts["counts"].astype(np.int32), parts["discounts"].astype(np.float32),
    )  # fmt: skip
    lengths = {len(order.contexts), len(order.totals), len(order.discounted)}
    if len(lengths) > 1 or len(order.grams) != len(order.counts) or len(order.discounts) != 4:
        raise ValueError("the arrays of an order have different lengths")
    if any((codes[1:] <= codes[:-1]).any() for codes in (order.contexts, order.grams)):
        raise ValueError("the codes of an order are not ascending")
    if order.grams[0] < 0 or order.grams[-1] >= len(order.contexts) * types or (order.counts < 1).any():
        raise ValueError("a gram belongs to no context")
    if not ((order.totals >= 1) & (order.discounted > 0) & (order.discounted <= order.totals)).all():
        raise ValueError("a discount is not between 0 and the count")
    if order.discounts[0] != 0 or not ((order.discounts >= 0) & (order.discounts <= [0, 1, 2, 3])).all():
        raise ValueError("a discount is not between 0 and the count")
    return order


def _signed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return array.view(np.int64) if array.dtype == np.uint64 else array


def _buckets(longest: Numbers, totals: Floats) -> Numbers:
    """Return the bucket of a known context: its length × SIZES + the class of its count; 0 if none is known."""
    size = np.minimum(np.log2(np.maximum(totals, 1)) / 2, SIZES - 1).astype(np.int64)
    return np.where(longest < 0, 0, longest * SIZES + size)


def _ranges(first: Numbers, last: Numbers) -> Numbers:
    """Return the numbers from each ``first`` to each ``last``, concatenated."""
    lengths = last - first
    offsets = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) + np.repeat(first - offsets, lengths)


def context_codes(tokens: ContextTokens, longest: int) -> Iterator[Codes]:
    """Yield the hashes of the contexts of 0, 1, … ``longest`` tokens; a context that begins earlier is padded."""
    before = (
        np.where(tokens.depth >= number, np.roll(tokens.inputs, number) + 1, 0).astype(np.uint64)
        for number in range(longest)
    )
    return _codes((len(tokens.targets), before))


def _codes(symbols: tuple[int, Iterable[Codes]]) -> Iterator[Codes]:
    """Yield the codes of the contexts of 0, 1, … tokens, from the symbols before each target, the last one first."""
    rows, before = symbols
    context = np.zeros(rows, np.uint64)
    yield context
    for number, symbol in enumerate(before, start=1):
        context = context * FACTOR + symbol + np.uint64(number)
        context ^= context >> np.uint64(29)
        yield context


def _count(tokens: ContextTokens, longest: int, types: int) -> list[ContextCounts]:
    """Return the counts of contexts of 0 … ``longest`` tokens."""
    codes, orders = list(context_codes(tokens, longest)), list[ContextCounts]()
    targets, first = tokens.targets, np.arange(len(tokens.targets))
    for context in reversed(codes):  # below the longest context, each different token before counts once
        order, own = _order(context[first], targets[first], types)
        orders.append(order)
        first = first[own]
    return orders[::-1]


def _order(context: Codes, targets: Numbers, types: int) -> tuple[ContextCounts, Numbers]:
    """Return the counts of grams, each listed as often as it counts, and the first place of each gram."""
    contexts, place = np.unique(context, return_inverse=True)
    grams, first, counts = np.unique(place * types + targets, return_index=True, return_counts=True)
    discount = discounts(counts).astype(np.float32)
    totals = np.bincount(place, minlength=len(contexts))
    discounted = np.bincount(grams // types, discount[np.minimum(counts, 3)], len(contexts))
    order = ContextCounts(
        contexts, totals.astype(np.float32), discounted.astype(np.float32), grams, counts.astype(np.int32), discount
    )
    return order, first


def discounts(counts: Numbers) -> Floats:
    """Return the discounts of grams that occur never, once, twice, and more often."""
    once, twice, thrice, four = (max(float((counts == number).sum()), 1e-9) for number in (1, 2, 3, 4))
    y = once / (once + 2 * twice)
    raw = np.array([0, 1 - 2 * y * twice / once, 2 - 3 * y * thrice / twice, 3 - 4 * y * four / thrice])
    return np.clip(raw, [0, 0.05, 0.05, 0.05], [0, 0.95, 1.9, 2.85])


def _lookup(codes: npt.NDArray[Any], searched: npt.NDArray[Any]) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """Return the index of each searched code in ascending codes, and whether it is there."""
    place = np.minimum(np.searchsorted(codes, searched), len(codes) - 1)
    return place, codes[place] == searched
