"""The order of training and its division into batches: pure functions of (seed, epoch)."""

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
    """Return the batches of one epoch, as indices into ``lengths`` (see ``pair_lengths``), in training order.

    The size of a batch is rows × length of its longest pair, padding included, and is ≤ ``tokens``. Pairs of similar
    length share a batch. The grouping and the order of batches depend only on (seed, epoch). Every index occurs exactly
    once. About 0.3 s for a million pairs.

    Raises:
        DataError: a pair alone exceeds ``tokens``; it is named by ``where(index)`` (``Corpus.where``).
    """
    too_long = np.flatnonzero(lengths > tokens)
    if len(too_long):
        first = int(too_long[0])
        place = where(first) if where is not None else f"pair {first + 1}"
        raise does_not_fit(len(too_long), int(lengths[first]), tokens, place)
    random = np.random.default_rng((seed, epoch))
    shuffled = random.permutation(np.arange(len(lengths)))
    ordered = shuffled[np.argsort(lengths[shuffled], kind="stable")]
    batches = _cut(ordered, lengths[ordered], tokens)
    return [batches[position] for position in random.permutation(len(batches))]


def does_not_fit(number: int, length: int, tokens: int, where: str) -> DataError:
    """Return the error for ``number`` examples that exceed a batch.

    The first of them is at ``where`` and has ``length`` tokens.
    """
    return DataError(
        f"{pluralize_with_verb(number, 'sentence', 'does', 'do')} not fit into a batch of {tokens:,} tokens",
        where=where,
        why=f"the pair has {pluralize(length, 'token')}, the end symbol included",
        help="lower data.max_length below the tokens of a batch, or use larger batches",
    )


def batches_in_order(lengths: Lengths, tokens: int) -> list[Indices]:
    """Return batches sorted by length, for evaluation and translation, in which order does not matter.

    Batches are limited as in ``epoch_batches``, except that a sentence that alone exceeds the limit is its own batch.
    """
    ordered = np.argsort(lengths, kind="stable")
    return _cut(ordered, lengths[ordered], tokens)


def by_length(
    lengths: Lengths, chosen: ExampleIndices, tokens: int, *, seed: int, epoch: int, where: Callable[[int], str]
) -> list[ExampleIndices]:
    """Return ``epoch_batches`` of the examples that ``mixed_epoch`` chose; ``lengths`` has those of all examples."""
    index, visit = chosen
    plan = epoch_batches(
        lengths[index], tokens, seed=seed, epoch=epoch, where=lambda position: where(int(index[position]))
    )
    return [ExampleIndices(index[positions], visit[positions]) for positions in plan]


def single_pass(
    lengths: Lengths, tokens: int, *, seed: int, epoch: int | None, where: Callable[[int], str]
) -> list[ExampleIndices]:
    """Return the batches of an epoch that has every example once, as ``core.task.Examples`` expects them.

    Training batches have similar lengths, are drawn from (seed, epoch), and count visits from 1. If ``epoch`` is None,
    batches are sorted by length for evaluation, with visit 0.
    """
    if epoch is None:
        return [ExampleIndices(part, np.zeros_like(part)) for part in batches_in_order(lengths, tokens)]
    index = np.arange(len(lengths))
    chosen = ExampleIndices(index, np.full_like(index, epoch + 1))
    return by_length(lengths, chosen, tokens, seed=seed, epoch=epoch, where=where)


def single_pass_packed(lengths: Lengths, positions: int, *, seed: int, epoch: int | None) -> list[ExampleIndices]:
    """Return the batches of ``single_pass`` for rows without padding, which need no sorting by length.

    The order is drawn from (seed, epoch); if ``epoch`` is None, the examples keep their order for evaluation.
    """
    order = np.arange(len(lengths)) if epoch is None else np.random.default_rng((seed, epoch)).permutation(len(lengths))
    visit = 0 if epoch is None else epoch + 1
    return [ExampleIndices(part, np.full_like(part, visit)) for part in packed_runs(order, lengths, positions)]


def packed_runs(order: Indices, lengths: Lengths, positions: int) -> list[Indices]:
    """Split ``order`` into runs of at most ``positions`` positions; a longer row is a run of its own."""
    cuts, total = list[int](), 0
    for number, length in enumerate(lengths[order].tolist()):
        if number and total + length > positions:
            cuts.append(number)
            total = 0
        total += length
    return np.split(order, cuts) if len(order) else []


def mixed_epoch(sizes: Sequence[int], weights: Sequence[float], *, seed: int, epoch: int) -> ExampleIndices:
    """Choose the examples of one epoch from several corpora, numbered consecutively; ``visit`` counts earlier passes.

    An epoch has sum(sizes) pairs. Corpus k contributes its share weights[k] / sum(weights) to within one pair. Each
    corpus is read in passes, each in a new order, which continue in the next epoch. Over a run, the numbers of uses of
    any two pairs of a corpus differ by at most one. The result is a pure function of the arguments. With one corpus,
    every index occurs exactly once per epoch.
    """
    if not sizes or len(sizes) != len(weights) or min(sizes) < 1 or min(weights) <= 0:
        raise ConfigError("a mixture needs corpora that hold pairs, each with a weight above 0", where="data")
    counts = shares(sum(sizes), weights)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    drawn, visits = [], []
    for part, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        begin, end = epoch * count, (epoch + 1) * count
        passes = [
            np.random.default_rng((seed, part, visit)).permutation(size)[
                max(begin - visit * size, 0) : min(end - visit * size, size)
            ]
            for visit in range(begin // size, -(-end // size))
        ]
        drawn.append(starts[part] + np.concatenate([*passes, np.empty(0, np.int64)]))
        visits += [np.full(len(indices), visit) for visit, indices in enumerate(passes, start=begin // size)]
    return ExampleIndices(np.concatenate(drawn).astype(np.int64), np.concatenate(visits).astype(np.int64))


def _cut(ordered: Indices, lengths: Lengths, tokens: int) -> list[Indices]:
    """Split indices sorted by length greedily into batches; the last index of a batch is its longest."""
    batches, start = [], 0
    while start < len(ordered):
        max_rows = max(1, tokens // max(1, int(lengths[start])))
        window = lengths[start : start + max_rows].astype(np.int64)
        rows = max(1, int(np.count_nonzero(window * np.arange(1, len(window) + 1) <= tokens)))
        batches.append(ordered[start : start + rows])
        start += rows
    return batches


def shares(total: int, weights: Sequence[float]) -> list[int]:
    """Split ``total`` by weight, rounded by largest remainder, so the parts add up to ``total``."""
    exact = total * np.asarray(weights, np.float64) / np.sum(weights)
    counts = np.floor(exact).astype(np.int64)
    remainder = total - int(counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:remainder]] += 1
    return [int(count) for count in counts]
