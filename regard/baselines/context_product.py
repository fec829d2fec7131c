"""The distribution of a hidden token: a product of the distributions given its contexts on both sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from regard.baselines.context_tables import Codes, ContextEntries, ContextTable, Numbers, count_chain, open_table
from regard.core.baseline import Floats, SavedBaseline

CHAINS, LEVELS, SIZES = 4, 4, 4  # chains, their longest context, and classes of the knowledge about it
BUCKETS = (LEVELS + 1) * SIZES  # of a chain
BLOCK = 1 << 20  # gaps × outcomes that are read at once
TRIED = 1_000_000  # candidates by which the exponents are chosen
START, STEPS = (0.8, 0.8, -0.6), (0.2, 0.1, 0.05)  # of the search for exponents
MOVES = ((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, -1), (0, 1, -1))  # the last two change one side against the base


class GapContexts(NamedTuple):
    """Contexts of gaps: for each chain the codes (gaps,) of its contexts, from short to long.

    Attributes:
        base: contexts that those of the other chains contain; may be empty.
        left: contexts that add tokens before the gap.
        right: contexts that add tokens after it.
        both: contexts that add both.
    """

    base: Sequence[Codes]
    left: Sequence[Codes]
    right: Sequence[Codes]
    both: Sequence[Codes]

    def part(self, start: int, end: int) -> GapContexts:
        """Return those of some of the gaps."""
        return GapContexts(*([codes[start:end] for codes in chain] for chain in self))


class _Candidates(NamedTuple):
    """Outcomes of some gaps that a table knows, and their probabilities.

    Attributes:
        gap: (candidates,) the gap, ascending.
        outcome: (candidates,) the outcome, ascending in a gap.
        logs: (3, candidates) the logarithms of P_left, P_right and P_base.
        outside: (3, gaps) the same for all other outcomes, less the logarithm of the outcome's popularity.
        both: (share (candidates,), backoff (gaps,)) of each context on both sides.
        popularity: (types,) that of every outcome.
    """

    gap: Numbers
    outcome: Numbers
    logs: Floats
    outside: Floats
    both: list[tuple[Floats, Floats]]
    popularity: Floats


class HeldOutGaps(NamedTuple):
    """The candidates of gaps that their tables did not count, and the outcomes."""

    candidates: _Candidates
    outcomes: Numbers


class ContextProduct:
    """Q(x) ∝ P_left(x)^a · P_right(x)^b · P_base(x)^c, and P(x) = share(x | both) + backoff · Q(x).

    P_base begins at the popularity of x, P_left and P_right at P_base; each longer context interpolates
    (``context_tables.ContextTable``). a, b and c maximize the likelihood of held-out gaps times a normal density around
    ``START``, of deviation 1. Without it, a few gaps lead to extreme values. With a = b = 1 and c = −1 the product is
    exact if both sides are independent given x. Cost: the outcomes that occur in one of the contexts; the sum over all
    others has a closed form.
    """

    def __init__(self) -> None:
        self.tables = GapTables([], [], [], [])
        self.popularity = np.zeros(0)  # (types,) probabilities; 0 for outcomes that never occur
        self.exponents = np.array(START)

    def learn(self, contexts: GapContexts, outcomes: Numbers, allowed: npt.NDArray[np.bool_]) -> None:
        """Count the outcomes of gaps in their contexts; ``allowed``: (types,) outcomes that are possible."""
        types = len(allowed)
        counts = np.where(allowed, np.bincount(outcomes, minlength=types) + 0.5, 0)
        self.popularity = counts / counts.sum()
        self.tables = GapTables(*(count_chain(chain, outcomes, types) for chain in contexts))

    def held_out(self, contexts: GapContexts, outcomes: Numbers) -> list[HeldOutGaps]:
        """Return about ``TRIED`` candidates of gaps that were not counted, in blocks."""
        blocks, read = list[HeldOutGaps](), 0
        for start, end in self._blocks(len(outcomes)):
            candidates = self._candidates(self._entries(contexts.part(start, end)), outcomes[start:end])
            blocks.append(HeldOutGaps(candidates, outcomes[start:end]))
            read += len(candidates.gap)
            if read >= TRIED:
                break
        return blocks

    def fit_exponents(self, blocks: Sequence[HeldOutGaps]) -> None:
        """Choose the exponents by coordinate search on gaps that their tables did not count."""
        best, exponents = _loss(blocks, np.array(START)), np.array(START)
        for step in STEPS if blocks else ():
            moves = [sign * step * np.array(move) for move in MOVES for sign in (1, -1)]
            improved = True
            while improved:
                improved = False
                for move in moves:
                    tried = exponents + move
                    if _valid(tried) and (loss := _loss(blocks, tried)) < best - 1e-4:
                        best, exponents, improved = loss, tried, True
        self.exponents = exponents

    def predict(self, contexts: GapContexts, outcomes: Numbers) -> tuple[Floats, Numbers]:
        """Return (gaps,) the log-probability of each outcome, and the most probable outcome of each gap."""
        logs, best = np.zeros(len(outcomes)), np.zeros(len(outcomes), np.int64)
        for start, end in self._blocks(len(outcomes)):
            candidates = self._candidates(self._entries(contexts.part(start, end)), outcomes[start:end])
            p = _shares(candidates, self.exponents)[0]
            logs[start:end] = np.log(_of(candidates, p, outcomes[start:end]))
            best[start:end] = _best(candidates, p)
        return logs, best

    def distribution(self, contexts: GapContexts, gaps: int) -> Floats:
        """Return (gaps, types) the probability of every outcome."""
        return self.evidence(contexts, gaps)[0]

    def evidence(self, contexts: GapContexts, gaps: int) -> tuple[Floats, Numbers]:
        """Return the probability of every outcome, and what it rests on.

        Returns:
            (gaps, types) probabilities, and (gaps, ``CHAINS``) buckets of the longest known context of each chain: its
            level × ``SIZES`` + the class of the share that it leaves to shorter contexts; 0 if none is known.
        """
        p, buckets = np.zeros((gaps, len(self.popularity))), np.zeros((gaps, CHAINS), np.int64)
        for start, end in self._blocks(gaps):
            chains = self._entries(contexts.part(start, end))
            candidates = self._candidates(chains, None, gaps=end - start)
            known, remaining = _shares(candidates, self.exponents)
            p[start:end] = remaining[:, None] * _powers(self.popularity, self.exponents)
            p[start + candidates.gap, candidates.outcome] = known
            buckets[start:end] = np.stack([_buckets(chain, end - start) for chain in chains], 1)
        return p, buckets

    def _blocks(self, gaps: int) -> Iterator[tuple[int, int]]:
        size = max(BLOCK // len(self.popularity), 1)
        yield from ((start, min(start + size, gaps)) for start in range(0, gaps, size))

    def _entries(self, contexts: GapContexts) -> list[list[ContextEntries]]:
        """Return what the tables of each chain know about these gaps."""
        return [
            [table.entries(codes) for table, codes in zip(tables, chain, strict=True)]
            for tables, chain in zip(self.tables, contexts, strict=True)
        ]

    def _candidates(
        self, chains: Sequence[Sequence[ContextEntries]], outcomes: Numbers | None, gaps: int = 0
    ) -> _Candidates:
        """Return the candidates of a block: those of its tables, ``outcomes`` and the most popular one."""
        gaps, types = gaps if outcomes is None else len(outcomes), len(self.popularity)
        marked, first = np.zeros(gaps * types, bool), np.arange(gaps) * types
        for entries in (entries for chain in chains for entries in chain):
            marked[entries.row * types + entries.outcome] = True
        marked[first + int(self.popularity.argmax())] = True  # so the most probable outcome is a candidate
        if outcomes is not None:
            marked[first + outcomes] = True
        pairs = np.flatnonzero(marked)
        gap, outcome = np.divmod(pairs, types)
        place = np.zeros(gaps * types, np.int32)
        place[pairs] = np.arange(len(pairs), dtype=np.int32)

        def known(chain: Sequence[ContextEntries]) -> list[tuple[Floats, Floats]]:
            """Return the share of each candidate, and the backoff of each gap."""
            indices = [place[entries.row * types + entries.outcome] for entries in chain]
            return [
                (_scattered(index, entries.share, len(pairs)), entries.backoff)
                for index, entries in zip(indices, chain, strict=True)
            ]

        base = _interpolated((self.popularity[outcome], np.ones(gaps)), known(chains[0]), gap)
        left, right = (_interpolated(base, chain, gap) for chain in map(known, chains[1:3]))
        logs, outside = (np.log([side[number] for side in (left, right, base)]) for number in (0, 1))
        return _Candidates(gap, outcome, logs, outside, known(chains[3]), self.popularity)

    def save(self) -> SavedBaseline:
        arrays = {"popularity": self.popularity, "exponents": self.exponents}
        for name, chain in self.tables._asdict().items():
            for number, table in enumerate(chain):
                arrays |= table.save(f"{name}.{number}")
        return SavedBaseline(arrays, {"levels": [len(chain) for chain in self.tables]})

    def open(self, saved: SavedBaseline, levels: Sequence[int]) -> None:
        """Restore saved tables; ValueError if the chains do not have these numbers of ``levels``."""
        if saved.settings["levels"] != list(levels):
            raise ValueError("the number of contexts is wrong")
        self.popularity, self.exponents = (
            saved.arrays[name].astype(np.float64) for name in ("popularity", "exponents")
        )
        if self.popularity.ndim != 1 or not (self.popularity >= 0).all() or not 0 < self.popularity.sum() < np.inf:
            raise ValueError("the popularity of an outcome is damaged")
        if self.exponents.shape != (3,) or not _valid(self.exponents):
            raise ValueError("the exponents are damaged")
        types, names = len(self.popularity), GapTables._fields
        chains = [
            [open_table(saved.arrays, f"{name}.{number}", types) for number in range(count)]
            for name, count in zip(names, levels, strict=True)
        ]
        if any((self.popularity[table.outcomes] == 0).any() for chain in chains for table in chain):
            raise ValueError("an outcome of a context is impossible")
        self.tables = GapTables(*chains)


class GapTables(NamedTuple):
    """The tables of each chain of ``GapContexts``."""

    base: list[ContextTable]
    left: list[ContextTable]
    right: list[ContextTable]
    both: list[ContextTable]


def _loss(blocks: Sequence[HeldOutGaps], exponents: Floats) -> float:
    """Return −log of the likelihood and of the density of the exponents, in nats a gap."""
    total = float(np.square(exponents - START).sum()) / 2
    for candidates, outcomes in blocks:
        total -= float(np.log(_of(candidates, _shares(candidates, exponents)[0], outcomes)).sum())
    return total / max(sum(len(outcomes) for _, outcomes in blocks), 1)


def _shares(candidates: _Candidates, exponents: Floats) -> tuple[Floats, Floats]:
    """Return (candidates,) their probabilities, and (gaps,) those of any other outcome, divided by its power."""
    powers, gaps = _powers(candidates.popularity, exponents), candidates.outside.shape[1]
    scores, outside = (np.exp(_weighted(exponents, logs)) for logs in (candidates.logs, candidates.outside))
    rest = np.maximum(powers.sum() - np.bincount(candidates.gap, powers[candidates.outcome], gaps), 0)
    total = np.bincount(candidates.gap, scores, gaps) + outside * rest
    p, remaining = scores / total[candidates.gap], outside / total
    for share, backoff in candidates.both:
        p, remaining = share + backoff[candidates.gap] * p, backoff * remaining
    return p, remaining


def _powers(popularity: Floats, exponents: Floats) -> Floats:
    """Return (types,) the popularity of each outcome to the power of the sum of the exponents; 0 stays 0."""
    possible, powers = popularity > 0, np.zeros(len(popularity))
    powers[possible] = popularity[possible] ** exponents.sum()
    return powers


def _valid(exponents: Floats) -> bool:
    """Return whether the most probable outcome is a candidate with these exponents."""
    a, b, c = exponents
    return bool(np.isfinite(exponents).all() and a >= 0 and b >= 0 and a + b + c >= 0)


def _weighted(exponents: Floats, logs: Floats) -> Floats:
    """Return the weighted sum of rows; a column has equal bits in any block."""
    a, b, c = (weight * row for weight, row in zip(exponents, logs, strict=True))
    return np.asarray(a + b + c)


def _buckets(chain: Sequence[ContextEntries], gaps: int) -> Numbers:
    buckets = np.zeros(gaps, np.int64)
    for level, entries in enumerate(chain, start=1):
        size = np.minimum((1 - entries.backoff) * SIZES, SIZES - 1).astype(np.int64)
        buckets = np.where(entries.backoff < 1, level * SIZES + size, buckets)
    return buckets


def _scattered(place: npt.NDArray[np.int32], values: Floats, length: int) -> Floats:
    array = np.zeros(length)
    array[place] = values
    return array


def _interpolated(
    shorter: tuple[Floats, Floats], chain: Sequence[tuple[Floats, Floats]], gap: Numbers
) -> tuple[Floats, Floats]:
    """Return the probabilities of candidates after a chain of contexts, and the factor of all other outcomes."""
    p, factor = shorter
    for share, backoff in chain:
        p, factor = share + backoff[gap] * p, factor * backoff
    return p, factor


def _best(candidates: _Candidates, p: Floats) -> Numbers:
    """Return the most probable candidate of each gap, the first of equal ones."""
    gaps = candidates.outside.shape[1]
    highest = np.maximum.reduceat(p, np.searchsorted(candidates.gap, np.arange(gaps)))
    best = np.flatnonzero(p == highest[candidates.gap])[::-1]
    chosen = np.zeros(gaps, np.int64)
    chosen[candidates.gap[best]] = candidates.outcome[best]
    return chosen


def _of(candidates: _Candidates, values: Floats, outcomes: Numbers) -> Floats:
    """Return the value of one candidate of each gap."""
    return np.asarray(values[candidates.outcome == outcomes[candidates.gap]])
