"""Tables of what occurs in contexts, discounted as by Kneser and Ney. Contexts are hashes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.baselines.ngrams import discounts
from regard.core.baseline import Floats

Codes = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]
Table = npt.NDArray[np.int64]  # (rows, columns)
MAX_OUTCOMES = 1000  # of a context: the most frequent ones
FEWEST = 2  # occurrences of a context in a table
UNKNOWN = np.uint64(0)  # code of a context that is not known
FACTOR, MIXED = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)


class ContextEntries(NamedTuple):
    """The rows of a table for some contexts.

    Attributes:
        row: (entries,) index of the context.
        outcome: (entries,) an outcome that occurs in it.
        share: (entries,) the discounted relative frequency of the outcome.
        backoff: (contexts,) the share of the shorter context; 1 for a context that is not in the table.
    """

    row: Numbers
    outcome: Numbers
    share: Floats
    backoff: Floats


class ContextTable(NamedTuple):
    """P(x | context) = share(x) + backoff · P(x | shorter context).

    Attributes:
        contexts: (contexts,) codes, ascending.
        backoff: (contexts,) float32.
        starts: (contexts + 1,) the place of the first outcome of each context.
        outcomes: (pairs,) the outcomes of each context, ascending.
        shares: (pairs,) float32, the discounted relative frequencies.
    """

    contexts: Codes
    backoff: npt.NDArray[np.float32]
    starts: Numbers
    outcomes: Numbers
    shares: npt.NDArray[np.float32]

    def entries(self, codes: Codes) -> ContextEntries:
        """Return the outcomes of each of these contexts."""
        backoff = np.ones(len(codes))
        if not len(self.contexts):
            return ContextEntries(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), backoff)
        place = np.minimum(np.searchsorted(self.contexts, codes), len(self.contexts) - 1)
        known = self.contexts[place] == codes
        backoff[known] = self.backoff[place[known]]
        number = np.where(known, self.starts[place + 1] - self.starts[place], 0)
        row = np.repeat(np.arange(len(codes)), number)
        pairs = np.arange(len(row)) + np.repeat(self.starts[place] - (np.cumsum(number) - number), number)
        return ContextEntries(row, self.outcomes[pairs], self.shares[pairs].astype(np.float64), backoff)

    def save(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays that ``open_table`` reads under this name."""
        parts = self._replace(contexts=self.contexts.view(np.int64), outcomes=self.outcomes.astype(np.int32))
        return {f"{name}.{part}": array for part, array in parts._asdict().items()}


def open_table(arrays: Mapping[str, npt.NDArray[Any]], name: str, types: int) -> ContextTable:
    """Return a saved table with outcomes below ``types``; ValueError if its arrays are wrong."""
    contexts = arrays[f"{name}.contexts"].view(np.uint64)
    starts, outcomes = (arrays[f"{name}.{part}"].astype(np.int64) for part in ("starts", "outcomes"))
    backoff, shares = (arrays[f"{name}.{part}"].astype(np.float32) for part in ("backoff", "shares"))
    if contexts.ndim != 1 or backoff.shape != contexts.shape or starts.shape != (len(contexts) + 1,):
        raise ValueError("the arrays of a table have different lengths")
    if outcomes.ndim != 1 or shares.shape != outcomes.shape or starts[0] != 0 or starts[-1] != len(outcomes):
        raise ValueError("the outcomes of a table are incomplete")
    if (contexts[1:] <= contexts[:-1]).any() or (np.diff(starts) <= 0).any():
        raise ValueError("the contexts of a table are not ascending")
    rows = np.repeat(np.arange(len(contexts)), np.diff(starts))
    if not ((outcomes >= 0) & (outcomes < types)).all() or (np.diff(rows * types + outcomes) <= 0).any():
        raise ValueError("the outcomes of a context are not ascending")
    if not all(((values >= 0) & (values <= 1)).all() for values in (backoff, shares)) or not (backoff > 0).all():
        raise ValueError("a share is not between 0 and 1")
    return ContextTable(contexts, backoff, starts, outcomes, shares)


def code(number: int, columns: Sequence[Numbers | Codes]) -> Codes:
    """Return the code of each row of columns of integers or codes; ``number``: of the type of context."""
    codes = np.full(len(columns[0]), number, np.uint64)
    for column in columns:
        codes = (codes ^ (codes >> np.uint64(29))) * MIXED + column.astype(np.int64).view(np.uint64) * FACTOR + FACTOR
    return codes | np.uint64(1)  # never UNKNOWN


def count_chain(levels: Sequence[Codes], outcomes: Numbers, types: int) -> list[ContextTable]:
    """Return the tables of contexts from short to long, of which each determines the shorter ones.

    In the longest contexts an outcome counts as often as it occurs. In a shorter context it counts once for each
    different longer context in which it occurs (Kneser and Ney 1995).
    """
    tables = list[ContextTable]()
    for number, contexts in enumerate(levels):
        known, counted = contexts != UNKNOWN, outcomes
        if number + 1 < len(levels):
            longer = levels[number + 1] ^ (outcomes.view(np.uint64) + np.uint64(1)) * FACTOR
            first = np.unique(longer, return_index=True)[1]
            known, contexts, counted = known[first], contexts[first], outcomes[first]
        tables.append(_count(contexts[known], counted[known], types))
    return tables


def _count(contexts: Codes, outcomes: Numbers, types: int) -> ContextTable:
    """Return a table of the contexts that occur ``FEWEST`` times, each with its ``MAX_OUTCOMES`` outcomes."""
    codes, row, total = np.unique(contexts, return_inverse=True, return_counts=True)
    pairs, counts = np.unique(row * types + outcomes, return_counts=True)
    row = pairs // types
    shares = (counts - discounts(counts)[np.minimum(counts, 3)]) / total[row]
    used_pairs = (total[row] >= FEWEST) & (_rank(row, counts) < MAX_OUTCOMES)
    row, shares, outcomes = row[used_pairs], shares[used_pairs], (pairs % types)[used_pairs]
    number = np.bincount(row, minlength=len(codes))
    backoff = 1 - np.bincount(row, shares, len(codes))
    used = number > 0
    starts = np.concatenate([[0], np.cumsum(number[used])])
    return ContextTable(codes[used], backoff[used].astype(np.float32), starts, outcomes, shares.astype(np.float32))


def _rank(row: Numbers, counts: Numbers) -> Numbers:
    """Return the rank of each pair among those of its row, 0 the most frequent."""
    order = np.lexsort((-counts, row))
    first = np.searchsorted(row, row[order])
    rank = np.empty(len(row), np.int64)
    rank[order] = np.arange(len(row)) - first
    return rank
