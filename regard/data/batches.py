"""The order of training and the batches it is cut into: pure functions of (seed, epoch)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.data.corpus import Parallel
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD
from regard.errors import ConfigError, DataError

__all__ = [
    "Batch",
    "batches_in_order",
    "collate",
    "epoch_batches",
    "mixed_epoch",
    "pad_sources",
    "pair_lengths",
    "shares",
]

Indices = npt.NDArray[np.int64]
Lengths = npt.NDArray[np.integer]


class Batch(NamedTuple):
    """Padded pairs. Numbers are int64, masks bool; a column beyond a sentence is PAD and not valid.

    ``target_input`` is BEGIN + y and ``target_output`` is y + END, both under ``target_valid``; the source
    ends in END. ``index`` says which pair of the corpus each row is.
    """

    source: Tensor  # (batch, source)
    source_valid: Tensor  # (batch, source)
    target_input: Tensor  # (batch, target)
    target_output: Tensor  # (batch, target)
    target_valid: Tensor  # (batch, target)
    index: Tensor  # type: ignore[assignment]  # (batch,); hides tuple.index


def pair_lengths(corpus: Parallel) -> npt.NDArray[np.int32]:
    """The longer side of each pair, END included, shape (pairs,): what ``epoch_batches`` wants."""
    return np.maximum(corpus.source_length, corpus.target_length) + np.int32(1)


def epoch_batches(
    lengths: Lengths,
    tokens: int,
    *,
    seed: int,
    epoch: int,
    chosen: Indices | None = None,
    where: Callable[[int], str] | None = None,
) -> list[Indices]:
    """The batches of one epoch, as indices into ``lengths`` (see ``pair_lengths``), in training order.

    A batch of N tokens: rows × its longest pair, padding included, is ≤ N = ``tokens``. Pairs of like length
    share a batch; which of them do, and the order of the batches, is drawn anew from (seed, epoch) and from
    nothing else. Every index comes exactly once, or, with ``chosen`` (see ``mixed_epoch``), exactly as often
    as there. About 0.3 s for a million pairs. Raises DataError for a pair that alone exceeds ``tokens``,
    named by ``where(index)`` (``Corpus.where``).
    """
    indices = np.arange(len(lengths)) if chosen is None else np.asarray(chosen)
    too_long = indices[lengths[indices] > tokens]
    if len(too_long):
        first = int(too_long[0] if chosen is not None else too_long.min())
        raise DataError(
            f"{len(np.unique(too_long)):,} sentences do not fit into a batch of {tokens:,} tokens.",
            where=where(first) if where is not None else f"pair {first + 1}",
            why=f"that pair has {int(lengths[first]):,} pieces, the end symbol included",
            help="lower data.max_length below the tokens of a batch, or raise the latter",
        )
    random = np.random.default_rng((seed, epoch))
    shuffled = random.permutation(indices)
    ordered = shuffled[np.argsort(lengths[shuffled], kind="stable")]
    batches = _cut(ordered, lengths[ordered], tokens)
    return [batches[position] for position in random.permutation(len(batches))]


def batches_in_order(lengths: Lengths, tokens: int) -> list[Indices]:
    """Batches by rising length for evaluation and translation, where order does not matter.

    The token rule of ``epoch_batches``, but a sentence that alone exceeds it is a batch of its own.
    """
    ordered = np.argsort(lengths, kind="stable")
    return _cut(ordered, lengths[ordered], tokens)


def shares(batch: Batch, number: int) -> list[Batch]:
    """The batch's rows dealt out in turn to ``number`` batches, none of them empty: where rows are few, to fewer."""
    return [Batch(*(tensor[first::number] for tensor in batch)) for first in range(min(number, len(batch.source)))]


def mixed_epoch(sizes: Sequence[int], weights: Sequence[float], *, seed: int, epoch: int) -> Indices:
    """Which pairs of several corpora, numbered end to end, make up one epoch.

    The law: an epoch has sum(sizes) pairs, and corpus k has its share weights[k] / sum(weights) of them, to
    within one pair. Each corpus is walked through in passes, every pass a new order, which go on where the
    last epoch stopped: over a run no pair of a corpus is used more than once more often than another. A pure
    function of its arguments; one corpus gives every index exactly once an epoch.
    """
    if not sizes or len(sizes) != len(weights) or min(sizes) < 1 or min(weights) <= 0:
        raise ConfigError("A mixture needs corpora that hold pairs, each with a weight above 0.", where="data")
    counts = _shares(sum(sizes), weights)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    drawn = []
    for part, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        begin, end = epoch * count, (epoch + 1) * count
        passes = [
            np.random.default_rng((seed, part, turn)).permutation(size)[
                max(begin - turn * size, 0) : min(end - turn * size, size)
            ]
            for turn in range(begin // size, -(-end // size))
        ]
        drawn.append(starts[part] + np.concatenate([*passes, np.empty(0, np.int64)]))
    return np.concatenate(drawn).astype(np.int64)


def collate(corpus: Parallel, indices: Indices) -> Batch:
    """Read the pairs ``indices`` of ``corpus`` into one padded batch; about 3 µs a pair."""
    sources = [corpus.source(index) for index in indices]
    targets = [corpus.target(index) for index in indices]
    source, source_valid = pad_sources(sources)
    width = max(map(len, targets)) + 1
    target_output = np.full((len(targets), width), PAD, np.int64)
    for row, target in enumerate(targets):
        target_output[row, : len(target)] = target
        target_output[row, len(target)] = END
    lengths = np.fromiter(map(len, targets), np.int64, len(targets)) + 1
    target_valid = np.arange(width) < lengths[:, None]
    target_input = np.full_like(target_output, BEGIN)
    # y itself, one column later: the END of the longest row is the one column that falls off the edge, the
    # others would land inside the padding and are cleared there.
    target_input[:, 1:] = np.where(target_valid[:, 1:], target_output[:, :-1], PAD)
    return Batch(
        source,
        source_valid,
        torch.from_numpy(target_input),
        torch.from_numpy(target_output),
        torch.from_numpy(target_valid),
        torch.from_numpy(np.asarray(indices, np.int64)),
    )


def pad_sources(sources: Sequence[Sequence[int] | npt.NDArray[np.integer]]) -> tuple[Tensor, Tensor]:
    """Sentences without END to numbers with END and their validity, both (batch, longest + 1)."""
    width = max(map(len, sources)) + 1
    padded = np.full((len(sources), width), PAD, np.int64)
    for row, source in enumerate(sources):
        padded[row, : len(source)] = source
        padded[row, len(source)] = END
    lengths = np.fromiter(map(len, sources), np.int64, len(sources)) + 1
    return torch.from_numpy(padded), torch.from_numpy(np.arange(width) < lengths[:, None])


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


def _shares(total: int, weights: Sequence[float]) -> list[int]:
    """``total`` split by weight, rounded by largest remainder so that nothing is lost."""
    exact = total * np.asarray(weights, np.float64) / np.sum(weights)
    counts = np.floor(exact).astype(np.int64)
    remainder = total - int(counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:remainder]] += 1
    return [int(count) for count in counts]
