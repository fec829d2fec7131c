"""Baseline of next items: a mixture of the tables of what followed one to four items later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from regard.baselines.linear import Sparse, assign_folds, cross_fitted
from regard.core.baseline import Floats, SavedBaseline

SKIPS = (1, 2, 3, 4)  # how many items back a table looks
ROUNDS = 50  # of expectation maximization
Numbers = npt.NDArray[np.int64]


class Events(NamedTuple):
    """The events of sessions, concatenated.

    Attributes:
        items: (events,) the number of each item.
        place: (events,) its position in its session.
    """

    items: Numbers
    place: Numbers

    def pairs(self, skip: int) -> tuple[Numbers, Numbers]:
        """Return the events with an item ``skip`` positions before, and that item."""
        events = np.flatnonzero(self.place >= skip)
        return events, self.items[events - skip]


class ItemBaseline:
    """P(x) = Σ_k λ_k P_k(x | the item k before) + λ_0 P_0(x), k = 1 … 4, over the tables that know their item.

    P_k are relative frequencies in the training sessions, P_0 those of all items with one added. λ maximizes the
    likelihood of the training events, each left out of its tables, by expectation maximization. Cost: one entry for
    each pair of items that occurs.
    """

    kind: ClassVar[str] = "items"
    description: ClassVar[str] = "tables of the items one to four before"

    def __init__(self) -> None:
        self.tables: list[Sparse] = []  # (types, types) counts, by skip
        self.popularity = np.zeros(0)  # (types,) probabilities
        self.mixture = np.zeros(len(SKIPS) + 1)
        self.keys, self.numbers = np.zeros(0, np.uint64), np.zeros(0, np.int64)  # hashes of items, ascending

    def learn(
        self, columns: Sequence[Sequence[Sequence[str]]], targets: npt.NDArray[Any], weights: npt.NDArray[Any],
        outputs: int,
    ) -> None:  # fmt: skip
        """See ``core.baseline.InputBaseline``; a target is the number of an item of the session."""
        from scipy.sparse import coo_matrix, csr_matrix

        sessions = columns[0]
        numbers = np.asarray(targets, np.int64)
        names = dict(zip((i for s in sessions for i in s), numbers, strict=True))
        self.keys, order = np.unique(np.array([_hash(name) for name in names], np.uint64), return_index=True)
        self.numbers = np.array(list(names.values()), np.int64)[order]
        events = Events(numbers, _positions(sessions))
        counts = np.bincount(numbers, minlength=outputs) + 1.0
        self.popularity = counts / counts.sum()
        self.tables = []
        for skip in SKIPS:
            rows, before = events.pairs(skip)
            pairs = before, numbers[rows]
            self.tables.append(csr_matrix(coo_matrix((np.ones(len(rows)), pairs), shape=(outputs, outputs))))
        self.mixture = _fit_mixture(self._left_out(events))

    def _left_out(self, events: Events) -> Floats:
        """Return (events, tables) the probability of each event by each table without it; NaN for an empty table."""
        probabilities = np.full((len(events.items), len(SKIPS) + 1), np.nan)
        probabilities[:, 0] = self.popularity[events.items]
        for column, (skip, table) in enumerate(zip(SKIPS, self.tables, strict=True), start=1):
            rows, before = events.pairs(skip)
            total = np.asarray(table.sum(1)).ravel()[before] - 1
            own = _counts(table, before, events.items[rows]) - 1
            probabilities[rows, column] = np.where(total > 0, own / np.maximum(total, 1), np.nan)
        return probabilities

    def outputs(self, columns: Sequence[Sequence[Sequence[str]]]) -> Floats:
        events = Events(self._numbers_of(columns[0]), _positions(columns[0]))
        sums = np.tile(self.mixture[0] * self.popularity, (len(events.items), 1))
        weights = np.full(len(events.items), self.mixture[0])
        for share, skip, table in zip(self.mixture[1:], SKIPS, self.tables, strict=True):
            rows, before = events.pairs(skip)
            total = np.asarray(table.sum(1)).ravel()[before]
            known = (total > 0) & (before >= 0)
            rows, before, total = rows[known], before[known], total[known]
            sums[rows] += share * table[before].toarray() / total[:, None]
            weights[rows] += share
        return np.asarray(np.log(sums / weights[:, None]))

    def held_out_outputs(
        self, columns: Sequence[Sequence[Sequence[str]]], targets: npt.NDArray[Any], weights: npt.NDArray[Any],
        outputs: int,
    ) -> Floats:  # fmt: skip
        """See ``core.baseline.WidePart``; equal sessions are in one fold."""
        sessions = [tuple(session) for session in columns[0]]
        fold = assign_folds(sessions, np.zeros(len(sessions)))
        event_fold = np.repeat(fold, [len(session) for session in sessions])

        def fit_others(training: npt.NDArray[Any]) -> Any:
            own = np.unique(event_fold[training])
            chosen = [session for session, number in zip(sessions, fold, strict=True) if number in own]
            model = ItemBaseline()
            model.learn([chosen], targets[training], weights[training], outputs)
            held_out = [session for session, number in zip(sessions, fold, strict=True) if number not in own]
            return lambda rows: model.outputs([held_out])

        return cross_fitted(fit_others, event_fold, outputs)

    def _numbers_of(self, sessions: Sequence[Sequence[str]]) -> Numbers:
        """Return the number of each event; −1 for an item that is not in the training data."""
        hashes = np.array([_hash(item) for session in sessions for item in session], np.uint64)
        if not len(self.keys) or not len(hashes):
            return np.full(len(hashes), -1, np.int64)
        index = np.minimum(np.searchsorted(self.keys, hashes), len(self.keys) - 1)
        return np.where(self.keys[index] == hashes, self.numbers[index], -1)

    def save(self) -> SavedBaseline:
        arrays: dict[str, npt.NDArray[Any]] = {
            "popularity": self.popularity, "mixture": self.mixture, "keys": self.keys.view(np.int64),
            "numbers": self.numbers,
        }  # fmt: skip
        for skip, table in zip(SKIPS, self.tables, strict=True):
            names = ("counts", table.data), ("columns", table.indices), ("starts", table.indptr)
            arrays |= {f"{name}{skip}": np.asarray(part, np.int32) for name, part in names}
        return SavedBaseline(arrays, {})

    def open(self, saved: SavedBaseline) -> Self:
        arrays = saved.arrays
        self.popularity, self.mixture = (arrays[name].astype(np.float64) for name in ("popularity", "mixture"))
        self.keys, self.numbers = arrays["keys"].view(np.uint64), arrays["numbers"].astype(np.int64)
        types = len(self.popularity)
        if self.popularity.ndim != 1 or not (self.popularity > 0).all() or not np.isfinite(self.popularity).all():
            raise ValueError("each item needs a positive probability")
        if self.mixture.shape != (len(SKIPS) + 1,) or not (self.mixture >= 0).all() or not self.mixture[0] > 0:
            raise ValueError("the weights of the tables are damaged")
        if self.keys.shape != self.numbers.shape or not ((self.numbers >= 0) & (self.numbers < types)).all():
            raise ValueError("an item has no number")
        self.tables = [_table(arrays, skip, types) for skip in SKIPS]
        return self


def _table(arrays: Mapping[str, npt.NDArray[Any]], skip: int, types: int) -> Sparse:
    """Return a saved table; ValueError if its arrays are wrong."""
    from scipy.sparse import csr_matrix

    counts, columns, starts = (arrays[f"{name}{skip}"] for name in ("counts", "columns", "starts"))
    if not (np.asarray(counts) > 0).all():
        raise ValueError("a count of a table is not positive")
    table = csr_matrix((counts.astype(np.float64), columns, starts), shape=(types, types))
    table.check_format(full_check=True)
    return table


def _counts(table: Sparse, rows: Numbers, columns: Numbers) -> Floats:
    """Return the counts at these positions as an array, which SciPy does not do for an empty list."""
    return np.asarray(table[rows, columns], np.float64).ravel() if len(rows) else np.zeros(0)


def _positions(sessions: Sequence[Sequence[str]]) -> Numbers:
    return np.concatenate([np.zeros(0, np.int64), *(np.arange(len(session)) for session in sessions)])


def _hash(item: str) -> int:
    return int.from_bytes(blake2b(item.encode(), digest_size=8).digest(), "little")


def _fit_mixture(probabilities: Floats) -> Floats:
    """Return the weights of tables that maximize the likelihood of events; NaN: the table does not know an event.

    The weights of the known tables are normalized for each event.
    """
    known = ~np.isnan(probabilities)
    values, mixture = np.where(known, probabilities, 0.0), np.full(probabilities.shape[1], 1 / probabilities.shape[1])
    for _ in range(ROUNDS):
        joint = values * mixture
        joint /= np.maximum(joint.sum(1, keepdims=True), 1e-300)
        expected = (known * mixture / np.maximum((known * mixture).sum(1, keepdims=True), 1e-300)).sum(0)
        mixture = mixture * joint.sum(0) / np.maximum(expected, 1e-300)
        mixture = np.maximum(mixture / mixture.sum(), 1e-6)
    return np.asarray(mixture / mixture.sum())
