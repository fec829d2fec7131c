"""Tagged sentences as examples: batches of padded token numbers with the tag of each token's first piece."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.core.randomness import example_generator
from regard.core.task import ExampleIndices
from regard.data.affixes import AFFIXES, affix_buckets
from regard.data.order import each_once
from regard.data.padding import padded
from regard.data.tokenizers.tokenizer import BEGIN, END, UNKNOWN, Tokenizer
from regard.errors import DataError
from regard.tasks.tagging.codecs import TagCodec
from regard.tasks.tagging.config import TaggingConfig
from regard.tasks.tagging.tagged_text import read_tagged_part

__all__ = ["NO_TAG", "TaggedBatch", "TaggedExamples", "TokenRow", "token_rows"]

NO_TAG = -1  # of a column that is no token's first piece
HIDDEN = 2  # the stream of draws


class TokenRow(NamedTuple):
    """Part of a sentence that is read at once: numbers of its columns, and where its tokens begin.

    ``first`` (tokens,): the column of each token's first piece. ``begin``: which token of the sentence is the first.
    """

    columns: npt.NDArray[np.int64]  # (columns,), or (columns, 1 + affixes)
    first: npt.NDArray[np.int64]
    begin: int


class TaggedBatch(NamedTuple):
    """Padded sentences; ``weight`` counts their tokens."""

    tokens: Tensor  # (rows, columns), or (rows, columns, 1 + affixes)
    valid: Tensor  # (rows, columns)
    tag: Tensor  # (rows, columns), NO_TAG where no token begins
    usual: Tensor  # (rows, columns): the tag that the token had most often in training
    index: Tensor  # type: ignore[assignment]  # (rows,); hides tuple.index
    weight: float


class TaggedExamples:
    """The tagged sentences of files as ``core.task.Examples``, in memory; a long one is several examples."""

    def __init__(self, name: str, config: TaggingConfig, codec: TagCodec) -> None:
        self._config, corpora = config, (config.data.train if name == "train" else config.data.valid) or ()
        self._hidden = config.data.hidden_tokens
        self.sentences = read_tagged_part(config.data, name)
        if not self.sentences:
            raise DataError(
                "there is no sentence", where=corpora[0].name, why="the files are empty, or all are in another share"
            )
        numbers = codec.tags.numbers
        tags = [
            np.array([numbers.of(tag, each.where) for tag in codec.class_tags(each.tags)], np.int64)
            for each in self.sentences
        ]
        usual = [np.array(codec.most_frequent(each.tokens), np.int64) for each in self.sentences]
        self.rows: list[TokenRow] = []
        self._places: list[str] = []
        self._tags: list[npt.NDArray[np.int64]] = []
        self._usual: list[npt.NDArray[np.int64]] = []
        self.sentence: list[int] = []  # that an example is a part of
        found = token_rows(codec.tokenizer, [each.tokens for each in self.sentences], config)
        for at, parts in enumerate(found):
            for row in parts:
                end = row.begin + len(row.first)
                self.rows.append(row)
                self.sentence.append(at)
                self._places.append(self.sentences[at].where)
                self._tags.append(tags[at][row.begin : end])
                self._usual.append(usual[at][row.begin : end])
        self._lengths = np.array([len(row.columns) for row in self.rows], np.int32)

    def __len__(self) -> int:
        return len(self.rows)

    def batches(self, epoch: int | None) -> list[ExampleIndices]:
        """See ``core.task.Examples``: by like length, drawn from (seed, epoch)."""
        return each_once(
            self._lengths, self._config.train.batch_tokens, seed=self._config.seed, epoch=epoch, where=self.where
        )

    def token_counts(self) -> npt.NDArray[np.int64]:
        return np.array([len(row.first) for row in self.rows], np.int64)

    def collate(self, examples: ExampleIndices) -> TaggedBatch:
        tokens, valid = padded([self._shown(*each) for each in zip(*map(np.ndarray.tolist, examples), strict=True)])
        tag, _ = padded([self._spread(index, self._tags) for index in examples.index], NO_TAG)
        usual, _ = padded([self._spread(index, self._usual) for index in examples.index], NO_TAG)
        index = torch.from_numpy(np.asarray(examples.index, np.int64).copy())
        return TaggedBatch(tokens, valid, tag, usual, index, float((tag != NO_TAG).sum()))

    def where(self, index: int) -> str:
        return self._places[index]

    def tags(self, sentence: int) -> tuple[str, ...]:
        """The tags that a sentence has in its file."""
        return self.sentences[sentence].tags

    def digest(self) -> str:
        """A sha256 of all that training sees of the examples."""
        whole = hashlib.sha256(self._lengths.tobytes())
        for row, tags in zip(self.rows, self._tags, strict=True):
            whole.update(row.columns.tobytes() + tags.tobytes())
        return whole.hexdigest()

    def _shown(self, index: int, visit: int) -> npt.NDArray[np.int64]:
        """The columns of an example, some of its tokens unknown in training, whose visits count from 1."""
        row = self.rows[index]
        if not self._hidden or not visit:
            return row.columns
        draws = example_generator(self._config.seed, HIDDEN, index, visit).random(len(row.first))
        columns = row.columns.copy()
        pieces = columns[:, 0] if columns.ndim == 2 else columns
        pieces[row.first[draws < self._hidden]] = UNKNOWN
        return columns

    def _spread(self, index: int, of: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
        row = self.rows[index]
        found = np.full(len(row.columns), NO_TAG, np.int64)
        found[row.first] = of[index]
        return found


def token_rows(tokenizer: Tokenizer, sentences: Sequence[Sequence[str]], config: TaggingConfig) -> list[list[TokenRow]]:
    """BEGIN, the pieces of each token, END; in several rows where a sentence has more than ``max_length`` pieces."""
    pieces = iter(tokenizer.encode_lines([token for sentence in sentences for token in sentence]))
    return [_cut(sentence, [next(pieces) or [UNKNOWN] for _ in sentence], config) for sentence in sentences]


def _cut(tokens: Sequence[str], pieces: Sequence[Sequence[int]], config: TaggingConfig) -> list[TokenRow]:
    rows: list[TokenRow] = []
    most, begin = config.data.max_length, 0
    while begin < len(tokens):
        end, columns = begin, 0
        while end < len(tokens) and (end == begin or columns + len(pieces[end]) <= most):
            columns += len(pieces[end])
            end += 1
        rows.append(_row(tokens[begin:end], [list(each[:most]) for each in pieces[begin:end]], begin, config))
        begin = end
    return rows


def _row(tokens: Sequence[str], pieces: Sequence[Sequence[int]], begin: int, config: TaggingConfig) -> TokenRow:
    lengths = np.array([len(each) for each in pieces])
    first = 1 + np.cumsum(lengths) - lengths
    columns = np.array([BEGIN, *(piece for each in pieces for piece in each), END], np.int64)
    if config.model.affixes:
        table = np.zeros((len(columns), 1 + AFFIXES), np.int64)
        table[:, 0] = columns
        table[first, 1:] = [affix_buckets(token, config.model.affixes) for token in tokens]
        columns = table
    return TokenRow(columns, first, begin)
