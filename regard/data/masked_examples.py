"""Documents with masked tokens as examples: the mask is a pure function of the seed, the example and its visit."""

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
from regard.data.masking import Flags, Masked, MaskingConfig, Tokens, mask_fully, masked, number_masked
from regard.data.order import batches_in_order, epoch_batches
from regard.data.padding import padded
from regard.data.tokenizers.tokenizer import BEGIN, END

MASKS = 1  # random stream
EDGES = 2  # BEGIN and END of every piece


class MaskedBatch(NamedTuple):
    """Texts with masked tokens; positions beyond the end are PAD and invalid. ``weight`` counts chosen positions.

    ``tables`` and ``buckets``: evidence of tables for each chosen position, row by row, if the model has a wide part.
    """

    input: Tensor  # (rows, length) int64
    target: Tensor  # (rows, length) int64: the original tokens
    valid: Tensor  # (rows, length) bool
    chosen: Tensor  # (rows, length) bool: positions to predict
    index: Tensor  # type: ignore[assignment]  # (rows,); hides tuple.index
    weight: float
    tables: Tensor | tuple[()] = ()  # (chosen, types) float32
    buckets: Tensor | tuple[()] = ()  # (chosen, chains) int64


class MaskedExamples:
    """Pieces of documents, each BEGIN … END of at most ``context`` tokens, as ``core.task.Examples``.

    Longer documents are split into several pieces. A piece without a token that can be masked is left out. In
    evaluation the mask depends only on ``config.seed`` and the tokens of the piece, not on its file or number.
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
        self._pieces = np.concatenate(cut)  # (pieces, 3): first token, end, number of maskable tokens

    def __len__(self) -> int:
        return len(self._pieces)

    @cached_property
    def _lengths(self) -> Indices:
        return self._pieces[:, 1] - self._pieces[:, 0] + EDGES

    def batches(self, epoch: int | None) -> Sequence[ExampleIndices]:
        """See ``core.task.Examples``. Texts of similar length share a batch of at most ``tokens``, padding included."""
        if epoch is None:
            batches, visit = batches_in_order(self._lengths, self.tokens), 0
        else:
            batches = epoch_batches(self._lengths, self.tokens, seed=self.seed, epoch=epoch, where=self.where)
            visit = epoch + 1
        return [ExampleIndices(batch, np.full(len(batch), visit)) for batch in batches]

    def token_counts(self) -> npt.NDArray[np.int64]:
        """Return (examples,): positions of each example that evaluation predicts."""
        return self._counts

    @cached_property
    def _counts(self) -> npt.NDArray[np.int64]:
        if self.config.unit not in ("word", "voice"):
            return number_masked(self._pieces[:, 2], self.config.share)
        return np.array([self._masked(index, 0).chosen.sum() for index in range(len(self))], np.int64)

    def collate(self, examples: ExampleIndices) -> MaskedBatch:
        texts = [self.text(int(index)) for index in examples.index]
        masks = [self._masked(int(index), int(visit)) for index, visit in zip(*examples, strict=True)]
        target, valid = padded(texts)
        chosen, _ = padded([mask.chosen for mask in masks])
        inputs, _ = padded([mask.read for mask in masks])
        index = torch.from_numpy(np.asarray(examples.index, np.int64))
        return MaskedBatch(inputs, target, valid, chosen.bool(), index, float(chosen.sum()))

    def where(self, index: int) -> str:
        """Return the file, and the number of the document, from 1."""
        stream = self.streams[self._stream[index]]
        document = int(np.searchsorted(stream.offsets, self._pieces[index, 0], side="right"))
        return f"{stream.name}: document {document:,}"

    def place(self, index: int) -> tuple[int, int, int]:
        """Return the number of the text, that of the document in it, and the position of the piece in the document.

        The first token after BEGIN has position 1.
        """
        text = int(self._stream[index])
        offsets, begin = self.streams[text].offsets, int(self._pieces[index, 0])
        document = int(np.searchsorted(offsets, begin, side="right")) - 1
        return text, document, begin - int(offsets[document])

    def text(self, index: int) -> Tokens:
        """Return the unmasked tokens of a piece, BEGIN and END included."""
        begin, end, _ = self._pieces[index]
        inner = self.streams[self._stream[index]].tokens[begin:end].astype(np.int64)
        return np.concatenate([[BEGIN], inner, [END]])

    def document(self, index: int) -> Tokens:
        """Return the tokens of the whole document of a piece, BEGIN and END included."""
        stream = self.streams[self._stream[index]]
        number = int(np.searchsorted(stream.offsets, self._pieces[index, 0], side="right")) - 1
        return np.asarray(stream.tokens[stream.offsets[number] : stream.offsets[number + 1]]).astype(np.int64)

    def chosen(self, index: int) -> Flags:
        """Return a mask of the positions that evaluation predicts."""
        return self._masked(index, 0).chosen

    def _masked(self, index: int, visit: int) -> Masked:
        text = self.text(index)
        if visit == 0:
            random = evaluation_generator(self.config.seed, text)
            return mask_fully(text, self.config, random, types=self.types, starts=self.starts)
        random = example_generator(self.seed, MASKS, index, visit)
        return masked(text, self.config, random, types=self.types, starts=self.starts)


def evaluation_generator(seed: int, tokens: Tokens) -> np.random.Generator:
    """Return the random generator of a text in evaluation; it depends only on the seed and the tokens."""
    digest = hashlib.blake2b(tokens.astype("<i8").tobytes(), digest_size=8).digest()
    return np.random.default_rng((seed, MASKS, int.from_bytes(digest, "little")))


def _cut(stream: DocumentStream, max_length: int) -> Indices:
    """Return (pieces, 3): start and end of each piece in the stream, and the number of its maskable tokens."""
    inner = stream.sizes - 1
    number = -(-inner // max_length)
    document = np.repeat(np.arange(len(number)), number)
    position = np.arange(len(document)) - np.repeat(np.cumsum(number) - number, number)
    begin = stream.offsets[:-1][document] + 1 + position * max_length
    end = np.minimum(begin + max_length, stream.offsets[1:][document] - 1)
    if not len(begin):
        return np.zeros((0, 3), np.int64)
    # At most END and BEGIN are between two pieces, and they are not maskable.
    maskable = np.add.reduceat(np.asarray(stream.tokens) > END, begin, dtype=np.int64)
    return np.stack([begin, end, maskable], 1)[maskable > 0].astype(np.int64)
