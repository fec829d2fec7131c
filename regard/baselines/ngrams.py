"""Baseline of language models: interpolated modified Kneser–Ney n-grams."""

from __future__ import annotations

from collections.abc import Mapping
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
FACTOR, MIXED = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)


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


class ContextCounts(NamedTuple):
    """Counts of one length of context.

    Attributes:
        contexts: codes of the contexts, ascending.
        backoff: (contexts,) the share of the shorter context.
        grams: codes of contexts with their next token, ascending.
        shares: (grams,) the discounted relative frequency.
    """

    contexts: Codes
    backoff: npt.NDArray[np.float32]
    grams: Codes
    shares: npt.NDArray[np.float32]

    def interpolate(self, context: Codes, gram: Codes, shorter: Floats) -> Floats:
        """Return the probability of each gram; ``shorter``: its probability after the shorter context."""
        place, known = _lookup(self.contexts, context)
        backoff = np.where(known, self.backoff[place], 1.0)
        place, known = _lookup(self.grams, gram)
        return np.asarray(np.where(known, self.shares[place], 0.0) + backoff * shorter)


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
        return f"Kneser–Ney n-grams with {max(len(self.orders) - 1, 0)} tokens of context"

    def learn(self, tokens: ContextTokens, types: int) -> None:
        """Count the first ``MAX_TOKENS``; ``types``: size of the vocabulary."""
        self.types = types
        tried = tokens.part(0, MAX_TRIED)
        held_out = max(int(len(tried.targets) * HELD_OUT), 1)
        first, rest = tried.part(held_out, MAX_TRIED), tried.part(0, held_out)
        losses = {}
        for order in ORDERS[types <= FEW_TYPES]:
            self.orders = _count(first, order)
            losses[order] = -self.log_probabilities(rest).mean()
        self.orders = _count(tokens.part(0, MAX_TOKENS), min(losses, key=losses.__getitem__))

    def log_probabilities(self, tokens: ContextTokens) -> Floats:
        """Return (targets,) the log-probability of each target."""
        probability = np.full(len(tokens.targets), 1 / self.types)
        for order, (context, gram) in zip(self.orders, _codes(tokens, len(self.orders) - 1), strict=True):
            probability = order.interpolate(context, gram, probability)
        return np.log(probability)

    def save(self) -> SavedBaseline:
        arrays: dict[str, npt.NDArray[Any]] = {}
        for number, order in enumerate(self.orders):
            arrays |= {f"{number}.{name}": _signed(array) for name, array in order._asdict().items()}
        return SavedBaseline(arrays, {"types": self.types, "orders": len(self.orders)})

    def open(self, saved: SavedBaseline) -> Self:
        self.types, orders = int(saved.settings["types"]), int(saved.settings["orders"])
        if not (1 <= orders <= 16 and 1 <= self.types):
            raise ValueError("the number of orders or of types is wrong")
        self.orders = [_open_order(saved.arrays, number) for number in range(orders)]
        return self


def _open_order(arrays: Mapping[str, npt.NDArray[Any]], number: int) -> ContextCounts:
    """Return a saved order; ValueError if its arrays are wrong."""
    contexts, grams = (arrays[f"{number}.{name}"].view(np.uint64) for name in ("contexts", "grams"))
    backoff, shares = (arrays[f"{number}.{name}"].astype(np.float32) for name in ("backoff", "shares"))
    if contexts.ndim != 1 or contexts.shape != backoff.shape or grams.ndim != 1 or grams.shape != shares.shape:
        raise ValueError("the arrays of an order have different lengths")
    if not len(contexts) or not len(grams) or any((codes[1:] <= codes[:-1]).any() for codes in (contexts, grams)):
        raise ValueError("the codes of an order are not ascending")
    if not all(((values >= 0) & (values <= 1)).all() for values in (backoff, shares)) or not (backoff > 0).all():
        raise ValueError("a share is not between 0 and 1")
    return ContextCounts(contexts, backoff, grams, shares)


def _signed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return array.view(np.int64) if array.dtype == np.uint64 else array


def _codes(tokens: ContextTokens, longest: int) -> list[tuple[Codes, Codes]]:
    """Return the codes of the context and of context and target of each target, for 0 … ``longest`` tokens."""
    context, codes = np.zeros(len(tokens.targets), np.uint64), list[tuple[Codes, Codes]]()
    last = (tokens.targets + 1).astype(np.uint64)
    for number in range(longest + 1):
        if number:
            before = np.roll(tokens.inputs, number - 1)
            symbol = np.where(tokens.depth >= number - 1, before + 1, 0).astype(np.uint64)
            context = context * FACTOR + symbol + np.uint64(number)
        codes.append((context, (context ^ (context >> np.uint64(29))) * MIXED + last * FACTOR))
    return codes


def _count(tokens: ContextTokens, longest: int) -> list[ContextCounts]:
    """Return the counts of contexts of 0 … ``longest`` tokens."""
    codes, orders = _codes(tokens, longest), list[ContextCounts]()
    for number, (context, gram) in enumerate(codes):
        if number < longest:  # each different token before counts once
            first = np.unique(codes[number + 1][1], return_index=True)[1]
            context, gram = context[first], gram[first]
        orders.append(_order(context, gram))
    return orders


def _order(context: Codes, gram: Codes) -> ContextCounts:
    """Return the discounted shares of grams, each listed as often as it counts."""
    grams, first, counts = np.unique(gram, return_index=True, return_counts=True)
    contexts, place = np.unique(context[first], return_inverse=True)
    discount = _discounts(counts)[np.minimum(counts, 3) - 1]
    total = np.bincount(place, counts, len(contexts))
    backoff = np.bincount(place, discount, len(contexts)) / total
    shares = (counts - discount) / total[place]
    return ContextCounts(contexts, backoff.astype(np.float32), grams, shares.astype(np.float32))


def _discounts(counts: Numbers) -> Floats:
    """Return the discounts of grams that occur once, twice, and more often."""
    once, twice, thrice, four = (max(float((counts == number).sum()), 1e-9) for number in (1, 2, 3, 4))
    y = once / (once + 2 * twice)
    raw = np.array([1 - 2 * y * twice / once, 2 - 3 * y * thrice / twice, 3 - 4 * y * four / thrice])
    return np.clip(raw, 0.05, np.array([0.95, 1.9, 2.85]))


def _lookup(codes: Codes, searched: Codes) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """Return the index of each searched code in ascending codes, and whether it is there."""
    place = np.minimum(np.searchsorted(codes, searched), len(codes) - 1)
    return place, codes[place] == searched
