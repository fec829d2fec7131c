"""Pairs of sequences as examples: batches of padded sources and targets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.core.task import ExampleIndices, Indices
from regard.data.computed_order import LengthOrder
from regard.data.corpus import Corpora, Corpus
from regard.data.length_index import LengthIndex
from regard.data.order import batches_in_order, by_length, mixed_epoch
from regard.data.reading import CorpusConfig, read_pairs
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD
from regard.data.unfinished_pairs import UnfinishedPair, UnfinishedPairs
from regard.errors import DataError


class PairBatch(NamedTuple):
    """Padded pairs. Tokens are int64, masks bool; positions beyond the end are PAD and invalid.

    The source may also be frames of floats, (rows, source, channels), without END.

    ``target_input`` is BEGIN + y and ``target_output`` is y + END, both with the mask ``target_valid``. The source ends
    in END. ``index`` holds the pair of each row; ``weight`` counts target tokens, END included. ``visible_until``:
    number of source positions that each target position may see; () for all.
    """

    source: Tensor  # (rows, source)
    source_valid: Tensor  # (rows, source)
    target_input: Tensor  # (rows, target)
    target_output: Tensor  # (rows, target)
    target_valid: Tensor  # (rows, target)
    index: Tensor  # type: ignore[assignment]  # (rows,); hides tuple.index
    weight: float
    visible_until: Tensor | tuple[()] = ()  # (rows, target)


class PairExamples:
    """The pairs of several prepared corpora as ``core.task.Examples``.

    Args:
        corpora: the prepared corpora.
        weights: the share of each corpus in an epoch.
        tokens: limit of a batch, rows × longest side, padding included.
        seed: seed of the order.
        files: the files of each corpus, from which ``texts`` reads the text again.
        computed: whether to compute the training order batch by batch from an index by length on disk. Memory is then
            constant.
        unfinished: random changes of training pairs, for translation of sources that have not ended; None: none.
    """

    def __init__(
        self,
        corpora: Corpora,
        weights: Sequence[float],
        *,
        tokens: int,
        seed: int,
        files: Sequence[CorpusConfig] = (),
        computed: bool = False,
        unfinished: UnfinishedPairs | None = None,
    ) -> None:
        self._unfinished = unfinished
        self.corpora, self.weights, self._files = corpora, list(weights), list(files)
        self._tokens, self._seed = tokens, seed
        self._order: LengthOrder | None = None
        if computed:
            indices = [LengthIndex.of(part) for part in corpora.parts]
            self._order = LengthOrder(indices, self.weights, tokens=tokens, seed=seed, where=self.where)

    def __len__(self) -> int:
        return len(self.corpora)

    @cached_property
    def _lengths(self) -> npt.NDArray[np.int32]:
        return pair_lengths(self.corpora)

    def batches(self, epoch: int | None) -> Sequence[ExampleIndices]:
        """See ``core.task.Examples``. Training batches have similar lengths; evaluation is sorted by length."""
        if epoch is None:
            return [_once(indices) for indices in batches_in_order(self._lengths, self._tokens)]
        if self._order is not None:
            return self._order.batches(epoch)
        chosen = mixed_epoch(self.corpora.sizes, self.weights, seed=self._seed, epoch=epoch)
        return by_length(self._lengths, chosen, self._tokens, seed=self._seed, epoch=epoch, where=self.where)

    def token_counts(self) -> npt.NDArray[np.int64]:
        return self.corpora.target_length.astype(np.int64) + 1

    def collate(self, examples: ExampleIndices) -> PairBatch:
        if self._unfinished is None:
            return collate(self.corpora, examples.index)
        return collate_unfinished(self.corpora, examples, self._unfinished)

    def where(self, index: int) -> str:
        return self.corpora.where(index)

    @cached_property
    def texts(self) -> list[tuple[str, str]]:
        """The source and target texts of each pair as in the files; decoded tokens may differ."""
        texts = []
        for part, files in zip(self.corpora.parts, self._files, strict=True):
            lines = {number: (source, target) for number, source, target in read_pairs(files)}
            for index in range(len(part)):
                if part.line(index) not in lines:
                    what = "the text changed after it was prepared"
                    raise DataError(what, where=part.where(index), help="restore it, or start another run")
                texts.append(lines[part.line(index)])
        return texts

    @cached_property
    def by_source(self) -> dict[str, list[int]]:
        """The pairs of each distinct source, ascending."""
        grouped: dict[str, list[int]] = {}
        for index, (source, _) in enumerate(self.texts):
            grouped.setdefault(source, []).append(index)
        return grouped


def _once(indices: Indices) -> ExampleIndices:
    return ExampleIndices(indices, np.zeros_like(indices))


def pair_lengths(corpus: Corpora | Corpus) -> npt.NDArray[np.int32]:
    """Return the longer side of each pair, END included, shape (pairs,), as ``epoch_batches`` expects it."""
    return np.maximum(corpus.source_length, corpus.target_length) + np.int32(1)


def collate(corpus: Corpora | Corpus, indices: Indices) -> PairBatch:
    """Read the pairs ``indices`` of ``corpus`` into one padded batch; about 3 µs per pair."""
    pairs = [UnfinishedPair(corpus.source(index), corpus.target(index)) for index in indices]
    return _padded_batch(pairs, indices)


def collate_unfinished(corpus: Corpora | Corpus, examples: ExampleIndices, changes: UnfinishedPairs) -> PairBatch:
    """Read pairs with random changes into one padded batch; the draws are those of ``changes``."""
    pairs = [
        changes.draw(corpus.source(index), corpus.target(index), int(index), int(visit))
        for index, visit in zip(*examples, strict=True)
    ]
    batch = _padded_batch(pairs, examples.index)
    if all(pair.visible is None for pair in pairs):
        return batch
    whole = batch.source_valid.sum(1, keepdim=True).expand(batch.target_valid.shape).clone()
    for row, pair in enumerate(pairs):
        if pair.visible is not None:
            whole[row, : len(pair.visible)] = torch.from_numpy(pair.visible)
    return batch._replace(visible_until=whole)


def _padded_batch(pairs: Sequence[UnfinishedPair], indices: Indices) -> PairBatch:
    ended = [pair.ended for pair in pairs]
    source, source_valid = pad_sources([pair.source for pair in pairs], ended)
    target = padded_targets([pair.target for pair in pairs])
    index = torch.from_numpy(np.asarray(indices, np.int64))
    weight = float(sum(len(pair.target) + 1 for pair in pairs))
    return PairBatch(source, source_valid, *target, index, weight)


class PaddedTargets(NamedTuple):
    """Padded targets: see the fields of ``PairBatch``."""

    target_input: Tensor
    target_output: Tensor
    target_valid: Tensor


def padded_targets(targets: Sequence[Sequence[int] | npt.NDArray[np.integer]]) -> PaddedTargets:
    """Return targets y as inputs BEGIN + y and outputs y + END, padded, and their mask, (rows, longest + 1)."""
    lengths, output = _with_end(targets, None)
    valid = np.arange(output.shape[1]) < lengths[:, None]
    input = np.full_like(output, BEGIN)
    # y shifted right by one position. The END of the longest row drops off the edge; the END of shorter rows would
    # become an input, so it is replaced by PAD.
    input[:, 1:] = np.where(valid[:, 1:], output[:, :-1], PAD)
    return PaddedTargets(torch.from_numpy(input), torch.from_numpy(output), torch.from_numpy(valid))


def pad_sources(
    sources: Sequence[Sequence[int] | npt.NDArray[np.integer]], ended: Sequence[bool] | None = None
) -> tuple[Tensor, Tensor]:
    """Append END to sources and pad them; return tokens and their mask, both (batch, longest + 1).

    ``ended``: whether each source has ended and gets an END; default: all.
    """
    lengths, padded = _with_end(sources, ended)
    return torch.from_numpy(padded), torch.from_numpy(np.arange(padded.shape[1]) < lengths[:, None])


def _with_end(
    rows: Sequence[Sequence[int] | npt.NDArray[np.integer]], ended: Sequence[bool] | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the length of each row and the rows with END, if they have ``ended``, padded to the longest + 1."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    padded = np.full((len(rows), int(lengths.max()) + 1), PAD, np.int64)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
    ends = np.ones(len(rows), bool) if ended is None else np.asarray(ended, bool)
    padded[ends, lengths[ends]] = END
    return lengths + ends, padded
