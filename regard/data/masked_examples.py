"""Documents with masked tokens as examples: which are masked is a function of the seed, the example and its visit."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.core.randomness import example_generator
from regard.core.task import ExampleIndices, Indices
from regard.data.document_stream import DocumentStream
from regard.data.masking import Flags, Masked, MaskingConfig, Tokens, hidden, masked, number_masked
from regard.data.order import batches_in_order, epoch_batches
from regard.data.padding import padded
from regard.data.tokenizers.tokenizer import BEGIN, END

MASKS = 1  # the stream of draws
EDGES = 2  # BEGIN and END, around every piece


class MaskedBatch(NamedTuple):
    """Texts with masked tokens; a column beyond the end is PAD and not valid. ``weight`` counts the chosen places."""

    input: Tensor  # (rows, length) int64
    target: Tensor  # (rows, length) int64: the tokens that are or were there
    valid: Tensor  # (rows, length) bool
    chosen: Tensor  # (rows, length) bool: places that are predicted
    index: Tensor  # type: ignore[assignment]  # (rows,); hides tuple.index
    weight: float


class MaskedExamples:
    """Pieces of documents, each BEGIN … END of at most ``context`` tokens, as ``core.task.Examples``.

    A longer document is in several; a piece without a token that could be predicted is left out. In evaluation the
    places are a function of ``config.seed`` and the piece's own tokens, whatever its file and number.
    """

    def __init__(
        self,
        streams: Sequence[DocumentStream],
        config: MaskingConfig,
        *,
        types: int,
        starts: tuple[Flags, Flags],
        context: int,
        tokens: int,
        seed: int,
    ) -> None:
        self.streams, self.config, self.types, self.starts = list(streams), config, types, starts
        self.tokens, self.seed = tokens, seed
        cut = [_cut(stream, context - EDGES) for stream in self.streams]
        self._stream = np.repeat(np.arange(len(cut)), [len(part) for part in cut])
        self._pieces = np.concatenate(cut)  # (pieces, 3): first token, the place after the last, tokens to choose from

    def __len__(self) -> int:
        return len(self._pieces)

    @cached_property
    def _lengths(self) -> Indices:
        return self._pieces[:, 1] - self._pieces[:, 0] + EDGES

    def batches(self, epoch: int | None) -> Sequence[ExampleIndices]:
        """See ``core.task.Examples``; texts of like length share a batch of at most ``tokens``, padding included."""
        if epoch is None:
            found, visit = batches_in_order(self._lengths, self.tokens), 0
        else:
            found = epoch_batches(self._lengths, self.tokens, seed=self.seed, epoch=epoch, where=self.where)
            visit = epoch + 1
        return [ExampleIndices(batch, np.full(len(batch), visit)) for batch in found]

    def token_counts(self) -> npt.NDArray[np.int64]:
        """(examples,): places of each that are predicted in evaluation."""
        return self._counts

    @cached_property
    def _counts(self) -> npt.NDArray[np.int64]:
        if self.config.unit != "word":
            return number_masked(self._pieces[:, 2], self.config.share)
        return np.array([self._masked(index, 0).chosen.sum() for index in range(len(self))], np.int64)

    def collate(self, examples: ExampleIndices) -> MaskedBatch:
        texts = [self.text(int(index)) for index in examples.index]
        found = [self._masked(int(index), int(visit)) for index, visit in zip(*examples, strict=True)]
        target, valid = padded(texts)
        chosen, _ = padded([each.chosen for each in found])
        read, _ = padded([each.read for each in found])
        index = torch.from_numpy(np.asarray(examples.index, np.int64))
        return MaskedBatch(read, target, valid, chosen.bool(), index, float(chosen.sum()))

    def where(self, index: int) -> str:
        """The file, and the number of the document, from 1."""
        stream = self.streams[self._stream[index]]
        document = int(np.searchsorted(stream.offsets, self._pieces[index, 0], side="right"))
        return f"{stream.name}: document {document:,}"

    def text(self, index: int) -> Tokens:
        """The tokens of a piece, BEGIN and END included, none masked."""
        begin, end, _ = self._pieces[index]
        inner = self.streams[self._stream[index]].tokens[begin:end].astype(np.int64)
        return np.concatenate([[BEGIN], inner, [END]])

    def chosen(self, index: int) -> Flags:
        """The places of a piece that evaluation predicts."""
        return self._masked(index, 0).chosen

    def _masked(self, index: int, visit: int) -> Masked:
        text, how = self.text(index), {"types": self.types, "starts": self.starts}
        if visit == 0:
            return hidden(text, self.config, evaluation_generator(self.config.seed, text), **how)  # type: ignore[arg-type]
        return masked(text, self.config, example_generator(self.seed, MASKS, index, visit), **how)  # type: ignore[arg-type]


def evaluation_generator(seed: int, tokens: Tokens) -> np.random.Generator:
    """The draws of a text in evaluation: of the seed and its tokens alone."""
    digest = hashlib.blake2b(tokens.astype("<i8").tobytes(), digest_size=8).digest()
    return np.random.default_rng((seed, MASKS, int.from_bytes(digest, "little")))


def _cut(stream: DocumentStream, most: int) -> Indices:
    """(pieces, 3): where each begins and ends in the stream, and how many of its tokens could be chosen."""
    inner = stream.sizes - 1
    number = -(-inner // most)
    document = np.repeat(np.arange(len(number)), number)
    place = np.arange(len(document)) - np.repeat(np.cumsum(number) - number, number)
    begin = stream.offsets[:-1][document] + 1 + place * most
    end = np.minimum(begin + most, stream.offsets[1:][document] - 1)
    if not len(begin):
        return np.zeros((0, 3), np.int64)
    # Between one piece and the next stand END and BEGIN at most, which do not count.
    maskable = np.add.reduceat(np.asarray(stream.tokens) > END, begin, dtype=np.int64)
    return np.stack([begin, end, maskable], 1)[maskable > 0].astype(np.int64)
