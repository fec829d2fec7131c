"""The order of training and the batches it is cut into: pure functions of (seed, epoch)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from regard.core.task import ExampleIndices, Indices
from regard.core.wording import pluralize, pluralize_with_verb
from regard.errors import ConfigError, DataError

Lengths = npt.NDArray[np.integer]


def epoch_batches(
    lengths: Lengths,
    tokens: int,
    *,
    seed: int,
    epoch: int,
    where: Callable[[int], str] | None = None,
) -> list[Indices]:
    """The batches of one epoch, as indices into ``lengths`` (see ``pair_lengths``), in training order.

    A batch of N tokens: rows × its longest pair, padding included, is ≤ N = ``tokens``. Pairs of like length
    share a batch; which of them do, and the order of the batches, is drawn anew from (seed, epoch) and from
    nothing else. Every index comes exactly once. About 0.3 s for a million pairs. Raises DataError for a pair that
    alone exceeds ``tokens``, named by ``where(index)`` (``Corpus.where``).
    """
    too_long = np.flatnonzero(lengths > tokens)
    if len(too_long):
        first = int(too_long[0])
        told = where(first) if where is not None else f"pair {first + 1}"
        raise does_not_fit(len(too_long), int(lengths[first]), tokens, told)
    random = np.random.default_rng((seed, epoch))
    shuffled = random.permutation(np.arange(len(lengths)))
    ordered = shuffled[np.argsort(lengths[shuffled], kind="stable")]
    batches = _cut(ordered, lengths[ordered], tokens)
    return [batches[position] for position in random.permutation(len(batches))]


def does_not_fit(number: int, length: int, tokens: int, where: str) -> DataError:
    """The error for ``number`` examples that exceed a batch; the first of them is at ``where`` and has ``length``."""
    return DataError(
        f"{pluralize_with_verb(number, 'sentence', 'does', 'do')} not fit into a batch of {tokens:,} tokens",
        where=where,
        why=f"that pair has {pluralize(length, 'piece')}, the end symbol included",
        help="lower data.max_length below the tokens of a batch, or raise the latter",
    )


def batches_in_order(lengths: Lengths, tokens: int) -> list[Indices]:
    """Batches by rising length for evaluation and translation, where order does not matter.

    The token rule of ``epoch_batches``, but a sentence that alone exceeds it is a batch of its own.
    """
    ordered = np.argsort(lengths, kind="stable")
    return _cut(ordered, lengths[ordered], tokens)


def by_length(
    lengths: Lengths, chosen: ExampleIndices, tokens: int, *, seed: int, epoch: int, where: Callable[[int], str]
) -> list[ExampleIndices]:
    """``epoch_batches`` of the examples that ``mixed_epoch`` chose; ``lengths`` are of all examples."""
    index, visit = chosen
    plan = epoch_batches(lengths[index], tokens, seed=seed, epoch=epoch, where=lambda place: where(int(index[place])))
    return [ExampleIndices(index[places], visit[places]) for places in plan]


def each_once(
    lengths: Lengths, tokens: int, *, seed: int, epoch: int | None, where: Callable[[int], str]
) -> list[ExampleIndices]:
    """The batches of an epoch that has every example once, as ``core.task.Examples`` wants them.

    By like length, drawn from (seed, epoch), visits counted from 1; ``None``: for evaluation by rising length, visit 0.
    """
    if epoch is None:
        return [ExampleIndices(part, np.zeros_like(part)) for part in batches_in_order(lengths, tokens)]
    every = np.arange(len(lengths))
    chosen = ExampleIndices(every, np.full_like(every, epoch + 1))
    return by_length(lengths, chosen, tokens, seed=seed, epoch=epoch, where=where)


def each_once_packed(lengths: Lengths, positions: int, *, seed: int, epoch: int | None) -> list[ExampleIndices]:
    """Return the batches of ``each_once`` for rows without padding: nothing is sorted.

    The order is drawn from (seed, epoch); ``None``: for evaluation, that of the examples.
    """
    order = np.arange(len(lengths)) if epoch is None else np.random.default_rng((seed, epoch)).permutation(len(lengths))
    visit = 0 if epoch is None else epoch + 1
    return [ExampleIndices(part, np.full_like(part, visit)) for part in packed_runs(order, lengths, positions)]


def packed_runs(order: Indices, lengths: Lengths, positions: int) -> list[Indices]:
    """Cut ``order`` into runs of at most so many positions; a row that exceeds them is a run of its own."""
    cuts, total = list[int](), 0
    for place, length in enumerate(lengths[order].tolist()):
        if place and total + length > positions:
            cuts.append(place)
            total = 0
        total += length
    return np.split(order, cuts) if len(order) else []


def mixed_epoch(sizes: Sequence[int], weights: Sequence[float], *, seed: int, epoch: int) -> ExampleIndices:
    """Which examples of several corpora, numbered end to end, make up one epoch; ``visit`` counts passes before.

    The law: an epoch has sum(sizes) pairs, and corpus k has its share weights[k] / sum(weights) of them, to
    within one pair. Each corpus is walked through in passes, every pass a new order, which go on where the
    last epoch stopped: over a run no pair of a corpus is used more than once more often than another. A pure
    function of its arguments; one corpus gives every index exactly once an epoch.
    """
    if not sizes or len(sizes) != len(weights) or min(sizes) < 1 or min(weights) <= 0:
        raise ConfigError("a mixture needs corpora that hold pairs, each with a weight above 0", where="data")
    counts = shares(sum(sizes), weights)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    drawn, visits = [], []
    for part, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        begin, end = epoch * count, (epoch + 1) * count
        passes = [
            np.random.default_rng((seed, part, turn)).permutation(size)[
                max(begin - turn * size, 0) : min(end - turn * size, size)
            ]
            for turn in range(begin // size, -(-end // size))
        ]
        drawn.append(starts[part] + np.concatenate([*passes, np.empty(0, np.int64)]))
        visits += [np.full(len(each), begin // size + number) for number, each in enumerate(passes)]
    return ExampleIndices(np.concatenate(drawn).astype(np.int64), np.concatenate(visits).astype(np.int64))


def _cut(ordered: Indices, lengths: Lengths, tokens: int) -> list[Indices]:
    """Cut indices of rising length greedily; the last of a batch is its longest."""
    batches, start = [], 0
    while start < len(ordered):
        most = max(1, tokens // max(1, int(lengths[start])))
        window = lengths[start : start + most].astype(np.int64)
        rows = max(1, int(np.count_nonzero(window * np.arange(1, len(window) + 1) <= tokens)))
        batches.append(ordered[start : start + rows])
        start += rows
    return batches


def shares(total: int, weights: Sequence[float]) -> list[int]:
    """``total`` split by weight, rounded by largest remainder so that nothing is lost."""
    exact = total * np.asarray(weights, np.float64) / np.sum(weights)
    counts = np.floor(exact).astype(np.int64)
    remainder = total - int(counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:remainder]] += 1
    return [int(count) for count in counts]
